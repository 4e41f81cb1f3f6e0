"""Secrets never appear in a report, a baseline, a log line, a traceback or repr: every output is searched for them."""

from __future__ import annotations

import concurrent.futures
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import javaproperties
import pytest
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.logins import Scram
from pytest_kafkaperf.clusters.brokers.certificates import certificates
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support.access_properties import properties_of
from tests.support.dask_workers import dask
from tests.support.leaks import (
    CLIENT_PROPERTIES,
    EVERYTHING,
    OUTCOMES,
    SPY,
    STEP,
    TESTS,
    WRITTEN,
    leaks,
    noted,
    outcomes,
    search_outputs,
    watched,
)
from tests.support.patience import PATIENCE_S, RUN_S
from tests.support.project import Project, Run

METRICS_PASSWORD = "exporters-of-the-north"  # noqa: S105 - of nobody
UNREACHABLE = "127.0.0.1:1"

ONE = """
@pytest.mark.kafka_scenario(records=100, warmup=0, rounds=1)
{markers}
def test_one(kafka_cluster, kafka_perf):
    kafka_perf()
"""
SEARCH = """
@pytest.mark.kafka_scenario(warmup="200 ms", partitions=1)
@pytest.mark.kafka_threshold("capacity >= 1 records/s")
def test_capacity(kafka_perf):
    kafka_perf.capacity("errors == 0", low=200, high=400, hold="1 s")
"""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A cluster with credentials, and how its users get in: by a certificate of their own, too."""

    servers: str
    access: Access


@pytest.fixture(scope="module")
def foreign() -> Iterator[Foreign]:
    with provision(ClusterSpec(security="sasl_scram+tls", heap="256m"), target="local") as cluster:
        own = certificates(["client.example"])
        yield Foreign(cluster.bootstrap_servers, replace(cluster.access, certificate=own.certificate, key=own.key))


def secrets_of(access: Access) -> set[str]:
    """What no output may have: password, lines of the key, the JAAS line."""
    return {*access.secrets(), properties_of(access)["sasl.jaas.config"]}


def give(project: Project, access: Access, **changes: str) -> str:
    """Write the client properties of a project; gives the option that names them."""
    project.write(CLIENT_PROPERTIES, javaproperties.dumps({**properties_of(access), **changes}))
    return f"--kafka-client-config={CLIENT_PROPERTIES}"


@pytest.mark.parametrize("place", ["output", "report.json", "kafka-baselines/linux/test_perf.py/test_one.json"])
def test_the_search_finds_a_secret_wherever_it_is_written(project: Project, foreign: Foreign, place: str) -> None:
    """A search that never finds anything would pass for the rest of these tests."""
    for secret in secrets_of(foreign.access):
        line = f"before {secret} after"
        if place != "output":
            project.write(place, line)
        run = Run(0, line if place == "output" else "", project.folder)
        assert leaks(run, secrets_of(foreign.access)) != []


def read_again(project: Project, run: Run) -> Run:
    """What the command prints of baselines and reports of a run, behind its output."""
    report = str(project.folder / "report.json")
    told = [
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from pytest_kafkaperf.plugin.cli import main; raise SystemExit(main())",
                *arguments,
            ],
            cwd=project.folder,
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=arguments[0] == "show",  # `diff` finds the failed test
        ).stdout
        for arguments in (["show", "kafka-baselines"], ["diff", report, report])
    ]
    assert all(told)
    return Run(run.status, "\n".join([run.out, *told]), run.folder)


def test_no_output_of_a_run_on_a_foreign_cluster_has_a_secret(project: Project, foreign: Foreign) -> None:
    """Credentials come from files that only their owner reads; CI keeps everything else, and shows it."""
    option = give(project, foreign.access)
    url = f"http://metrics:{METRICS_PASSWORD}@{UNREACHABLE}/metrics"
    project.write(
        "pytest.ini", f"[pytest]\nkafka_broker_warmup = 0 s\nkafka_allow_unlimited = true\nkafka_metrics_url = {url}\n"
    )
    project.test(TESTS.replace("MARKERS", ""))
    run = read_again(project, watched(project, f"--kafka-cluster={foreign.servers}", option, *EVERYTHING))
    assert outcomes(run) == OUTCOMES, run.out[-20_000:]
    assert run.baselines
    assert [name for name in (*WRITTEN.values(), STEP) if not (project.folder / name).stat().st_size] == []
    assert leaks(run, {*secrets_of(foreign.access), METRICS_PASSWORD}) == []
    log = (project.folder / "pytest.log").read_text(encoding="utf-8")
    assert "'sasl_plain_password': '***'" in run.out  # what was searched did show what is around the secrets
    assert "aiokafka" in log
    assert "SaslAuthenticate" in log
    assert f"metrics-url=http://{UNREACHABLE}/metrics (ini)" in run.out
    assert "multiprocessing.spawn" in run.out  # `ps` did show the worker processes
    assert "::error " in run.out


def test_no_output_of_a_search_for_the_capacity_has_a_secret(project: Project, foreign: Foreign) -> None:
    """Its steps are told as they go."""
    option = give(project, foreign.access)
    project.test(SEARCH)
    run = watched(project, f"--kafka-cluster={foreign.servers}", option, *EVERYTHING)
    assert outcomes(run) == {"test_capacity": "passed"}, run.out[-20_000:]
    assert run.report["tests"][0]["trials"][0]["rounds"][0]["steps"]
    assert leaks(run, secrets_of(foreign.access)) == []


def test_no_machine_of_a_dask_cluster_shows_a_secret(
    project: Project, foreign: Foreign, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials travel to Dask's workers, whose logs and dashboards are read by others."""
    monkeypatch.setenv("DASK_LOGGING__DISTRIBUTED", "debug")
    option = give(project, foreign.access)
    project.test(ONE.format(markers=""))
    with dask(project.folder) as workers:
        workers.add()
        workers.add(nanny=True)
        options = [f"--kafka-cluster={foreign.servers}", option, f"--kafka-workers=dask://{workers.address}"]
        run = watched(project, *options, "--kafka-insecure-workers", *EVERYTHING)
    assert outcomes(run) == {"test_one": "passed"}, run.out[-20_000:]
    assert leaks(run, secrets_of(foreign.access)) == []
    log = (project.folder / "dask.log").read_text(encoding="utf-8")
    assert "DEBUG" in log
    assert "run_share" in log
    assert "multiprocessing.spawn" in run.out


def test_credentials_go_to_dask_workers_over_tls_only(project: Project, foreign: Foreign) -> None:
    """Everybody in the network between the machines could read them."""
    option = give(project, foreign.access)
    project.test(ONE.format(markers=""))
    with dask(project.folder) as workers:
        workers.add()
        run = project.run(
            f"--kafka-cluster={foreign.servers}", option, f"--kafka-workers=dask://{workers.address}", reports=False
        )
    assert run.status == NOT_JUDGED, run.out
    assert "--kafka-insecure-workers" in run.out


def test_clusters_that_cannot_be_used_are_explained_without_secrets(tmp_path: Path, foreign: Foreign) -> None:
    """Wrong passwords, names and addresses are the daily mistakes: the text helps, and does not show what was tried."""
    assert isinstance(foreign.access.login, Scram)
    login = replace(foreign.access.login, password=SecretStr("correct-horse-battery"))
    wrong = replace(foreign.access, login=login)
    jaas = properties_of(foreign.access)["sasl.jaas.config"]
    mistakes = {
        "password": (foreign.servers, wrong, {}),
        "unreachable": (UNREACHABLE, foreign.access, {}),
        "unknown": (foreign.servers, foreign.access, {"sasl.jaas.confg": jaas}),
        "broken": (foreign.servers, foreign.access, {"sasl.jaas.config": jaas.replace('password="', "password=")}),
        "keyless": (foreign.servers, foreign.access, {"ssl.keystore.certificate.chain": ""}),
    }

    def told(name: str) -> Run:
        servers, access, changes = mistakes[name]
        folder = tmp_path / name
        folder.mkdir()
        project = Project(folder).test(ONE.format(markers=""))
        option = give(project, access, **changes)
        began_s = time.monotonic()
        run = project.run(f"--kafka-cluster={servers}", option, *EVERYTHING)
        assert time.monotonic() - began_s < PATIENCE_S
        assert run.status == pytest.ExitCode.TESTS_FAILED
        return run

    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = dict(zip(mistakes, pool.map(told, mistakes), strict=True))
    for name, run in runs.items():
        _, access, _ = mistakes[name]
        assert leaks(run, {*secrets_of(foreign.access), *secrets_of(access)}) == [], name
        assert "Traceback" not in run.out, name
    out = {name: " ".join(run.out.split()) for name, run in runs.items()}
    assert "Authentication failed" in out["password"]
    assert "Check the user name, the password and 'sasl.mechanism' in" in out["password"]
    assert "Connect call failed ('127.0.0.1', 1)" in out["unreachable"]
    assert "their listener is a SASL_SSL one as in" in out["unreachable"]
    assert "'sasl.jaas.confg' (line " in out["unknown"]
    assert "did you mean 'sasl.jaas.config'" in out["unknown"]
    assert "'sasl.jaas.config'" in out["broken"]
    assert "'ssl.keystore.certificate.chain' is missing; it goes with 'ssl.keystore.key'" in out["keyless"]


def test_no_output_has_a_secret_of_a_cluster_that_the_plugin_made(project: Project) -> None:
    """The credentials are short-lived, but others can read outputs while the load runs."""
    search_outputs(project, "local", "sasl_scram+tls")


@pytest.mark.parametrize("target", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_the_log_of_a_broker_that_does_not_start_is_shown_without_secrets(
    project: Project, tmp_path: Path, target: str
) -> None:
    """Kafka's log has its configuration in it, and its end is the reason that people need."""
    path = tmp_path / "secrets"
    spec = "security='sasl_scram+tls', heap='256m', config={'num.network.threads': 0}"
    project.write("conftest.py", SPY.format(path=str(path)))
    project.test(ONE.format(markers=f"@pytest.mark.kafka_cluster({spec})"))
    run = project.run(f"--kafka-cluster={target}", *EVERYTHING)
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert leaks(run, noted(path)) == []
    assert "num.network.threads" in run.out
    assert "did not start" in run.out
