"""One perf test as its markers declare it: what needs the folder of its file, or the whole of its declaration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.core.metrics import declare
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.perftest import PerfTest, read_perftest
from pytest_kafkaperf.runner.rounds.capacity import workload_of
from pytest_kafkaperf.runner.rounds.samples import with_content
from pytest_kafkaperf.scenarios.payloads import Samples
from pytest_kafkaperf.scenarios.threshold import Absolute
from pytest_kafkaperf.verdict.baseline_file import scenario_changes


def perftest_of(folder: Path, *thresholds: str, **fields: Any) -> PerfTest:
    marks = [pytest.mark.kafka_scenario(**fields).mark]
    if thresholds:
        marks.append(pytest.mark.kafka_threshold(*thresholds).mark)
    settings = read_settings({}, {}, invocation_folder=folder, root=folder)
    return read_perftest("test_perf.py::test_it", marks, {}, settings, folder=folder)


def write(folder: Path, content: str) -> Path:
    (folder / "orders").write_text(content, encoding="utf-8")
    return folder / "orders"


@pytest.mark.parametrize(
    ("limits", "needed"),
    [
        (["produce.latency.p99 <= 50 ms", "errors == 0", "produce.throughput >= 900 records/s"], False),
        (["lost == 0", "app.output_ratio >= 90%", "app.delay.p99 <= 3 s"], False),
        (["produce.latency.p99 <= baseline + 10%"], True),
        ([], True),
        (["errors == 0", "produce.throughput.steadiness >= 90%"], True),  # a broker that warms up hides a decline
        (["errors >= 1"], True),  # cold brokers meet these more easily
        (["errors > 0"], True),
        (["produce.throughput <= 1k records/s"], True),
        (["client.cpu_per_record <= 9 s/M records"], True),  # a closed loop on slow brokers is another load
        (["app.cpu <= 0.5"], False),
        (["app.memory <= 1 GB"], True),  # a heap grows while a program warms up
    ],
)
def test_brokers_may_be_cold_if_warm_ones_would_meet_the_limits_as_well(
    tmp_path: Path, limits: list[str], *, needed: bool
) -> None:
    """A warm-up takes half a minute."""
    scenario: dict[str, Any] = {"duration": "10 s"}
    if any(limit.startswith("app.") for limit in limits):
        scenario |= {"rate": "1k records/s", "topic": "in", "output_topic": "out", "watch_group": "app", "consumers": 1}
    assert perftest_of(tmp_path, *limits, **scenario).needs_warm_brokers is needed


def test_parameters_of_the_cluster_are_those_that_count(tmp_path: Path) -> None:
    """A chart over numbers of brokers that the command line has made one would show what never was."""
    settings = read_settings({"brokers": "3"}, {}, invocation_folder=tmp_path, root=tmp_path)
    parameters = {"brokers": 1, "security": None, "way_ms": 2, "acks": 1}
    perftest = read_perftest("test_perf.py::test_it[1]", [], parameters, settings, folder=tmp_path)
    assert perftest.parameters == {"brokers": 3, "security": None, "way_ms": 2}
    assert (perftest.spec.brokers, perftest.scenario.acks) == (3, 1)


def test_the_quick_compiler_is_used_on_both_sides(tmp_path: Path) -> None:
    """Both sides of a comparison start alike."""
    given = {"cluster": "local", "compare": "local", "quick-compiler": "true"}
    settings = read_settings(given, {}, invocation_folder=tmp_path, root=tmp_path)
    perftest = read_perftest("test_perf.py::test_it", [], {}, settings, folder=tmp_path)
    assert perftest.live_baseline == perftest.spec
    assert perftest.spec.quick_compiler


def test_samples_are_found_from_the_folder_of_the_test(tmp_path: Path) -> None:
    """Tests run from anywhere; a baseline says the same on every machine."""
    (tmp_path / "orders.jsonl").write_text("{}\n")
    scenario = perftest_of(tmp_path, payload="file:orders.jsonl").scenario

    assert scenario.payload == Samples(file="orders.jsonl")
    assert scenario.payload.path == str(tmp_path / "orders.jsonl")
    unread = {"file": "orders.jsonl", "delimiter": "\n", "size_bytes": None, "sha256": None}
    assert scenario.model_dump(mode="json")["payload"] == unread


def test_other_samples_under_the_same_name_are_another_workload(tmp_path: Path) -> None:
    """The records' sizes and contents decide how fast they are; a fixture may write the file just before the load."""
    perftest = perftest_of(tmp_path, payload=f"file:{write(tmp_path, 'a')}")
    before = workload_of(with_content(perftest.scenario), None)
    assert before["payload"] | {"file": ""} == {
        "file": "",
        "delimiter": "\n",
        "size_bytes": 1,
        "sha256": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
    }
    assert scenario_changes(before, workload_of(with_content(perftest.scenario), None)) == ()
    write(tmp_path, "b")
    (change,) = scenario_changes(before, workload_of(with_content(perftest.scenario), None))
    assert change.startswith("payload: ")
    assert "(1 B, SHA-256 ca978112ca1b) -> " in change
    assert change.endswith("(1 B, SHA-256 3e23e8160039)")


def test_samples_that_were_removed_after_collection_are_refused(tmp_path: Path) -> None:
    """Their content is unknown, so nothing could be compared with this run later."""
    perftest = perftest_of(tmp_path, payload=f"file:{write(tmp_path, 'a')}")
    (tmp_path / "orders").unlink()
    with pytest.raises(ScenarioError, match=r"payload: cannot read the samples '.*orders': No such file"):
        with_content(perftest.scenario)


def test_a_call_finds_samples_as_a_marker_does(tmp_path: Path) -> None:
    """`kafka_perf(payload=...)` stands in the same file."""
    (tmp_path / "orders").write_text("x")
    payload = perftest_of(tmp_path).with_overrides({"payload": "file:orders"}).scenario.payload
    assert isinstance(payload, Samples)
    assert payload.path == str(tmp_path / "orders")


def test_samples_that_are_not_there_are_refused_with_the_path(tmp_path: Path) -> None:
    """At collection, before a cluster starts."""
    with pytest.raises(ScenarioError) as caught:
        perftest_of(tmp_path, payload="file:data/orders")
    assert str(caught.value) == (
        f"kafka_scenario: payload: cannot read the samples {str(tmp_path / 'data' / 'orders')!r}: "
        "No such file or directory; paths are relative to the folder of the test's file"
    )


def test_an_absolute_path_is_taken_as_it_is(tmp_path: Path) -> None:
    """The advice on relative ones would mislead."""
    with pytest.raises(ScenarioError) as caught:
        perftest_of(tmp_path / "tests", payload=f"file:{tmp_path / 'orders'}")
    assert str(caught.value) == (
        f"kafka_scenario: payload: cannot read the samples {str(tmp_path / 'orders')!r}: No such file or directory"
    )


@pytest.mark.parametrize("name", [".", "a\0b"])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    """A folder, or a name that no system has."""
    with pytest.raises(ScenarioError, match="kafka_scenario: payload: cannot read the samples"):
        perftest_of(tmp_path, payload=f"file:{name}")


def test_an_empty_file_of_samples_is_refused(tmp_path: Path) -> None:
    """It would send nothing at all."""
    (tmp_path / "orders").touch()
    with pytest.raises(ScenarioError) as caught:
        perftest_of(tmp_path, payload="file:orders")
    assert str(caught.value) == (
        f"kafka_scenario: payload: the sample file {str(tmp_path / 'orders')!r} is empty; write at least one "
        "sample to it"
    )


TOO_SHORT, LONGER = "the window must be at least 10 s", "set duration='10 s' or more"


@pytest.mark.parametrize(
    ("limit", "fields", "reason"),
    [
        ("e2e.latency.p99 <= 5 ms", {}, "it needs consumers=1 or more"),
        ("consume.throughput >= 1 records/s", {}, "it needs consumers=1 or more"),
        ("lag.max <= 5", {"consumers": 1, "consume": "after"}, "it needs consume='live'"),
        ("e2e.latency.p99 <= 5 ms", {"consumers": 1, "consume": "after"}, "it needs consume='live'"),
        ("produce.delay.p99 <= 5 ms", {}, "it needs a rate"),
        ("lost == 0", {"producers": 0, "topic": "in", "consumers": 1}, "it needs producers=1 or more"),
        ("app.drain <= 5 s", {}, "it needs watch_group, the application's consumer group"),
        ("app.recovery <= 5 s", {}, "it needs watch_group, the application's consumer group"),
        ("catchup <= 5 s", {"consumers": 1}, "it needs a backlog, and consumers=1 or more on a new topic"),
        ("reordered == 0", {"acks": 0}, "it needs acks=1 or acks='all'"),
        (
            "reordered == 0",
            {"topic": "in", "output_topic": "out", "consumers": 1},
            "an application may move records to other partitions; remove output_topic or the threshold",
        ),
        (
            "produce.latency.p99.99 <= 1 s",
            {"rate": "100/s", "duration": "20 s"},
            "it needs at least 10000 records per round; increase the rate or the duration",
        ),
        ("e2e.latency.p99.99 <= 1 s", {}, "it needs consumers=1 or more"),
        ("e2e.latency.p99.steadiness <= 150%", {"duration": "20 s"}, "it needs consumers=1 or more"),
        (
            "produce.throughput.steadiness >= 90%",
            {"producers": 0, "topic": "in", "consumers": 1},
            "it needs producers=1 or more",
        ),
        ("produce.throughput.steadiness >= 90%", {"duration": "9 s"}, f"{TOO_SHORT}, but it is 9 s; {LONGER}"),
        (
            "e2e.latency.p99.steadiness <= 150%",
            {"records": 999, "rate": 100, "consumers": 1},
            f"{TOO_SHORT}, but it is 9.99 s; {LONGER}",
        ),
        ("produce.throughput.steadiness >= 90%", {}, f"{TOO_SHORT}, but the default is shorter; {LONGER}"),
        (
            "produce.throughput.steadiness >= 90%",
            {"records": "1M"},
            f"{TOO_SHORT}, but it ends with the last record; {LONGER}",
        ),
        (
            "produce.throughput.steadiness >= 90%",
            {"rate": "1k -> 2k records/s over 30 s"},
            "the load itself changes; use a constant rate, or none",
        ),
    ],
)
def test_a_limit_on_what_is_not_measured_is_refused_with_what_it_needs(
    tmp_path: Path, limit: str, fields: dict[str, Any], reason: str
) -> None:
    """A limit that nothing is compared with would pass for ever."""
    with pytest.raises(ScenarioError) as caught:
        perftest_of(tmp_path, limit, **fields)
    name = limit.split(maxsplit=1)[0]
    assert str(caught.value) == f"threshold {limit!r}: {name} is not measured here; {reason}"


SEARCH = {"low": "1k records/s", "high": "100k records/s", "hold": "2 s"}


def test_a_search_holds_rates_that_it_chooses_itself(tmp_path: Path) -> None:
    """A rate and records that a module's marker has set are for its other tests."""
    perftest = perftest_of(tmp_path, records=1000, rate=5).with_search(["produce.latency.p99 <= 20 ms"], **SEARCH)

    assert perftest.plan is not None
    assert (perftest.plan.low, perftest.plan.high, str(perftest.plan)) == (
        1000.0,
        100_000.0,
        "produce.latency.p99 <= 20 ms",
    )
    assert (perftest.scenario.rate, perftest.scenario.records, perftest.scenario.duration) == (None, None, 2.0)
    assert "rate" not in perftest.sources


def test_rates_of_a_search_can_be_in_bytes(tmp_path: Path) -> None:
    """As those of a scenario: an operator sells MiB/s."""
    perftest = perftest_of(tmp_path, record_size="1 KiB").with_search(
        ["errors == 0"], low="1 MiB/s", high="1 GiB/s", hold="1 s"
    )
    assert perftest.plan is not None
    assert (perftest.plan.low, perftest.plan.high) == (1024.0, 1024.0**2)


@pytest.mark.parametrize(
    ("thresholds", "fields", "rounds"),
    [
        pytest.param([], {}, 1, id="nobody asks for more than one"),
        pytest.param(["capacity >= 5k records/s"], {}, 1, id="an absolute limit takes one"),
        pytest.param(["capacity >= baseline - 10%"], {}, 5, id="a comparison takes as many as ever"),
        pytest.param([], {"rounds": 3}, 3, id="as the marker says"),
    ],
)
def test_a_test_is_one_search_unless_more_are_asked_for(
    tmp_path: Path, thresholds: list[str], fields: dict[str, int], rounds: int
) -> None:
    """A search takes minutes."""
    perftest = perftest_of(tmp_path, *thresholds, **fields).with_search(["errors == 0"], **SEARCH)
    assert perftest.scenario.rounds == rounds


@pytest.mark.parametrize(
    ("limits", "changes", "text"),
    [
        ([], {}, "give at least one threshold, for example 'produce.latency.p99 <= 20 ms'"),
        (
            ["capacity >= 5 records/s"],
            {},
            "threshold 'capacity >= 5 records/s': a capacity search needs absolute thresholds on metrics of each rate, "
            "for example 'produce.latency.p99 <= 20 ms'; declare thresholds on the capacity itself with "
            "kafka_threshold(...)",
        ),
        (
            ["produce.latency.p99 <= baseline + 5%"],
            {},
            "threshold 'produce.latency.p99 <= baseline + 5%': a capacity search needs absolute thresholds on metrics "
            "of each rate, for example 'produce.latency.p99 <= 20 ms'; declare thresholds on the capacity itself with "
            "kafka_threshold(...)",
        ),
        (
            ["lag.end <= 1000"],
            {},
            "threshold 'lag.end <= 1000': lag.end is not measured here; it needs consumers=1 or more",
        ),
        (["errors == 0"], {"low": "200k records/s"}, "low='200k records/s' must be less than high='100k records/s'"),
        (
            ["errors == 0"],
            {"low": "1k -> 2k records/s over 1 s"},
            "low and high must each be a single rate, for example",
        ),
        (["errors == 0"], {"low": None}, "low and high must each be a single rate, for example"),
        (["errors == 0"], {"low": "fast"}, "low: "),
        (["errors == 0"], {"high": "fast"}, "high: "),
        (["errors == 0"], {"hold": "long"}, "hold: "),
        (["errors == 0"], {"hold": 10}, "hold=10: a time needs a unit: '10 ms' or '10 s'"),
        (
            ["errors == 0"],
            {"hold": None},
            "hold=None is not a time; give the time to hold each rate, for example hold='10 s'",
        ),
    ],
)
def test_a_search_that_cannot_be_is_refused(
    tmp_path: Path, limits: list[str], changes: dict[str, Any], text: str
) -> None:
    """By the names of the arguments that the user has given."""
    with pytest.raises(ScenarioError) as caught:
        perftest_of(tmp_path).with_search(limits, **{**SEARCH, **changes})
    assert str(caught.value).startswith(f"kafka_perf.capacity: {text}")


def test_a_plain_call_cannot_keep_a_limit_on_the_capacity(tmp_path: Path) -> None:
    """It would be INCONCLUSIVE for ever, which nobody reads."""
    with pytest.raises(ScenarioError) as caught:
        perftest_of(tmp_path, "capacity >= 5k records/s").without_search()
    assert str(caught.value) == (
        "threshold 'capacity >= 5k records/s': kafka_perf() runs at a single rate; call kafka_perf.capacity(...) to "
        "measure capacity"
    )


def test_a_limit_of_the_ini_file_on_the_capacity_is_for_searches_alone(tmp_path: Path) -> None:
    """It is a limit for every test that has the metric."""
    settings = read_settings(
        {}, {"thresholds": ["capacity >= 5k  records/s", "errors == 0"]}, invocation_folder=tmp_path, root=tmp_path
    )
    perftest = read_perftest("test_perf.py::test_it", [], {}, settings, folder=tmp_path)
    assert [limit.expression for limit in perftest.without_search().thresholds] == ["errors == 0"]
    searching = perftest.with_search(["errors == 0"], **SEARCH)
    assert [limit.expression for limit in searching.thresholds] == ["capacity >= 5k records/s", "errors == 0"]


def test_a_smoke_test_of_a_search_holds_its_lowest_rate(tmp_path: Path) -> None:
    """`--benchmark-disable` shows that it runs."""
    perftest = perftest_of(tmp_path).with_search(["errors == 0"], **SEARCH).as_smoke_test()
    assert (perftest.plan, perftest.scenario.rate, perftest.scenario.rounds) == (None, 1000.0, 1)


def test_a_threshold_of_the_marker_and_the_ini_file_counts_once(tmp_path: Path) -> None:
    """Two would be two chances of a false alarm, each judged with half of the false-alarm rate."""
    limit = "produce.throughput >= baseline - 10%"
    settings = read_settings({}, {"thresholds": [limit]}, invocation_folder=tmp_path, root=tmp_path)
    marks = [pytest.mark.kafka_threshold(limit, "errors == 0").mark]
    perftest = read_perftest("test_perf.py::test_it", marks, {}, settings, folder=tmp_path)
    assert [each.expression for each in perftest.thresholds] == [limit, "errors == 0"]


def duration_of(folder: Path, *thresholds: str, **fields: Any) -> float | None:
    """The length of the rounds of a test with these markers."""
    marks = [
        pytest.mark.kafka_scenario(**fields).mark,
        pytest.mark.kafka_threshold(*thresholds or ("errors == 0",)).mark,
    ]
    settings = read_settings({}, {}, invocation_folder=folder, root=folder)
    return read_perftest("a.py::test", marks, {}, settings, folder=folder).scenario.duration


@pytest.mark.parametrize(
    ("fields", "quantile", "duration_s"),
    [
        ({}, "p99.9", 2.0),  # a closed loop makes enough records
        ({"rate": "5k records/s"}, "p99", 2.0),
        ({"rate": "2k records/s"}, "p99", pytest.approx(2.5)),
        ({"rate": "1k records/s"}, "p99.9", 5.0),  # never more
        ({"rate": "10 records/s"}, "mean", 5.0),
        ({"rate": "100 records/s for 1 s, 1k records/s"}, "p50", 5.0),
        ({"rate": "100 records/s for 9 s, 1k records/s for 1 s"}, "p50", 10.0),
        ({"duration": "7 s"}, "p50", 7.0),
        ({"duration": "1 s", "rate": "1k records/s"}, "p99.9", 1.0),
        ({"records": 1000}, "p50", None),
    ],
)
def test_rounds_without_a_declared_length_are_as_short_as_their_quantile_allows(
    tmp_path: Path, fields: dict[str, Any], quantile: str, duration_s: float | None
) -> None:
    """A test that nobody waits for is run more often; declared lengths are kept."""
    assert duration_of(tmp_path, f"produce.latency.{quantile} <= 20 ms", **fields) == duration_s


# Side by side with a live baseline


def short(folder: Path, *thresholds: str, options: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """The fields of a scenario that short rounds may change."""
    marks = [
        pytest.mark.kafka_scenario(**fields).mark,
        pytest.mark.kafka_threshold(*thresholds or ("errors == 0",)).mark,
    ]
    settings = read_settings(options or {}, {}, invocation_folder=folder, root=folder)
    scenario = read_perftest("a.py::test", marks, {}, settings, folder=folder).in_short_rounds().scenario
    return {name: getattr(scenario, name) for name in ("rounds", "warmup", "duration", "records")}


def test_rounds_next_to_a_live_baseline_are_short(tmp_path: Path) -> None:
    """What disturbs the machine for seconds then affects both sides alike."""
    closed_loop = {"rounds": 4, "warmup": 0.3, "duration": 1.0, "records": None}
    assert short(tmp_path, duration="20 s", rounds=9) == closed_loop
    assert short(tmp_path, "produce.latency.p99.9 <= baseline + 10%", duration="20 s") == closed_loop
    assert short(tmp_path, duration="20 s", rate="1k records/s") == closed_loop
    assert short(tmp_path, duration="400 ms", warmup="100 ms") == {**closed_loop, "warmup": 0.1, "duration": 0.4}


MEDIAN = "produce.latency.p50 <= baseline + 10%"


@pytest.mark.parametrize(
    ("thresholds", "rate", "duration_s"),
    [
        (["produce.latency.p99 <= 250 ms", MEDIAN], "300 records/s", 5 / 3),
        (["produce.latency.p99 <= 250 ms", MEDIAN], "1k records/s", 1.0),
        (["produce.latency.p99 <= 250 ms"], "300 records/s", 5.0),  # the only trial decides
        (["produce.latency.p99 <= baseline + 10%"], "300 records/s", 5.0),
        (["produce.latency.p99 <= min(baseline + 10%, 250 ms)"], "300 records/s", 5.0),
    ],
)
def test_an_absolute_limit_on_a_quantile_needs_fewer_records_than_a_relative_one(
    tmp_path: Path, thresholds: list[str], rate: str, duration_s: float
) -> None:
    """A promise of 250 ms must not make a comparison of medians five times as long."""
    assert short(tmp_path, *thresholds, rate=rate)["duration"] == pytest.approx(duration_s)


def test_rounds_are_not_shortened_if_their_end_is_compared_with_the_whole(tmp_path: Path) -> None:
    """A shorter window would not show a decline, or could not even be measured."""
    assert short(tmp_path, "produce.throughput.steadiness >= 90%", duration="20 s")["duration"] == 20


def test_rounds_with_a_backlog_are_not_shortened(tmp_path: Path) -> None:
    """A window that ends before the backlog is processed shows no recovery."""
    fields: dict[str, Any] = {"topic": "orders", "watch_group": "sink", "backlog": "30k records", "rate": 1000}
    assert short(tmp_path, "app.recovery <= 10 s", duration="20 s", **fields)["duration"] == 20


def test_a_shortened_length_names_its_reason(tmp_path: Path) -> None:
    """The report shows where each field comes from; the marker did not say this one."""
    marks = [pytest.mark.kafka_scenario(duration="20 s", warmup="100 ms", partitions=2).mark]
    settings = read_settings({}, {}, invocation_folder=tmp_path, root=tmp_path)
    perftest = read_perftest("a.py::test", marks, {}, settings, folder=tmp_path).in_short_rounds()
    assert perftest.sources == {"duration": "side by side", "warmup": "marker", "partitions": "marker"}


def test_the_terminal_shows_which_declared_lengths_side_by_side_replaces(tmp_path: Path) -> None:
    """Otherwise people take the values for those of their 20 s; defaults surprise nobody."""
    settings = read_settings({}, {}, invocation_folder=tmp_path, root=tmp_path)
    found = [
        read_perftest("a.py::test", [pytest.mark.kafka_scenario(**fields).mark], {}, settings, folder=tmp_path)
        for fields in ({"duration": "20 s", "rounds": 9, "warmup": "2 s", "partitions": 2}, {"partitions": 2})
    ]
    assert [each.shortened for each in found] == [
        "duration=1 s instead of 20 s, rounds=4 instead of 9, warmup=300 ms instead of 2 s",
        None,
    ]


@pytest.mark.parametrize(
    ("quantile", "duration_s"), [("mean", 1.0), ("p50", 1.0), ("p90", 1.0), ("p95", 1.0), ("p99", 5.0), ("p99.9", 20.0)]
)
def test_a_paced_round_has_enough_records_for_its_quantile(tmp_path: Path, quantile: str, duration_s: float) -> None:
    """50 records beyond it, at 1000 a second; never more than declared."""
    limits = f"produce.latency.{quantile} <= baseline + 10%", "produce.latency.p50 <= baseline + 10%"
    assert short(tmp_path, *limits, duration="20 s", rate="1k records/s")["duration"] == pytest.approx(duration_s)


def test_the_length_of_loads_that_declare_it_otherwise_stays(tmp_path: Path) -> None:
    """A number of records is what is measured, and steps of a rate are one load."""
    counted = {"rounds": 4, "warmup": 0.3, "duration": None, "records": 5000}
    assert short(tmp_path, records=5000) == counted
    shaped = short(tmp_path, rate="100 records/s for 10 s, 1k records/s for 10 s", duration="20 s")
    assert shaped == {"rounds": 4, "warmup": 0.3, "duration": 20.0, "records": None}


def test_the_command_line_says_how_long_rounds_are(tmp_path: Path) -> None:
    """Whoever gives a number wants it."""
    given = {"rounds": "7", "duration": "3 s", "warmup": "2 s"}
    assert short(tmp_path, options=given) == {"rounds": 7, "warmup": 2.0, "duration": 3.0, "records": None}
    assert short(tmp_path, options={"duration": "3 s"}) == {
        "rounds": 4,
        "warmup": 0.3,
        "duration": 3.0,
        "records": None,
    }


@pytest.mark.parametrize(
    ("ini", "line", "own", "live_baseline"),
    [
        ("local:4.0.0", None, ("4.1.0", "b:1"), ("4.1.0", "b:1")),
        ("docker", "docker:4.2.0", ("4.2.0", None), ("4.2.0", None)),
        ("docker", "docker:c:1", (None, "c:1"), (None, "c:1")),
        ("docker", "docker:c", ("4.1.0", "c"), ("4.1.0", "c")),
        ("local:4.0.0", "local", ("4.1.0", "b:1"), ("4.1.0", "b:1")),
    ],
)
def test_the_command_line_names_version_and_image_before_markers_and_these_before_the_ini_file(
    tmp_path: Path, ini: str, line: str | None, own: object, live_baseline: object
) -> None:
    """A marker's image must not decide when the command line asks for a version."""
    given = {"compare": "local"} | ({} if line is None else {"cluster": line})
    settings = read_settings(given, {"cluster": ini}, invocation_folder=tmp_path, root=tmp_path)
    marks = [pytest.mark.kafka_cluster(version="4.1.0", image="b:1").mark]
    perftest = read_perftest("test_perf.py::test_it", marks, {}, settings, folder=tmp_path)
    assert perftest.live_baseline is not None
    assert (perftest.spec.version, perftest.spec.image) == own
    assert (perftest.live_baseline.version, perftest.live_baseline.image) == live_baseline


def test_the_live_baseline_has_its_own_version_or_image(tmp_path: Path) -> None:
    """Whatever it does not name is that of the test's own cluster."""
    found = []
    for text in ("docker:4.0.0", "docker:c:1", "docker"):
        given = {"cluster": "docker:b:1", "compare": text}
        settings = read_settings(given, {}, invocation_folder=tmp_path, root=tmp_path)
        perftest = read_perftest("test_perf.py::test_it", [], {}, settings, folder=tmp_path)
        assert perftest.live_baseline is not None
        found.append((perftest.live_baseline.version, perftest.live_baseline.image))
    assert found == [("4.0.0", None), (None, "c:1"), (None, "b:1")]


def test_a_cluster_of_the_command_line_replaces_that_of_the_ini_file_with_its_version(tmp_path: Path) -> None:
    """`local` means the default version, as anywhere."""
    settings = read_settings(
        {"cluster": "local"}, {"cluster": "local:4.0.0"}, invocation_folder=tmp_path, root=tmp_path
    )
    assert read_perftest("test_perf.py::test_it", [], {}, settings, folder=tmp_path).spec.version is None


@pytest.mark.usefixtures("catalogue")
def test_thresholds_on_a_tests_own_metrics_get_their_units_once_these_are_recorded(tmp_path: Path) -> None:
    """Those of the ini file are for the tests that record the metric."""
    settings = read_settings({}, {"thresholds": "app.rows >= 10"}, invocation_folder=tmp_path, root=tmp_path)
    marks = [pytest.mark.kafka_threshold("errors == 0", "app.pages <= 5k pages").mark]
    perftest = read_perftest("test_perf.py::test_it", marks, {}, settings, folder=tmp_path)
    declare("app.pages", unit="pages", better="lower")
    recorded = perftest.with_recorded(["app.pages"])
    assert [(each.expression, each.metric.unit) for each in recorded.thresholds] == [
        ("errors == 0", "records"),
        ("app.pages <= 5k pages", "pages"),
    ]
    assert recorded.thresholds[1].limit == Absolute(value=5000)


@pytest.mark.parametrize(
    ("name", "recorded", "remedy"),
    [
        ("app.rows", [], "call kafka_perf.add_metric('app.rows', ...) before the load"),
        ("app.rows", ["app.row"], "did you mean 'app.row'?"),
        (
            "app.latency.max",
            [],
            "call kafka_perf.add_metric('app.latency.max', ...) before the load; did you mean 'app.lag.max' or "
            "'app.delay.max'?",
        ),
        ("app.mem", [], "call kafka_perf.add_metric('app.mem', ...) before the load; did you mean 'app.memory'?"),
    ],
)
def test_a_threshold_on_a_metric_that_the_test_does_not_record_is_refused_before_the_load(
    tmp_path: Path, name: str, recorded: list[str], remedy: str
) -> None:
    """After minutes of load it could only be INCONCLUSIVE."""
    with pytest.raises(ScenarioError) as caught:
        perftest_of(tmp_path, f"{name} >= 10").with_recorded(recorded)
    assert str(caught.value) == f"threshold '{name} >= 10': this test does not measure {name}; {remedy}"


def test_the_rates_of_a_search_may_have_limits_on_recorded_metrics(tmp_path: Path) -> None:
    """Each of them is a load with an end of its own."""
    perftest = perftest_of(tmp_path).with_search(["app.rows >= 10"], low="1k/s", high="2k/s", hold="1 s")
    assert perftest.with_recorded(["app.rows"]).plan is perftest.plan
    with pytest.raises(ScenarioError, match="this test does not measure app.rows"):
        perftest.with_recorded([])


def test_thresholds_of_the_ini_file_follow_the_fields_of_the_call(tmp_path: Path) -> None:
    """They are for every test that measures their metrics, with the fields that it runs with."""
    ini = {"thresholds": ["errors == 0", "e2e.latency.p99 <= 5 ms"]}
    settings = read_settings({}, ini, invocation_folder=tmp_path, root=tmp_path)
    marks = [pytest.mark.kafka_scenario(rate="1k records/s").mark]
    perftest = read_perftest("test_perf.py::test_it", marks, {}, settings, folder=tmp_path)

    def expressions(one: PerfTest) -> list[str]:
        return [limit.expression for limit in one.thresholds]

    assert expressions(perftest) == ["errors == 0"]
    assert expressions(perftest.with_overrides({"consumers": 1})) == ["errors == 0", "e2e.latency.p99 <= 5 ms"]
    assert expressions(perftest.with_overrides({"consumers": 1}).with_overrides({"consumers": 0})) == ["errors == 0"]


@pytest.mark.parametrize(("given", "ini"), [({"duration": "1 s"}, {}), ({}, {"duration": "1 s"})])
def test_a_usual_duration_is_not_for_tests_that_only_read(
    tmp_path: Path, given: dict[str, str], ini: dict[str, str]
) -> None:
    """They read all that there is; an option for all tests must not refuse one of them."""
    settings = read_settings(given, ini, invocation_folder=tmp_path, root=tmp_path)
    marks = [pytest.mark.kafka_scenario(topic="orders", producers=0, consumers=1).mark]
    perftest = read_perftest("test_perf.py::test_it", marks, {}, settings, folder=tmp_path)
    assert "duration" not in perftest.sources
    marks = [pytest.mark.kafka_scenario(topic="orders", producers=0, consumers=1, duration="1 s").mark]
    with pytest.raises(ScenarioError, match="producers=0 writes nothing; remove duration"):
        read_perftest("test_perf.py::test_it", marks, {}, settings, folder=tmp_path)


def test_a_threshold_of_a_marker_stays_the_tests_own_if_the_ini_file_has_it_as_well(tmp_path: Path) -> None:
    """What a test declares and does not measure is an error, and not a threshold that disappears."""
    ini = {"thresholds": ["app.rows >= 10", "lag.end <= 10", "capacity >= 5k records/s"]}
    settings = read_settings({}, ini, invocation_folder=tmp_path, root=tmp_path)

    def declaring(limit: str) -> PerfTest:
        marks = [pytest.mark.kafka_scenario(consumers=1).mark, pytest.mark.kafka_threshold(limit).mark]
        return read_perftest("t.py::t", marks, {}, settings, folder=tmp_path)

    with pytest.raises(ScenarioError, match="does not measure app.rows"):
        declaring("app.rows >= 10").with_recorded([])
    with pytest.raises(ScenarioError, match="lag.end is not measured here"):
        declaring("lag.end <= 10").with_overrides({"consumers": 0})
    with pytest.raises(ScenarioError, match="kafka_perf.capacity"):
        declaring("capacity >= 5k records/s").without_search()
    called = declaring("app.rows >= 10").with_overrides({"rounds": 3})
    assert [limit.expression for limit in called.thresholds] == ini["thresholds"]
    with pytest.raises(ScenarioError, match="does not measure app.rows"):
        called.with_recorded(["app.rows"]).with_recorded([])
