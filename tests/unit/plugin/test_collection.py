"""What cannot be is refused at collection: with the test's name, what was given, and what is valid."""

from __future__ import annotations

import re

import pytest

from tests.support.project import Project

pytestmark = pytest.mark.filterwarnings("error")


REFUSED = [
    ("kafka_scenario(acs=1)", "kafka_scenario: unknown field 'acs': did you mean 'acks'?"),
    ("kafka_scenario(rate='5 MB')", "cannot read '5 MB' as a record rate"),
    ("kafka_scenario(duration='5')", "'5' has no unit"),
    ("kafka_scenario(payload='text')", "must be 'random', 'zeros', 'file:PATH'"),
    ("kafka_scenario(producer_config={'max_reqest_size': 5})", "did you mean 'max_request_size'?"),
    ("kafka_scenario(producer_config={'linger.ms': 5})", "'linger.ms' is set by the field linger"),
    ("kafka_scenario(consumers=1, consumer_config={'min.bytes': 5})", "unknown parameter 'min.bytes' of"),
    ("kafka_scenario('5k records/s')", "kafka_scenario takes fields by name"),
    ("kafka_threshold('produce.latency.p9 <= 25 ms')", "did you mean 'produce.latency.p99'"),
    ("kafka_threshold('produce.latency.p99 <= 25 MiB')", "cannot read '25 MiB' as a time"),
    ("kafka_threshold('produce.latency.p99 =< 25 ms')", "unknown operator '=<'; use one of <= < >= > =="),
    ("kafka_threshold(p99='25 ms')", "kafka_threshold takes expressions"),
    ("kafka_threshold('e2e.latency.p99 <= 5 ms')", "e2e.latency.p99 is not measured here"),
    ("kafka_threshold('lost == baseline')", "lost can be zero"),
    ("kafka_cluster(broker=3)", "kafka_cluster: unknown field 'broker': did you mean 'brokers'?"),
    ("kafka_cluster(brokers=0)", "brokers=0: must be greater than or equal to 1"),
    ("kafka_cluster(security='ssl')", "security='ssl': must be 'sasl_scram'"),
    ("kafka_cluster(image='two words')", "an image is named as docker does"),
    ("kafka_cluster(version='newest')", "version='newest': a Kafka version has three numbers"),
]
"""Markers that cannot be, and what is said of each."""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one run says of tests that have one of these markers each, by the test's name."""
    tests = [
        f"@pytest.mark.{marker}\ndef test_{number}(kafka_perf):\n    kafka_perf()\n"
        for number, (marker, _) in enumerate(REFUSED)
    ]
    run = Project(tmp_path_factory.mktemp("refused")).test("\n".join(tests)).run(reports=False)
    assert run.status == pytest.ExitCode.INTERRUPTED
    assert "Traceback" not in run.out
    found: dict[str, str] = {}
    for told in re.split(r"^test_perf\.py::", run.out, flags=re.MULTILINE)[1:]:
        name, _, problem = told.partition(": ")
        found[name] = found.get(name, "") + problem
    return found


@pytest.mark.parametrize(
    ("name", "text"),
    [pytest.param(f"test_{number}", text, id=marker) for number, (marker, text) in enumerate(REFUSED)],
)
def test_a_marker_that_cannot_be_is_refused(refusals: dict[str, str], name: str, text: str) -> None:
    """A typing mistake must cost seconds, not a CI run; nothing may start."""
    assert text in refusals[name]


def test_all_problems_of_a_file_are_told_at_once(project: Project) -> None:
    """Whoever mends a file wants the whole list."""
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


def test_a_parametrised_value_is_checked_too(project: Project) -> None:
    """The name of the parameter set tells which value it was."""
    run = project.test(
        "@pytest.mark.parametrize('record_size', ['100 B', '1 Kib'])\n"
        "def test_sizes(kafka_perf, record_size):\n    kafka_perf()"
    ).run(reports=False)
    assert "test_perf.py::test_sizes[1 Kib]: kafka_scenario: record_size" in run.out


def test_tests_without_load_are_left_alone(project: Project) -> None:
    """Markers on a whole module must not break the tests in it that make no load."""
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
        ("--kafka-environment=../elsewhere", "invalid environment name '../elsewhere'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(project: Project, option: str, text: str) -> None:
    """Options are read before anything starts."""
    run = project.test("def test_orders(kafka_perf):\n    kafka_perf()").run(option, reports=False)
    assert run.status in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    assert text in run.out
    assert "Traceback" not in run.out


def test_perf_tests_are_found_without_running_them(project: Project) -> None:
    """`--collect-only` starts nothing, whatever the markers say."""
    run = project.test("@pytest.mark.kafka_scenario(rate='5k records/s')\ndef test_orders(kafka_perf): ...").run(
        "--collect-only", "-q", "--strict-markers", "-W", "error", reports=False
    )
    assert run.status == pytest.ExitCode.OK
    assert "test_perf.py::test_orders" in run.out


def test_xdist_is_refused_for_perf_tests_only(project: Project) -> None:
    """Two tests at once would measure each other; the others keep their speed."""
    run = project.test("def test_orders(kafka_perf):\n    kafka_perf()\ndef test_other(): ...").run(
        "-n2", reports=False
    )
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert "Run them with -n0" in run.out
    assert "1 passed, 1 error" in run.out
