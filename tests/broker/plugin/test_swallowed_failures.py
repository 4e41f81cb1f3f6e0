"""The verdict belongs to the test: whatever its own code does with the failure, the test fails."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.core.problems import ProblemKind
from tests.support.project import Project

VIOLATED = """
pytestmark = [
    pytest.mark.kafka_scenario(rate="500 records/s", duration="300 ms", warmup="0 s", rounds=1),
    pytest.mark.kafka_threshold("produce.throughput >= 100k records/s"),
]
"""
SWALLOWED = {
    "caught": """
def test_sla(kafka_perf):
    try:
        kafka_perf()
    except BaseException:
        pass
""",
    "returned in finally": """
def test_sla(kafka_perf):
    try:
        kafka_perf()
    finally:
        return
""",
    "skipped": """
def test_sla(kafka_perf):
    try:
        kafka_perf()
    except BaseException:
        pytest.skip("never mind")
""",
    "expected": """
def test_sla(kafka_perf):
    with pytest.raises(pytest.fail.Exception):
        kafka_perf()
""",
    "in a thread": """
import threading

@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_sla(kafka_perf):
    thread = threading.Thread(target=kafka_perf)
    thread.start()
    thread.join()
""",
    "in an executor": """
from concurrent.futures import ThreadPoolExecutor

def test_sla(kafka_perf):
    with ThreadPoolExecutor() as executor:
        executor.submit(kafka_perf)
""",
    "gathered": """
import asyncio

def test_sla(kafka_perf):
    async def gathered():
        await asyncio.gather(kafka_perf.run(), return_exceptions=True)
    asyncio.run(gathered())
""",
}


@pytest.mark.parametrize("body", SWALLOWED.values(), ids=SWALLOWED.keys())
def test_a_swallowed_verdict_fails_the_call_phase(project: Project, on_broker: str, body: str) -> None:
    """Otherwise a `try` in a helper that somebody copied switches the gate off."""
    run = project.test(VIOLATED + body).run(on_broker)
    assert (run.status, run.verdicts) == (1, {"test_sla": "VIOLATED"})
    assert run.report["tests"][0]["pytest_outcome"] == "failed"
    assert "test_sla broke its limit: produce.throughput" in run.out


FORGOTTEN = {
    "task": """
import asyncio

@pytest.mark.kafka_scenario(duration="60 s")
def test_forgotten(kafka_perf):
    async def forgotten():
        task = asyncio.create_task(kafka_perf.run())
        await asyncio.sleep(0)
    asyncio.run(forgotten())
""",
    "thread": """
import threading

@pytest.mark.kafka_scenario(duration="60 s")
def test_forgotten(kafka_perf):
    threading.Thread(target=kafka_perf).start()
""",
}
BRIEF = """
pytestmark = pytest.mark.kafka_scenario(rate="500 records/s", duration="300 ms", warmup="0 s", rounds=1)
"""
NEXT = """
@pytest.mark.kafka_threshold("errors == 0")
def test_next(kafka_perf):
    kafka_perf()
"""


@pytest.mark.parametrize("body", FORGOTTEN.values(), ids=FORGOTTEN.keys())
def test_a_load_that_nobody_awaits_is_stopped_and_fails_the_test(project: Project, on_broker: str, body: str) -> None:
    """It measured nothing, and it would disturb the next test."""
    run = project.test(BRIEF + body + NEXT).run(on_broker, "-p", "no:threadexception")
    assert run.status == 1
    assert [each["pytest_outcome"] for each in run.report["unmeasured"]] == ["failed"]
    assert run.verdicts == {"test_next": "PASSED"}
    assert float(run.junit[0].attrib["time"]) < 60, "the load ran on to its end"


def test_an_expected_failure_stays_one_and_is_listed(project: Project, on_broker: str) -> None:
    """`xfail` is the way to live with a known violation; the summary must still show it."""
    body = VIOLATED + "\n@pytest.mark.xfail\ndef test_sla(kafka_perf):\n    kafka_perf()\n"
    run = project.test(body).run(on_broker)
    assert (run.status, run.report["tests"][0]["pytest_outcome"]) == (0, "xfailed")
    assert "tolerated: test_sla VIOLATED (xfailed)" in run.out


def test_a_hook_that_hides_the_failure_fails_the_run(project: Project, on_broker: str) -> None:
    """A hook in a conftest.py can turn a report green; the run knows better."""
    project.write(
        "conftest.py",
        "import pytest\n\n@pytest.hookimpl(wrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
        "    report = yield\n    report.outcome = 'passed'\n    return report\n",
    )
    run = project.test(VIOLATED + "\ndef test_sla(kafka_perf):\n    kafka_perf()\n").run(on_broker)
    assert run.status == 1
    assert run.report["exit_status"] == 1


HUNG = """
import asyncio, threading
from pytest_kafkaperf.plugin import kafka_perf as fixtures

fixtures._STOP_TIMEOUT_S = 1
begun, never = threading.Event(), threading.Event()

def hang():
    begun.set()
    never.wait(60)
    return 1.0

@pytest.mark.kafka_scenario(rate="500 records/s", duration="100 ms", warmup="0 s", rounds=1)
def test_hung(kafka_perf):
    kafka_perf.add_metric("app.rows", hang, better="higher")
    threading.Thread(target=kafka_perf, daemon=True).start()
    begun.wait(60)

def test_next(kafka_perf):
    kafka_perf()
"""


def test_a_load_that_cannot_be_stopped_fails_the_tests_after_it(project: Project, on_broker: str) -> None:
    """It still loads the cluster, so that nothing can be measured next to it."""
    run = project.test(HUNG).run(on_broker, "-p", "no:threadexception")
    assert run.status == 1
    outcomes = {each["nodeid"].split("::")[-1]: each for each in run.report["unmeasured"]}
    assert [outcomes[name]["pytest_outcome"] for name in ("test_hung", "test_next")] == ["failed", "error"]
    assert "test_hung" in outcomes["test_next"]["reason"]
    assert ProblemKind.ACTION_FAILED not in run.out
