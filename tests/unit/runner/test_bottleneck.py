"""Where the time or the rate of a failed test went: to the application, or to Kafka and the machine before it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.metrics import declare
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.reports.headline import failure_of
from pytest_kafkaperf.runner.bottleneck import GROUP, OUTPUT, Way, bottleneck, deduced, growing_lag
from pytest_kafkaperf.runner.result import Result, Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.outcome import Verdict
from tests.support.problems import problem_told
from tests.support.results import CREATED, result

CALM = {
    "produce.throughput": 200.0,
    "produce.latency.p50": 0.002,
    "produce.latency.p99": 0.010,
    "consume.throughput": 198.0,
    "e2e.latency.p50": 0.022,
    "e2e.latency.p99": 0.060,
    "lag.end": 4.0,
    "app.throughput": 190.0,
    "app.delay.p50": 0.150,
    "app.lag.end": 30.0,
    "app.lag.slope": 0.5,
}
"""An application that keeps up."""
BEHIND = {"consume.throughput": 38.0, "e2e.latency.p50": 8.0, "e2e.latency.p99": 15.0, "lag.end": 601.0}
GROUP_BEHIND = {"app.throughput": 50.0, "app.delay.p50": 4.0, "app.lag.end": 300.0, "app.lag.slope": 150.0}
OF_APP = ": the application is the bottleneck"
OF_KAFKA = ": Kafka or the machine, before the application"


def times(**factors: float) -> dict[str, float]:
    """Some values multiplied; names with two underscores for dots."""
    return {name.replace("__", "."): CALM[name.replace("__", ".")] * factor for name, factor in factors.items()}


@pytest.mark.parametrize(
    ("way", "now", "text"),
    [
        (OUTPUT, BEHIND, f"produce.latency.p50 about the same; output 38/s of 200/s, lag 601{OF_APP}"),
        (OUTPUT, times(e2e__latency__p50=2.8), f"produce.latency.p50 about the same; e2e.latency.p50 +180%{OF_APP}"),
        (
            OUTPUT,
            {**times(e2e__latency__p50=2.8), "app.cpu": 0.98},
            f"produce.latency.p50 about the same; e2e.latency.p50 +180%{OF_APP}; "
            "59.6 ms per record at 0.98 cores: it computes",
        ),
        (
            OUTPUT,
            times(e2e__latency__p50=2.8, produce__latency__p50=1.3),
            f"produce.latency.p50 +30%; e2e.latency.p50 +180%{OF_APP}",
        ),
        (
            OUTPUT,
            times(e2e__latency__p50=1.5, produce__latency__p50=1.4),
            f"produce.latency.p50 +40% as well{OF_KAFKA}",
        ),
        (
            OUTPUT,
            times(e2e__latency__p50=1.6, produce__throughput=0.7, consume__throughput=0.7),
            f"produce.throughput -30% as well{OF_KAFKA}",
        ),
        (
            OUTPUT,
            times(e2e__latency__p50=255),
            "produce.latency.p50 about the same; e2e.latency.p50 \N{MULTIPLICATION SIGN}255" + OF_APP,
        ),
        (  # 0.9 ms of 22 ms
            OUTPUT,
            times(e2e__latency__p50=2.0, produce__latency__p50=1.45),
            f"produce.latency.p50 +45%; e2e.latency.p50 +100%{OF_APP}",
        ),
        (  # 4 ms of the additional 21 ms for each record, on a busy machine
            OUTPUT,
            BEHIND | times(produce__latency__p50=2.5),
            f"produce.latency.p50 +150%; output 38/s of 200/s, lag 601{OF_APP}",
        ),
        (OUTPUT, BEHIND | times(produce__latency__p50=2.9), None),  # 5 ms: it may write to Kafka more than once
        (OUTPUT, times(e2e__latency__p50=1.2, produce__latency__p50=1.1), None),  # noise
        (OUTPUT, times(e2e__latency__p50=255, produce__latency__p50=20), None),  # some of both
        (
            OUTPUT,
            times(e2e__latency__p50=1.4, produce__latency__p50=1.4),
            f"produce.latency.p50 +40% as well{OF_KAFKA}",
        ),
        (GROUP, GROUP_BEHIND, f"produce.latency.p50 about the same; committed 50/s of 200/s, lag 300{OF_APP}"),
        (GROUP, times(app__delay__p50=2.0), f"produce.latency.p50 about the same; app.delay.p50 +100%{OF_APP}"),
        (GROUP, times(app__delay__p50=1.5, produce__latency__p50=2), f"produce.latency.p50 +100% as well{OF_KAFKA}"),
    ],
)
def test_with_a_baseline_changes_tell(way: Way, now: dict[str, float], text: str | None) -> None:
    """What Kafka did not do slower, the application did."""
    assert deduced(way, "p50", CALM | now, CALM, rate=200.0, relative=True) == text


@pytest.mark.parametrize(
    ("way", "now", "text"),
    [
        (OUTPUT, BEHIND, f"produce.latency.p50 2 ms; output 38/s of 200/s, lag 601{OF_APP}"),
        (OUTPUT, {"e2e.latency.p50": 0.08}, f"produce.latency.p50 2 ms; e2e.latency.p50 80 ms{OF_APP}"),
        (
            OUTPUT,
            {"e2e.latency.p50": 0.08, "produce.latency.p50": 0.06},
            f"produce.latency.p50 60 ms of e2e.latency.p50 80 ms{OF_KAFKA}",
        ),
        (OUTPUT, {"e2e.latency.p50": 0.08, "produce.latency.p50": 0.02}, None),  # a quarter may be either
        (OUTPUT, {**BEHIND, "produce.throughput": 120.0}, f"produce.throughput 120/s of 200/s{OF_KAFKA}"),
        (GROUP, GROUP_BEHIND, f"produce.latency.p50 2 ms; committed 50/s of 200/s, lag 300{OF_APP}"),
        (  # it keeps up, and commits every 5 s
            GROUP,
            {"app.throughput": 130.0, "app.lag.slope": 0.0, "app.delay.p50": 2.5},
            f"produce.latency.p50 2 ms; app.delay.p50 2.5 s{OF_APP}",
        ),
    ],
)
def test_without_a_baseline_the_run_tells_by_itself(way: Way, now: dict[str, float], text: str | None) -> None:
    """An SLA has no baseline."""
    assert deduced(way, "p50", CALM | now, {}, rate=200.0, relative=False) == text


def test_an_sla_that_was_missed_before_is_told_by_this_run() -> None:
    """Nothing changed, and it is too slow all the same."""
    now = CALM | {"e2e.latency.p50": 0.08}
    text = f"produce.latency.p50 2 ms; e2e.latency.p50 80 ms{OF_APP}"
    assert deduced(OUTPUT, "p50", now, now, rate=200.0, relative=False) == text
    slower = now | {"produce.latency.p50": 0.0025}
    assert deduced(OUTPUT, "p50", slower, now, rate=200.0, relative=False) is None


@pytest.mark.parametrize("name", ["produce.throughput", "produce.latency.p50", "consume.throughput", "e2e.latency.p50"])
def test_without_a_value_nothing_is_said(name: str) -> None:
    """The load may have failed, or had no record of that kind."""
    assert deduced(OUTPUT, "p50", {**CALM, **BEHIND, name: 0.0}, CALM, rate=200.0, relative=True) is None
    assert (
        deduced(OUTPUT, "p50", {key: CALM[key] for key in CALM if key != name}, CALM, rate=200.0, relative=True) is None
    )


def test_with_a_load_without_a_rate_the_input_is_what_was_written() -> None:
    """It saturates the way, so something in it is full."""
    text = f"produce.latency.p50 2 ms; output 38/s of 120/s, lag 601{OF_APP}"
    assert (
        deduced(OUTPUT, "p50", {**CALM, **BEHIND, "produce.throughput": 120.0}, {}, rate=None, relative=False) == text
    )


@pytest.mark.parametrize(
    ("way", "now", "work"),
    [
        (OUTPUT, BEHIND | {"app.cpu": 0.09}, "; 26.3 ms per record at 0.09 cores: it waits (I/O, locks, sleep)"),
        (OUTPUT, BEHIND | {"app.cpu": 0.97}, "; 26.3 ms per record at 0.97 cores: it computes"),
        (OUTPUT, BEHIND | {"app.cpu": 3.8}, "; 26.3 ms per record at 3.8 cores: it computes"),  # several threads
        (OUTPUT, BEHIND | {"app.cpu": 0.7}, ""),  # of a busy core, or both
        (OUTPUT, BEHIND, ""),
        (
            OUTPUT,  # 0.5 ms of CPU time for each record
            times(e2e__latency__p50=2.8) | {"app.cpu": 0.1},
            "; 59.6 ms per record at 0.1 cores: it waits (I/O, locks, sleep)",
        ),
        (OUTPUT, {"consume.throughput": 190.0, "e2e.latency.p50": 0.006, "app.cpu": 0.45}, ""),  # 2.4 ms of 4 ms
        (GROUP, GROUP_BEHIND | {"app.cpu": 0.09}, "; 20 ms per record at 0.09 cores: it waits (I/O, locks, sleep)"),
        (GROUP, times(app__delay__p50=2.0) | {"app.cpu": 0.09}, ""),  # until the commit
        (GROUP, times(app__delay__p50=2.0) | {"app.cpu": 1.02}, "; 1.02 cores: it computes"),
    ],
)
def test_its_cpu_use_shows_whether_the_application_waits_or_computes(
    way: Way, now: dict[str, float], work: str
) -> None:
    """A profiler shows nothing of a program that sleeps, and more threads help only one that waits."""
    before = CALM | {"e2e.latency.p50": 0.003}
    text = deduced(way, "p50", CALM | now, before, rate=200.0, relative=True)
    assert text is not None
    assert text.partition(OF_APP)[2] == work


@pytest.mark.parametrize(
    ("cpu", "work"),
    [
        (0.408, "; 1.07 ms more CPU time per record (0.087 cores → 0.408 cores): it computes"),
        (0.09, "; 2.11 ms more per record at 0.09 cores: it waits (I/O, locks, sleep)"),
        (0.2, ""),
    ],
)
def test_a_slower_application_is_explained_by_the_cpu_time_that_it_needs_more(cpu: float, work: str) -> None:
    """Most of a short latency is neither: it is the time of fetches, which both commits have."""
    before = CALM | {"produce.throughput": 300.0, "consume.throughput": 300.0, "produce.latency.p50": 0.0045}
    before |= {"e2e.latency.p50": 0.00596, "app.cpu": 0.087, "lag.end": 0.0}
    now = before | {"e2e.latency.p50": 0.00807, "app.cpu": cpu}
    text = str(deduced(OUTPUT, "p50", now, before, rate=300.0, relative=True))
    assert text == f"produce.latency.p50 about the same; e2e.latency.p50 +35%{OF_APP}{work}"


THROUGH: dict[str, Any] = {"topic": "in", "output_topic": "out", "consumers": 1, "rate": 200}


def ran(limit: str, *, scenario: Mapping[str, Any], **now: Any) -> Result:
    """A test of five equal rounds with that threshold, against a baseline of the calm application."""
    return result("test_orders", limit, measured=[CALM | now] * 5, baseline=[CALM] * 5, scenario=Scenario.of(scenario))


def test_the_quantile_with_the_threshold_is_compared() -> None:
    """Pauses of a broker are in p99 alone."""
    pauses = {"produce.latency.p99": 0.040, "e2e.latency.p99": 0.100}
    slow = ran("e2e.latency.p99 <= baseline + 20%", scenario=THROUGH, **pauses)
    assert str(bottleneck(slow)) == f"produce.latency.p99 +300% as well{OF_KAFKA}"


@pytest.mark.parametrize(
    ("limit", "scenario", "now"),
    [
        ("e2e.latency.p50 <= 9 s", THROUGH, BEHIND),  # passed
        ("produce.latency.p50 <= 1 ms", THROUGH, BEHIND),  # fails, and not by the application
        ("app.cpu <= 0.5 cores", THROUGH, BEHIND | {"app.cpu": 1.0}),
        ("e2e.latency.p50 <= 1 s", {"consumers": 1, "rate": 200}, BEHIND),  # the plugin reads what it wrote
    ],
)
def test_nothing_is_said_of_a_test_that_the_application_did_not_fail(
    limit: str, scenario: Mapping[str, Any], now: Mapping[str, float]
) -> None:
    assert bottleneck(ran(limit, scenario=scenario, **now)) is None


def test_a_group_is_judged_by_its_own_metrics() -> None:
    """End-to-end latency is that of the plugin's consumer then."""
    scenario = {"topic": "in", "watch_group": "billing", "rate": 200}
    text = f"produce.latency.p50 2 ms; committed 50/s of 200/s, lag 300{OF_APP}"
    assert str(bottleneck(ran("app.lag.slope <= 5 records/s", scenario=scenario, **GROUP_BEHIND))) == text


ALMOST = CALM | {
    "produce.throughput": 300.0,
    "consume.throughput": 285.0,
    "e2e.latency.p50": 0.13,
    "e2e.latency.p99": 0.25,
    "lag.end": 75.0,
    "app.cpu": 0.07,
}
"""An application that can process 285 of 300 records/s, after 5 s."""


def test_the_wait_for_an_application_that_is_slightly_too_slow_is_not_its_time_per_record() -> None:
    """Records wait in a lag that grows, however short each takes."""
    text = str(deduced(OUTPUT, "p99", ALMOST, {}, rate=300, relative=False))
    assert text == (
        f"produce.latency.p99 10 ms; output 285/s of 300/s, lag 75{OF_APP}; "
        "3.51 ms per record at 0.07 cores: it waits (I/O, locks, sleep)"
    )


@pytest.mark.parametrize(
    ("changed", "wait"),
    [
        ({}, "250 ms"),
        ({"e2e.latency.p50": 0.25}, None),
        ({"lag.end": 4.0, "e2e.latency.p50": 0.005}, None),
        ({"lag.end": 0.0}, None),
        ({"lost": 70.0}, None),
        ({"app.output_ratio": 0.7}, None),
    ],
    ids=["grows", "steady", "short", "none", "loses", "filters"],
)
def test_an_application_that_falls_behind_within_its_limits_gets_a_warning(
    changed: dict[str, float], wait: str | None
) -> None:
    """With rounds of a minute, the same test would fail."""
    passed = ran("e2e.latency.p99 <= 1 s", scenario=THROUGH, **ALMOST | changed)
    assert passed.verdict is Verdict.PASSED
    found = growing_lag(passed)
    assert (None if found is None else str(found.values["wait"])) == wait
    assert growing_lag(dataclasses.replace(passed, verdict=Verdict.VIOLATED)) is None
    acted = Notice(Remark.ACTION, {"at": "1 s", "event": "restart", "what": "shop"})
    assert growing_lag(dataclasses.replace(passed, warnings=(acted,))) is None


@pytest.mark.parametrize("scenario", [{"rate": None}, {"rate": "100 -> 400 records/s over 5 s", "duration": None}])
def test_a_lag_may_grow_if_the_load_has_no_steady_rate(scenario: dict[str, Any]) -> None:
    """At full speed, the slowest part always falls behind."""
    passed = ran("e2e.latency.p99 <= 1 s", scenario=THROUGH | scenario, **ALMOST)
    assert passed.verdict is Verdict.PASSED
    assert growing_lag(passed) is None


@pytest.mark.parametrize(("slope", "warns"), [(15.0, True), (0.5, False), (None, False)])
def test_the_lag_of_a_group_grows_if_its_slope_says_so(slope: float | None, *, warns: bool) -> None:
    """Between two commits, it rises anyway."""
    scenario = {"topic": "in", "watch_group": "billing", "rate": 300}
    values = ALMOST | {"app.lag.end": 1200.0, "app.delay.p50": 2.0}
    values = {name: value for name, value in values.items() if name != "app.lag.slope"}
    values |= {} if slope is None else {"app.lag.slope": slope}
    passed = ran("app.delay.p50 <= 10 s", scenario=scenario)
    (trial,) = passed.trials
    trial = dataclasses.replace(trial, rounds=(Round(metrics=values),) * 5)
    assert (growing_lag(dataclasses.replace(passed, trials=(trial,))) is not None) is warns


def test_a_lag_that_grows_in_some_rounds_only_is_noise() -> None:
    """An application that reads in bursts is behind at some moments."""
    passed = ran("e2e.latency.p99 <= 1 s", scenario=THROUGH, **ALMOST)
    (trial,) = passed.trials
    steady = Round(metrics={**ALMOST, "lag.end": 20.0})
    mixed = dataclasses.replace(trial, rounds=(*trial.rounds[1:], steady))
    assert growing_lag(dataclasses.replace(passed, trials=(mixed,))) is None


def test_with_a_live_baseline_its_rounds_count() -> None:
    """They saw the same machine."""
    slow = ran("e2e.latency.p50 <= 1 s", scenario=THROUGH, **BEHIND)
    both = Trial(
        created=CREATED, rounds=(Round(metrics=CALM | BEHIND),) * 4, other_side=(Round(metrics=CALM | BEHIND),) * 4
    )
    cluster = Cluster(bootstrap_servers="127.0.0.1:1", provider="local")
    alike = dataclasses.replace(slow, trials=(both,), live_baseline=cluster)
    assert str(bottleneck(alike)) == f"produce.latency.p50 2 ms; output 38/s of 200/s, lag 601{OF_APP}"


@pytest.mark.parametrize(
    ("kind", "is_shown"), [(ProblemKind.GENERATOR_TOO_SLOW, True), (ProblemKind.APPLICATION_ENDED, False)]
)
def test_it_is_shown_although_the_generator_was_too_slow(kind: ProblemKind, *, is_shown: bool) -> None:
    """Where the time went does not depend on a few late records."""
    found = ran("e2e.latency.p50 <= 1 s", scenario=THROUGH, **BEHIND)
    late = dataclasses.replace(found, verdict=Verdict.INVALID, problems=(problem_told(kind, "late"),))
    assert bottleneck(found) is not None
    assert (bottleneck(late) == bottleneck(found)) is is_shown


def test_the_failure_message_says_it() -> None:
    """Whoever reads the log of a CI job sees nothing else."""
    for limit in ("e2e.latency.p50 <= 1 s", "e2e.latency.p50 <= baseline + 20%"):
        result = ran(limit, scenario=THROUGH, **BEHIND)
        note = bottleneck(result)
        assert note is not None
        message = failure_of(dataclasses.replace(result, notes=(note,)), strict=False)
        assert f"; output 38/s of 200/s, lag 601{OF_APP}" in " ".join(str(message).split())


def test_each_group_reads_all_records_before_and_now() -> None:
    """Their throughput is of all groups together."""
    two = THROUGH | {"consumer_groups": 2}
    both = {"consume.throughput": 2 * CALM["consume.throughput"]}
    slow = CALM | both | {"e2e.latency.p50": 0.033}
    found = result(
        "test_orders",
        "e2e.latency.p50 <= baseline + 20%",
        measured=[slow] * 5,
        baseline=[CALM | both] * 5,
        scenario=Scenario.of(two),
    )
    assert str(bottleneck(found)) == f"produce.latency.p50 about the same; e2e.latency.p50 +50%{OF_APP}"


@pytest.mark.usefixtures("catalogue")
def test_nothing_is_said_of_a_metric_that_the_test_records() -> None:
    """Nobody but the test knows what it means."""
    declare("app.cache.hits", unit="ratio", better="higher")
    scenario = {"topic": "in", "watch_group": "orders", "rate": 200}
    slow = ran("app.cache.hits >= 90 %", scenario=scenario, **GROUP_BEHIND, **{"app.cache.hits": 0.5})
    assert bottleneck(slow) is None
