"""The main job from end to end, on a real broker: measure, accept a baseline, catch a regression."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support.orphans import becomes, ended
from tests.support.patience import PATIENCE_S, RUN_S
from tests.support.project import PLAIN, Project, inherited
from tests.support.repeats import note_report

pytestmark = pytest.mark.story

GUARD = """
@pytest.mark.kafka_scenario(rate="10k records/s", duration="600 ms", warmup="300 ms", partitions=2)
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 30%", "errors == 0", "lost == 0", "unsent <= 1M")
def test_guard(kafka_perf):
    kafka_perf()
"""

PACED = """
@pytest.mark.kafka_scenario(rate="2k records/s", duration="500 ms", warmup="200 ms", rounds=1, partitions=2)
@pytest.mark.kafka_threshold({limits})
def test_paced(kafka_perf):
    kafka_perf()
"""


def test_a_regression_fails_the_build_and_only_a_regression(
    project: Project,
    broker: Cluster,
    on_broker: str,
    quota: Callable[..., AbstractContextManager[None]],
) -> None:
    """The promise of the whole plugin: a broker made slower by a real quota fails, the same broker without passes."""
    project.test(GUARD)
    first = project.run_steadily(on_broker, "--kafka-update-baselines", "test_perf.py")
    assert (first.status, first.verdicts) == (pytest.ExitCode.OK, {"test_guard": "MEASURED"}), first.out
    (file,) = first.baselines
    assert Path(file).parts[1:] == ("test_perf.py", "test_guard.json")
    assert "baselines written: 1 in kafka-baselines (commit them)" in first.out

    with quota(broker, producer_byte_rate=300_000):  # of 1 MB a second
        slow = project.run_steadily(on_broker, "--kafka-rounds=4")
    assert (slow.status, slow.verdicts) == (pytest.ExitCode.TESTS_FAILED, {"test_guard": "REGRESSED"}), slow.out
    assert slow.junit.attrib["failures"] == "1"
    assert slow.junit.attrib["errors"] == "0"
    check = slow.report["tests"][0]["checks"][0]
    assert check["verdict"] == "REGRESSED"
    assert check["change"] < -0.3
    assert check["observed"] < check["limit"] < check["baseline"]
    assert "produce.throughput >= baseline - 30%" in slow.out
    assert "Traceback" not in slow.out

    again = project.run_steadily(on_broker, "--kafka-rounds=4")
    assert again.status == pytest.ExitCode.OK, again.out
    assert again.verdicts["test_guard"] in ("PASSED", "IMPROVED")
    assert again.baselines == first.baselines


def test_without_a_baseline_a_test_passes_and_says_how_to_make_one(project: Project, on_broker: str) -> None:
    """A new test must not break the build of the team that adds it."""
    run = project.test(GUARD).run(on_broker, "--kafka-rounds=1")
    assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_guard": "INCONCLUSIVE"}), run.out
    assert "? INCONCLUSIVE  test_guard" in run.out
    assert "or measure one: pytest test_perf.py::test_guard" in run.out  # the warning
    assert run.out.count("InconclusiveWarning") == 1
    assert "1 inconclusive" in run.out.splitlines()
    assert run.baselines == {}


def test_strict_fails_what_could_not_be_decided(project: Project, on_broker: str) -> None:
    """A team that wants every test gated must hear of one that is not."""
    run = project.test(GUARD).run(on_broker, "--kafka-rounds=1", "--kafka-strict")
    assert (run.status, run.verdicts) == (NOT_JUDGED, {"test_guard": "INCONCLUSIVE"}), run.out


def test_every_broken_limit_is_listed(project: Project, on_broker: str) -> None:
    """One run tells all that is wrong: the failure its worst, and the table each threshold on a line."""
    limits = '"produce.latency.p99 <= 1 us", "produce.throughput >= 1M records/s", "errors == 0"'
    run = project.test(PACED.format(limits=limits)).run(on_broker, "--kafka-update-baselines")
    assert (run.status, run.verdicts) == (pytest.ExitCode.TESTS_FAILED, {"test_paced": "VIOLATED"}), run.out
    assert run.baselines == {}
    lines = run.out.splitlines()
    (failure,) = [line for line in lines if line.startswith("test_paced broke its limit: ")]
    assert re.search(r": produce\.latency\.p99 [\d.]+ [mµ]?s, allowed <= 1 us \(and 1 more\)$", failure)
    rows = [" ".join(line.split()) for line in lines if line.startswith("  ✗ ")]
    assert re.fullmatch(r"✗ produce\.latency\.p99 <= 1 us [\d.]+ [mµ]?s( .*)?", rows[0])
    assert re.fullmatch(r"✗ produce\.throughput >= 1M records/s [\d.]+k?/s( .*)?", rows[1])
    assert not any("✗ errors == 0" in line for line in lines)


def test_the_reports_hold_what_was_measured(project: Project, on_broker: str) -> None:
    """Other programs read these: units, medians, checks, and the same verdict everywhere."""
    run = project.test(PACED.format(limits='"produce.latency.p99 <= 10 s"')).run(on_broker, "--kafka-rounds=2")
    assert run.status == pytest.ExitCode.OK, run.out
    report = run.report
    assert report["schema_version"] == 1
    assert set(report) == {
        "schema_version",
        "created",
        "plugin",
        "new_tests",
        "removed_tests",
        "environment",
        "exit_status",
        "errors",
        "tests",
        "unmeasured",
    }
    (test,) = report["tests"]
    throughput = test["metrics"]["produce.throughput"]
    assert (throughput["unit"], throughput["better"]) == ("records/s", "higher")
    longest_s = 0.5 + max(test["metrics"]["produce.latency.max"]["values"])
    assert 0.99 * 1000 / longest_s <= throughput["value"] <= 1.01 * 2000
    assert len(throughput["values"]) == len(test["trials"][0]["rounds"]) == 2
    assert test["cluster"]["provider"] == "external"
    assert test["scenario"]["rate"] == 2000
    properties = {item.attrib["name"]: item.attrib["value"] for item in run.junit.iter("property")}
    assert properties["kafka_verdict"] == test["verdict"] == "PASSED"
    assert float(properties["produce.throughput"]) == throughput["value"]


def test_a_damaged_baseline_is_named_and_left_alone(project: Project, on_broker: str) -> None:
    """A merge conflict in a baseline must not become a pass, a crash, or a lost file."""
    project.test(GUARD)
    (file,) = project.run(on_broker, "--kafka-rounds=1", "--kafka-update-baselines").baselines
    path = project.folder / "kafka-baselines" / file
    path.write_text("<<<<<<< HEAD\n", encoding="utf-8")
    run = project.run(on_broker, "--kafka-rounds=1", "--kafka-update-baselines")
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert str(path) in run.out.replace("\n", "")
    assert path.read_text(encoding="utf-8") == "<<<<<<< HEAD\n"
    assert "Traceback" not in run.out


def test_options_outrank_markers_and_markers_the_ini_file(project: Project, on_broker: str) -> None:
    """The same file runs for a second on a laptop and for a minute in CI."""
    project.write(
        "pytest.ini",
        "[pytest]\nkafka_allow_unlimited = true\n"
        "kafka_rounds = 3\nkafka_warmup = 100 ms\nkafka_thresholds = errors == 0\n",
    )
    project.test(
        "pytestmark = pytest.mark.kafka_scenario(records=1000, partitions=1)\n"
        "@pytest.mark.kafka_scenario(rounds=2, rate='2k records/s')\n"
        "class TestOrders:\n"
        "    @pytest.mark.parametrize('partitions', [2])\n"
        "    def test_merged(self, kafka_perf, partitions):\n"
        "        result = kafka_perf(linger='1 ms')\n"
        "        assert result.scenario.linger == 0.001\n"
        "        assert sum(result.metrics[name] for name in ('errors', 'lost')) == 0\n"
    )
    run = project.run(on_broker, "--kafka-duration=300 ms", "-v")
    assert run.status == pytest.ExitCode.OK, run.out
    (test,) = run.report["tests"]
    wanted = {"rounds": 2, "warmup": 0.1, "records": None, "duration": 0.3, "partitions": 2, "rate": 2000}
    assert {name: test["scenario"][name] for name in wanted} == wanted
    assert [check["expression"] for check in test["checks"]] == ["errors == 0"]
    assert "duration=300 ms (command line)" in run.out
    assert "rounds=2 (marker)" in run.out
    assert "warmup=100 ms (ini)" in run.out


def test_one_load_a_test(project: Project, on_broker: str) -> None:
    """A baseline belongs to a test, so a second load would be compared with the first one's."""
    body = PACED.format(limits="'errors == 0'") + "    kafka_perf()\n"
    run = project.test(body).run(on_broker)
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert "kafka_perf() can run only once per test; for several loads, use pytest.mark.parametrize" in run.out


FORGOTTEN = """
@pytest.fixture
def before(kafka_perf):
    kafka_perf(duration="300 ms", warmup="100 ms", rounds=1, rate=100)

@pytest.fixture
def after(kafka_perf):
    yield
    kafka_perf(duration="300 ms", warmup="100 ms", rounds=1, rate=100)

def test_no_call(kafka_perf):
    pass

@pytest.mark.kafka_threshold("errors == 0")
def test_no_fixture():
    pass

@pytest.mark.kafka_threshold("errors == 0")
class TestOfAClass:
    def test_without_load(self):
        pass

@pytest.mark.kafka_threshold("errors == 0")
def test_by_its_fixture(before):
    pass

@pytest.mark.kafka_threshold("errors == 0")
def test_late(after):
    pass

@pytest.mark.kafka_threshold("errors == 0")
def test_skipped(kafka_perf):
    pytest.skip("not today")

@pytest.mark.kafka_threshold("errors == 0")
def test_failing(kafka_perf):
    assert not "yet"
"""


def test_what_measures_nothing_does_not_pass(project: Project, on_broker: str) -> None:
    """Limits that nobody looks at would be kept for ever."""
    run = project.test(FORGOTTEN).run(on_broker, "-rA")
    outcomes = sorted(re.findall(r"^(PASSED|FAILED|ERROR) test_perf\.py::([\w:]+)", run.out, re.MULTILINE))
    assert outcomes == [
        ("ERROR", "test_late"),
        ("FAILED", "test_failing"),
        ("FAILED", "test_late"),
        ("FAILED", "test_no_call"),
        ("FAILED", "test_no_fixture"),
        ("PASSED", "TestOfAClass::test_without_load"),
        ("PASSED", "test_by_its_fixture"),
    ], run.out
    assert "this test measured nothing: call kafka_perf(), or call pytest.skip() if there is nothing" in run.out
    assert "kafka_threshold has no effect without a measurement; use the kafka_perf fixture" in run.out


OWN_CODE = """
@pytest.mark.kafka_scenario(rate="100 records/s", duration="200 ms", warmup=0, rounds=1)
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 50%")
def test_incomplete(kafka_perf):
    kafka_perf()
    assert not "complete"
"""


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (OWN_CODE, pytest.ExitCode.TESTS_FAILED),
        (OWN_CODE.replace("@pytest", "@pytest.mark.xfail\n@pytest", 1), pytest.ExitCode.OK),
        (OWN_CODE.replace('assert not "complete"', 'pytest.skip("throttled")'), pytest.ExitCode.OK),
    ],
    ids=["fails", "fails as expected", "skips itself"],
)
def test_values_of_a_test_that_fails_are_no_baseline(
    project: Project, on_broker: str, body: str, status: pytest.ExitCode
) -> None:
    """A sink that drops records is fast; what it measured would hide later regressions."""
    run = project.test(body).run(on_broker, "--kafka-update-baselines")
    assert run.status == status, run.out
    assert not [*(project.folder / "kafka-baselines").rglob("*.json")]


@pytest.mark.parametrize(
    "arguments",
    [("-p", "no:terminal"), ("--strict-markers", "-W", "error", "-p", "no:benchmark", "-n0", "-s")],
    ids=" ".join,
)
def test_a_perf_test_runs_in_every_kind_of_pytest_run(
    project: Project, on_broker: str, arguments: tuple[str, ...]
) -> None:
    """Users have their own options; none may break the plugin, and the reports stand without a terminal."""
    run = project.test(PACED.format(limits="'errors == 0'")).run_steadily(on_broker, *arguments)
    assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_paced": "PASSED"}), run.out


def test_the_terminal_shows_the_cluster_and_a_table(project: Project, on_broker: str) -> None:
    """The cluster and a block for each test; none of them with -q."""
    project.test(PACED.format(limits="'errors == 0'"))
    run = project.run_steadily(on_broker)
    header = next(line for line in run.out.splitlines() if line.startswith("kafkaperf: "))
    assert header == f"kafkaperf: cluster {on_broker.partition('=')[2]} (external)"
    assert "kafka performance" in run.out
    lines = run.out.splitlines()
    block = lines[lines.index("✓ PASSED  test_paced") - 2 :]
    assert re.fullmatch(r"Kafka external \| env linux-\S+ \| 1 test, \d+s", block[0])
    assert re.fullmatch(r"    produce\.throughput +[\d.]+k?/s", block[4])
    assert re.fullmatch(r"    produce\.latency\.p99 +[\d.]+ [mµ]?s", block[6])
    assert re.fullmatch(r"  ✓ errors == 0 +0", block[7])
    assert "1 passed" in block[8:]
    assert "\x1b" not in run.out
    quiet = project.run(on_broker, "-q")
    assert "kafka" not in quiet.out.replace("kafka_", "")


def test_a_topic_that_the_cluster_refuses_is_invalid_with_its_reason(project: Project, on_broker: str) -> None:
    """Three replicas on one broker: refused before the load."""
    body = PACED.format(limits="'errors == 0'").replace("rounds=1", "rounds=1, replication_factor=3")
    run = project.test(body).run(on_broker)
    assert (run.status, run.verdicts) == (NOT_JUDGED, {"test_paced": "INVALID"}), run.out
    assert "rejected the topic of this scenario (partitions=2, replication_factor=3, " in run.out


def test_a_broker_that_dies_gives_invalid_soon(project: Project) -> None:
    """A run that cannot be trusted must say so soon, and leave the terminal readable."""
    with provision(ClusterSpec(), target="local") as cluster:
        project.test(PACED.format(limits="'errors == 0'").replace("500 ms", "1 h").replace("200 ms", "100 ms"))
        with project.running(f"--kafka-cluster={cluster.bootstrap_servers}") as process:
            assert becomes(lambda: asyncio.run(_records(cluster.bootstrap_servers)) > 0)
            os.kill(cluster.pids[0], signal.SIGKILL)
            out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == NOT_JUDGED
    report = json.loads((project.folder / "report.json").read_text(encoding="utf-8"))
    assert report["tests"][0]["verdict"] == "INVALID"
    assert "no record was acknowledged for" in out
    assert "Traceback" not in out


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_nothing(project: Project, ending: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C in the middle of load ends workers and broker; so does whatever else ends the run."""
    project.test(PACED.format(limits="'errors == 0'").replace('duration="500 ms"', 'duration="1 h"'))
    with project.running(TMPDIR=str(tmp_path)) as process:
        _wait_for_load(process.pid)
        family = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, ending)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (-ending if ending is signal.SIGKILL else pytest.ExitCode.INTERRUPTED)
    assert becomes(lambda: all(ended(each.pid) for each in family))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("kafkaperf")] == []


async def _records(servers: str) -> int:
    """Count the records in the first partitions: connections of workers do not tell whether all of them are ready."""
    async with AIOKafkaConsumer(bootstrap_servers=servers) as consumer:
        first = [TopicPartition(topic, 0) for topic in await consumer.topics()]
        return sum((await consumer.end_offsets(first)).values())


def _wait_for_load(pid: int) -> None:
    """Wait until a run has worker processes that have connections: load is on its way, or about to be."""
    trial = psutil.Process(pid)
    for _ in range(10 * PATIENCE_S):
        if any(map(_is_connected_worker, trial.children())):
            return
        psutil.wait_procs([trial], timeout=0.1)
    pytest.fail(f"no load within {PATIENCE_S} s")


def _is_connected_worker(child: psutil.Process) -> bool:
    try:
        connected = any(found.status == psutil.CONN_ESTABLISHED for found in child.net_connections())
        return connected and "spawn_main" in " ".join(child.cmdline())
    except psutil.Error:  # one that has just ended, such as `java -version`
        return False


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
def test_a_terminal_shows_progress_and_keeps_no_trace_of_it(project: Project, broker: Cluster) -> None:
    """Who watches a long scenario sees the round, the phase, the rate, the latency; the screen is tidy afterwards."""
    project.test(PACED.format(limits="'errors == 0'").replace('duration="500 ms"', 'duration="5 s"'))
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "pytest", *PLAIN]
    command += [f"--kafka-cluster={broker.bootstrap_servers}", "--kafka-report=json:report.json"]
    with subprocess.Popen(
        command, cwd=project.folder, env=inherited(), stdin=terminal, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        shown = b"".join(iter(lambda: _read(controller), b"")).decode()
        process.wait(RUN_S)
    os.close(controller)
    note_report(project.folder / "report.json")
    assert process.returncode == pytest.ExitCode.OK, shown
    assert re.search(r"\r\x1b\[Ktest_paced  round 1/1  measuring \d\.\d s / 5 s  [\w ]*?[\d.]+k? records/s", shown)
    assert re.search(r"measuring [1-4]\.\d s / 5 s [^\r]*  p99 [\d.]+ [mµ]?s", shown)
    last = shown.rindex("round 1/1")
    assert "\r\x1b[K" in shown[last:]
    assert re.search(r"test_perf\.py .*\.", shown[last:])


def _read(controller: int) -> bytes:
    """What the terminal shows next; nothing when the program has closed it."""
    try:
        return os.read(controller, 4096)
    except OSError:  # Linux tells the end of a pseudo-terminal so
        return b""
