"""Tests that a `conftest.py` changes after the plugin has read their markers."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.verdict.baseline_file import BaselineRecord
from pytest_kafkaperf.verdict.baseline_store import BaselineStore
from tests.support.project import RunPytest

TESTS = """
@pytest.fixture
def kafka_cluster():
    return "127.0.0.1:1"

@pytest.mark.kafka_threshold("errors == 0")
def test_one(kafka_perf):
    pytest.skip("is set up")
"""
RENAMING = """
import pytest

def rename(item, nodeid):
    if hasattr(item, "_id"):  # since pytest 9.2
        item._id = type(item._id).parse(nodeid)
    else:
        item._nodeid = nodeid
"""
CHANGES = """
def pytest_collection_modifyitems(items):
    (first,) = items
    again = pytest.Function.from_parent(first.parent, name="test_again", callobj=first.obj)
    rename(first, "test_perf.py::Orders are fast")
    {more}
"""
EXCHANGE = """
def pytest_collection_modifyitems(items):
    one, other = items
    for item, nodeid in ((one, other.nodeid), (other, one.nodeid)):
        rename(item, nodeid)
"""


@pytest.fixture
def _left_over(pytester: pytest.Pytester) -> None:
    record = BaselineRecord.of_trial(
        nodeid="test_perf.py::test_gone",
        environment="ci",
        scenario={},
        fingerprint={},
        created="2026-01-31T12:00:00+00:00",
        rounds=[{"errors": 0.0}],
    )
    BaselineStore(pytester.path / "kafka-baselines").save(record)


@pytest.mark.usefixtures("_left_over")
def test_tests_that_a_conftest_renames_and_adds_are_perf_tests(
    run_pytest: RunPytest, pytester: pytest.Pytester
) -> None:
    """Readable names are usual; the run is still one of all tests, so baselines of deleted tests are found."""
    pytester.makeconftest(RENAMING + CHANGES.format(more="items.append(again)"))
    status, out = run_pytest(TESTS, "-rs", "-v")
    assert "test_perf.py::Orders are fast SKIPPED" in out
    assert (status, "SKIPPED [2] test_perf.py" in out, "is too late" in out) == (pytest.ExitCode.OK, True, False), out
    assert "baselines of tests that no longer exist: test_perf.py::test_gone; " in out


def test_tests_that_exchange_their_names_keep_their_markers(run_pytest: RunPytest, pytester: pytest.Pytester) -> None:
    """Otherwise, each would be judged by the thresholds of the other one; here, only one can be calibrated."""
    pytester.makeconftest(RENAMING + EXCHANGE)
    tests = TESTS.replace("errors == 0", "produce.throughput >= baseline - 20%")
    _, out = run_pytest(f"{tests}\ndef test_other(kafka_perf): ...\n", "--kafka-calibrate=2", "-v")
    assert "test_perf.py::test_other SKIPPED (is set up)" in out
    assert "test_perf.py::test_one SKIPPED (--kafka-calibrate: no threshold" in out


def test_markers_of_added_tests_are_checked(run_pytest: RunPytest, pytester: pytest.Pytester) -> None:
    """At collection, as those of all others."""
    marker = "again.add_marker(pytest.mark.kafka_scenario(acs=1)); items.append(again)"
    pytester.makeconftest(RENAMING + CHANGES.format(more=marker))
    status, out = run_pytest(TESTS)
    assert status == pytest.ExitCode.INTERRUPTED
    assert "test_perf.py::test_again: kafka_scenario: unknown field 'acs': did you mean 'acks'?" in out
