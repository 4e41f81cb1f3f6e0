"""The rows of pytest-benchmark's table that the plugin leaves out."""

from __future__ import annotations

import shutil

import pytest

from pytest_kafkaperf.plugin.benchmarks import Groups, asks_for_table, without_tests
from tests.support.project import RunPytest


@pytest.mark.parametrize(
    ("arguments", "asks"),
    [
        (["tests/perf"], False),
        (["--benchmark-json=saved.json", "--benchmark-autosave", "--benchmark-only"], False),
        (["--benchmark-columns=ops"], True),
        (["--benchmark-sort", "name"], True),
        (["--benchmark-compare-fail=mean:5%"], True),
    ],
)
def test_options_of_the_table_ask_for_it(arguments: list[str], *, asks: bool) -> None:
    """Those that only write files do not: CI saves without reading the table."""
    assert asks_for_table(arguments) is asks


def test_a_group_of_perf_tests_only_is_left_out() -> None:
    """pytest-benchmark fails on an empty group."""
    perf, other = {"fullname": "test_a.py::test_perf"}, {"fullname": "test_a.py::test_other"}
    groups: Groups = [("topics", [perf]), (None, [perf, other])]
    assert without_tests(groups, {"test_a.py::test_perf"}) == [(None, [other])]


ONE = "def test_one(kafka_perf):\n    kafka_perf()\n\ndef test_other(): ...\n"
DEFAULTS = "benchmark: "
"""Start of pytest-benchmark's line in the header."""


def test_without_its_options_users_do_not_notice_the_dependency(
    pytester: pytest.Pytester, run_pytest: RunPytest
) -> None:
    """Most have not chosen pytest-benchmark: even a test that fails before its load has no warning about it."""
    _, out = run_pytest(ONE, "--kafka-cluster=127.0.0.1:1", "-o", "kafka_connect_timeout=1 s")
    assert "1 passed" in out
    lines = [line for line in out.splitlines() if "benchmark" in line.lower() and not line.startswith("plugins: ")]
    assert lines == []
    assert not (pytester.path / ".benchmarks").exists()


@pytest.mark.filterwarnings("ignore:Not saving anything")
@pytest.mark.parametrize("option", ["--benchmark-only", "--benchmark-json=saved.json"])
def test_any_of_its_options_shows_it_as_usual(pytester: pytest.Pytester, run_pytest: RunPytest, option: str) -> None:
    """The options also count in `addopts`, where projects that use it have them."""
    for arguments in ((option,), ("-o", f"addopts={option}")):
        _, out = run_pytest("pytestmark = pytest.mark.skip\n" + ONE, *arguments)
        assert any(line.startswith(DEFAULTS) for line in out.splitlines())
        assert (pytester.path / ".benchmarks").is_dir()
        shutil.rmtree(pytester.path / ".benchmarks")
