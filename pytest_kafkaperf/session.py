"""One pytest session's perf tests: its clusters, its baselines, its results."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
import os
import random
import secrets
import time
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf import clusters
from pytest_kafkaperf.acceptance import accepted
from pytest_kafkaperf.appraisal import Appraisal, stale_notes
from pytest_kafkaperf.baseline import BaselineRecord, BaselineRounds, grown, scenario_changes
from pytest_kafkaperf.capacity import described
from pytest_kafkaperf.collection import file_of
from pytest_kafkaperf.commit import current_commit
from pytest_kafkaperf.course import Course, not_run, run_course
from pytest_kafkaperf.crew import Crew, parse_crew
from pytest_kafkaperf.environment import default_environment_key, differences
from pytest_kafkaperf.errors import ClusterError
from pytest_kafkaperf.finding import Verdict
from pytest_kafkaperf.pace import Overhead, Pace
from pytest_kafkaperf.reports.history import append_history, history_lines
from pytest_kafkaperf.result import Result, Trial, warnings_of
from pytest_kafkaperf.run import resolve_scenario
from pytest_kafkaperf.shared import SharedClusters, Wanted
from pytest_kafkaperf.stand import Stand, now
from pytest_kafkaperf.store import BaselineStore, Stored, orphans

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from pytest_kafkaperf.actions import Action
    from pytest_kafkaperf.case import Case
    from pytest_kafkaperf.clusters import Cluster, ClusterSpec
    from pytest_kafkaperf.load.pool import Progress
    from pytest_kafkaperf.settings import Settings

_SMOKE_TEST = "a smoke test (--benchmark-disable): it ran once, and no limit was judged"
_CLOSING_S = 2.0
"""Of the time budget, for stopping clusters and writing reports."""
_CLOSING_RATIO = 0.05
"""At most that much of it."""


class Session:
    """Runs perf tests one after the other; owns what they share."""

    def __init__(self, settings: Settings, *, began_s: float) -> None:
        """Begin; the time budget counts from `began_s` on the monotonic clock.

        Raises:
            UsageError: the history cannot be written: said now, and not after the first test's load.

        """
        if settings.history is not None:
            append_history(settings.history, [])
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
        self._overhead = Overhead()
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
            UsageError: the reference cannot be had, or the history not be written.

        """
        key = self._environment_key(cluster.provider)
        case, unfit = _resolved(case, cluster)
        # Read before the load: a damaged file is told at once, not after minutes.
        appraisal = Appraisal(case, self._baseline(case, key), self.settings)
        stand = self._stand(case, cluster, on_progress, actions)
        as_it_is = clusters.with_config(cluster)  # a fixture may have changed the brokers' properties
        pace = self._pace(
            case,
            later,
            baseline_rounds=sum(map(len, appraisal.baseline.sessions)),
            preheating_s=stand.preheating_s,
            is_owned=cluster.fleet is not None,
            acts=bool(actions),
        )
        if pace.obstacle is None and unfit is None:
            unfit = _preheated(stand)
        if pace.obstacle is None and unfit is None:
            pace.begin(self._left_s())
            course = run_course(
                stand,
                pace,
                appraisal.believe,
                calibrate=None if case.is_smoke_test else self.settings.calibrate,
                confirm_gain=self.settings.update == "improved",
            )
            self._overhead = self._overhead.after(course.overhead)
        else:
            trials = (not_run(unfit),)
            notes = () if pace.obstacle is None or unfit else (pace.obstacle,)
            course = Course(trials=trials, judgement=appraisal.judge(trials), notes=notes, partial=True)
        result = self._result(
            case, cluster=as_it_is, reference=stand.reference, course=course, appraisal=appraisal, crew=stand.crew
        )
        return self._kept(case, key, result)

    def refuse_for_time(self, case: Case, later: Sequence[Case]) -> Result | None:
        """The result of a test for which the time budget leaves no time, so that not even its cluster is started."""
        obstacle = self._pace(case, later, baseline_rounds=0).obstacle
        if obstacle is None:
            return None
        trials = (not_run(),)
        appraisal = Appraisal(case, BaselineRounds(), self.settings)
        course = Course(trials=trials, judgement=appraisal.judge(trials), notes=(obstacle,))
        cluster = clusters.not_started(case.spec, self.settings.cluster)
        result = self._result(case, cluster=cluster, reference=None, course=course, appraisal=appraisal)
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
        return {"key": self._environment_key(provider), **({} if facts is None else facts.fingerprint)}

    def _environment_key(self, provider: str) -> str:
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
            reference=str(reference),
        )

    def _stand(
        self,
        case: Case,
        cluster: Cluster,
        on_progress: Callable[[str, int, Progress], None],
        actions: Sequence[Action],
    ) -> Stand:
        wanted = self._wanted_reference(case.reference)
        return Stand(
            case.scenario,
            cluster=cluster,
            reference=None if wanted is None else self._shared.get(wanted),
            order=random.Random(f"{self.seed} {case.nodeid}"),  # noqa: S311 - nobody guesses it
            actions=actions,
            preheat_s=self.settings.preheat_s,
            crew=parse_crew(self.settings.workers),
            on_progress=on_progress,
            plan=case.plan,
        )

    def _pace(
        self,
        case: Case,
        later: Sequence[Case],
        *,
        baseline_rounds: int,
        preheating_s: float = 0.0,
        is_owned: bool = True,
        acts: bool = False,
    ) -> Pace:
        return Pace(
            case,
            later,
            baseline_rounds=baseline_rounds,
            left_s=self._left_s(),
            preheat_s=self.settings.preheat_s if is_owned else 0.0,
            overhead=self._overhead,
            preheating_s=preheating_s,
            acts=acts,
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
        course: Course,
        appraisal: Appraisal,
        crew: Crew | None = None,
    ) -> Result:
        trials, judgement = course.trials, course.judgement
        baseline, compared = appraisal.baseline, appraisal.is_compared
        there = baseline.fingerprint if reference is None else reference.fingerprint
        calibration, uncalibrated = appraisal.calibrate(trials)
        return Result(
            nodeid=case.nodeid,
            scenario=case.scenario,
            plan=case.plan,
            sources=case.sources,
            parameters=case.parameters,
            cluster=cluster,
            trials=trials,
            reference=reference,
            baseline_sessions=len(baseline.sessions) if compared and baseline.sessions else None,
            baseline=baseline,
            changed=differences(there, cluster.fingerprint) if there else (),
            advice=appraisal.advise(trials) if compared and not judgement.problems else (),
            calibration=calibration,
            verdict=judgement.verdict if trials[0].rounds or judgement.problems else Verdict.INCONCLUSIVE,
            checks=judgement.checks,
            warnings=warnings_of(trials),
            problems=judgement.problems,
            notes=(*course.notes, *uncalibrated),
            crew=crew or parse_crew(self.settings.workers),
            partial=course.partial,
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
        """Write what is to be kept of a result: its baseline, and its lines of the history."""
        result = self._add(result)  # whatever becomes of the files
        if case.is_smoke_test:
            self.results[-1] = result = dataclasses.replace(result, notes=(*result.notes, _SMOKE_TEST))
            return result
        notes = [] if result.partial else self._update(case, key, result)
        if case.reference is None and result.nodeid not in self.written:
            notes += stale_notes(result)
        self.results[-1] = result = dataclasses.replace(result, notes=(*result.notes, *notes))
        if self.settings.history is not None:
            lines = history_lines(
                [result],
                plugin=self.plugin,
                commit=self.commit,
                environment=lambda each: self._environment_key(each.cluster.provider),
                fingerprint=lambda each: each.cluster.fingerprint,
            )
            append_history(self.settings.history, lines)
        return result

    def _update(self, case: Case, key: str, result: Result) -> list[str]:
        """Write the baseline of a test where the option asks for it and the result will do; what is to know of it."""
        update = self.settings.update
        if update is None:
            return []
        with self._store.alone():
            return self._write_baseline(update, case, key, result)

    def _write_baseline(self, update: str, case: Case, key: str, result: Result) -> list[str]:
        """Write what will do of a result; another run may have written since this one began."""
        old = self._store.load(key, result.nodeid)
        chosen = accepted(
            update,
            result.verdict,
            result.trials,
            thresholds=case.thresholds,
            baseline=result.baseline.sessions,
            exists=old is not None,
            calibrated=self.settings.calibrate is not None,
        )
        record = old if update == "append" else None
        dropped = [] if record is None else scenario_changes(record.scenario, described(result.scenario, result.plan))
        for trial in chosen.trials:
            record = grown(record, self._record(key, result, trial))
        if record is None or not chosen.trials:
            return [*chosen.notes]
        self._store.save(record)
        self.written[result.nodeid] = len(record.sessions)
        if dropped:
            return [*chosen.notes, f"the baseline begins anew: the scenario is another ({'; '.join(dropped)})"]
        return [*chosen.notes]

    def _record(self, key: str, result: Result, trial: Trial) -> BaselineRecord:
        return BaselineRecord.of_session(
            nodeid=result.nodeid,
            environment=key,
            scenario=described(result.scenario, result.plan),
            fingerprint=result.cluster.fingerprint,
            created=trial.created,
            rounds=[dict(one.metrics) for one in trial.rounds],
            commit=self.commit,
        )


def _resolved(case: Case, cluster: Cluster) -> tuple[Case, str | None]:
    """The case with what its scenario takes over from a topic that exists, and why there is no such topic."""
    try:
        return dataclasses.replace(case, scenario=resolve_scenario(case.scenario, cluster)), None
    except ClusterError as error:
        return case, str(error)


def _preheated(stand: Stand) -> str | None:
    """Warm brokers that have just started; what went wrong."""
    try:
        stand.preheat()
    except ClusterError as error:
        return str(error)
    return None
