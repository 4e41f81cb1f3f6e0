"""The rows of pytest-benchmark's table that the plugin leaves out."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.plugin.benchmarks import Groups, asks_for_table, without_tests


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
