"""Runs with secrets, and a search for them in everything that such a run writes."""

from __future__ import annotations

import concurrent.futures
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from pytest_kafkaperf.plugin.options import REPORTS
from tests.support.patience import RUN_S
from tests.support.project import Project, Run

WRITTEN = {
    **{f"--kafka-report={kind}:": f"report.{kind}" for kind in REPORTS if kind != "json"},
    "--benchmark-json=": "benchmark.json",
    "--log-file=": "pytest.log",
}
"""What a run writes besides the JSON report, JUnit and baselines."""


EVERYTHING = (
    *("-vv", "--showlocals", "-rA", "--tb=long", "--full-trace", "--kafka-update-baselines"),
    *("-o", "log_cli=true", "--log-level=DEBUG", "-o", "junit_logging=all", "--benchmark-verbose"),
    *(f"{option}{name}" for option, name in WRITTEN.items()),
)
"""All that makes pytest print and write."""


STEP = "step.md"
"""Of GitHub: the job's summary."""


CLIENT_PROPERTIES = "client.properties"


GIVEN = (CLIENT_PROPERTIES, "pytest.ini")
"""Files of the user's own, with secrets in them."""


LOOK_S = 0.2
"""Between two looks at all processes."""


TESTS = """
import asyncio
import logging

import aiokafka

pytestmark = pytest.mark.kafka_scenario(records=500, warmup="200 ms", rounds=1, partitions=1)


@pytest.fixture
def broken(kafka_cluster):
    config, access = kafka_cluster.client_config, kafka_cluster.access
    raise RuntimeError(f"cannot use {config} of {access}")


async def connect(**config):
    await aiokafka.AIOKafkaProducer(**config).start()


MARKERS
class TestOutputs:
    @pytest.mark.kafka_threshold("errors == 0", "lost == 0")
    def test_passes(self, kafka_perf):
        kafka_perf(consumers=1)

    @pytest.mark.kafka_threshold("produce.latency.p50 <= 1 us")
    def test_breaks_a_limit(self, kafka_cluster, kafka_perf):
        config = kafka_cluster.client_config
        kafka_perf()

    def test_asserts(self, kafka_cluster, kafka_perf):
        config, access = kafka_cluster.client_config, kafka_cluster.access
        arguments = access.arguments()
        assert config == {} and arguments == {}

    def test_asserts_on_arguments(self, kafka_cluster):
        assert kafka_cluster.access.arguments() == {"security_protocol": "PLAINTEXT"}

    def test_prints(self, kafka_cluster):
        print(kafka_cluster, repr(kafka_cluster.access), str(kafka_cluster.access), kafka_cluster.client_config)
        print(f"{kafka_cluster!r}", "%s" % kafka_cluster.access.arguments())
        logging.getLogger("app").debug("cluster %s with %r", kafka_cluster, kafka_cluster.client_config)

    def test_needs_a_broken_fixture(self, broken):
        pass

    def test_connects_by_itself(self, kafka_cluster):
        asyncio.run(connect(bootstrap_servers=kafka_cluster.bootstrap_servers, **kafka_cluster.client_config))

    def test_cannot_connect_by_itself(self, kafka_cluster):
        asyncio.run(connect(**{**kafka_cluster.client_config, "bootstrap_servers": "127.0.0.1:1"}))
"""


OUTCOMES = {
    "test_passes": "passed",
    "test_breaks_a_limit": "failure",
    "test_asserts": "failure",
    "test_asserts_on_arguments": "failure",
    "test_prints": "passed",
    "test_needs_a_broken_fixture": "error",
    "test_connects_by_itself": "passed",
    "test_cannot_connect_by_itself": "failure",
}


SPY = """
import json, pathlib
from pytest_kafkaperf.clusters.brokers import config as security

_make = security.Security.make.__func__


def make(cls, kind, hosts):
    made = _make(cls, kind, hosts)
    access = [made.access, made.admin]
    secrets = [text for one in access for text in one.secrets()]
    secrets += (made.keystore or "").split("-----BEGIN CERTIFICATE")[0].splitlines()[1:-1]
    with pathlib.Path({path!r}).open("a") as file:
        file.writelines(json.dumps(secret) + chr(10) for secret in secrets if secret)
    return made


security.Security.make = classmethod(make)
"""
"""A project's conftest that notes what is made for its clusters: the credentials are random."""


def leaks(run: Run, secrets: Iterable[str]) -> list[str]:
    """Every place in what a run wrote that has a secret in it, with the line."""
    outputs = {"output": run.out}
    for file in sorted(run.folder.rglob("*")):
        if file.is_file() and file.name not in GIVEN:
            outputs[str(file.relative_to(run.folder))] = file.read_bytes().decode("utf-8", errors="replace")
    sought = [secret for secret in secrets if secret.strip()]
    assert len(sought) > 1
    return [
        f"{name}: {line[:300]}"
        for name, text in outputs.items()
        for line in text.splitlines()
        if any(part in line for secret in sought for part in secret.splitlines() if len(part) > 3)
    ]


def outcomes(run: Run) -> dict[str, str]:
    """What became of each test, by the JUnit report."""
    return {
        test.attrib["name"]: next((child.tag for child in test if child.tag in ("failure", "error")), "passed")
        for test in run.junit.iter("testcase")
    }


def in_container(pid: int) -> bool:
    """Whether a process has a namespace of process ids of its own; one that has just ended has none."""
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()
    except OSError:
        return False


def watched(project: Project, *arguments: str) -> Run:
    """Run pytest as a step of GitHub; behind its output stands what `ps` shows of all processes meanwhile.

    Their environments, too: programs write those into dumps when they crash. Not those in containers: images take a
    broker's properties as variables.
    """
    seen: set[str] = set()
    github: dict[str, Any] = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(project.folder),
        "GITHUB_STEP_SUMMARY": str(project.folder / STEP),
    }
    with project.running(*arguments, **github) as process, concurrent.futures.ThreadPoolExecutor(1) as pool:
        told = pool.submit(process.communicate, timeout=RUN_S)
        while not told.done():
            for one in psutil.process_iter(["cmdline", "environ"]):
                seen.update(
                    one.info["cmdline"] or (), () if in_container(one.pid) else (one.info["environ"] or {}).values()
                )
            concurrent.futures.wait([told], timeout=LOOK_S)
        out, _ = told.result()
    return Run(process.returncode, "\n".join([out, *sorted(seen)]), project.folder)


def search_outputs(project: Project, target: str, security: str) -> None:
    """Run tests on a cluster that the plugin makes, and search all outputs for its random credentials."""
    path = project.folder.parent / "secrets"
    project.write("conftest.py", SPY.format(path=str(path)))
    project.test(TESTS.replace("MARKERS", f"@pytest.mark.kafka_cluster(security={security!r}, heap='256m')"))
    run = watched(project, f"--kafka-cluster={target}", *EVERYTHING)
    assert outcomes(run) == OUTCOMES, run.out[-20_000:]
    assert leaks(run, noted(path)) == []
    assert "SaslAuthenticate" in run.out
    assert target == "docker" or "kafka.Kafka" in run.out  # `ps` did show the broker
    assert "salted_password" not in run.out  # as good as a password


def noted(path: Path) -> set[str]:
    """Secrets that `SPY` has written."""
    return {json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()}
