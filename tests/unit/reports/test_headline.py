"""What happened, what changed, what confirmed it, and what to do: all that a failing test shows first."""

# ruff: noqa: E501 - lines as they are shown
from __future__ import annotations

import dataclasses

import pytest

from pytest_kafkaperf.core.environment import commit_change
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import Cause, Problem, ProblemKind
from pytest_kafkaperf.reports.headline import Headline, failure_of, headline_of
from pytest_kafkaperf.reports.remedy import NextStep
from pytest_kafkaperf.runner.result import Result, Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.verdict.outcome import Verdict
from tests.support.problems import problem_told
from tests.support.results import bare_result, one_of_each, regression, result, rounds, side_by_side, worker_share

RELATIVE = "produce.latency.p99 <= baseline + 20%"


COMPARE = "compare with this branch's base (--kafka-compare=git:merge-base)"


def headline(result: Result, *, strict: bool = False) -> Headline:
    found = headline_of(result, strict=strict)
    assert found is not None
    return found


def sentence(name: str, limit: str, **given: object) -> str:
    return headline(result(name, limit, **given)).sentence  # type: ignore[arg-type]


def test_a_regression_states_values_changes_and_the_command_to_accept_it() -> None:
    """Whoever reads only the failure knows what to do next."""
    assert failure_of(one_of_each()[1], strict=False) == (
        "test_slow[1 KiB-acks=all] got slower: produce.latency.p99 18.1 ms, was 12.1 ms (+50%, range +38…+63%; allowed +20%)\n"
        "  changed: Kafka 4.0.0 → 4.1.1, broker setting num.io.threads (default) → 16\n"
        "  intended? accept it with: pytest 'tests/perf/test_orders.py::test_slow[1 KiB-acks=all]' "
        "--kafka-cluster=local --kafka-calibrate=2 --kafka-update-baselines"
    )


def test_further_metrics_are_counted_and_trials_confirm() -> None:
    """The table below has a row for each of them."""
    found = headline(regression())
    assert found.sentence.endswith("; allowed +20%) (and 1 more)")
    assert found.confirmed == "3 fresh trials"


def test_a_comparison_with_a_live_baseline_has_no_file_to_update() -> None:
    """The command for stored baselines would accept nothing."""
    equal = side_by_side()
    slower = tuple(
        dataclasses.replace(check, outcome=Verdict.REGRESSED, change=0.5, interval=(0.4, 0.6)) for check in equal.checks
    )
    changed = commit_change("e" * 40, "c" * 40)
    found = headline(dataclasses.replace(equal, verdict=Verdict.REGRESSED, checks=slower, changed=changed))
    assert found.changed == ("commit eeeeeee → ccccccc",)
    assert found.confirmed == "10 side-by-side trials"
    assert str(found.next_step) == "intended? add the label accept-slower, or pass --kafka-accept=regressed"


def test_a_lower_throughput_is_slower_and_more_memory_is_worse() -> None:
    """Nobody says that memory got slower."""
    assert sentence(
        "test_x", "produce.throughput >= baseline - 10%", baseline=rounds(), measured=rounds(produce__throughput=0.79)
    ).startswith("test_x got slower: produce.throughput 41.3k/s, was 52.3k/s (-21%, range ")
    more, less = ([{"broker.memory": size}] * 5 for size in (900e6, 450e6))
    assert sentence("test_x", "broker.memory <= baseline + 30%", baseline=less, measured=more).startswith(
        "test_x got worse: broker.memory 858 MiB, was 429 MiB (+100%, range "
    )


def test_a_broken_limit_is_the_worst_of_several_failures() -> None:
    """An absolute promise is broken on any machine."""
    failing = result(
        "test_x",
        RELATIVE,
        "produce.throughput >= 60k records/s",
        baseline=rounds(),
        measured=rounds(produce__latency__p99=1.5),
    )
    found = headline(failing)
    assert found.sentence == "test_x broke its limit: produce.throughput 52.3k/s, allowed >= 60k records/s (and 1 more)"
    assert found.next_step is None


def test_a_value_close_to_its_limit_has_more_digits() -> None:
    """`25 ms, allowed <= 25 ms` would look like a bug."""
    measured = [{"produce.latency.p99": 0.02504}]
    assert sentence("test_x", "produce.latency.p99 <= 25 ms", measured=measured) == (
        "test_x broke its limit: produce.latency.p99 25.04 ms, allowed <= 25 ms"
    )


@pytest.mark.parametrize(
    ("limit", "faults", "told"),
    [
        ("lost == 0", 12.0, "lost 12 of 50,000 records"),
        ("errors == 0", 1.0, "failed to send 1 of 50,000 records"),
        ("errors <= 10", 1200.0, "failed to send 1,200 of 50,000 records (allowed 10)"),
        ("unsent == 0", 12.0, "could not send 12 of 50,000 records in time"),
    ],
)
def test_faults_are_counted_in_records(limit: str, faults: float, told: str) -> None:
    """12 of 50,000 is another incident than 12 of 20."""
    counted = [{limit.partition(" ")[0]: faults}]
    failed = result("test_x", limit, measured=counted)
    share = worker_share(50_000)
    trial = Trial(created="", rounds=(Round(metrics=counted[0], shares=(share,)),))
    assert headline(dataclasses.replace(failed, trials=(trial,))).sentence == f"test_x {told}"


def test_lost_records_come_first() -> None:
    """A slow promise can wait."""
    measured = [{"produce.latency.p99": 0.04, "lost": 1.0}]
    found = headline(result("test_x", "produce.latency.p99 <= 25 ms", "lost == 0", measured=measured))
    assert found.sentence == "test_x lost 1 record (and 1 more)"


def test_an_invalid_test_states_its_first_problem_and_what_to_do() -> None:
    """Values that cannot be trusted are not shown here."""
    slow = Problem(Cause.SENT_LATE, {"late": 1500, "due": 50_000}, excuse="other programs used 1.5 of 2 cores")
    lost = problem_told(ProblemKind.CLUSTER_ERROR, "broker lost")
    found = bare_result(*one_of_each()[0].trials, verdict=Verdict.INVALID, problems=(slow.of_round(1), lost))
    assert str(failure_of(found, strict=False)).splitlines() == [
        "test_ingest could not be measured: round 1: generator too slow: 1500 of 50000 records were sent late although "
        "the in-flight limit allowed sending them (and 1 more)",
        "  likely cause: other programs used 1.5 of 2 cores",
        f"  {Cause.SENT_LATE.advice}",
    ]


def test_the_last_lines_of_a_log_stay_lines() -> None:
    """Thirty of them in one paragraph cannot be read."""
    ended = Problem(Cause.APPLICATION_ENDED, {"reason": "shop exited with status 1", "log": "Traceback:\n  x()"})
    found = bare_result(*one_of_each()[0].trials, verdict=Verdict.INVALID, problems=(ended,))
    assert str(failure_of(found, strict=False)).splitlines() == [
        "test_ingest could not be measured: shop exited with status 1",
        "  the end of its log:",
        "  Traceback:",
        "    x()",
    ]


def test_a_missing_value_is_a_reason_without_a_problem() -> None:
    """A check that has no value is INVALID by itself."""
    found = dataclasses.replace(result("test_x", "recovery <= 10 s"), problems=())
    assert headline(found).sentence.startswith("test_x could not be measured: threshold 'recovery <= 10 s' cannot be ")


def test_only_strict_fails_what_could_not_be_decided() -> None:
    """The reason comes once, however many thresholds share it."""
    new = result("test_new", "produce.throughput >= baseline - 10%", RELATIVE)
    command = "pytest tests/perf/test_orders.py::test_new --kafka-cluster=local --kafka-update-baselines"
    assert failure_of(new, strict=False) is None
    assert headline(new) == Headline(
        sentence="test_new could not be decided: no baseline for this test",
        next_step=NextStep(label=f"{COMPARE}, or measure one:", command=command),
    )
    assert failure_of(new, strict=True) == (
        f"test_new could not be decided: no baseline for this test\n  {COMPARE}, or measure one: {command}"
    )


def test_an_accepted_regression_passes_and_keeps_its_headline() -> None:
    """Reports still show what was accepted."""
    accepted = dataclasses.replace(one_of_each()[1], accepted=True)
    assert failure_of(accepted, strict=True) is None
    assert headline(accepted).sentence.startswith("test_slow[1 KiB-acks=all] got slower: ")
    assert headline(accepted).next_step is None


@pytest.mark.parametrize("verdict", [Verdict.PASSED, Verdict.IMPROVED, Verdict.MEASURED])
def test_what_passed_has_no_headline(verdict: Verdict) -> None:
    """There is nothing to do."""
    assert headline_of(dataclasses.replace(one_of_each()[0], verdict=verdict), strict=True) is None


def test_the_deduced_bottleneck_is_the_likely_cause() -> None:
    """It shows where to look first."""
    note = Notice(Remark.BOTTLENECK, {"deduced": "the application is the bottleneck"})
    slow = dataclasses.replace(one_of_each()[1], notes=(note,))
    assert "  likely cause: the application is the bottleneck" in str(failure_of(slow, strict=False)).splitlines()
