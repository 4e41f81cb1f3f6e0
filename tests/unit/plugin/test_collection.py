"""Invalid markers and options are errors at collection: they name the test, the value and valid values."""

from __future__ import annotations

import re

import pytest

from tests.support.project import Project

pytestmark = pytest.mark.filterwarnings("error")


REFUSED = [
    ("kafka_scenario(acs=1)", "kafka_scenario: unknown field 'acs': did you mean 'acks'?"),
    ("kafka_scenario(rate='5 MB')", "cannot read '5 MB' as a record rate"),
    ("kafka_scenario(duration='5')", "'5' has no unit"),
    ("kafka_scenario(payload='text')", "use 'random', 'zeros', 'file:PATH'"),
    ("kafka_scenario(producer_config={'max_reqest_size': 5})", "did you mean 'max_request_size'?"),
    ("kafka_scenario(producer_config={'linger.ms': 5})", "'linger.ms' is decided by the field linger"),
    ("kafka_scenario(consumers=1, consumer_config={'min.bytes': 5})", "unknown parameter 'min.bytes' of"),
    ("kafka_scenario('5k records/s')", "kafka_scenario takes fields by name"),
    ("kafka_threshold('produce.latency.p9 <= 25 ms')", "did you mean 'produce.latency.p99'"),
    ("kafka_threshold('produce.latency.p99 <= 25 MiB')", "cannot read '25 MiB' as a time"),
    ("kafka_threshold('produce.latency.p99 =< 25 ms')", "'=<' is no operator; use one of <= < >= > =="),
    ("kafka_threshold(p99='25 ms')", "kafka_threshold takes expressions"),
    ("kafka_threshold('e2e.latency.p99 <= 5 ms')", "e2e.latency.p99 is not measured here"),
    ("kafka_threshold('lost == baseline')", "lost can be zero"),
    ("kafka_cluster(broker=3)", "kafka_cluster: unknown field 'broker': did you mean 'brokers'?"),
    ("kafka_cluster(brokers=0)", "brokers=0: input should be greater than or equal to 1"),
    ("kafka_cluster(security='ssl')", "security='ssl': input should be 'sasl_scram'"),
    ("kafka_cluster(image='two words')", "an image is named as docker does"),
    ("kafka_cluster(version='newest')", "version='newest': a Kafka version has three numbers"),
]
"""Invalid markers, and a part of the error of each."""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The errors of one run, by the name of the test; each test has one of these markers."""
    tests = [
        f"@pytest.mark.{marker}\ndef test_{number}(kafka_perf):\n    kafka_perf()\n"
        for number, (marker, _) in enumerate(REFUSED)
    ]
    run = Project(tmp_path_factory.mktemp("refused")).test("\n".join(tests)).run(reports=False)
    assert run.status == pytest.ExitCode.INTERRUPTED
    assert "Traceback" not in run.out
    found: dict[str, str] = {}
    for error in re.split(r"^test_perf\.py::", run.out, flags=re.MULTILINE)[1:]:
        name, _, problem = error.partition(": ")
        found[name] = found.get(name, "") + problem
    return found


@pytest.mark.parametrize(
    ("name", "text"),
    [pytest.param(f"test_{number}", text, id=marker) for number, (marker, text) in enumerate(REFUSED)],
)
def test_an_invalid_marker_is_an_error(refusals: dict[str, str], name: str, text: str) -> None:
    """A typing mistake must cost seconds, not a CI run: nothing starts."""
    assert text in refusals[name]


def test_all_problems_of_a_file_are_reported_at_once(project: Project) -> None:
    """The user can then correct all of them before the next run."""
    run = project.test(
        "@pytest.mark.kafka_scenario(acs=1)\n"
        "@pytest.mark.kafka_threshold('p99 <= 5 ms', 'errors == none')\n"
        "def test_one(kafka_perf): ...\n\n"
        "class TestMore:\n"
        "    @pytest.mark.kafka_scenario(partitions=0)\n"
        "    def test_two(self, kafka_perf): ...\n"
    ).run(reports=False)
    found = [line.split(": ")[0] for line in run.out.splitlines() if line.startswith("test_perf.py::")]
    assert found == ["test_perf.py::test_one"] * 3 + ["test_perf.py::TestMore::test_two"]


def test_parametrised_values_are_also_checked(project: Project) -> None:
    """The name of the parameter set identifies the value."""
    run = project.test(
        "@pytest.mark.parametrize('record_size', ['100 B', '1 Kib'])\n"
        "def test_sizes(kafka_perf, record_size):\n    kafka_perf()"
    ).run(reports=False)
    assert "test_perf.py::test_sizes[1 Kib]: kafka_scenario: record_size" in run.out


def test_markers_of_tests_without_load_are_ignored(project: Project) -> None:
    """A marker for a whole module must not break the tests in it that make no load."""
    run = project.test("pytestmark = pytest.mark.kafka_scenario(acs=1)\ndef test_other(): ...").run(reports=False)
    assert run.status == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--kafka-update-baselines=some", "--kafka-update-baselines=some: valid are 'all'"),
        ("--kafka-cluster=broker1", "'broker1' has no port"),
        ("--kafka-cluster=dcker", "did you mean 'docker'?"),
        ("--kafka-rounds=many", "rounds='many'"),
        ("--kafka-duration=10", "'10' has no unit"),
        ("--kafka-version=4", "a Kafka version has three numbers"),
        ("--kafka-environment=../elsewhere", "'../elsewhere' is not a safe folder name"),
    ],
)
def test_an_invalid_option_is_an_error(project: Project, option: str, text: str) -> None:
    """Options are parsed before anything starts."""
    run = project.test("def test_orders(kafka_perf):\n    kafka_perf()").run(option, reports=False)
    assert run.status in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    assert text in run.out
    assert "Traceback" not in run.out


def test_options_of_external_clusters_are_errors_with_auto(project: Project) -> None:
    """`auto` always starts brokers: there is no need to look for Docker first."""
    run = project.test("def test_orders(kafka_perf):\n    kafka_perf()").run(
        "--kafka-cluster=auto", "--kafka-client-config=client.properties", reports=False
    )
    assert run.status == pytest.ExitCode.INTERRUPTED
    assert "--kafka-cluster=HOST:PORT" in run.out


def test_perf_tests_can_be_collected_without_running_them(project: Project) -> None:
    """`--collect-only` starts nothing, and the plugin's markers are registered."""
    run = project.test("@pytest.mark.kafka_scenario(rate='5k records/s')\ndef test_orders(kafka_perf): ...").run(
        "--collect-only", "-q", "--strict-markers", "-W", "error", reports=False
    )
    assert run.status == pytest.ExitCode.OK
    assert "test_perf.py::test_orders" in run.out


def test_only_perf_tests_fail_under_xdist(project: Project) -> None:
    """Parallel perf tests would disturb each other; other tests can still run in parallel."""
    run = project.test("def test_orders(kafka_perf):\n    kafka_perf()\ndef test_other(): ...").run(
        "-n2", reports=False
    )
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert "Run them with -n0" in run.out
    assert "1 passed, 1 error" in run.out
