"""The update of a test's baseline: which sessions of a result are written, and why others are not."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.units import format_ratio
from pytest_kafkaperf.runner.capacity import described
from pytest_kafkaperf.runner.result import MeasuredSession, Result, judged
from pytest_kafkaperf.scenario.threshold import Threshold
from pytest_kafkaperf.verdict.baselines.record import BaselineRecord, grown, scenario_changes
from pytest_kafkaperf.verdict.baselines.store import BaselineStore
from pytest_kafkaperf.verdict.comparison import (
    Comparison,
    Measured,
    Rounds,
    change_of,
    compare,
    exceeds,
    flaw_of,
    pooled,
)
from pytest_kafkaperf.verdict.confirmation import SESSIONS
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.regression import ALPHA


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The sessions that are written; none where the baseline stays as it is."""

    sessions: tuple[MeasuredSession, ...] = ()
    notes: tuple[str, ...] = ()
    """Why what could have been expected is not written."""


def update_baseline(
    store: BaselineStore,
    mode: str,
    result: Result,
    *,
    environment: str,
    thresholds: Sequence[Threshold],
    calibrated: bool,
    commit: str | None,
) -> tuple[BaselineRecord | None, list[str]]:
    """Write what will do of a result; the record that was written, if any, and what to know of it.

    Raises:
        BaselineError: the file is damaged or newer, or cannot be written.

    """
    with store.alone():  # another run may have written since this one began
        old = store.load(environment, result.nodeid)
        chosen = accepted(
            mode,
            result.verdict,
            result.sessions,
            thresholds=thresholds,
            baseline=result.baseline.sessions,
            exists=old is not None,
            calibrated=calibrated,
        )
        scenario = described(result.scenario, result.plan)
        record = old if mode == "append" else None
        dropped = [] if record is None else scenario_changes(record.scenario, scenario)
        for session in chosen.sessions:
            one = BaselineRecord.of_session(
                nodeid=result.nodeid,
                environment=environment,
                scenario=scenario,
                fingerprint=result.cluster.fingerprint,
                created=session.created,
                rounds=[dict(one.metrics) for one in session.rounds],
                commit=commit,
            )
            record = grown(record, one)
        if record is None or not chosen.sessions:
            return None, [*chosen.notes]
        store.save(record)
    anew = [f"the baseline begins anew: the scenario is another ({'; '.join(dropped)})"] if dropped else []
    return record, [*chosen.notes, *anew]


def accepted(
    mode: str,
    verdict: Verdict,
    sessions: Sequence[MeasuredSession],
    *,
    thresholds: Sequence[Threshold],
    baseline: Sequence[Rounds],
    exists: bool,
    calibrated: bool,
) -> Acceptance:
    """Choose them by the mode of `--kafka-update-baselines`, of a test with that verdict.

    `exists` says that the test has a baseline already, `baseline` are the sessions of it that this run was compared
    with, `calibrated` that all sessions were run to show how much they differ.
    """
    if verdict.fails or (mode == "new" and exists) or (mode == "improved" and verdict is not Verdict.IMPROVED):
        return Acceptance()
    counting = judged(sessions)
    match mode:
        case "improved":
            fresh = counting[1:]
            obstacle = ratchet_obstacle(thresholds, [session.measured for session in fresh], baseline)
            if obstacle is not None:
                return Acceptance(notes=(f"the baseline is left as it is: {obstacle}",))
            chosen = fresh
        # Sessions that cleared a suspect are as good as the first one, and without them its noise would count alone.
        case "append":
            chosen = counting
        case _:
            chosen = counting if calibrated else counting[:1]
    flaws = {number: flaw for number, session in enumerate(chosen, 1) if (flaw := _flaw(thresholds, session))}
    return Acceptance(
        sessions=tuple(session for number, session in enumerate(chosen, 1) if number not in flaws and session.rounds),
        notes=tuple(dict.fromkeys(f"not taken into the baseline: {flaw}" for flaw in flaws.values())),
    )


def ratchet_obstacle(
    thresholds: Sequence[Threshold], fresh: Sequence[Measured], baseline: Sequence[Rounds]
) -> str | None:
    """Why fresh sessions do not take the place of a baseline that one session was better than; None where they do.

    That one session was picked for being fast: were it the baseline, a third of unchanged runs would fail against it
    (simulated: noise of 6 / 6.5 %, tolerance 10 %). So the gain is confirmed as a regression is, by fresh sessions
    alone, and they become the baseline. A metric that got worse within its tolerance must not come in with one that got
    better: step by step it would get worse without bound.
    """
    if len(fresh) < SESSIONS:
        return f"a gain is confirmed by {SESSIONS} fresh sessions, and {len(fresh)} ran"
    gained = False
    for threshold in thresholds:
        compared = [compare(threshold.metric, session, baseline) for session in fresh]
        sessions = [each for each in compared if not isinstance(each, str)]
        if threshold.relative is None or len(sessions) < len(compared):
            continue
        if _is_worse(sessions):
            change = change_of(threshold.metric, pooled(sessions).shift)
            return f"{threshold.metric.name} got worse, by {format_ratio(change)} against it"
        gained = gained or _is_better(sessions, threshold.relative.log_tolerance)
    return None if gained else "on fresh sessions nothing was better by more than its tolerance, beyond noise"


def _is_worse(sessions: Sequence[Comparison]) -> bool:
    return exceeds(statistics.median(each.shift for each in sessions), 0.0) and pooled(sessions).worse_p(0.0) < ALPHA


def _is_better(sessions: Sequence[Comparison], tolerance: float) -> bool:
    typical = statistics.median(each.shift for each in sessions)
    return exceeds(-typical, tolerance) and pooled(sessions).better_p(tolerance) < ALPHA


def _flaw(thresholds: Sequence[Threshold], session: MeasuredSession) -> str | None:
    """Why limits could not be judged by such a session: all later runs would be compared with a gap."""
    rounds = session.measured.rounds
    gated = (threshold.metric for threshold in thresholds if threshold.needs_baseline)
    return next((flaw for metric in gated if (flaw := flaw_of(metric, rounds, ratio=True))), None)
