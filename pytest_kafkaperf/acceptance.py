"""What of a result becomes the baseline, and why not. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.comparison import (
    Comparison,
    Measured,
    Rounds,
    change_of,
    compare,
    exceeds,
    flaw_of,
    pooled,
)
from pytest_kafkaperf.confirmation import SESSIONS
from pytest_kafkaperf.finding import Verdict
from pytest_kafkaperf.relative import ALPHA
from pytest_kafkaperf.result import Trial, judged
from pytest_kafkaperf.units import format_ratio

if TYPE_CHECKING:
    from pytest_kafkaperf.threshold import Threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """The sessions that are written; none where the baseline stays as it is."""

    trials: tuple[Trial, ...] = ()
    notes: tuple[str, ...] = ()
    """Why what could have been expected is not written."""


def accepted(
    mode: str,
    verdict: Verdict,
    trials: Sequence[Trial],
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
    counting = judged(trials)
    match mode:
        case "improved":
            fresh = counting[1:]
            obstacle = ratchet_obstacle(thresholds, [trial.measured for trial in fresh], baseline)
            if obstacle is not None:
                return Acceptance(notes=(f"the baseline is left as it is: {obstacle}",))
            chosen = fresh
        # Sessions that cleared a suspect are as good as the first one, and without them its noise would count alone.
        case "append":
            chosen = counting
        case _:
            chosen = counting if calibrated else counting[:1]
    flaws = {number: flaw for number, trial in enumerate(chosen, 1) if (flaw := _flaw(thresholds, trial))}
    return Acceptance(
        trials=tuple(trial for number, trial in enumerate(chosen, 1) if number not in flaws and trial.rounds),
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


def _flaw(thresholds: Sequence[Threshold], trial: Trial) -> str | None:
    """Why limits could not be judged by such a session: all later runs would be compared with a gap."""
    rounds = trial.measured.rounds
    gated = (threshold.metric for threshold in thresholds if threshold.needs_baseline)
    return next((flaw for metric in gated if (flaw := flaw_of(metric, rounds, ratio=True))), None)
