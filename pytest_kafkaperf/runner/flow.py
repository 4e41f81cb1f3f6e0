"""Runs one test from start to finish: `run_test` measures and judges it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.environment import DIRTY, Change, Part, commit_change, differences
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.spans import Span
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.baseline import Baseline, LiveBaseline, StoredBaseline
from pytest_kafkaperf.runner.bottleneck import bottleneck, growing_lag
from pytest_kafkaperf.runner.cold_brokers import cold_warnings, warm_up_notes
from pytest_kafkaperf.runner.decision import (
    Bench,
    Decision,
    FurtherTrials,
    OnRepeat,
    OnTrial,
    decide,
    first_trial,
)
from pytest_kafkaperf.runner.drift import drift_warnings
from pytest_kafkaperf.runner.evidence import Judging, is_acceptable, quieter_notes
from pytest_kafkaperf.runner.perf_run import PerfRun
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.quick_brokers import compilers, without_repeat
from pytest_kafkaperf.runner.result import Result, judged, warnings_of
from pytest_kafkaperf.runner.retest import Suspected, obstacle, retest
from pytest_kafkaperf.runner.rounds.samples import with_content
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import OnProgress, resolve_scenario
from pytest_kafkaperf.runner.time_budget import as_run
from pytest_kafkaperf.runner.trial import not_run
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Verdict


class Watch(NamedTuple):
    """Callbacks for each load's progress, for all trials so far with their judgment, and for a repetition."""

    progress: OnProgress = lambda *_: None
    trials: OnTrial = lambda *_: None
    repeat: OnRepeat = lambda _: None


SILENT = Watch()


def run_test(
    test: PerfTest, own: Side, run: PerfRun, *, later: Sequence[PerfTest] = (), watch: Watch = SILENT
) -> Result:
    """Measure and judge one test on its own side, and store the result.

    `later` are the tests after this one, which share the time budget.

    Raises:
        BaselineError: the baseline file is damaged or has a newer format; raised before the load runs.
        ClusterError: the live baseline did not start.
        ScenarioError: the scenario has properties for a new topic, but its topic exists.
        UsageError: the target of `--kafka-compare` cannot provide the live baseline, an action cannot run on it, or
            the settings do not allow the load.

    """
    own.permission.check(test.scenario, test.plan)
    if not run.clusters.provide_topic(test.scenario, own.cluster):
        test.scenario.refuse_topic_properties()
    declared = test
    test, absent = _resolved(test if own.actions else as_run(test), own.cluster)
    at_start = provision.with_config(own.cluster)  # a fixture may have changed the brokers' properties
    baseline = run.baseline_of(test, own, at_start)
    if isinstance(baseline, StoredBaseline):
        test = dataclasses.replace(test, live_baseline=None)  # the other revision may not contain the test
    judging = _judging(test, own, baseline, run)
    sides = [own] if isinstance(baseline, StoredBaseline) else [own, baseline.side]
    own.keep_stopped()
    runner = run.trial_runner(test, sides, on_progress=watch.progress)
    same_kafka = len(sides) == 1 or not differences(sides[1].cluster.fingerprint, at_start.fingerprint)
    runner.is_precise, runner.faults = judging.is_precise, judging.faults
    runner.quick = compilers(test, sides, same_kafka=same_kafka)
    budget = run.budget_of(test, later)
    no_time = budget.obstacle
    if absent is None and no_time is None:
        bench = Bench(runner=runner, judging=judging, budget=budget, on_trial=watch.trials, on_repeat=watch.repeat)
        suspected = Suspected(bench=bench, own=own, cluster=at_start, run=run, on_progress=watch.progress)
        decision = measured(bench, suspected)
    else:
        decision = _not_run(judging, absent, no_time)
    if isinstance(baseline, LiveBaseline):
        there = baseline.side
        there = dataclasses.replace(there, cluster=_described(there.cluster, there))
        baseline = dataclasses.replace(baseline, side=there)
    result = _result(judging, _described(at_start, own), baseline, decision, run, allocation=runner.allocation)
    result = _remarked(result, baseline, own)
    if test.sources != declared.sources:
        shortened = Notice(Remark.SHORTENED, {"lengths": declared.shortened})
        result = dataclasses.replace(result, notes=(shortened, *result.notes))
    return run.add(test, result, both_slower=decision.judgement.both_slower)


def _described(cluster: Cluster, side: Side) -> Cluster:
    """Return the side's cluster with facts about the compilers that its brokers use now."""
    return cluster if side.quick is None else provision.with_compiler(cluster, quick=side.quick)


def measured(bench: Bench, suspected: Suspected) -> Decision:
    """Measure the test; if it fails on brokers that use only the quick compiler, measure it with all compilers.

    See `runner.quick_brokers` for the failures that the quick compiler may be the reason for.
    """
    decision = _measured(bench, suspected)
    reasons = bench.reasons_to_repeat(decision.judgement)
    if reasons is None:
        return decision
    if bench.budget.refuses_trial(bench.runner.rounds) is not None:
        return dataclasses.replace(decision, judgement=without_repeat(decision.judgement))
    bench.on_repeat(decision.judgement)
    bench.runner.quick = False
    again = _measured(bench, suspected)
    return dataclasses.replace(again, notes=(Notice(Remark.ALL_COMPILERS, {"reasons": reasons}), *again.notes))


def _measured(bench: Bench, suspected: Suspected) -> Decision:
    """Run the first trial, and further trials if necessary.

    Calibrations continue until they are complete, and comparisons with a live baseline until they are conclusive. A
    regression against a stored baseline is initially only suspected, so it is re-tested.
    """
    first = first_trial(bench)
    judgement = bench.judging.judge([first.trial])
    bench.on_trial([first.trial], judgement)
    is_compared_live = first.trial.other_side is not None
    if judgement.unsettled and bench.calibrate is None and not is_compared_live:
        return retest(first, suspected)
    return decide(bench, first, FurtherTrials(runner=bench.runner))


def _not_run(judging: Judging, absent: ClusterError | None, no_time: Notice | None) -> Decision:
    """Return the decision, with a note, for a test whose topic does not exist or for which there is no time."""
    trials = (not_run(absent),)
    notes = (no_time,) if absent is None and no_time is not None else ()
    return Decision(trials=trials, judgement=judging.judge(trials), notes=notes, partial=True)


def refused_for_time(test: PerfTest, run: PerfRun, later: Sequence[PerfTest]) -> Result | None:
    """Return a result, without starting a cluster, if the time budget does not allow this test; otherwise None."""
    if run.settings.time_budget_s is None:
        return None
    no_time = run.budget_of(as_run(test), later).obstacle
    if no_time is None:
        return None
    judging = Judging(test, BaselineRounds(), run.settings)
    cluster = provision.not_started(test.spec, run.settings.cluster)
    decision = _not_run(judging, None, no_time)
    result = _result(judging, cluster, StoredBaseline(), decision, run, allocation=run.settings.workers)
    return run.add(test, result)


def _resolved(test: PerfTest, cluster: Cluster) -> tuple[PerfTest, ClusterError | None]:
    """Return the test with its samples' content and with its existing topic's partitions.

    If the topic does not exist, the error is returned as well.

    Raises:
        ScenarioError: the sample file cannot be read.

    """
    test = dataclasses.replace(test, scenario=with_content(test.scenario))
    try:
        return dataclasses.replace(test, scenario=resolve_scenario(test.scenario, cluster)), None
    except ClusterError as error:
        return test, error


def _judging(test: PerfTest, own: Side, baseline: Baseline, run: PerfRun) -> Judging:
    rounds = baseline.rounds if isinstance(baseline, StoredBaseline) else BaselineRounds()
    alone = obstacle(test, own, rounds)
    return Judging(test, rounds, run.settings, alone=alone, actions=own.actions, stopwatch=run.stopwatch)


def _result(
    judging: Judging,
    cluster: Cluster,
    baseline: Baseline,
    decision: Decision,
    run: PerfRun,
    *,
    allocation: WorkerAllocation,
) -> Result:
    test, trials, judgement = judging.test, decision.trials, decision.judgement
    compared = judging.is_compared
    with run.stopwatch.measure(Span.JUDGE):
        calibration, uncalibrated = judging.calibrate(trials)
        other_changes = judging.other_changes(trials) if compared and not judgement.problems else ()
    verdict = judgement.verdict if trials[0].rounds or judgement.problems else Verdict.INCONCLUSIVE
    return Result(
        nodeid=test.nodeid,
        scenario=test.scenario,
        plan=test.plan,
        sources=test.sources,
        parameters=test.parameters,
        cluster=cluster,
        trials=trials,
        live_baseline=baseline.side.cluster if isinstance(baseline, LiveBaseline) else None,
        revision=baseline.revision,
        baseline_trials=len(judging.baseline.trials) if compared and judging.baseline.trials else None,
        baseline=judging.baseline,
        changed=_changes(test, cluster, baseline, run),
        other_changes=other_changes,
        calibration=calibration,
        verdict=verdict,
        accepted=run.settings.accepts_regressed and is_acceptable(verdict, judgement),
        checks=judgement.checks,
        warnings=(
            *warnings_of(trials),
            *cold_warnings(judged(trials)),
            *judgement.warnings,
            *map(Notice.of, judgement.doubts),
        ),
        problems=judgement.problems,
        notes=(
            *decision.notes,
            *warm_up_notes(trials, verdict),
            *quieter_notes(test, judgement.checks),
            *uncalibrated,
        ),
        allocation=allocation,
        partial=decision.partial,
        options={"cluster": str(run.settings.cluster), **run.settings.command_line},
        selection=run.settings.selection(test.nodeid),
    )


def _changes(test: PerfTest, cluster: Cluster, baseline: Baseline, run: PerfRun) -> tuple[Change, ...]:
    """Return the code, broker and machine differences from the baseline."""
    if isinstance(baseline, LiveBaseline):
        facts = differences(baseline.side.cluster.fingerprint, cluster.fingerprint)
        return (*_code_change(baseline, run.commit), *baseline.changes, *facts)
    stored = baseline.rounds
    has_app = test.scenario.output_topic or test.scenario.watch_group or run.clusters.applications_on(cluster)
    code = commit_change(stored.commit, run.commit) if has_app else ()
    facts = differences(stored.fingerprint, cluster.fingerprint) if stored.fingerprint else ()
    return (*code, *facts)


def _code_change(baseline: LiveBaseline, commit: str | None) -> tuple[Change, ...]:
    """Return the difference between the commits of both sides, unless the changes already name these commits."""
    if baseline.revision is None:
        return ()
    are_named = any(change.of is Part.CODE for change in baseline.changes)
    is_clean = commit is not None and not commit.endswith(DIRTY)
    return () if are_named and is_clean else commit_change(baseline.revision.commit, commit)


def _remarked(result: Result, baseline: Baseline, own: Side) -> Result:
    """Return the result with remarks about its bottleneck and drifting rounds."""
    remarks = [note for note in (bottleneck(result), baseline.note) if note is not None]
    other = baseline.side if isinstance(baseline, LiveBaseline) else None
    behind = [notice for notice in [growing_lag(result)] if notice is not None]
    return dataclasses.replace(
        result,
        warnings=(*result.warnings, *drift_warnings(result, own, other), *behind),
        notes=(*remarks, *result.notes),
    )
