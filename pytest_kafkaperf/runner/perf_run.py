"""State shared by all perf tests in a run: clusters, baselines and results."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.environment import current_commit, default_environment_key
from pytest_kafkaperf.core.errors import UsageError, warn
from pytest_kafkaperf.core.metrics import FINAL_METRICS
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.spans import Span, Stopwatch
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.baseline import Baseline, LiveBaseline, StoredBaseline
from pytest_kafkaperf.runner.baseline_update import orphans_of, update_baseline
from pytest_kafkaperf.runner.common_shift import CommonShift
from pytest_kafkaperf.runner.evidence import stale_notes
from pytest_kafkaperf.runner.peer import IncomparableTestError, NewTestError, Peer, opened_peer
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.removed_tests import removed_tests
from pytest_kafkaperf.runner.result import Ending, Result, RunResult
from pytest_kafkaperf.runner.rounds.actions import Action, moved
from pytest_kafkaperf.runner.rounds.capacity import workload_of
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import OnProgress, SideRounds
from pytest_kafkaperf.runner.settings import Revision, Settings
from pytest_kafkaperf.runner.shared_clusters import SharedClusters
from pytest_kafkaperf.runner.time_budget import PerfTestBudget, RunBudget, time_left_s
from pytest_kafkaperf.runner.trial import TrialRunner, now
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.baseline_store import BaselineStore
from pytest_kafkaperf.verdict.outcome import Ungated, Verdict
from pytest_kafkaperf.verdict.reasons import Reason


class PerfRun:
    """Everything shared by the perf tests in a run: clusters, baselines, the other revision, and the results."""

    def __init__(
        self,
        settings: Settings,
        *,
        began_s: float,
        files: Sequence[str] = (),
        peer_options: Sequence[str] = (),
        is_base: bool = False,
    ) -> None:
        """Start the time budget at `began_s`, in seconds on the monotonic clock.

        `files` are the files that contain perf tests, and `peer_options` are the pytest options for running the other
        revision. `is_base` is True if the code would be compared with itself (see `checkout.is_base`).
        """
        self.settings = settings
        self.is_base = is_base
        self.peer: Peer | None = None
        """The other revision's pytest process; None before it has started, or if no revisions are compared."""
        self._opened_for: str | None = None
        """The test for which the other side was started; if the start failed, that test's error contains the reason."""
        self._files = files
        self._peer_options = peer_options
        self._open = contextlib.ExitStack()
        """The other side's checkout and process."""
        self.results: list[Result] = []
        self._last: PerfTest
        """The test that was measured last."""
        self.orphans: dict[Path, str] = {}
        """Baselines whose tests no longer exist."""
        self.pruned = False
        """True if these baselines were deleted."""
        self.stopwatch = Stopwatch()
        """Measures how the current test spends its time; restarts with each test."""
        self.clusters = SharedClusters(settings, self.stopwatch, quick=settings.compares_code and not is_base)
        self.created = now()
        self.plugin = importlib.metadata.version("pytest-kafkaperf")
        self.commit = current_commit(settings.root, besides=settings.baselines)
        self._began_s = began_s
        self._time_budget: RunBudget | None = None
        """The run's time budget, which the first test determines for all tests; None before that."""
        self._store = BaselineStore(settings.baselines)
        self.shift = CommonShift()

    def close(self) -> None:
        """Stop the other side and all clusters that the plugin started."""
        with self._open:
            self.clusters.close()

    def announce(self, test: PerfTest, later: Sequence[PerfTest]) -> None:
        """Make the other side set up this test in parallel with this side; without another revision, do nothing.

        Raises:
            ClusterError: the other side has exited.
            UsageError: the other side could not be started or is not comparable.

        """
        revision = self.settings.compare
        if self.is_base or not isinstance(revision, Revision):
            return
        with self.stopwatch.measure(Span.SETUP):
            if self.peer is None:
                self.peer = self._opened_peer(revision, test)
            self.peer.begin(test.nodeid, [each.nodeid for each in later])

    def _opened_peer(self, revision: Revision, test: PerfTest) -> Peer:
        """Start the other side; try only once, because a setup can take minutes to fail."""
        if self._opened_for is not None:
            raise UsageError(f"--kafka-compare={revision} failed; the error of {self._opened_for} has the reason")
        self._opened_for = test.nodeid
        starting = opened_peer(revision, self.settings, files=self._files, options=self._peer_options)
        peer = self._open.enter_context(starting)
        peer.hello()
        return peer

    def side(self, test: PerfTest, cluster: Cluster, actions: Sequence[Action] = ()) -> Side:
        """Return the test's own side."""
        return Side(
            cluster=cluster,
            brokers=cluster.fleet,
            apps=tuple(self.clusters.applications_on(cluster)),
            actions=tuple(actions),
            permission=self.clusters.permission(test, cluster),
        )

    def twin(self, test: PerfTest, own: Side, cluster: Cluster) -> Side:
        """Return a copy of a side on another cluster after starting the same applications there.

        Raises:
            ClusterError: an application did not start there.
            UsageError: an action cannot run there.

        """
        self.clusters.provide_topic(test.scenario, cluster)
        applications = self.clusters.applications_on(own.cluster)
        twins = [self.clusters.twin(each, cluster) for each in applications]
        pairs = [(own.cluster, cluster), *zip(applications, twins, strict=True)]
        return Side(
            cluster=cluster,
            brokers=cluster.fleet,
            apps=tuple(twins),
            actions=tuple(moved(own.actions, pairs)),
            permission=self.clusters.permission(test, own.cluster, cluster),
        )

    def baseline_of(self, test: PerfTest, own: Side, known: Cluster) -> Baseline:
        """Return the test's baseline, after starting the live baseline if there is one.

        `known` is the test's own cluster with all its facts.

        Raises:
            BaselineError: the baseline file is damaged or has a newer format.
            ClusterError: the live baseline did not start.
            UsageError: the target of `--kafka-compare` cannot provide the live baseline.

        """
        self.clusters.sweep(own)
        if test.is_smoke_test:
            return StoredBaseline()
        if isinstance(self.settings.compare, Revision):
            return self._other_revision(test, own, self.settings.compare)
        if test.live_baseline is None:
            key = self.environment_key(own.cluster.provider)
            workload = workload_of(test.scenario, test.plan)
            return StoredBaseline(rounds=self._store.comparable(key, test.nodeid, workload, known.fingerprint))
        cluster = self.clusters.live_baseline(test)
        if cluster is None:
            return StoredBaseline()
        live = LiveBaseline(side=self.twin(test, own, cluster))
        self.clusters.sweep(live.side)
        return live

    def _other_revision(self, test: PerfTest, own: Side, revision: Revision) -> Baseline:
        """Return the test's other revision, or why it cannot be compared; raises the same errors as `baseline_of`."""
        if self.is_base:
            rounds = BaselineRounds(ungated=Ungated.BASE)
            return StoredBaseline(rounds=rounds, revision=revision, note=Notice(Remark.IS_BASE, {"revision": revision}))
        if self.peer is None:
            return StoredBaseline(revision=revision, note=Notice(Remark.NOT_STARTED, {"revision": revision}))
        given, revision = revision, self.peer.revision
        try:
            with self.stopwatch.measure(Span.SETUP):
                live = self.peer.test(test.nodeid, own)
        except NewTestError:
            rounds = BaselineRounds(ungated=Ungated.NEW_TEST)
            note = Notice(Remark.NEW_TEST, {"revision": given})
            return StoredBaseline(rounds=rounds, revision=revision, note=note)
        except IncomparableTestError as error:
            return StoredBaseline(revision=revision, note=Notice(Remark.NOT_COMPARED, {"reason": str(error)}))
        self.clusters.sweep(live.side)
        return live

    def budget_of(self, test: PerfTest, later: Sequence[PerfTest]) -> PerfTestBudget:
        """Return a test's time budget; the first call determines the run's budget."""
        if self._time_budget is None:
            left_s = time_left_s(self.settings.time_budget_s, self._began_s)
            self._time_budget = RunBudget([test, *later], left_s=left_s)
        return PerfTestBudget(self._time_budget, test, later)

    def prune(self, *, collected: Collection[str], files: Collection[str], whole: bool) -> None:
        """Find baselines whose tests no longer exist; delete them if the settings request it and the run was `whole`.

        The other arguments are those of `orphans_of`.

        Raises:
            BaselineError: the folder cannot be read, or a file cannot be deleted.

        """
        self.orphans = orphans_of(self._store, self.settings, collected=collected, files=files)
        self.pruned = self.settings.prune and whole
        if self.pruned:
            self._store.prune(self.orphans)

    def run_result(self, endings: Mapping[str, Ending], errors: Sequence[str]) -> RunResult:
        """Return the run for the reports; the arguments come from pytest and the plugin."""
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
            removed=self._removed(),
        )

    def _removed(self) -> tuple[str, ...]:
        """Return the tests that only the other revision has; empty without another revision."""
        if self.peer is None:
            return ()
        root, there = self.settings.root, self.peer.checkout
        is_folder = isinstance(self.settings.compare, Revision) and self.settings.compare.folder is not None
        try:
            return removed_tests(root, there.root, None) if is_folder else removed_tests(root, root, there.commit)
        except (OSError, UsageError) as error:
            warn(f"cannot find out which tests this change removes: {error}")
            return ()

    def environment_key(self, provider: str) -> str:
        """Return the environment's key, which is also the name of its baseline folder."""
        return self.settings.environment or default_environment_key(provider)

    def trial_runner(
        self,
        test: PerfTest,
        sides: Sequence[Side],
        *,
        on_progress: OnProgress,
        allocation: WorkerAllocation | None = None,
    ) -> TrialRunner:
        """Return a runner for a test's trials on these sides, by default with the allocation from the options."""
        rounds = [
            SideRounds(
                side,
                test.scenario,
                plan=test.plan,
                on_progress=on_progress,
                prefix=self.settings.topic_prefix,
                stopwatch=self.stopwatch,
            )
            for side in sides
        ]
        for each in rounds:
            each.round_seed = _first_seed(test.nodeid)
        return TrialRunner(
            rounds,
            warm_up_s=self.settings.broker_warmup_s,
            gap_s=self.settings.trial_gap_s,
            allocation=allocation or self.settings.workers,
            on_progress=on_progress,
            stopwatch=self.stopwatch,
        )

    def add(self, test: PerfTest, result: Result, *, both_slower: bool = False) -> Result:
        """Store a result for the reports; if another plugin repeats a test, `repeated` selects the run that counts.

        `both_slower` is True if a re-test found that brokers with the stored baseline's software are also slower.
        """
        self.shift.add(result, both_slower=both_slower)
        result = dataclasses.replace(result, spans=self.stopwatch.seconds())
        before = next((each for each in self.results if each.nodeid == result.nodeid), None)
        if before is not None:
            self.results.remove(before)
            result = repeated(result, before)
        self.results.append(result)
        self._last = test
        return result

    def keep(self) -> None:
        """Update the last test's baseline if the settings request it; do not call this if the test's own code failed.

        Raises:
            BaselineError: the baseline file is damaged, has a newer format, or cannot be written.

        """
        test, result = self._last, self.results[-1]
        key = self.environment_key(result.cluster.provider)
        days = None
        if test.is_smoke_test:
            notes = [Notice(Remark.SMOKE_TEST)]
        else:
            days, notes = (None, []) if result.partial else self._update_baseline(test, key, result)
            if test.live_baseline is None and days is None:
                notes += stale_notes(result)
        self.results[-1] = dataclasses.replace(result, notes=(*result.notes, *notes), days_written=days)

    def _update_baseline(self, test: PerfTest, key: str, result: Result) -> tuple[int | None, list[Notice]]:
        """Return the number of days in the written baseline (None if no baseline was written), and remarks."""
        record, notes = update_baseline(
            self._store,
            self.settings,
            result,
            environment=key,
            thresholds=test.thresholds,
            commit=self.commit,
        )
        return None if record is None else len({trial.day for trial in record.trials}), notes


def repeated(result: Result, before: Result) -> Result:
    """Return a repeated test's result: its last run counts if it could be judged, and faults in the log always do."""
    if before.verdict.fails and result.verdict is Verdict.INCONCLUSIVE:
        return dataclasses.replace(before, notes=(*before.notes, Notice(Remark.REPEAT_UNDECIDED)))
    notes = (*result.notes, Notice(Remark.TEST_REPEATED, {"verdict": before.verdict}))
    faults = [one for one in before.checks if one.metric in FINAL_METRICS and one.outcome is Verdict.VIOLATED]
    if not faults:
        return dataclasses.replace(result, notes=notes)
    replaced = {check.expression for check in faults}
    checks = [check for check in result.checks if check.expression not in replaced]
    for check in faults:
        reason = Reason(f"an earlier run of this test: {check.reason}")
        checks.append(dataclasses.replace(check, reasons=(reason,)))
    return dataclasses.replace(result, verdict=Verdict.VIOLATED, accepted=False, checks=tuple(checks), notes=notes)


def _first_seed(nodeid: str) -> int:
    """Return a number that is the same in all runs of a test, and most likely differs from other tests' seeds.

    An application that ignores records which it has already seen must not know those of another test.
    """
    return _SEEDS_OF_TEST * (1 + zlib.crc32(nodeid.encode(errors="surrogatepass")) % _TESTS)


_SEEDS_OF_TEST, _TESTS = 10_000, 1000
