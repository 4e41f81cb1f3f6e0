"""The perf tests of one run: their clusters, baselines and results."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib.metadata
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.environment import commit_change, current_commit, default_environment_key, differences
from pytest_kafkaperf.core.errors import ClusterError, UsageError
from pytest_kafkaperf.core.spans import Span, Stopwatch
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.baseline_update import orphans_of, update_baseline
from pytest_kafkaperf.runner.bottleneck import bottleneck
from pytest_kafkaperf.runner.drift import drift_warnings
from pytest_kafkaperf.runner.evidence import Judging, is_acceptable, quieter_notes, stale_notes
from pytest_kafkaperf.runner.peer import NewTestError, Peer, PeerTest, opened_peer
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.result import Ending, Result, RunResult, judged, warnings_of
from pytest_kafkaperf.runner.retest import CommonShift, common_changes, obstacle, rebuilt_spec
from pytest_kafkaperf.runner.rounds.actions import Action, moved
from pytest_kafkaperf.runner.rounds.capacity import workload_of
from pytest_kafkaperf.runner.rounds.samples import with_content
from pytest_kafkaperf.runner.rounds.side import OnProgress, Side, resolve_scenario
from pytest_kafkaperf.runner.settings import Revision, Settings
from pytest_kafkaperf.runner.shared_clusters import SharedClusters
from pytest_kafkaperf.runner.time_budget import PerfTestBudget, RunBudget, as_run, time_left_s
from pytest_kafkaperf.runner.trial import Decision, OnTrial, TrialPolicy, TrialRunner, not_run, now, run_trials
from pytest_kafkaperf.runner.warmth import cold_warnings, warm_up_notes
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.baseline_store import BaselineStore
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.side_by_side import Rebuilt

_LOSSES = ("lost", "app.output_ratio")
"""Metrics by which a test fails because of lost records."""
_SMOKE_TEST = "smoke test (--benchmark-disable): the test ran one round, and no threshold was judged"


class PerfRun:
    """Runs perf tests one after the other, and owns the clusters and baselines that they share."""

    def __init__(
        self, settings: Settings, *, began_s: float, files: Sequence[str] = (), peer_options: Sequence[str] = ()
    ) -> None:
        """The time budget counts from `began_s` on the monotonic clock.

        `files` are those of the perf tests, and `peer_options` are pytest's options for another revision of them.
        """
        self.settings = settings
        self.peer: Peer | None = None
        """The other side of comparisons with another revision of the code, once it has started."""
        self._unopened: UsageError | None = None
        """The reason why the other side could not be started."""
        self._files = files
        self._peer_options = peer_options
        self._open = contextlib.ExitStack()
        """The other side's checkout and process."""
        self.results: list[Result] = []
        self._last: tuple[PerfTest, str]
        """The last test that was measured, and the key of its environment."""
        self.orphans: dict[Path, str] = {}
        """Baselines whose tests no longer exist."""
        self.pruned = False
        """True if these baselines were deleted."""
        self.stopwatch = Stopwatch()
        """Measures where the time of the current test goes; restarted when a test begins."""
        self.clusters = SharedClusters(settings, self.stopwatch)
        self.created = now()
        self.plugin = importlib.metadata.version("pytest-kafkaperf")
        self.commit = current_commit(settings.root, besides=settings.baselines)
        self._began_s = began_s
        self._time_budget: RunBudget | None = None
        """None before the first test, which knows all tests of the run."""
        self._store = BaselineStore(settings.baselines)
        self._shift = CommonShift()

    def close(self) -> None:
        """Stop every cluster that the plugin started, and the other side."""
        with self._open:
            self.clusters.close()

    def announce(self, test: PerfTest, later: Sequence[PerfTest]) -> None:
        """Have the other side set up this test, while this side does so; nothing without another revision.

        Raises:
            ClusterError: the other side has ended.
            UsageError: it could not be started.

        """
        revision = self.settings.compare
        if not isinstance(revision, Revision):
            return
        if self._unopened is not None:
            raise self._unopened  # a setup may take minutes before it fails
        with self.stopwatch.measure(Span.SETUP):
            if self.peer is None:
                starting = opened_peer(revision, self.settings, files=self._files, options=self._peer_options)
                try:
                    self.peer = self._open.enter_context(starting)
                except UsageError as error:
                    self._unopened = error
                    raise
            self.peer.begin(test.nodeid, [each.nodeid for each in later])

    def run(
        self,
        test: PerfTest,
        cluster: Cluster,
        on_progress: OnProgress,
        actions: Sequence[Action] = (),
        *,
        later: Sequence[PerfTest] = (),
        on_trial: OnTrial = lambda _: None,
    ) -> Result:
        """Measure and judge one test, and keep the result; `actions` run in every round.

        `later` are the tests after this one, which share the time budget. `on_trial` is called after each trial.

        Raises:
            BaselineError: the baseline file is damaged or newer, or cannot be written.
            ClusterError: the live baseline did not start.
            UsageError: the target of the live baseline cannot provide it, an action cannot be done to it, or the
                settings do not allow the load.

        """
        self.clusters.permission(test, cluster).check(test.scenario, test.plan)
        key = self.environment_key(cluster.provider)
        if not actions:
            test = as_run(test)
        test, unfit = _resolved(test, cluster)
        # Read before the load: a damaged file is an error at once, not after minutes.
        baseline = self._baseline(test, key, cluster)
        notes: list[str] = []
        twin: PeerTest | None = None
        revision: str | None = None
        if self.peer is not None and test.live_baseline is not None:  # a smoke test has none
            try:
                with self.stopwatch.measure(Span.SETUP):
                    twin = self.peer.test(test.nodeid, actions, cluster)
            except NewTestError as error:
                test, notes = dataclasses.replace(test, live_baseline=None), [str(error)]
                revision = str(self.settings.compare)
        alone = obstacle(
            test, cluster, baseline, has_actions=bool(actions), has_app=bool(self.clusters.applications_on(cluster))
        )
        judge = Judging(test, baseline, self.settings, alone=alone, actions=actions, stopwatch=self.stopwatch)
        live_baseline = self.clusters.live_baseline(test) if twin is None else twin.cluster
        for each in (cluster, live_baseline):
            self.clusters.sweep(each)
        sides = self._sides(test, cluster, twin or live_baseline, actions, on_progress)
        runner = self._runner(sides, self.settings.workers, on_progress)
        at_start = provision.with_config(cluster)  # a fixture may have changed the brokers' properties
        budget = self._budget(test, later)
        if unfit is None and budget.obstacle is None:
            policy = TrialPolicy(
                judge=judge.judge,
                calibrate=None if test.is_smoke_test else self.settings.calibrate,
                suffices=judge.suffices,
                short_warm_up=not test.needs_warm_brokers,
                judge_clear=judge.judge_clear,
                on_trial=on_trial,
            )
            confirming = functools.partial(self._confirming, judge, cluster, runner, on_progress)
            try:
                ran = run_trials(runner, budget, policy, confirming)
            finally:  # they would share the machine with the next test
                self.clusters.stop_rebuilt()
        else:
            trials = (not_run(unfit),)
            reasons = () if budget.obstacle is None or unfit else (budget.obstacle,)
            ran = Decision(trials=trials, judgement=judge.judge(trials), notes=reasons, partial=True)
        result = self._result(
            test, cluster=at_start, live_baseline=live_baseline, ran=ran, judge=judge, allocation=runner.allocation
        )
        deduced = bottleneck(result)
        remarks = filter(None, [deduced, *notes, None if twin is None else twin.note])
        changes = () if twin is None else (*commit_change(twin.commit, self.commit), *twin.changes)
        result = dataclasses.replace(
            result,
            deduced=deduced,
            warnings=(*result.warnings, *drift_warnings(result, actions)),
            notes=(*remarks, *result.notes),
            changed=(*changes, *result.changed),
            revision=revision if twin is None else twin.revision,
        )
        self._shift.add(result, both_slower=bool(ran.judgement.warnings))
        result = self._add(result)
        self._last = test, key
        return result

    def refuse_for_time(self, test: PerfTest, later: Sequence[PerfTest]) -> Result | None:
        """Return a result if the time budget has no time for this test; its cluster is not started then."""
        if self.settings.time_budget_s is None:
            return None
        budget = self._budget(as_run(test), later)
        if budget.obstacle is None:
            return None
        trials = (not_run(),)
        judge = Judging(test, BaselineRounds(), self.settings)
        ran = Decision(trials=trials, judgement=judge.judge(trials), notes=(budget.obstacle,), partial=True)
        cluster = provision.not_started(test.spec, self.settings.cluster)
        return self._add(self._result(test, cluster=cluster, live_baseline=None, ran=ran, judge=judge))

    def _budget(self, test: PerfTest, later: Sequence[PerfTest]) -> PerfTestBudget:
        """Return the time budget of a test; before the first one, fix that of the run."""
        if self._time_budget is None:
            left_s = time_left_s(self.settings.time_budget_s, self._began_s)
            self._time_budget = RunBudget([test, *later], left_s=left_s)
        return PerfTestBudget(self._time_budget, test, later)

    def prune(self, *, collected: Collection[str], files: Collection[str], whole: bool) -> None:
        """Find baselines whose tests no longer exist, and delete them if the settings say so and all files are `whole`.

        The other arguments are those of `orphans_of`.

        Raises:
            BaselineError: the folder cannot be read, or a file cannot be deleted.

        """
        self.orphans = orphans_of(self._store, self.settings, collected=collected, files=files)
        self.pruned = self.settings.prune and whole
        if self.pruned:
            self._store.prune(self.orphans)

    def run_result(self, endings: Mapping[str, Ending], errors: Sequence[str]) -> RunResult:
        """Return the run as the reports show it; the arguments are what pytest and the plugin know of it."""
        providers = [result.cluster.provider for result in self.results]
        facts = self.results[0].cluster.fingerprint if self.results else {}
        return RunResult(
            results=tuple(self.results),
            endings=dict(endings),
            errors=tuple(errors),
            settings=self.settings,
            created=self.created,
            took_s=time.monotonic() - self._began_s,
            plugin=self.plugin,
            commit=self.commit,
            environment={"key": self.environment_key(min(providers, default="local")), **facts},
            environment_keys=tuple(dict.fromkeys(map(self.environment_key, providers))),
            orphans=tuple(self.orphans.values()),
            pruned=self.pruned,
        )

    def environment_key(self, provider: str) -> str:
        """Return the key of the environment, under which its baselines are stored."""
        return self.settings.environment or default_environment_key(provider)

    def _confirming(
        self, judge: Judging, cluster: Cluster, runner: TrialRunner, on_progress: OnProgress, failed: str | None
    ) -> TrialRunner | str | None:
        """Return what re-tests a suspected regression: the test's own and the baseline's brokers, if possible.

        Otherwise fresh trials of the test's own brokers decide (None), unless the machine is known to be slower, which
        such trials cannot tell from a regression; then the reason is returned. `failed` is the reason why trials side
        by side with the baseline's brokers failed.
        """
        test, baseline, reason, judge.rebuilt = judge.test, judge.baseline, failed or judge.alone, None
        self.clusters.stop_rebuilt()
        if reason is None:
            try:
                live_baseline = self.clusters.rebuilt(rebuilt_spec(test.spec, baseline.fingerprint))
            except (ClusterError, UsageError) as error:
                reason = str(error)
        if reason is not None:
            if self._shift.slower_machine is not None:
                return f"{self._shift}; this test cannot be compared side by side, because {reason}"
            judge.way = f"re-tested in fresh trials, not side by side with the baseline's brokers: {reason}"
            return None
        changes = common_changes(baseline, live_baseline, self.settings.root, self.commit)
        judge.rebuilt = Rebuilt(common_changes=changes, slower_machine=self._shift.slower_machine)
        judge.way = (
            f"re-tested side by side with freshly started baseline brokers (Kafka {live_baseline.version}); the column "
            "`baseline` shows what they reached in this re-test, on shared cores"
        )
        if self._shift.is_common:
            judge.way += f" ({self._shift})"
        sides = self._sides(test.in_short_rounds(), cluster, live_baseline, (), on_progress)
        return self._runner(sides, runner.allocation, on_progress)

    def _runner(self, sides: Sequence[Side], allocation: WorkerAllocation, on_progress: OnProgress) -> TrialRunner:
        warm_up_s, gap_s = self.settings.broker_warmup_s, self.settings.trial_gap_s
        return TrialRunner(
            sides,
            warm_up_s=warm_up_s,
            gap_s=gap_s,
            allocation=allocation,
            on_progress=on_progress,
            stopwatch=self.stopwatch,
        )

    def _sides(
        self,
        test: PerfTest,
        cluster: Cluster,
        live_baseline: Cluster | PeerTest | None,
        actions: Sequence[Action],
        on_progress: OnProgress,
    ) -> list[Side]:
        """Return the test's side, and the live baseline's if there is one; both do the same.

        Raises:
            ClusterError: an application did not start on the live baseline.
            UsageError: an action cannot be done to the live baseline.

        """
        side = functools.partial(
            Side,
            test.scenario,
            plan=test.plan,
            on_progress=on_progress,
            prefix=self.settings.topic_prefix,
            stopwatch=self.stopwatch,
        )
        applications = self.clusters.applications_on(cluster)
        permission = self.clusters.permission(test, cluster)
        sides = [side(cluster, actions=actions, applications=applications, permission=permission)]
        if isinstance(live_baseline, PeerTest):
            other = side(
                live_baseline.cluster,
                actions=live_baseline.actions,
                applications=live_baseline.applications,
                permission=permission,
            )
            sides.append(other)
        elif live_baseline is not None:
            twins = [self.clusters.twin(each, live_baseline) for each in applications]
            pairs = [(cluster, live_baseline), *zip(applications, twins, strict=True)]
            permission = self.clusters.permission(test, cluster, live_baseline)
            sides.append(side(live_baseline, actions=moved(actions, pairs), applications=twins, permission=permission))
        return sides

    def _baseline(self, test: PerfTest, key: str, cluster: Cluster) -> BaselineRounds:
        if test.live_baseline is not None or test.is_smoke_test:
            return BaselineRounds()
        workload = workload_of(test.scenario, test.plan)
        return self._store.comparable(key, test.nodeid, workload, cluster.fingerprint)

    def _result(
        self,
        test: PerfTest,
        *,
        cluster: Cluster,
        live_baseline: Cluster | None,
        ran: Decision,
        judge: Judging,
        allocation: WorkerAllocation | None = None,
    ) -> Result:
        trials, judgement = ran.trials, ran.judgement
        baseline, compared = judge.baseline, judge.is_compared
        there = baseline.fingerprint if live_baseline is None else live_baseline.fingerprint
        has_app = test.scenario.output_topic or test.scenario.watch_group or self.clusters.applications_on(cluster)
        commit = commit_change(baseline.commit, self.commit) if has_app and live_baseline is None else ()
        with self.stopwatch.measure(Span.JUDGE):
            calibration, uncalibrated = judge.calibrate(trials)
            other_changes = judge.other_changes(trials) if compared and not judgement.problems else ()
        verdict = judgement.verdict if trials[0].rounds or judgement.problems else Verdict.INCONCLUSIVE
        return Result(
            nodeid=test.nodeid,
            scenario=test.scenario,
            plan=test.plan,
            sources=test.sources,
            parameters=test.parameters,
            cluster=cluster,
            trials=trials,
            live_baseline=live_baseline,
            baseline_trials=len(baseline.trials) if compared and baseline.trials else None,
            baseline=baseline,
            changed=(*commit, *(differences(there, cluster.fingerprint) if there else ())),
            other_changes=other_changes,
            calibration=calibration,
            verdict=verdict,
            accepted=self.settings.accepts_regressed and is_acceptable(verdict, judgement),
            checks=judgement.checks,
            warnings=(*warnings_of(trials), *cold_warnings(judged(trials)), *judgement.warnings, *judgement.doubts),
            problems=judgement.problems,
            notes=(
                *([] if judge.way is None or len(trials) == 1 else [judge.way]),
                *ran.notes,
                *warm_up_notes(trials),
                *quieter_notes(test, judgement.checks),
                *uncalibrated,
            ),
            allocation=allocation or self.settings.workers,
            partial=ran.partial,
            options={"cluster": str(self.settings.cluster), **self.settings.command_line},
        )

    def _add(self, result: Result) -> Result:
        """Keep a result for the reports; if another plugin repeats a test, `repeated` says which run counts."""
        result = dataclasses.replace(result, spans=self.stopwatch.seconds())
        before = next((each for each in self.results if each.nodeid == result.nodeid), None)
        if before is not None:
            self.results.remove(before)
            result = repeated(result, before)
        self.results.append(result)
        return result

    def keep(self) -> None:
        """Update the baseline of the last test if the settings say so; the test did not fail by its own code.

        Raises:
            BaselineError: the baseline file is damaged or newer, or cannot be written.

        """
        (test, key), result = self._last, self.results[-1]
        days = None
        if test.is_smoke_test:
            notes = [_SMOKE_TEST]
        else:
            days, notes = (None, []) if result.partial else self._update_baseline(test, key, result)
            if test.live_baseline is None and days is None:
                notes += stale_notes(result)
        self.results[-1] = dataclasses.replace(result, notes=(*result.notes, *notes), days_written=days)

    def _update_baseline(self, test: PerfTest, key: str, result: Result) -> tuple[int | None, list[str]]:
        """Return the number of days of the baseline that was written, if any, and remarks."""
        if self.settings.update is None:
            return None, []
        record, notes = update_baseline(
            self._store,
            self.settings.update,
            result,
            environment=key,
            thresholds=test.thresholds,
            calibrated=self.settings.calibrate is not None,
            commit=self.commit,
        )
        return None if record is None else len({trial.day for trial in record.trials}), notes


def repeated(result: Result, before: Result) -> Result:
    """Return the result of a repeated test: its last run counts, if it could be judged, and lost records stay lost."""
    if before.verdict.fails and result.verdict is Verdict.INCONCLUSIVE:
        note = "this test was repeated, but its last run is INCONCLUSIVE, so that the run before it counts"
        return dataclasses.replace(before, notes=(*before.notes, note))
    notes = (*result.notes, f"this test was repeated; its earlier verdict was {before.verdict}")
    lost = [check for check in before.checks if check.metric in _LOSSES and check.outcome is Verdict.VIOLATED]
    if not lost:
        return dataclasses.replace(result, notes=notes)
    replaced = {check.expression for check in lost}
    checks = [check for check in result.checks if check.expression not in replaced]
    checks += [dataclasses.replace(check, reason=f"an earlier run of this test: {check.reason}") for check in lost]
    return dataclasses.replace(result, verdict=Verdict.VIOLATED, accepted=False, checks=tuple(checks), notes=notes)


def _resolved(test: PerfTest, cluster: Cluster) -> tuple[PerfTest, ClusterError | None]:
    """Return the test with the content of its samples and the partitions of its existing topic.

    Also returns the error if there is no such topic.

    Raises:
        ScenarioError: the file of samples cannot be read.

    """
    test = dataclasses.replace(test, scenario=with_content(test.scenario))
    try:
        return dataclasses.replace(test, scenario=resolve_scenario(test.scenario, cluster)), None
    except ClusterError as error:
        return test, error
