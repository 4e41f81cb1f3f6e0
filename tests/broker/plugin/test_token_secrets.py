"""Client secrets and access tokens never appear in a report, a log line, a traceback or a repr."""

from __future__ import annotations

import base64
import concurrent.futures
import json
import time
from collections.abc import Iterator
from pathlib import Path

import javaproperties
import pytest

from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support.dask_workers import dask
from tests.support.leaks import (
    CLIENT_PROPERTIES,
    EVERYTHING,
    OUTCOMES,
    TESTS,
    leaks,
    outcomes,
    search_outputs,
    watched,
)
from tests.support.oauth_cluster import oauth_cluster, oauth_properties
from tests.support.patience import PATIENCE_S
from tests.support.project import Project, Run
from tests.support.token_server import CLIENT_ID, CLIENT_SECRET, TokenServer, token_server

LIFE_S = 8
"""Of a token: several of them are in use during a run."""

ONE = """
@pytest.mark.kafka_scenario(rate="1k records/s", duration="12 s", warmup=0, rounds=1, consumers=1)
@pytest.mark.kafka_threshold("lost == 0", "errors == 0")
def test_one(kafka_perf):
    kafka_perf()
"""

APP = """
import json, sys

SHOW = '''
import json, os, time
print(json.dumps({name: text for name, text in os.environ.items() if name.startswith("KAFKA_SASL")}), flush=True)
print("up", flush=True)
time.sleep(600)
'''


@pytest.mark.kafka_scenario(records=100, warmup=0, rounds=1)
def test_one(kafka_app, kafka_perf, kafka_cluster):
    with kafka_app([sys.executable, "-c", SHOW], ready="line:up", name="shop") as app:
        kafka_perf()
        print(app.output)
        print(kafka_cluster.access.variables())
        raise RuntimeError(app.output)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[TokenServer]:
    with token_server(life_s=LIFE_S) as running:
        yield running


@pytest.fixture(scope="module")
def servers(server: TokenServer) -> Iterator[str]:
    with oauth_cluster(server) as running:
        yield running


def give(project: Project, server: TokenServer, **changes: str) -> str:
    """Write the client properties of a project; gives the option that names them."""
    given = {**oauth_properties(server), **{name: text for name, text in changes.items() if "." in name}}
    project.write(CLIENT_PROPERTIES, javaproperties.dumps(given))
    return f"--kafka-client-config={CLIENT_PROPERTIES}"


def secrets_of(server: TokenServer) -> set[str]:
    """What no output may have, in every spelling that a part of the plugin uses."""
    basic = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()
    quoted = json.dumps(CLIENT_SECRET)[1:-1]
    return {CLIENT_SECRET, repr(CLIENT_SECRET)[1:-1], quoted, basic, *server.issued}


def test_no_output_of_a_run_with_tokens_has_a_secret(project: Project, server: TokenServer, servers: str) -> None:
    """Tokens are as good as passwords while they live, and a client secret lives for years."""
    option = give(project, server)
    project.test(TESTS.replace("MARKERS", ""))
    before = len(server.issued)
    run = watched(project, f"--kafka-cluster={servers}", option, *EVERYTHING)
    assert outcomes(run) == OUTCOMES, run.out[-20_000:]
    assert len(server.issued) > before
    assert leaks(run, secrets_of(server)) == []
    assert "sasl_oauth_token_provider" in run.out  # what was searched did show what is around the secrets
    assert "SaslAuthenticate" in run.out
    assert "multiprocessing.spawn" in run.out  # `ps` did show the worker processes


def test_no_machine_of_a_dask_cluster_shows_a_token(
    project: Project, server: TokenServer, servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renewed tokens travel through the scheduler, whose logs are read by others; they go over TLS only."""
    monkeypatch.setenv("DASK_LOGGING__DISTRIBUTED", "debug")
    option = give(project, server)
    project.test(ONE)
    with dask(project.folder) as workers:
        workers.add(elsewhere=True)
        workers.add()
        options = [f"--kafka-cluster={servers}", option, f"--kafka-workers=dask://{workers.address}"]
        refused = project.run(*options, reports=False)
        before = len(server.issued)
        run = watched(project, *options, "--kafka-insecure-workers", *EVERYTHING)
    assert refused.status == NOT_JUDGED, refused.out
    assert "--kafka-insecure-workers" in refused.out
    assert outcomes(run) == {"test_one": "passed"}, run.out[-20_000:]
    assert len(server.issued) - before > 1
    assert leaks(run, secrets_of(server)) == []
    assert "run_share" in (project.folder / "dask.log").read_text(encoding="utf-8")


def test_an_application_gets_the_credentials_and_its_output_hides_them(
    project: Project, server: TokenServer, servers: str
) -> None:
    """It must log in by itself, and may print what it was given."""
    option = give(project, server)
    project.test(APP)
    run = project.run(f"--kafka-cluster={servers}", option, *EVERYTHING)
    assert outcomes(run) == {"test_one": "failure"}, run.out[-20_000:]
    assert leaks(run, secrets_of(server)) == []
    assert f'"KAFKA_SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL": "{server.url}"' in run.out
    assert f'"KAFKA_SASL_OAUTHBEARER_CLIENT_ID": "{CLIENT_ID}"' in run.out
    assert '"KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET": "***"' in run.out


def test_logins_that_cannot_be_are_explained_at_once_without_secrets(
    tmp_path: Path, server: TokenServer, servers: str
) -> None:
    """Each is a daily mistake, and only the endpoint knows which one it is."""
    secret = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - the name of a setting
    mistakes = {
        "secret": ({secret: "correct-horse-battery"}, "refused the client 'perf': invalid_client"),
        "client": (
            {"sasl.oauthbearer.client.credentials.client.id": "nobody"},
            "invalid_client: The client does not exist on this server.",
        ),
        "unreachable": (
            {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token"},
            "the token endpoint http://127.0.0.1:1/token cannot be reached: ConnectionRefusedError",
        ),
    }

    def told(name: str) -> Run:
        folder = tmp_path / name
        folder.mkdir()
        project = Project(folder).test(ONE)
        option = give(project, server, **mistakes[name][0])
        began_s = time.monotonic()
        run = project.run(f"--kafka-cluster={servers}", option, *EVERYTHING)
        assert time.monotonic() - began_s < PATIENCE_S
        return run

    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = dict(zip(mistakes, pool.map(told, mistakes), strict=True))
    for name, run in runs.items():
        assert run.status == pytest.ExitCode.TESTS_FAILED
        assert mistakes[name][1] in " ".join(run.out.split()), run.out[-5000:]
        assert leaks(run, {*secrets_of(server), "correct-horse-battery"}) == [], name
        assert "Traceback" not in run.out, name


@pytest.mark.parametrize("version", [DEFAULT_VERSION, "3.9.1"])
def test_no_output_has_a_token_of_a_cluster_that_the_plugin_made(project: Project, version: str) -> None:
    """Others can read outputs while the load runs."""
    search_outputs(project, f"local:{version}", "sasl_oauth+tls")
