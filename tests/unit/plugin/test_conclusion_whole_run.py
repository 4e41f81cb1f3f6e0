"""What a run has shown about all tests: only if it chose none of them, and measured every perf test."""

from __future__ import annotations

import pytest

from tests.support.project import RunPytest

CONFTEST = """
import pytest
from pytest_kafkaperf.plugin.conclusion import ran_everything

@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    collection = session.config.pluginmanager.get_plugin("kafkaperf-collection")
    measured = {nodeid for nodeid in collection.tests if "unmeasured" not in nodeid}
    print("whole:", ran_everything(session, collection, measured))
"""
TESTS = "def test_one(kafka_perf): ...\n\ndef test_two(kafka_perf): ...\n\ndef test_unit(): ...\n"


@pytest.mark.parametrize(
    ("tests", "arguments", "whole"),
    [
        (TESTS, (), True),
        (TESTS, ("-k", "one or two or unit"), True),  # it left out nothing
        (TESTS, ("-k", "one"), False),
        (TESTS, ("-m", "not kafka_perf"), False),
        (TESTS, ("--deselect", "test_perf.py::test_unit"), False),
        (TESTS, ("test_perf.py",), False),
        (TESTS, ("test_perf.py::test_one",), False),
        (TESTS, ("-p", "cacheprovider", "--lf"), False),
        (TESTS, ("--ignore=other",), False),
        (TESTS, ("--ignore-glob=other*",), False),
        (f"{TESTS}def test_unmeasured(kafka_perf): ...\n", (), False),
        (f"{TESTS}@pytest.mark.kafka_scenario(acs=1)\ndef test_wrong(kafka_perf): ...\n", (), False),
        ("def test_unit(): ...\n", (), False),
    ],
)
def test_a_run_shows_something_about_all_tests_if_it_left_out_none(
    pytester: pytest.Pytester, run_pytest: RunPytest, tests: str, arguments: tuple[str, ...], *, whole: bool
) -> None:
    """A threshold that no test judged may be judged by one that did not run."""
    pytester.makeconftest(CONFTEST)
    _, out = run_pytest(tests, "--collect-only", "-s", *arguments)
    assert f"whole: {whole}" in out
