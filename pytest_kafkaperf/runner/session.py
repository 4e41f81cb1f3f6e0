"""One pytest session's perf tests: its clusters, its baselines, its results."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
import os
import random
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.clusters.shared import SharedClusters, Wanted
from pytest_kafkaperf.clusters.spec import Cluster, ClusterSpec
from pytest_kafkaperf.core.environment import current_commit, default_environment_key, differences
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.runner.actions import Action
from pytest_kafkaperf.runner.baseline_update import update_baseline
from pytest_kafkaperf.runner.capacity import described
from pytest_kafkaperf.runner.case import Case
from pytest_kafkaperf.runner.case_run import CaseRun, SessionRunner, not_run, now, run_case
from pytest_kafkaperf.runner.judging import CaseJudge, stale_notes
from pytest_kafkaperf.runner.result import Result, warnings_of
from pytest_kafkaperf.runner.rounds import resolve_scenario
from pytest_kafkaperf.runner.settings import Settings
from pytest_kafkaperf.runner.time_budget import CaseBudget
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds
from pytest_kafkaperf.verdict.baselines.store import BaselineStore, Stored, orphans
from pytest_kafkaperf.verdict.outcome import Verdict

_SMOKE_TEST = "a smoke test (--benchmark-disable): it ran once, and no limit was judged"
_CLOSING_S = 2.0
"""Of the time budget, for stopping clusters and writing reports."""
_CLOSING_RATIO = 0.05
"""At most that much of it."""


class Session:
    """Runs perf tests one after the other; owns what they share."""

    def __init__(self, settings: Settings, *, began_s: float) -> None:
        """Begin; the time budget counts from `began_s` on the monotonic clock."""
        self.settings = settings
        self.results: list[Result] = []
        self.written: dict[str, int] = {}
        """How many sessions the baselines hold that were written, by nodeid."""
        self.orphans: list[Stored] = []
        """Baselines whose tests are gone."""
        self.pruned = False
        """Whether they were deleted."""
        self.created = now()
        self.plugin = importlib.metadata.version("pytest-kafkaperf")
        self.commit = current_commit(settings.root, besides=settings.baselines)
        self.seed = secrets.randbelow(1_000_000) if settings.reference_seed is None else settings.reference_seed
        """Of the order in which rounds on the test's cluster and on the reference take turns."""
        self._began_s = began_s
        self._shared = SharedClusters()
        self._store = BaselineStore(settings.baselines)

    def close(self) -> None:
        """Stop every cluster that was started."""
        self._shared.close()

    def cluster(self, spec: ClusterSpec) -> Cluster:
        """The cluster of that spec: started when first asked for, replaced when it was lost or disturbed.

        Raises:
            ClusterError: it did not start.
            UsageError: it cannot be given on this target.

        """
        return self._shared.get(self._wanted(spec))

    def run(
        self,
        case: Case,
        cluster: Cluster,
        on_progress: Callable[[str, int, Progress], None],
        actions: Sequence[Action] = (),
        *,
        later: Sequence[Case] = (),
    ) -> Result:
        """Measure and judge one test, and keep the result; `actions` are done in every round.

        `later` are the tests that share the time budget and come after this one.

        Raises:
            BaselineError: the baseline file is damaged or newer, or cannot be written.
            ClusterError: the reference did not start.
            UsageError: the reference cannot be had.

        """
        key = self.environment_key(cluster.provider)
        case, unfit = _resolved(case, cluster)
        # Read before the load: a damaged file is told at once, not after minutes.
        judge = CaseJudge(case, self._baseline(case, key), self.settings)
        runner = self._session_runner(case, cluster, on_progress, actions)
        as_it_is = provision.with_config(cluster)  # a fixture may have changed the brokers' properties
        unfit = unfit or _preheated(runner)
        budget = CaseBudget(case, later, left_s=self._left_s())
        if unfit is None and budget.obstacle is None:
            ran = run_case(
                runner,
                budget,
                judge.judge,
                calibrate=None if case.is_smoke_test else self.settings.calibrate,
                confirm_gain=self.settings.update == "improved",
            )
        else:
            sessions = (not_run(unfit),)
            notes = () if budget.obstacle is None or unfit else (budget.obstacle,)
            ran = CaseRun(sessions=sessions, judgement=judge.judge(sessions), notes=notes, partial=True)
        result = self._result(
            case,
            cluster=as_it_is,
            reference=runner.reference,
            ran=ran,
            judge=judge,
            allocation=runner.allocation,
        )
        return self._kept(case, key, result)

    def refuse_for_time(self, case: Case, later: Sequence[Case]) -> Result | None:
        """The result of a test for which the time budget leaves no time, so that not even its cluster is started."""
        obstacle = CaseBudget(case, later, left_s=self._left_s()).obstacle
        if obstacle is None:
            return None
        sessions = (not_run(),)
        judge = CaseJudge(case, BaselineRounds(), self.settings)
        ran = CaseRun(sessions=sessions, judgement=judge.judge(sessions), notes=(obstacle,))
        cluster = provision.not_started(case.spec, self.settings.cluster)
        result = self._result(case, cluster=cluster, reference=None, ran=ran, judge=judge)
        return self._add(result)

    def prune(self, *, collected: Collection[str], files: Collection[str], whole: bool) -> None:
        """See which baselines are those of tests that are gone, and delete them where that is asked for.

        `collected` are the nodeids of this run, `files` those of whose tests none was left out, `whole` says that none
        was left out anywhere.

        Raises:
            BaselineError: the folder cannot be read, or a file not be deleted.

        """
        stored = self._store.stored()
        known = {file_of(each.nodeid) for each in stored}
        # Another project may share a folder that lies elsewhere: its files are none of ours.
        ours = self.settings.baselines.resolve().is_relative_to(self.settings.root.resolve())
        # Names that a baseline's file holds may be too long for any file, and a Path would raise.
        missing = {file for file in known if ours and not os.path.exists(self.settings.root / file)}  # noqa: PTH110
        self.orphans = orphans(stored, collected=collected, files={*files, *missing})
        self.pruned = self.settings.prune and whole
        if self.pruned:
            self._store.prune(self.orphans)

    def environment(self) -> dict[str, Any]:
        """What the reports say of where this session ran."""
        providers = {result.cluster.provider for result in self.results} or {"local"}
        provider = min(providers)
        facts = self.results[0].cluster if self.results else None
        return {"key": self.environment_key(provider), **({} if facts is None else facts.fingerprint)}

    def environment_key(self, provider: str) -> str:
        """Which baselines count here."""
        return self.settings.environment or default_environment_key(provider)

    def _wanted(self, spec: ClusterSpec) -> Wanted:
        settings = self.settings
        return Wanted(
            spec=spec,
            target=settings.cluster,
            client_properties=settings.client_config,
            metrics_urls=settings.metrics_urls,
        )

    def _wanted_reference(self, spec: ClusterSpec | None) -> Wanted | None:
        reference, settings = self.settings.reference, self.settings
        if reference is None or spec is None:
            return None
        own = None if reference.is_started else settings.client_config
        return Wanted(
            spec=spec,
            target=reference.target,
            client_properties=settings.reference_client_config or own,
            reference=reference,
        )

    def _session_runner(
        self,
        case: Case,
        cluster: Cluster,
        on_progress: Callable[[str, int, Progress], None],
        actions: Sequence[Action],
    ) -> SessionRunner:
        wanted = self._wanted_reference(case.reference)
        return SessionRunner(
            case.scenario,
            cluster=cluster,
            reference=None if wanted is None else self._shared.get(wanted),
            order=random.Random(f"{self.seed} {case.nodeid}"),  # noqa: S311 - nobody guesses it
            actions=actions,
            preheat_s=self.settings.preheat_s,
            allocation=self.settings.workers,
            on_progress=on_progress,
            plan=case.plan,
        )

    def _baseline(self, case: Case, key: str) -> BaselineRounds:
        if case.reference is not None or case.is_smoke_test:
            return BaselineRounds()
        return self._store.comparable(key, case.nodeid, described(case.scenario, case.plan))

    def _result(
        self,
        case: Case,
        *,
        cluster: Cluster,
        reference: Cluster | None,
        ran: CaseRun,
        judge: CaseJudge,
        allocation: WorkerAllocation | None = None,
    ) -> Result:
        sessions, judgement = ran.sessions, ran.judgement
        baseline, compared = judge.baseline, judge.is_compared
        there = baseline.fingerprint if reference is None else reference.fingerprint
        calibration, uncalibrated = judge.calibrate(sessions)
        return Result(
            nodeid=case.nodeid,
            scenario=case.scenario,
            plan=case.plan,
            sources=case.sources,
            parameters=case.parameters,
            cluster=cluster,
            sessions=sessions,
            reference=reference,
            baseline_sessions=len(baseline.sessions) if compared and baseline.sessions else None,
            baseline=baseline,
            changed=differences(there, cluster.fingerprint) if there else (),
            advice=judge.advise(sessions) if compared and not judgement.problems else (),
            calibration=calibration,
            verdict=judgement.verdict if sessions[0].rounds or judgement.problems else Verdict.INCONCLUSIVE,
            checks=judgement.checks,
            warnings=warnings_of(sessions),
            problems=judgement.problems,
            notes=(*ran.notes, *uncalibrated),
            allocation=allocation or self.settings.workers,
            partial=ran.partial,
        )

    def _left_s(self) -> float:
        budget_s = self.settings.time_budget_s
        if budget_s is None:
            return math.inf
        return self._began_s + budget_s - min(_CLOSING_S, _CLOSING_RATIO * budget_s) - time.monotonic()

    def _add(self, result: Result) -> Result:
        """Keep a result for the reports; of a test that another plugin runs again, the last run counts."""
        before = [each for each in self.results if each.nodeid == result.nodeid]
        if before:
            self.results.remove(before[0])
            notes = (*result.notes, f"this test ran again: before, it was {before[0].verdict}")
            result = dataclasses.replace(result, notes=notes)
        self.results.append(result)
        return result

    def _kept(self, case: Case, key: str, result: Result) -> Result:
        """Keep a result for the reports, and write its baseline where that was asked for."""
        result = self._add(result)  # whatever becomes of the file
        if case.is_smoke_test:
            notes = [_SMOKE_TEST]
        else:
            notes = [] if result.partial else self._update_baseline(case, key, result)
            if case.reference is None and result.nodeid not in self.written:
                notes += stale_notes(result)
        self.results[-1] = result = dataclasses.replace(result, notes=(*result.notes, *notes))
        return result

    def _update_baseline(self, case: Case, key: str, result: Result) -> list[str]:
        if self.settings.update is None:
            return []
        record, notes = update_baseline(
            self._store,
            self.settings.update,
            result,
            environment=key,
            thresholds=case.thresholds,
            calibrated=self.settings.calibrate is not None,
            commit=self.commit,
        )
        if record is not None:
            self.written[result.nodeid] = len(record.sessions)
        return notes


def _resolved(case: Case, cluster: Cluster) -> tuple[Case, str | None]:
    """The case with what its scenario takes over from a topic that exists, and why there is no such topic."""
    try:
        return dataclasses.replace(case, scenario=resolve_scenario(case.scenario, cluster)), None
    except ClusterError as error:
        return case, str(error)


def _preheated(runner: SessionRunner) -> str | None:
    """Warm brokers that have just started; what went wrong."""
    try:
        runner.preheat()
    except ClusterError as error:
        return str(error)
    return None
