"""Clusters that tests or options name, refused before anything starts."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.errors import ScenarioError, UsageError
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support.project import RunPytest

SHORT = "pytestmark = pytest.mark.kafka_scenario(records=1000, warmup='200 ms', rounds=1, partitions=1)\n"


TEST = "@pytest.mark.kafka_threshold({limits})\ndef test_one(kafka_perf):\n    kafka_perf()\n"


ONE = SHORT + TEST


NOWHERE = "unix:///nowhere/docker.sock"


SKIPPED = "pytestmark = pytest.mark.skip\ndef test_one(kafka_perf): ...\n"


def test_a_line_after_the_collection_shows_why_brokers_are_local(
    run_pytest: RunPytest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other values than a colleague's may come from another provider; `auto` does not look for Docker here."""
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    status, out = run_pytest(SKIPPED, "--kafka-cluster=auto")
    assert status == pytest.ExitCode.OK, out
    assert (
        f"kafkaperf: cluster local (auto: the extra 'local' is installed), Kafka {DEFAULT_VERSION}\n"
        "kafkaperf: 1 perf test, about "
    ) in out


def test_without_jgo_and_docker_the_error_explains_how_to_install_each(
    run_pytest: RunPytest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first run must not end in a traceback; tests with their own fixture `kafka_cluster` need neither."""
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    monkeypatch.setitem(sys.modules, "jgo", None)
    status, out = run_pytest(ONE.format(limits="'errors == 0'"), "--kafka-cluster=auto")
    assert status == pytest.ExitCode.TESTS_FAILED, out
    text = (
        f"--kafka-cluster=auto: the extra 'local' is not installed, and no Docker daemon answers at {NOWHERE} "
        "(FileNotFoundError: [Errno 2] No such file or directory). Install one of them: pip install "
        "'pytest-kafkaperf[local]' does not need Docker; for Docker, follow https://docs.docker.com/get-docker until "
        "`docker info` succeeds"
    )
    assert f"kafkaperf: cluster none: {text}\n" in out
    assert f"\n{text}\n" in out
    assert "Traceback" not in out


@pytest.mark.parametrize("given", ["pytest_kafkaperf.Cluster", "types.SimpleNamespace"])
def test_an_ssl_context_is_refused_with_what_to_give_instead(
    pytester: pytest.Pytester, run_pytest: RunPytest, given: str
) -> None:
    """It cannot be handed to the processes that make the load."""
    pytester.makeconftest(
        "import pytest, pytest_kafkaperf, ssl, types\n"
        "@pytest.fixture\n"
        "def kafka_cluster():\n"
        "    config = {'security_protocol': 'SSL', 'ssl_context': ssl.create_default_context()}\n"
        f"    return {given}(bootstrap_servers='127.0.0.1:1', client_config=config)\n",
    )
    status, out = run_pytest(ONE.format(limits="'errors == 0'"))
    assert status == pytest.ExitCode.TESTS_FAILED
    assert (
        "client_config: 'ssl_context' cannot be sent to worker processes; give 'ssl.truststore.location' instead, "
        "and 'ssl.keystore.location' for the client's own certificate "
        "('ssl.endpoint.identification.algorithm': '' turns off host name checks)"
    ) in out


def test_a_password_in_a_refused_client_config_is_not_shown(
    pytester: pytest.Pytester, run_pytest: RunPytest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the credentials come from the environment, the source that pytest prints has none."""
    pytester.makeconftest(
        "import os, pytest, pytest_kafkaperf\n"
        "@pytest.fixture\n"
        "def kafka_cluster():\n"
        "    return pytest_kafkaperf.Cluster(bootstrap_servers='127.0.0.1:1', client_config={\n"
        "        'security_protocol': 'SASL_SSL', 'sasl_mechanism': 'SCRAM-SHA-1', 'sasl_plain_username': 'app',\n"
        "        'sasl_plain_password': os.environ['PASSWORD'],\n"
        "    })\n",
    )
    monkeypatch.setenv("PASSWORD", "correct-horse-battery")
    arguments = ("--showlocals", "--tb=long", "--full-trace", "-vv", "--kafka-report=json:report.json")
    status, out = run_pytest(ONE.format(limits="'errors == 0'"), *arguments)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "'sasl.mechanism' is 'SCRAM-SHA-1', which is not supported" in out
    places = [line[:200] for line in out.splitlines() if "correct-horse-battery" in line]
    assert places == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"bootstrap_server": "b:9093"}, "unexpected keyword argument 'bootstrap_server'"),
        ({}, "missing 1 required keyword-only argument: 'bootstrap_servers'; valid arguments are bootstrap_servers, "),
        ({"bootstrap_servers": ["a:1", "b:2"]}, "Cluster(bootstrap_servers=['a:1', 'b:2']): must be a single string"),
        (
            {"bootstrap_servers": "b:9093", "client_config": [("sasl_plain_password", "correct-horse-battery")]},
            "Cluster(client_config=...) is a list; must be a dict",
        ),
    ],
)
def test_wrong_arguments_of_a_cluster_are_named_without_the_others(given: dict[str, Any], told: str) -> None:
    """One of them may be a password, and pytest shows the arguments of the last function of a traceback."""
    fields = {"client_config": {"sasl_plain_password": "correct-horse-battery"}, **given}
    with pytest.raises(UsageError) as raised:
        Cluster(**fields)
    assert told in str(raised.value)
    frames = inspect.getinnerframes(raised.tb)
    shown = [value for frame in frames[1:] for name, value in frame.frame.f_locals.items() if name != "self"]
    assert "correct-horse-battery" not in str(shown)


def test_a_refused_property_of_brokers_does_not_show_the_others() -> None:
    """Plug-ins of brokers have passwords."""
    with pytest.raises(ScenarioError) as raised:
        ClusterSpec.of({"config": {"listeners": "x", "my.plugin.password": "hunter2"}}, where="kafka_cluster: ")
    assert "cannot set 'listeners'" in str(raised.value)
    assert "'my.plugin.password': '***'" in str(raised.value)


@pytest.mark.parametrize(
    ("limit", "arguments", "told"),
    [
        (
            "broker.handlers.idle >= 0.1",
            (),
            "test_one: threshold 'broker.handlers.idle >= 0.1': broker.handlers.idle is not measured here; "
            "it needs kafka_jmx = true in the ini file, or kafka_metrics_url with a running cluster",
        ),
        (
            "broker.cpu <= 8 cores",
            ("--kafka-cluster=127.0.0.1:1",),
            "test_one: threshold 'broker.cpu <= 8 cores': broker.cpu is not measured here; "
            "it needs brokers that the plugin starts: --kafka-cluster=local or docker",
        ),
        (
            "errors == 0",
            ("--kafka-client-config=client.properties",),
            "--kafka-client-config applies only to --kafka-cluster=HOST:PORT, but this run uses local brokers; use "
            "--kafka-cluster=HOST:PORT, or omit --kafka-client-config",
        ),
        (
            "errors == 0",
            ("-o", "kafka_metrics_url=http://127.0.0.1:1/metrics"),
            "test_one: kafka_metrics_url applies only to --kafka-cluster=HOST:PORT, but this run uses local brokers; "
            "use --kafka-cluster=HOST:PORT, or omit kafka_metrics_url",
        ),
        (
            "errors == 0",
            ("-o", "kafka_cluster=127.0.0.1:1", "-o", "kafka_log_dirs=/tmp/a"),
            "test_one: kafka_log_dirs applies only to --kafka-cluster=local, but this run uses external brokers; use "
            "--kafka-cluster=local, or omit kafka_log_dirs",
        ),
        (
            "errors == 0",
            ("--kafka-brokers=0",),
            "test_one: kafka_cluster: brokers='0': must be greater than or equal to 1",
        ),
    ],
    ids=["jmx", "host", "client-config", "metrics-url", "log-dirs", "brokers"],
)
def test_what_the_cluster_cannot_give_is_refused_at_collection(
    pytester: pytest.Pytester, run_pytest: RunPytest, limit: str, arguments: tuple[str, ...], told: str
) -> None:
    """Before anything starts, with what to do."""
    (pytester.path / "client.properties").write_text("security.protocol=SSL\n", encoding="ascii")
    status, out = run_pytest(ONE.format(limits=repr(limit)), *arguments)
    assert status == pytest.ExitCode.INTERRUPTED, out  # errors at collection
    assert told in out
    assert " test_one" not in out  # nothing ran


@pytest.mark.parametrize("url", ["kafka:9404", "ftp://u:p@kafka/metrics", "http://:9404/metrics", "http://kafka:0/"])
def test_an_address_that_is_no_page_of_metrics_is_refused(run_pytest: RunPytest, url: str) -> None:
    """At once; the address itself, which may have a password in it, is not shown."""
    status, out = run_pytest(ONE.format(limits="'errors == 0'"), "-o", f"kafka_metrics_url={url}")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "kafka_metrics_url: each address must be http://HOST:PORT/PATH" in out
    assert url not in out


def test_a_cluster_that_is_not_there_is_an_error_with_advice(run_pytest: RunPytest) -> None:
    """Not a hang, not a traceback."""
    arguments = ("--kafka-cluster=127.0.0.1:1", "-o", "kafka_connect_timeout=1s")
    status, out = run_pytest(ONE.format(limits="'errors == 0'"), *arguments)
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "1 error" in out
    assert "127.0.0.1:1 is not ready after 1 s" in out
    assert "Traceback" not in out


UNLIMITED = """
@pytest.fixture
def kafka_cluster():
    return {servers!r}


@pytest.mark.kafka_scenario({fields})
def test_one(kafka_perf):
    kafka_perf{call}
"""


@pytest.mark.parametrize(
    ("servers", "option"),
    [("broker1:9092", "local"), ("127.0.0.1:1,broker1:9092", "local"), ("127.0.0.1:1", "127.0.0.1:1")],
    ids=["fixture", "fixture, in part on this machine", "option"],
)
@pytest.mark.parametrize(
    ("load", "key"),
    [
        (("", "()"), "--kafka-allow-unlimited, or kafka_allow_unlimited = true"),
        (("rate=1000", "(rate=None)"), "--kafka-allow-unlimited, or kafka_allow_unlimited = true"),
        (("rate=1000", "(rate='1G/s')"), "kafka_max_rate = 1G records/s, 100000 MB/s"),
        (("rate=1000", ".capacity('errors == 0')"), "kafka_max_rate = 2M records/s, 200 MB/s"),
        (("rate=1000, topic='orders'", "()"), "kafka_writable_topics = orders"),
    ],
)
def test_a_load_that_may_harm_others_on_a_named_cluster_needs_consent(
    run_pytest: RunPytest, servers: str, option: str, load: tuple[str, str], key: str
) -> None:
    """It can saturate production, or break its consumers; the error comes before any connection."""
    body = UNLIMITED.format(servers=servers, fields=load[0], call=load[1])
    status, out = run_pytest(body, f"--kafka-cluster={option}", "-o", "kafka_allow_unlimited=false")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert f"the cluster at {servers} may be used by others: " in out
    assert f"or allow it: {key} in the ini file" in out


@pytest.mark.parametrize(
    ("servers", "fields", "arguments"),
    [
        ("127.0.0.1:1", "", ()),
        ("localhost:1,[::1]:1", "", ()),
        ("broker1.invalid:9092", "rate=1000", ()),
        ("broker1.invalid:9092", "", ("--kafka-allow-unlimited",)),
        ("broker1.invalid:9092", "rate='60k/s'", ("-o", "kafka_max_rate=60k records/s")),
        ("broker1.invalid:9092", "rate=1, topic='a'", ("-o", "kafka_writable_topics=b, a")),
        ("127.0.0.1:1", "topic='a'", ()),
    ],
    ids=[
        "fixture here",
        "names of this machine",
        "a rate",
        "consent",
        "consent to a rate",
        "consent to a topic",
        "topic here",
    ],
)
def test_any_other_load_starts_without_an_opt_in(
    run_pytest: RunPytest, servers: str, fields: str, arguments: tuple[str, ...]
) -> None:
    """A broker that the user's fixture started here is nobody else's."""
    body = UNLIMITED.format(servers=servers, fields=fields, call="()")
    status, out = run_pytest(body, *arguments, "-o", "kafka_allow_unlimited=false")
    assert status == NOT_JUDGED  # nothing listens there
    assert "INVALID" in out
    assert "may be used by others" not in out
