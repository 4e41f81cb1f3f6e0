"""Effects of cold brokers and applications on a verdict. Pure functions.

A cold program is always slower than a warm one. If cold programs meet a limit, warm programs would also meet it; if
they miss the limit, nothing is proven.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.metrics import FINAL_METRICS
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import Cause, Place, Problem
from pytest_kafkaperf.core.text import listed
from pytest_kafkaperf.core.units import Count, counted
from pytest_kafkaperf.runner.result import Trial
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.warmup import WarmUpEnd
from pytest_kafkaperf.verdict.outcome import Check, Judgement, Verdict, worst
from pytest_kafkaperf.verdict.reasons import Reason

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.monitoring.readings import Key

_COLD = Reason("a cold broker or application may be the cause")
_UNEVEN = Reason("one side was less warm than the other")
_DECIDED = (Verdict.PASSED, Verdict.IMPROVED, Verdict.REGRESSED)


_BUSY_SHARE = 0.5
"""Number of cores above which a compiler is so busy that a single round shows a cold program."""


def is_cold(trial: Trial) -> bool:
    """Return True if cold brokers or applications may have determined a trial's values, which are medians of rounds.

    Even a warm JVM sometimes compiles a few methods. After a complete warm-up, this matters only if it affected at
    least half of a side's rounds, or if the compiler was very busy.
    """
    sides = (trial.rounds, trial.other_side or ())
    if trial.warm_up_end is WarmUpEnd.SHORT:
        return any(one.cold for side in sides for one in side)
    return any(_is_cold(side) for side in sides)


def _is_cold(rounds: Sequence[Round]) -> bool:
    cold = [one for one in rounds if one.cold]
    most = max((one.compiler[key] or 0.0 for one in cold for key in one.cold), default=0.0)
    return 2 * len(cold) >= max(1, len(rounds)) or most >= _BUSY_SHARE


def cold_warnings(trials: Sequence[Trial]) -> list[Notice]:
    """Return a warning for each side that was cold in any round; a short warm-up gets a note instead."""
    warmed = [each for each in trials if each.warm_up_end is not WarmUpEnd.SHORT]
    return [Notice.of(problem, Remark.COLD) for problem in _problems(warmed)]


def _problems(trials: Sequence[Trial]) -> list[Problem]:
    """Return a problem for each side that was cold in any round."""
    own = [one for trial in trials for one in trial.rounds]
    other = [one for trial in trials for one in trial.other_side or ()]
    cause = _cause({trial.warm_up_end for trial in trials})
    return [*_problem(own, cause, Place()), *_problem(other, cause, Place(other_side=True))]


def cold_judgement(
    judgement: Judgement, trials: Sequence[Trial], *, kept: bool, unsafe: Collection[str] = ()
) -> Judgement:
    """Return the judgment after removing outcomes that cold programs may have caused.

    The judgment does not change if the user has disabled the warm-up. `unsafe` are the absolute thresholds that cold
    programs may meet more easily.

    - If the values are `kept`, either in a baseline or to measure a test's noise, the test is INVALID.
    - Unmet absolute limits become INVALID, except limits on counts from the log, which make the test VIOLATED.
    - Unsafe absolute limits become INVALID even if they are met.
    - A side-by-side comparison becomes INVALID unless both sides were equally cold.
    - REGRESSED against a stored baseline becomes INCONCLUSIVE.
    """
    is_off = any(trial.warm_up_end is WarmUpEnd.OFF for trial in trials)
    if is_off or judgement.problems:
        return judgement
    if not any(map(is_cold, trials)):
        return _uneven_judgement(judgement, trials)
    paired = any(trial.other_side is not None for trial in trials)  # for example after a side-by-side re-test
    uneven = any(trial.is_uneven for trial in trials)
    checks = tuple(
        _doubted(check)
        if check.expression in unsafe and not check.is_proven
        else _cold_check(check, paired=paired, uneven=uneven)
        for check in judgement.checks
    )
    if checks == judgement.checks and not kept:
        return judgement
    changed = dataclasses.replace(judgement, checks=checks, unsettled=False)
    found = worst([check.outcome for check in checks])
    if kept or found is Verdict.INVALID:
        return _invalid(changed, _problems(trials))
    return dataclasses.replace(changed, verdict=found)


def _invalid(judgement: Judgement, problems: Sequence[Problem]) -> Judgement:
    """Return the judgment as INVALID or, if the log proves faults, as VIOLATED, with the problems as warnings."""
    if any(check.is_proven for check in judgement.checks):
        return dataclasses.replace(judgement, verdict=Verdict.VIOLATED, doubts=(*judgement.doubts, *problems))
    return dataclasses.replace(judgement, verdict=Verdict.INVALID, problems=tuple(problems))


def _uneven_judgement(judgement: Judgement, trials: Sequence[Trial]) -> Judgement:
    """Return the judgment of a comparison with warm brokers, of which those on one side may have been less warm.

    A single such trial decides nothing. If too many trials are uneven to leave them out, the test is INVALID.
    """
    counting = [trial for trial in trials[1:] if trial.is_uneven and trial.is_invalidated]
    if counting:
        values = {"uneven": len(counting), "trials": Count(len(trials), "trial")}
        problem = Problem(Cause.UNEVEN_TRIALS, values)
        return _invalid(dataclasses.replace(judgement, unsettled=False), [problem])
    if len(trials) > 1 or not trials[0].is_uneven:
        return judgement
    checks = tuple(
        dataclasses.replace(check, outcome=Verdict.INCONCLUSIVE, reasons=(_UNEVEN,))
        if check.is_relative
        and check.outcome in (Verdict.PASSED, Verdict.IMPROVED)
        and check.metric not in FINAL_METRICS
        else check
        for check in judgement.checks
    )
    if checks == judgement.checks:
        return judgement
    found = worst([check.outcome for check in checks])
    return dataclasses.replace(judgement, verdict=found, checks=checks, unsettled=not found.fails)


def _doubted(check: Check) -> Check:
    return dataclasses.replace(check, outcome=Verdict.INVALID, reasons=(*check.reasons, _COLD))


def _cold_check(check: Check, *, paired: bool, uneven: bool) -> Check:
    if check.metric in FINAL_METRICS:
        return check
    if check.outcome is Verdict.VIOLATED:
        return _doubted(check)
    if not check.is_relative:
        return check
    if uneven and check.outcome in _DECIDED:
        return dataclasses.replace(check, outcome=Verdict.INVALID, reasons=(_UNEVEN,))
    if not paired and check.outcome is Verdict.REGRESSED:
        return dataclasses.replace(check, outcome=Verdict.INCONCLUSIVE, reasons=(*check.reasons, _COLD))
    return check


def _problem(rounds: Sequence[Round], cause: Cause, place: Place) -> Iterator[Problem]:
    cold = [one for one in rounds if one.cold]
    if cold:
        values = {
            "names": listed([*dict.fromkeys(_named(key) for one in cold for key in one.cold)]),
            "cold": len(cold),
            "rounds": Count(len(rounds), "round"),
            "most": max(one.compiler[key] or 0.0 for one in cold for key in one.cold),
        }
        yield Problem(cause, values, place=place)


def _named(key: Key) -> str:
    return f"broker {key}" if isinstance(key, int) else str(key)


def _cause(ends: set[WarmUpEnd | None]) -> Cause:
    if WarmUpEnd.OFF in ends:
        return Cause.WARM_UP_OFF
    return Cause.WARM_UP_TOO_SHORT if WarmUpEnd.LIMIT in ends else Cause.COLD_BROKER


def warm_up_notes(trials: Sequence[Trial], verdict: Verdict) -> list[Notice]:
    """Return a note if brokers that were still cold after a short warm-up met the limits."""
    are_cold = any(trial.warm_up_end is WarmUpEnd.SHORT for trial in trials)
    return [Notice(Remark.SHORT_WARM_UP)] if are_cold and not verdict.fails else []


def describe_warm_ups(trial: Trial) -> Iterator[str]:
    """Yield a line for each side about its warm-up and about compiler usage during the warm-up and the rounds."""
    sides = (("", trial.rounds), ("the baseline: ", trial.other_side or ()))
    for warm_up, (side, rounds) in zip(trial.warm_ups, sides, strict=False):
        slices = _busiest(warm_up.shares)
        took = f"{warm_up.took_s:.1f} s, " if slices else ""
        before = f"{counted(len(slices), 'slice')} from {slices[0]} to {slices[-1]}, " if slices else ""
        within = " ".join(_busiest([one.compiler for one in rounds])) or "unknown"
        yield f"{side}warm-up: {warm_up.end}, {took}cores used by the JVM's compiler: {before}rounds {within}"


def _busiest(shares: Sequence[Mapping[Key, float | None]]) -> list[str]:
    """Return the number of cores that the busiest compiler used in each slice or round."""
    known = [[share for share in one.values() if share is not None] for one in shares]
    return [f"{max(each):.2f}" if each else "-" for each in known]
