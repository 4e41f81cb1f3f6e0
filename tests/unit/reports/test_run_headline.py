"""The headline of a run: how many tests, what happened to them, and compared with what."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_kafkaperf.reports.run_headline import base_of, outcomes_of, run_headline
from pytest_kafkaperf.runner.result import Result, RunResult
from pytest_kafkaperf.runner.settings import Revision
from pytest_kafkaperf.verdict.outcome import Check, Ungated, Verdict
from tests.support.results import ending, endings, result, rounds, run_of

GOOD = result("test_good", "errors == 0")
BROKEN = result("test_broken", "produce.latency.p99 <= 1 ms")
SLOW = result(
    "test_slow", "produce.latency.p99 <= baseline + 20%", baseline=rounds(), measured=rounds(produce__latency__p99=2)
)
OPEN = result("test_open", "produce.latency.p99 <= baseline + 20%")
NEW = result("test_new", "produce.latency.p99 <= baseline + 20%", ungated=Ungated.NEW_TEST)
DOWN = result("test_down", "lost == 0", measured=[], problems=["the cluster is down"])


def headline(run: RunResult) -> str:
    return run_headline(outcomes_of(run), base_of(run))


def again(one: Result) -> Result:
    """Another test with the same result."""
    return dataclasses.replace(one, nodeid=f"{one.nodeid}_again")


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([], "No Kafka test ran"),
        ([GOOD], "1 Kafka test passed"),
        ([GOOD, again(GOOD)], "2 Kafka tests passed"),
        ([GOOD, NEW], "1 Kafka test passed, 1 was only measured"),
        ([BROKEN], "1 Kafka test broke its limit"),
        ([BROKEN, again(BROKEN), GOOD], "2 of 3 Kafka tests broke their limits"),
        ([SLOW, GOOD], "1 of 2 Kafka tests is slower than its baseline"),
        ([SLOW, again(SLOW)], "2 Kafka tests are slower than their baselines"),
        ([OPEN, GOOD], "1 of 2 Kafka tests could not be decided"),
        ([DOWN, GOOD], "1 of 2 Kafka tests could not be measured"),
        ([GOOD, SLOW, BROKEN], "1 of 3 Kafka tests broke its limit, 1 is slower than its baseline"),
    ],
)
def test_the_headline_counts_what_did_not_pass_or_else_what_passed(results: list[Result], text: str) -> None:
    """It is all that most people read."""
    assert headline(run_of(results, endings=endings(results))) == text


@pytest.mark.parametrize(
    ("revision", "base"),
    [
        (Revision("git:merge-base", ref="merge-base", commit="d0e1f3ea"), "the base d0e1f3e"),
        (Revision("git:v1.4", ref="v1.4"), "the base git:v1.4"),
    ],
)
def test_the_base_is_named_once(revision: Revision, base: str) -> None:
    """The reader of a pull request knows commits, or what the option says."""
    good, slow = (dataclasses.replace(each, revision=revision) for each in (GOOD, SLOW))
    assert headline(run_of([good])) == f"1 Kafka test passed, compared with {base}"
    assert headline(run_of([good, slow])) == f"1 of 2 Kafka tests is slower than {base}"
    assert headline(run_of([good, BROKEN])) == f"1 of 2 Kafka tests broke its limit, compared with {base}"


def test_what_is_no_speed_is_worse_not_slower() -> None:
    """A service that needs more memory may be as fast as before."""
    less, more = ([{**one, "app.memory": size} for one in rounds()] for size in (1e6, 2e6))
    heavy = result("test_heavy", "app.memory <= baseline + 20%", baseline=less, measured=more)
    assert headline(run_of([heavy, GOOD])) == "1 of 2 Kafka tests is worse than its baseline"


@pytest.mark.parametrize(
    ("p50_s", "interval", "text"),
    [
        (0.0024, (0.13, 0.27), "1 Kafka test passed; produce.latency.p50 is slower, but within the limit"),
        (0.00206, (0.01, 0.05), "1 Kafka test passed"),
        (0.0024, (-0.01, 0.27), "1 Kafka test passed"),
        (0.0016, (-0.27, -0.13), "1 Kafka test passed"),
    ],
    ids=["slower", "hardly slower", "perhaps slower", "faster"],
)
def test_a_change_that_is_clear_but_allowed_is_named(p50_s: float, interval: tuple[float, float], text: str) -> None:
    """Nobody opens a green log, so a limit that is too wide would hide one regression after another."""
    check = Check(
        expression="produce.latency.p50 <= baseline + 50%",
        metric="produce.latency.p50",
        observed=p50_s,
        limit_value=0.003,
        baseline=0.002,
        change=p50_s / 0.002 - 1,
        interval=interval,
        outcome=Verdict.PASSED,
        reasons=(),
        is_relative=True,
    )
    assert headline(run_of([dataclasses.replace(GOOD, checks=(check,))])) == text


def test_a_regression_that_is_tolerated_is_named_with_the_reason() -> None:
    """The job is green although the headline is about a regression."""
    accepted = dataclasses.replace(SLOW, accepted=True)
    passed = {SLOW.nodeid: ending(SLOW.nodeid, "passed")}
    assert headline(run_of([accepted], endings=passed)) == "1 Kafka test is slower than its baseline (accepted)"
