"""What becomes a baseline, never what is broken, cut or lucky; and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.environment import Change, differences
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.baseline_update import accepted, update_baseline
from pytest_kafkaperf.runner.evidence import Judging, baseline_doubts, stale_notes
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.baseline_store import BaselineStore
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind
from tests.support.problems import problem_told
from tests.support.results import NO_FAULTS, bare_result

P99, RATE = "produce.latency.p99", "produce.throughput"
LIMITS = [parse_threshold(f"{P99} <= baseline + 10%"), parse_threshold(f"{RATE} >= baseline - 10%")]
SPREAD = (0.98, 0.99, 1.0, 1.01, 1.02)


def rounds(p99: float = 1.0, rate: float = 1.0) -> list[Mapping[str, float]]:
    return [{P99: 0.01 * p99 * factor, RATE: 1e6 * rate * factor} for factor in SPREAD]


def trial(p99: float = 1.0, rate: float = 1.0, *problems: Problem) -> Trial:
    measured = tuple(Round(metrics={**one, **NO_FAULTS}) for one in rounds(p99, rate))
    return Trial(created="2026-01-01T00:00:00+00:00", rounds=measured, problems=problems)


BASELINE = BaselineRounds(trials=(tuple(rounds()),) * 5, days=tuple(f"2025-12-0{day}" for day in range(1, 6)))


def chosen(
    mode: str,
    *trials: Trial,
    verdict: Verdict = Verdict.PASSED,
    exists: bool = True,
    calibrated: bool = False,
) -> tuple[int, tuple[Notice, ...]]:
    result = bare_result(*trials, verdict=verdict, baseline=BASELINE)
    kept, notes = accepted(mode, result, thresholds=LIMITS, exists=exists, calibrated=calibrated)
    assert all(any(one is each for each in trials) for one in kept)
    return len(kept), tuple(notes)


@pytest.mark.parametrize("mode", ["replace", "new", "add"])
@pytest.mark.parametrize("verdict", [Verdict.REGRESSED, Verdict.VIOLATED, Verdict.INVALID])
def test_what_fails_is_no_baseline(mode: str, verdict: Verdict) -> None:
    """It would be the new normal."""
    assert chosen(mode, trial(), verdict=verdict) == (0, ())


@pytest.mark.parametrize("mode", ["replace", "add"])
def test_what_could_not_be_decided_is_no_baseline(mode: str) -> None:
    """With `--kafka-strict` the test fails; otherwise a suspected regression of a busy day would be the new normal."""
    note = Notice(Remark.NOT_WRITTEN, {"reason": "the test is INCONCLUSIVE"})
    assert chosen(mode, trial(1.3), verdict=Verdict.INCONCLUSIVE) == (0, (note,))


def test_each_mode_takes_its_trials() -> None:
    """One that stands alone, or all that count."""
    suspected = [trial(1.2), trial(), trial(1.0, 1.0, problem_told(ProblemKind.GENERATOR_TOO_SLOW, "late")), trial()]
    assert chosen("replace", *suspected) == (1, ())
    assert chosen("add", *suspected) == (3, ())
    assert chosen("replace", trial(), trial(), calibrated=True) == (2, ())
    assert chosen("new", trial()) == (0, ())
    assert chosen("new", trial(), exists=False) == (1, ())


def test_a_trial_with_a_gap_is_not_taken() -> None:
    """Nothing could be compared with it later, and the gate would sleep."""
    holed = Trial(created="2026-01-01T00:00:00+00:00", rounds=(Round(metrics={P99: 0.0, RATE: 1.0}),))
    reason = "produce.latency.p99 is 0 s in round 1 of 1, so it has no ratio"
    assert chosen("add", trial(), holed) == (1, (Notice(Remark.NOT_WRITTEN, {"reason": reason}),))
    assert chosen("replace", holed)[0] == 0


@pytest.mark.parametrize("mode", ["replace", "new", "add"])
def test_a_lower_bound_is_no_baseline(mode: str) -> None:
    """The cluster may take three times as much, so a fall to a third would pass as no change."""
    whole = trial()
    bounded = replace(whole, rounds=(*whole.rounds[:4], replace(whole.rounds[4], at_least=(RATE,))))
    note = Notice(Remark.NOT_WRITTEN, {"reason": "produce.throughput is only a lower bound in round 5 of 5"})
    assert chosen(mode, bounded, exists=mode == "add") == (0, (note,))
    other = replace(whole, rounds=(*whole.rounds[:4], replace(whole.rounds[4], at_least=("app.drain",))))
    assert chosen(mode, other, exists=mode == "add")[0] == 1  # no threshold refers to it


def test_trials_next_to_other_brokers_are_no_baseline() -> None:
    """They confirm a suspected regression; their rounds are shorter, and another broker worked next to them."""
    pair = trial()
    side_by_side = Trial(created=pair.created, rounds=pair.rounds, other_side=pair.rounds)
    assert chosen("add", trial(), side_by_side, side_by_side) == (1, ())


# Doubts about a baseline

_KERNEL = differences({"kernel": "6.1"}, {"kernel": "6.8"})


def doubts(*days: str, changed: tuple[Change, ...] = (), written: int | None = None) -> list[Remark]:
    known = BaselineRounds(trials=(tuple(rounds()),) * len(days), days=days)
    today = replace(trial(), created="2026-01-31T12:00:00+00:00")
    result = bare_result(today, baseline=known, baseline_trials=len(days) or None, changed=changed)
    judged = replace(result, days_written=written)
    return [notice.remark for notice in baseline_doubts(judged)]


def test_a_baseline_that_is_weak_old_or_of_another_machine_says_so() -> None:
    """A verdict is worth what its baseline is."""
    good = ("2026-01-17", "2026-01-18", "2026-01-19")
    assert doubts() == doubts(*good) == []
    assert doubts(*good[:2], good[1]) == [Remark.WEAK]
    assert doubts("2026-01-14", "2026-01-15", "2026-01-16") == [Remark.OLD]
    kafka = differences({"kafka": "4.0.0"}, {"kafka": "4.1.1"})
    assert doubts(*good, changed=(*kafka, *_KERNEL)) == [Remark.OTHER_MACHINE]
    assert doubts(*good, changed=kafka) == []
    assert doubts(*good[:2], "2026-02-01") == [Remark.LATER]


def test_a_baseline_that_this_run_has_written_is_as_strong_as_its_days() -> None:
    """What it was before does not matter any more."""
    assert doubts("2025-01-01", changed=_KERNEL, written=3) == []
    assert doubts(written=1) == [Remark.WEAK]


@pytest.mark.parametrize(
    ("outcomes", "stale"),
    [
        ([Verdict.IMPROVED, Verdict.IMPROVED], True),
        ([Verdict.IMPROVED, Verdict.PASSED], False),  # the other threshold still finds a regression
        ([], False),
    ],
)
def test_a_baseline_is_stale_when_every_metric_improved(outcomes: list[Verdict], *, stale: bool) -> None:
    """A fall back to it would pass."""
    checks = tuple(
        Check(
            expression=each.expression,
            metric=each.metric.name,
            observed=1.0,
            limit_value=1.0,
            outcome=outcome,
            reasons=(),
            is_relative=each.relative is not None,
        )
        for each, outcome in zip(LIMITS, outcomes, strict=False)
    )
    assert bool(stale_notes(bare_result(trial(), checks=checks))) == stale


@pytest.mark.parametrize("written", [None, 3])
def test_a_baseline_with_one_round_in_a_trial_says_so(written: int | None) -> None:
    """Nothing is known of its noise."""
    one = replace(trial(), rounds=trial().rounds[:1])
    known = BaselineRounds(trials=(tuple(one.measured.rounds),) * 3, days=("2025-12-30", "2025-12-31", "2026-01-01"))
    result = bare_result(one, baseline=known, baseline_trials=3, days_written=written)
    assert baseline_doubts(result) == [Notice(Remark.ONE_ROUND)]


@pytest.mark.parametrize(
    ("options", "verdict"),
    [({}, "INCONCLUSIVE"), ({"update-baselines": "add"}, "MEASURED"), ({"update-baselines": "new"}, "MEASURED")],
    ids=str,
)
def test_a_run_that_appends_accepts_what_it_cannot_judge(options: dict[str, str], verdict: str) -> None:
    """Under `--kafka-strict` the first run would fail otherwise, and there would never be a baseline."""
    settings = read_settings(options, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_threshold("produce.throughput >= baseline - 10%").mark]
    perftest = read_perftest("a.py::test", marks, {}, settings, folder=Path())
    judge = Judging(perftest, BaselineRounds(obstacle=Obstacle(ObstacleKind.NO_BASELINE), stored=False), settings)
    judgement = judge.judge([trial()])
    assert judgement.verdict == verdict
    told = [str(Obstacle(ObstacleKind.NO_BASELINE))] if options.get("update-baselines") == "add" else []
    assert list(map(str, judgement.warnings)) == told


def test_a_baseline_of_another_scenario_is_not_made_again_by_chance() -> None:
    """A run with another duration must not replace it."""
    settings = read_settings({"update-baselines": "new"}, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_threshold("produce.throughput >= baseline - 10%").mark]
    perftest = read_perftest("a.py::test", marks, {}, settings, folder=Path())
    judge = Judging(
        perftest,
        BaselineRounds(obstacle=Obstacle(ObstacleKind.OTHER_SCENARIO, {"changes": "acks: all -> 1"})),
        settings,
    )
    assert judge.judge([trial()]).verdict == "INCONCLUSIVE"


@pytest.mark.parametrize(("mode", "kept"), [("add", ["of-ci"]), ("replace", [None])])
def test_a_cluster_whose_id_could_not_be_read_replaces_no_baseline_by_chance(
    tmp_path: Path, mode: str, kept: list[str | None]
) -> None:
    """It may be the same one, which was busy for a moment."""
    store = BaselineStore(tmp_path / "kafka-baselines")

    def update(mode: str, facts: Mapping[str, str]) -> tuple[bool, list[Remark]]:
        settings = read_settings({"update-baselines": mode}, {}, invocation_folder=Path(), root=Path())
        cluster = Cluster(bootstrap_servers="broker1:9092", provider="external", facts=facts)
        result = bare_result(trial(), cluster=cluster)
        record, notes = update_baseline(store, settings, result, environment="ci", thresholds=LIMITS, commit=None)
        return record is not None, [note.remark for note in notes]

    assert update("add", {"cluster id": "of-ci"}) == (True, [])
    is_kept = kept != [None]
    assert update(mode, {}) == (not is_kept, [Remark.NOT_WRITTEN] * is_kept)
    found = store.load("ci", bare_result(trial()).nodeid)
    assert found is not None
    assert [one.fingerprint.get("cluster id") for one in found.trials] == kept
