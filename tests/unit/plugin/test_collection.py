"""Invalid markers and options are errors at collection: they name the test, the value and valid values."""

from __future__ import annotations

import re

import pytest

from pytest_kafkaperf.plugin.collection import read_item
from pytest_kafkaperf.plugin.option_values import read_settings
from tests.support.project import Project, RunPytest

pytestmark = pytest.mark.filterwarnings("error")


REFUSED = [
    ("kafka_scenario(acs=1)", "kafka_scenario: unknown field 'acs': did you mean 'acks'?"),
    ("kafka_scenario(rate='5 MB')", "cannot read '5 MB' as a record rate"),
    ("kafka_scenario(duration='5')", "duration='5': a time needs a unit: '5 ms' or '5 s'"),
    ("kafka_scenario(linger=5)", "kafka_scenario: linger=5: a time needs a unit: '5 ms' or '5 s'"),
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
    (
        "kafka_threshold('produce.throughput >= baseline')",
        "invalid threshold 'produce.throughput >= baseline': a tolerance of 0% would fail unchanged software because "
        "of noise; allow at least 1%, or about 10% with stored baselines: 'produce.throughput >= baseline - 10%'",
    ),
    (
        "kafka_threshold('produce.latency.p99 <= max(baseline + 0.9%, 5 ms)')",
        "a tolerance of 0.9% would fail unchanged",
    ),
    ("kafka_cluster(broker=3)", "kafka_cluster: unknown field 'broker': did you mean 'brokers'?"),
    ("kafka_cluster(brokers=0)", "brokers=0: must be greater than or equal to 1"),
    ("kafka_cluster(security='ssl')", "security='ssl': must be 'sasl_scram'"),
    ("kafka_cluster(image='two words')", "must be the name of a Docker image"),
    (
        "kafka_scenario(replication_factor=3)",
        "kafka_scenario: replication_factor=3 needs 3 brokers, but the cluster has 1; declare "
        "kafka_cluster(brokers=3), or remove replication_factor",
    ),
    ("kafka_scenario(group_id='billing')", "kafka_scenario: unknown field 'group_id': set watch_group to measure"),
    ("kafka_scenario(record_size='1 KB')", "kafka_scenario: record_size: '1 KB' is ambiguous: 1000 B or 1 KiB?"),
    ("kafka_threshold('20 ms >= produce.latency.p99')", "put the metric first: 'produce.latency.p99 <= 20 ms'"),
    ("kafka_cluster(nodes=3)", "kafka_cluster: unknown field 'nodes': did you mean 'brokers'?"),
    ("kafka_cluster(version='2.8.0')", "kafka_cluster: version='2.8.0': the plugin starts Kafka 3.9 or newer"),
    ("kafka_cluster(version='newest')", "version='newest': a Kafka version has three numbers"),
]
"""Invalid markers, and a part of the error of each."""


FIXTURES = """
import pytest

@pytest.fixture
def quota(kafka_cluster):
    return kafka_cluster

@pytest.fixture
def clock():
    return 0
"""


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("def test_a(kafka_perf): ...", None),
        ("def test_a(kafka_perf, clock): ...", None),
        ("def test_a(kafka_perf, kafka_app): ...", None),
        ("def test_a(kafka_perf, kafka_cluster): ...", "the test takes kafka_cluster"),
        ("def test_a(kafka_perf, kafka_cluster_factory): ...", "the test takes kafka_cluster_factory"),
        ("def test_a(kafka_perf, quota): ...", "the fixture quota takes the cluster"),
        (
            "import pytest\n@pytest.fixture\ndef quota(quota): ...\ndef test_a(kafka_perf, quota): ...",
            "the fixture quota takes the cluster",
        ),
        ("import pytest\n@pytest.fixture\ndef quota(): ...\ndef test_a(kafka_perf, quota): ...", None),
        (
            "import pytest\n@pytest.fixture\ndef kafka_cluster(): ...\ndef test_a(kafka_perf): ...",
            "the fixture kafka_cluster is overridden",
        ),
    ],
)
def test_what_takes_the_cluster_is_known(code: str, told: str | None, pytester: pytest.Pytester) -> None:
    """It may have changed the cluster, and rebuilt brokers would not have that change."""
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makeconftest(FIXTURES)
    item = pytester.getitem(code, "test_a")
    settings = read_settings({}, {}, invocation_folder=pytester.path, root=pytester.path)
    assert read_item(item, settings).taken_by == told


def test_a_marker_that_cannot_be_is_refused(run_pytest: RunPytest) -> None:
    """A typing mistake must cost seconds, not a CI run; nothing may start."""
    tests = [
        f"@pytest.mark.{marker}\ndef test_{number}(kafka_perf):\n    kafka_perf()\n"
        for number, (marker, _) in enumerate(REFUSED)
    ]
    status, out = run_pytest("\n".join(tests))
    assert status == pytest.ExitCode.INTERRUPTED
    assert "Traceback" not in out
    said: dict[str, str] = {}
    for part in re.split(r"^test_perf\.py::", out, flags=re.MULTILINE)[1:]:
        name, _, problem = part.partition(": ")
        said[name] = said.get(name, "") + problem
    assert [
        (marker, text) for number, (marker, text) in enumerate(REFUSED) if text not in said.get(f"test_{number}", "")
    ] == []


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("", ("--kafka-cluster=a:9092",)),
        ("", ("--kafka-brokers=3",)),
        ("@pytest.fixture\ndef kafka_cluster(): ...\n", ()),
    ],
)
def test_replicas_need_brokers_only_where_their_number_is_known(
    run_pytest: RunPytest, code: str, options: tuple[str, ...]
) -> None:
    """A running cluster may have any number, and so may that of a user's fixture."""
    test = "@pytest.mark.kafka_scenario(replication_factor=3)\ndef test_one(kafka_perf):\n    kafka_perf()\n"
    status, out = run_pytest(code + test, "--collect-only", *options)
    assert status == pytest.ExitCode.OK, out


def test_a_misspelt_marker_is_refused(run_pytest: RunPytest) -> None:
    """The test would pass for ever: its threshold is in no marker that the plugin reads."""
    test = "@pytest.mark.kafka_treshold('errors == 0')\ndef test_one(kafka_perf):\n    kafka_perf()\n"
    without_load = "@pytest.mark.kafka_scenarios(rate=5)\ndef test_two():\n    pass\n"
    status, out = run_pytest(test + without_load, "-W", "ignore")
    assert status == pytest.ExitCode.INTERRUPTED
    assert "test_perf.py::test_one: unknown marker 'kafka_treshold': did you mean 'kafka_threshold'?" in out
    assert "test_perf.py::test_two: unknown marker 'kafka_scenarios': did you mean 'kafka_scenario'?" in out


def test_markers_of_others_are_never_questioned(run_pytest: RunPytest) -> None:
    """Whoever registered a name means it; and what resembles none of ours is not ours."""
    test = (
        "@pytest.mark.kafka_thresholds('mine')\n@pytest.mark.kafka_slow\n@pytest.mark.kafka_scenario(acs=1)\n"
        "def test_one(kafka_perf):\n    kafka_perf()\n"
    )
    _, out = run_pytest(test, "-W", "ignore", "-o", "markers=kafka_thresholds(text): of this project")
    assert ("unknown marker" in out, "unknown field 'acs'" in out) == (False, True)


@pytest.mark.parametrize("fixture", ["kafka_perf", "tmp_path"])
@pytest.mark.parametrize("arguments", ["rate='5k records/s'", "'5k records/s'"])
def test_the_marker_of_the_plugin_takes_no_arguments(run_pytest: RunPytest, fixture: str, arguments: str) -> None:
    """It looks like the one that declares a load; the test would run another load than its author believes."""
    status, out = run_pytest(f"@pytest.mark.kafka_perf({arguments})\ndef test_orders({fixture}): ...")
    assert status == pytest.ExitCode.INTERRUPTED
    assert "test_perf.py::test_orders: the marker kafka_perf takes no arguments" in out
    assert "use kafka_scenario(rate='5k records/s')" in out


@pytest.mark.parametrize("arguments", ["()", "(kafka_cluster)"])
def test_a_scenario_of_a_function_that_measures_nothing_is_refused(run_pytest: RunPytest, arguments: str) -> None:
    """The test would pass without a load, for ever."""
    status, out = run_pytest(f"@pytest.mark.kafka_scenario(rate='5k records/s')\ndef test_orders{arguments}: ...")
    assert status == pytest.ExitCode.INTERRUPTED
    assert "test_perf.py::test_orders: kafka_scenario has no effect without the kafka_perf fixture" in out


def test_a_scenario_counts_for_a_test_that_gets_the_fixture_from_another_one(run_pytest: RunPytest) -> None:
    """Projects wrap `kafka_perf`, or ask for it with `usefixtures`."""
    status, out = run_pytest(
        "@pytest.fixture\n"
        "def measured(kafka_perf): ...\n"
        "@pytest.mark.kafka_scenario(acks=1)\n"
        "def test_wrapped(measured): ...\n"
        "@pytest.mark.usefixtures('kafka_perf')\n"
        "@pytest.mark.kafka_scenario(acks=1)\n"
        "def test_used(): ...\n",
        "--collect-only",
    )
    assert (status, "2 tests collected" in out) == (pytest.ExitCode.OK, True), out


LATENCIES = "pytest.mark.kafka_threshold('produce.latency.p99 <= 25 ms', 'e2e.latency.p50 <= baseline + 20%')"


@pytest.mark.parametrize(
    ("marks", "arguments", "warned"),
    [
        (f"@{LATENCIES}", (), True),
        (f"@pytest.mark.kafka_scenario(records=500)\n@{LATENCIES}", (), True),
        (f"@pytest.mark.kafka_scenario(rate='100 records/s')\n@{LATENCIES}", (), False),
        (f"@pytest.mark.usefixtures('rate')\n@pytest.mark.parametrize('rate', [100])\n@{LATENCIES}", (), False),
        (f"@pytest.mark.kafka_threshold('capacity >= 1k records/s')\n@{LATENCIES}", (), False),
        ("@pytest.mark.kafka_threshold('produce.throughput >= 5k records/s')", (), False),
        ("", ("-o", "kafka_thresholds=produce.latency.p99 <= 25 ms"), False),
        (f"@{LATENCIES}", ("-k", "other"), False),
    ],
)
def test_a_threshold_on_latency_without_a_rate_is_a_warning(
    run_pytest: RunPytest, marks: str, arguments: tuple[str, ...], *, warned: bool
) -> None:
    """As many records as the producers may have in flight wait for each other: the value is not Kafka's."""
    status, out = run_pytest(
        f"@pytest.mark.kafka_scenario(consumers=1)\n{marks}\ndef test_orders(kafka_perf): ...\ndef test_other(): ...",
        "--collect-only",
        "-W",
        "default",
        *arguments,
    )
    assert status == pytest.ExitCode.OK, out
    assert ("LatencyWithoutRateWarning: 'produce.latency.p99 <= 25 ms'" in out) is warned
    assert ("declare a rate below the cluster's capacity" in out) is warned


def test_a_threshold_on_latency_without_a_rate_is_refused_where_warnings_are_errors(run_pytest: RunPytest) -> None:
    """With the test's name, not with a traceback of the plugin."""
    marks = f"@pytest.mark.kafka_scenario(consumers=1)\n@{LATENCIES}\n"
    status, out = run_pytest(f"{marks}def test_orders(kafka_perf): ...", "--collect-only", "-W", "error")
    assert status == pytest.ExitCode.INTERRUPTED
    assert "test_perf.py::test_orders: 'produce.latency.p99 <= 25 ms'" in out
    assert "Traceback" not in out


def test_all_problems_of_a_file_are_told_at_once(run_pytest: RunPytest) -> None:
    """Whoever fixes a file wants the whole list."""
    _, out = run_pytest(
        "@pytest.mark.kafka_scenario(acs=1)\n"
        "@pytest.mark.kafka_threshold('p99 <= 5 ms', 'errors == none')\n"
        "def test_one(kafka_perf): ...\n\n"
        "class TestMore:\n"
        "    @pytest.mark.kafka_scenario(partitions=0)\n"
        "    def test_two(self, kafka_perf): ...\n"
    )
    found = [line.split(": ")[0] for line in out.splitlines() if line.startswith("test_perf.py::")]
    assert found == ["test_perf.py::test_one"] * 3 + ["test_perf.py::TestMore::test_two"]


def test_parametrised_values_are_also_checked(run_pytest: RunPytest) -> None:
    """The name of the parameter set identifies the value."""
    _, out = run_pytest(
        "@pytest.mark.parametrize('record_size', ['100 B', '1 Kib'])\n"
        "def test_sizes(kafka_perf, record_size):\n    kafka_perf()"
    )
    assert "test_perf.py::test_sizes[1 Kib]: kafka_scenario: record_size" in out


def test_markers_of_tests_without_load_are_ignored(run_pytest: RunPytest) -> None:
    """A marker for a whole module must not break the tests in it that make no load."""
    status, _ = run_pytest("pytestmark = pytest.mark.kafka_scenario(acs=1)\ndef test_other(): ...")
    assert status == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--kafka-update-baselines=some", "--kafka-update-baselines=some: expected one of 'add'"),
        ("--kafka-cluster=broker1", "'broker1' has no port; did you mean 'broker1:9092'?"),
        ("--kafka-cluster=dcker", "did you mean 'docker' or 'dcker:9092'?"),
        ("--kafka-rounds=many", "rounds='many'"),
        ("--kafka-duration=10", "duration='10': a time needs a unit: '10 ms' or '10 s'"),
        ("--kafka-cluster=local:4", "'4' is not a Kafka version, such as 4.0.0"),
        ("--kafka-compare=docker:4", "'4' is not a Kafka version, such as 4.0.0 or an image"),
        ("--kafka-environment=../elsewhere", "invalid environment name '../elsewhere'"),
        (
            "--kafka-workers=many",
            "--kafka-workers=many: must be 1 to 1000 worker processes of each kind, such as 4, or a Dask scheduler, "
            "dask://HOST[:PORT]",
        ),
        (
            "--kafka-workers=dask://a:b",
            "--kafka-workers=dask://a:b: must be 1 to 1000 worker processes of each kind, such as 4, or a Dask "
            "scheduler, dask://HOST[:PORT]",
        ),
    ],
)
def test_an_invalid_option_is_an_error(run_pytest: RunPytest, option: str, text: str) -> None:
    """Options are parsed before anything starts."""
    status, out = run_pytest("def test_orders(kafka_perf):\n    kafka_perf()", option)
    assert status in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.USAGE_ERROR)
    assert text in out
    assert "Traceback" not in out


def test_options_of_external_clusters_are_errors_with_auto(run_pytest: RunPytest) -> None:
    """`auto` always starts brokers: there is no need to look for Docker first."""
    tests = "def test_orders(kafka_perf):\n    kafka_perf()"
    status, out = run_pytest(tests, "--kafka-cluster=auto", "--kafka-client-config=client.properties")
    assert status == pytest.ExitCode.INTERRUPTED
    assert "--kafka-cluster=HOST:PORT" in out


def test_perf_tests_can_be_collected_without_running_them(run_pytest: RunPytest) -> None:
    """`--collect-only` starts nothing, and the plugin's markers are registered."""
    tests = "@pytest.mark.kafka_scenario(rate='5k records/s')\ndef test_orders(kafka_perf): ..."
    status, out = run_pytest(tests, "--collect-only", "-q", "--strict-markers", "-W", "error")
    assert status == pytest.ExitCode.OK
    assert "test_perf.py::test_orders" in out


def test_pytest_benchmarks_option_to_skip_starts_nothing(run_pytest: RunPytest) -> None:
    """Perf tests are benchmarks: no broker starts, and there is no load."""
    status, out = run_pytest("def test_orders(kafka_perf):\n    kafka_perf()", "--benchmark-skip")
    assert (status, "1 skipped" in out, "kafka performance" in out) == (pytest.ExitCode.OK, True, False)


def test_only_perf_tests_fail_under_xdist(project: Project) -> None:
    """Parallel perf tests would disturb each other; other tests can still run in parallel."""
    run = project.test("def test_orders(kafka_perf):\n    kafka_perf()\ndef test_other(): ...").run(
        "-n1", reports=False
    )
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert "run them separately with -n0" in run.out
    assert "1 passed, 1 error" in run.out


def test_a_calibration_skips_tests_without_a_threshold_on_the_baseline(run_pytest: RunPytest) -> None:
    """Their values have no tolerance to compare with the noise, and each trial takes most of a minute."""
    status, out = run_pytest(
        "@pytest.mark.kafka_threshold('errors == 0')\ndef test_sla(kafka_perf):\n    kafka_perf()\n",
        "--kafka-cluster=local",
        "--kafka-calibrate=3",
        "-rs",
    )
    assert (status, "1 skipped" in out) == (pytest.ExitCode.OK, True)
    assert (
        "kafkaperf: calibration: no perf test has a threshold on the baseline, so all are skipped; add one, for "
        "example kafka_threshold('produce.throughput >= baseline - 20%')\n"
    ) in out
    assert "--kafka-calibrate: no threshold on the baseline, so there is nothing to calibrate" in out


def test_markers_that_a_conftest_adds_count(project: Project) -> None:
    """Adding them in this hook is usual; a threshold that nobody judges would be green for ever."""
    hook = "for item in items:\n        item.add_marker(pytest.mark.{marker})"
    conftest = "import pytest\n\ndef pytest_collection_modifyitems(items):\n    {hook}\n"
    project.test("def test_it(kafka_perf): ...")
    for marker, problem in (
        ("kafka_threshold('produce.latency.p9 <= 25 ms')", "unknown metric 'produce.latency.p9'"),
        ("kafka_scenario(acs=1)", "unknown field 'acs': did you mean 'acks'?"),
    ):
        project.write("conftest.py", conftest.format(hook=hook.format(marker=marker)))
        run = project.run("--collect-only", reports=False)
        assert run.status == pytest.ExitCode.INTERRUPTED, run.out
        assert problem in run.out
    project.write("conftest.py", conftest.format(hook=hook.format(marker="kafka_scenario(acks=1)")))
    assert "test_perf.py::test_it" in project.run("--collect-only", "-q", reports=False).out


CLOSEST = """
from pytest_kafkaperf.plugin.collection import marks_of

pytestmark = [pytest.mark.kafka_scenario(rate="1/s"), pytest.mark.kafka_scenario(acks=1)]

@pytest.mark.kafka_scenario(rate="2/s")
@pytest.mark.kafka_scenario(rate="2.5/s")
class Base:
    @pytest.mark.kafka_scenario(rate="5/s")
    @pytest.mark.kafka_scenario(rate="6/s")
    @pytest.mark.parametrize("number", [pytest.param(1, marks=pytest.mark.kafka_scenario(rate="7/s")), 2])
    def test_it(self, number, kafka_perf):
        pass

@pytest.fixture
def kafka_perf():
    pass

@pytest.mark.kafka_scenario(rate="3/s")
@pytest.mark.skipif(False, reason="")
@pytest.mark.kafka_scenario(rate="4/s")
class TestSub(Base):
    pytestmark = pytest.mark.kafka_scenario(rate="4.5/s")

    @pytest.fixture(autouse=True)
    def shown(self, request):
        print([value for mark in marks_of(request.node) for value in mark.kwargs.values()])
"""


def test_the_closest_marker_comes_last(run_pytest: RunPytest) -> None:
    """Module, base class, class, function, parameter; of several on a class or a function, the lowest one."""
    _, out = run_pytest(CLOSEST, "-s")
    assert "['1/s', 1, '2/s', '2.5/s', '3/s', '4/s', '4.5/s', '5/s', '6/s', '7/s']" in out
    assert "['1/s', 1, '2/s', '2.5/s', '3/s', '4/s', '4.5/s', '5/s', '6/s']" in out


def test_a_fixture_that_is_asked_for_in_a_test_comes_too_late(run_pytest: RunPytest) -> None:
    """Markers are read, and baselines of other tests counted as left over, before any test runs."""
    tests = """
@pytest.fixture
def kafka_cluster():
    return "127.0.0.1:1"

def test_late(request):
    request.getfixturevalue("kafka_perf")
"""
    _, out = run_pytest(tests)
    assert "request.getfixturevalue('kafka_perf') is too late; make kafka_perf an argument of the test" in out
    assert "KeyError" not in out


def test_a_parametrized_fixture_is_no_field_of_the_scenario(run_pytest: RunPytest) -> None:
    """Only the test's own parameters are; many projects have a fixture `topic` or `payload`."""
    status, out = run_pytest(
        "@pytest.fixture(params=['json', 'avro'])\n"
        "def payload(request):\n"
        "    return request.param\n"
        "def test_one(kafka_perf, payload): ...\n",
        "--collect-only",
    )
    assert status == pytest.ExitCode.OK, out
    assert "2 tests collected" in out


def test_a_marker_that_a_fixture_adds_is_refused(run_pytest: RunPytest) -> None:
    """Its threshold would never be judged, and the test would be green for ever."""
    status, out = run_pytest(
        "@pytest.fixture(autouse=True)\n"
        "def strict(request):\n"
        "    request.applymarker(pytest.mark.kafka_threshold('produce.latency.p99 <= 1 ms'))\n"
        "@pytest.fixture\n"
        "def kafka_cluster():\n"
        "    return '127.0.0.1:1'\n"
        "def test_one(kafka_perf):\n"
        "    kafka_perf()\n"
    )
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "Failed: markers are read at collection, so a marker that is added later has no effect; put it on" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kafka-rounds=0"], "--kafka-rounds='0': must be"),
        (["-o", "kafka_rounds=0"], "kafka_rounds='0': must be"),
        (["-o", "kafka_rounds=0", "--kafka-duration=1s"], "kafka_rounds='0': must be"),
    ],
)
def test_a_field_that_an_option_sets_is_told_by_its_name(
    run_pytest: RunPytest, arguments: list[str], words: str
) -> None:
    """Otherwise one looks for it in the markers."""
    _, out = run_pytest("def test_one(kafka_perf): ...\n", "--collect-only", *arguments)
    assert f"test_perf.py::test_one: kafka_scenario: {words}" in out


def test_the_conftest_of_a_path_after_the_update_option_is_one_of_the_first(project: Project) -> None:
    """It may declare options of its own, as it does where the path comes first."""
    project.write("perf/conftest.py", "def pytest_addoption(parser):\n    parser.addoption('--stage')\n")
    project.write("perf/test_perf.py", "def test_one(kafka_perf): ...\n")
    run = project.run("--kafka-update-baselines", "perf", "--stage=ci", "--collect-only", reports=False)
    assert run.status == pytest.ExitCode.OK, run.out
