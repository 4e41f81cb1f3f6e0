"""How a run ends: exit statuses, accepted regressions, repeated tests, and reports of runs that did not finish."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support import mover
from tests.support.project import Project, guard
from tests.support.strangers import drop_topic, drop_topics_of_runs

FAILED = pytest.ExitCode.TESTS_FAILED
BRIEF = 'rate="500 records/s", duration="300 ms", warmup="0 s", rounds=1'
UNSTRICT = f"""
@pytest.mark.kafka_scenario({BRIEF})
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 30%")
def test_new(kafka_perf):
    kafka_perf()
"""
UNTRUSTED = f"""
@pytest.mark.kafka_scenario({BRIEF}, replication_factor=3)
@pytest.mark.kafka_threshold("produce.throughput >= 1 record/s")
def test_untrusted(kafka_perf):
    kafka_perf()
"""
FINE = f"""
@pytest.mark.kafka_scenario({BRIEF})
@pytest.mark.kafka_threshold("produce.throughput >= 1 record/s")
def test_fine(kafka_perf):
    kafka_perf()
"""
BROKEN = f"""
@pytest.mark.kafka_scenario({BRIEF})
@pytest.mark.kafka_threshold("produce.throughput >= 1M records/s")
def test_broken(kafka_perf):
    kafka_perf()
"""
OTHER = "\ndef test_other():\n    assert False\n"


def test_a_run_in_which_nothing_could_be_judged_has_its_own_exit_status(project: Project, on_broker: str) -> None:
    """CI can tell "slower" from "could not be judged", and may allow the latter."""
    assert project.test(FINE + UNTRUSTED).run(on_broker).status == NOT_JUDGED
    run = project.test(FINE + UNSTRICT).run(on_broker, "--kafka-strict")
    assert (run.status, run.report["exit_status"]) == (NOT_JUDGED, NOT_JUDGED)
    assert project.test(FINE + UNSTRICT).run(on_broker).status == pytest.ExitCode.OK


@pytest.mark.parametrize("other", [BROKEN, OTHER], ids=["violated", "another test"])
def test_any_other_failure_is_a_failure(project: Project, on_broker: str, other: str) -> None:
    """Next to it, a test that could not be judged changes nothing."""
    run = project.test(UNTRUSTED + other).run(on_broker)
    assert (run.status, run.report["exit_status"]) == (FAILED, FAILED)


def test_a_report_that_cannot_be_written_fails_the_run(project: Project, on_broker: str) -> None:
    """Somebody relies on it; and it must not turn into "could not be judged"."""
    in_the_way = 'from pathlib import Path\n\ndef test_other():\n    Path("summary.md").mkdir()\n'
    run = project.test(UNTRUSTED + in_the_way).run(on_broker, "--kafka-report=markdown:summary.md")
    assert (run.status, run.report["exit_status"]) == (FAILED, FAILED)


def test_an_accepted_regression_passes_and_changes_no_baseline(
    project: Project, broker: Cluster, on_broker: str, quota: Callable[..., AbstractContextManager[None]]
) -> None:
    """A team accepts one slowdown knowingly; everything else must still fail, and the next run as well."""
    before = project.test(guard()).run_steadily(on_broker, "--kafka-update-baselines").baselines
    with quota(broker, producer_byte_rate=250_000):
        run = project.run_steadily(on_broker, "--kafka-no-confirm", "--kafka-accept=regressed")
        assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_guard": "REGRESSED"}), run.out
        (test,) = run.report["tests"]
        assert (test["accepted"], test["pytest_outcome"], run.baselines) == (True, "passed", before)
        assert test["trials"][1:] == []  # without confirmation, one trial decides
        assert "tolerated: test_guard REGRESSED (accepted)" in run.out

        violated = guard(rounds=1).replace('"errors == 0"', '"produce.throughput >= 1M records/s"')
        run = project.test(violated).run_steadily(on_broker, "--kafka-no-confirm", "--kafka-accept=regressed")
        assert (run.status, run.verdicts) == (FAILED, {"test_guard": "VIOLATED"}), run.out
        assert run.report["tests"][0]["accepted"] is False


def test_a_run_that_judges_nothing_says_so_and_fails_if_it_is_strict(project: Project, on_broker: str) -> None:
    """`--benchmark-disable` in addopts would switch the gate off for good."""
    project.write("pytest.ini", "[pytest]\nkafka_cluster = local\naddopts = --benchmark-disable\n").test(BROKEN)
    run = project.run(on_broker)
    assert run.status == pytest.ExitCode.OK
    assert "does not judge any threshold (--benchmark-disable)" in run.out
    assert project.run(on_broker, "--kafka-strict").status == FAILED


def test_a_strict_run_skips_no_gate(project: Project, on_broker: str) -> None:
    """`--benchmark-skip` skips perf tests as well."""
    assert project.test(BROKEN).run(on_broker, "--benchmark-skip").status == pytest.ExitCode.OK
    assert project.run(on_broker, "--benchmark-skip", "--kafka-strict").status == pytest.ExitCode.USAGE_ERROR


FORGETFUL = """
from pathlib import Path
from mover import Mover

class Forgetful(Mover):
    async def _move(self):
        drops = not self.ran.exists()
        self.ran.touch()
        async for record in self._consumer:
            self.moved += 1
            if not drops or self.moved % 10:
                await self._producer.send("moved-out", record.value, key=record.key, headers=[*record.headers])

pytestmark = [
    pytest.mark.kafka_scenario(
        topic="moved-in", output_topic="moved-out", rate="500 records/s", duration="1 s", warmup="0 s", rounds=1,
        consumers=1,
    ),
    pytest.mark.kafka_threshold("lost == 0"),
]

@pytest.fixture
def forgetful(kafka_cluster, request):
    Forgetful.ran = Path(f"{request.node.name}-ran")
    return Forgetful(kafka_cluster.bootstrap_servers)

async def test_measured_again(forgetful, kafka_perf):
    async with forgetful:
        await kafka_perf.run()

async def test_skipped(forgetful, kafka_perf):
    async with forgetful:
        pytest.skip("not today") if forgetful.ran.exists() else await kafka_perf.run()
"""
ASYNCIO = (
    "-p",
    "asyncio",
    "-oasyncio_mode=auto",
    "-oasyncio_default_fixture_loop_scope=function",
    "-okafka_writable_topics=moved-in",
)


@pytest.fixture
def moving(project: Project, broker: Cluster) -> Iterator[Project]:
    """A project with an application, and no topics left behind."""
    yield project.write("mover.py", Path(mover.__file__).read_text(encoding="utf-8"))
    drop_topic(broker, mover.SOURCE)
    drop_topic(broker, mover.TARGET)


def test_a_repetition_does_not_forget_lost_records(moving: Project, on_broker: str) -> None:
    """A service that loses records once in a while is exactly what a repetition would hide."""
    run = moving.test(FORGETFUL).run(on_broker, *ASYNCIO, "--reruns=1")
    assert run.status == FAILED, run.out
    assert run.verdicts == {"test_measured_again": "VIOLATED", "test_skipped": "VIOLATED"}, run.out
    assert [[check["verdict"] for check in test["checks"]] for test in run.report["tests"]] == [["VIOLATED"]] * 2


ENDLESS = """
@pytest.mark.kafka_scenario(rate="100 records/s", duration="10 min", rounds=1, partitions=1, warmup="0 s")
def test_endless(kafka_perf, request):
    kafka_perf.at("1 s", request.path.with_name("running").write_text, "yes")
    kafka_perf()

def test_next(kafka_perf):
    kafka_perf()
"""


def _stopped_by(project: Project, number: signal.Signals, *arguments: str) -> tuple[int, str]:
    """Run a project whose second test never ends, and send it a signal while that test runs."""
    os.mkfifo(project.folder / "running")
    with project.test(FINE + ENDLESS).running(*arguments) as process:
        assert (project.folder / "running").read_text() == "yes"  # waits until the load writes it
        process.send_signal(number)
        out, _ = process.communicate(timeout=120)
    return process.returncode, out


def test_a_terminated_run_reports_what_it_knows(project: Project, on_broker: str) -> None:
    """CI ends jobs by SIGTERM: what passed before is known, and what did not run must not look green."""
    status, out = _stopped_by(project, signal.SIGTERM, on_broker)
    report = json.loads((project.folder / "report.json").read_text(encoding="utf-8"))
    assert (status, report["exit_status"]) == (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERRUPTED), out
    assert [test["nodeid"].split("::")[-1] for test in report["tests"]] == ["test_fine"]
    unmeasured = [(each["nodeid"].split("::")[-1], each["pytest_outcome"]) for each in report["unmeasured"]]
    assert unmeasured == [("test_endless", "not run"), ("test_next", "not run")]


def test_a_killed_run_leaves_no_report_of_an_earlier_run(project: Project, broker: Cluster, on_broker: str) -> None:
    """Otherwise a reader of the file takes the last green run for this one."""
    green = f"--kafka-report=markdown:{project.folder / 'summary.md'}"
    assert project.test(FINE).run(on_broker, green).status == pytest.ExitCode.OK
    assert (project.folder / "summary.md").exists()
    _stopped_by(project, signal.SIGKILL, on_broker, green)
    drop_topics_of_runs(broker)
    assert not (project.folder / "summary.md").exists()


def test_files_that_cannot_be_collected_leave_no_report_of_an_earlier_run(project: Project, on_broker: str) -> None:
    """They may be the ones with the perf tests."""
    green = f"--kafka-report=markdown:{project.folder / 'summary.md'}"
    assert project.test(FINE).run(on_broker, green).status == pytest.ExitCode.OK
    assert project.test("import nothing_of_this_name").run(on_broker, green).status == pytest.ExitCode.INTERRUPTED
    assert not (project.folder / "summary.md").exists()
