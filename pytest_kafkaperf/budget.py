"""The time that a whole run may take, divided over its tests. Pure: the clock's values are passed in, as seconds.

A test is cut in rounds before it is cut in length, and never below what can decide. A warm-up is never cut: it is what
makes rounds alike. Every test is given what it needs to decide before any gets more; where even that does not fit, the
tests that come first have it. What a test does not use, those after it have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.scenario import Scenario
from pytest_kafkaperf.schedule import window_s
from pytest_kafkaperf.units import Unit, counted, format_quantity

SETUP_S = 2.0
"""Of a test: topic and workers, until the first round begins."""
ROUND_SETUP_S = 0.8
"""Of a round, besides its warm-up and its load: clients that connect, draining, looking at the log."""
UNKNOWN_LENGTH_S = 5.0
"""Taken for a round of so many records in a closed loop until one has been measured: a default scenario's length."""
_SHORTEST_RATIO = 0.5
"""Of the declared length; what a round shorter than that gives is another figure."""
_SHORTEST_S = 1.0
_FEWEST = 3
"""Rounds that a median takes so that one wild round does not decide."""
_RESERVE_RATIO = 0.05
"""Of a test's share, where its length is cut to fit: a round takes a little longer than planned."""
_SAME_S = 1e-6
"""Far below what a clock tells and a round takes: sums of seconds round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a test takes."""

    setup_s: float = SETUP_S
    round_setup_s: float = ROUND_SETUP_S
    warmup_s: float
    """Of each round."""
    length_s: float | None
    """Of each round's load; None where only running it tells."""
    shortest_s: float | None
    """To which the length may be cut; None where it may not be."""
    rounds: int
    """Declared."""
    fewest: int
    """Rounds that can decide; at most `rounds`."""

    @property
    def round_s(self) -> float:
        """Of a whole round of the declared length."""
        return self._round_s(self.length_s)

    @property
    def total_s(self) -> float:
        """Of the test as it was declared."""
        return self.setup_s + self.rounds * self.round_s

    @property
    def least_s(self) -> float:
        """Of the fewest rounds at the shortest length."""
        return self.setup_s + self.fewest * self._round_s(self.shortest_s or self.length_s)

    def planned_s(self, plan: Plan) -> float:
        """Of the test as it was planned."""
        return self.setup_s + plan.rounds * self._round_s(plan.length_s or self.length_s)

    def _round_s(self, length_s: float | None) -> float:
        return self.round_setup_s + self.warmup_s + (UNKNOWN_LENGTH_S if length_s is None else length_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a test gets. Seconds count from the moment of planning."""

    rounds: int
    length_s: float | None
    """To which the scenario's duration is cut; None: it stays as it was declared."""
    deadline_s: float
    """By when the test is over, so that the others get their share: rounds beyond those that can decide end by then."""
    latest_s: float
    """By when it is over, so that the others can still decide: fresh sessions of a suspect end by then."""


def fewest_rounds(declared: int, decides: Callable[[int], bool]) -> int:
    """The fewest rounds, at least three, that can decide; where not even the declared ones can, it is these."""
    return next((rounds for rounds in range(_FEWEST, declared) if decides(rounds)), declared)


def cost_of(scenario: Scenario, *, fewest: int, whole: bool = False) -> Cost:
    """What a test of that scenario takes.

    Only a duration at one rate, or in a closed loop, can be cut: `records` say what to send, and a shape of rates takes
    its time. `whole` says that the length must stay for another reason, such as something that is done in a round at a
    certain time.
    """
    cuttable = scenario.duration is not None and not isinstance(scenario.rate, tuple) and not whole
    return Cost(
        warmup_s=scenario.warmup,
        length_s=window_s(scenario),
        shortest_s=_shortest_s(scenario.duration) if cuttable and scenario.duration is not None else None,
        rounds=scenario.rounds,
        fewest=min(fewest, scenario.rounds),
    )


def plan(costs: Sequence[Cost], *, left_s: float) -> Plan | str:
    """What the first of the remaining tests, at least one, gets of the time that is left; or why it cannot run.

    Beyond what each needs to decide, time is divided in proportion to what each could use.
    """
    first, *others = costs
    if first.least_s > left_s + _SAME_S:
        return (
            f"not run: {counted(first.fewest, 'round')} that can decide would take {_seconds(first.least_s)}, and "
            f"{_seconds(max(left_s, 0))} of the time budget were left; raise --kafka-time-budget, or run fewer tests"
        )
    spare_s = left_s - math.fsum(cost.least_s for cost in costs)
    usable_s = math.fsum(cost.total_s - cost.least_s for cost in costs)
    if spare_s >= usable_s - _SAME_S:
        share_s = first.total_s
        deadline_s = max(share_s, left_s - math.fsum(cost.total_s for cost in others))
    else:
        ratio = max(spare_s, 0) / usable_s if usable_s > 0 else 0.0
        share_s = first.least_s + ratio * (first.total_s - first.least_s)
        deadline_s = share_s
    rounds, length_s = _cut(first, share_s)
    return Plan(
        rounds=rounds,
        length_s=length_s,
        deadline_s=deadline_s,
        latest_s=max(deadline_s, left_s - math.fsum(cost.least_s for cost in others)),
    )


def fits(round_s: float, *, left_s: float, rounds: int = 1, setup_s: float = 0.0) -> bool:
    """Whether so many more rounds, as long as one took so far, are over within what is left."""
    return setup_s + rounds * round_s <= left_s + _SAME_S


def goes_on(cost: Cost, plan: Plan, *, done: int, round_s: float, spent_s: float, left_s: float) -> bool:
    """Whether another round of a test is to run: asked before each.

    Rounds up to the fewest that can decide take what they need of all the time that is left; others, up to those
    declared, of the test's share only. So a length that was guessed too short ends a test early, and one that was
    guessed too long gives back rounds.

    `round_s` is the longest round so far, `cost.round_s` before the first; `spent_s` what the test took since it was
    planned; `left_s` what is left of the run now.
    """
    if done >= cost.rounds:
        return False
    return fits(round_s, left_s=left_s if done < cost.fewest else min(left_s, plan.deadline_s - spent_s))


def cut_text(cost: Cost, *, rounds: int, length_s: float | None) -> str | None:
    """What was cut of a test that ran so many rounds: `cut to 4 of 5 rounds by the time budget`; None: nothing.

    `length_s` is the plan's.
    """
    number = f"cut to {rounds} of {counted(cost.rounds, 'round')}" if rounds < cost.rounds else ""
    if length_s is not None and cost.length_s is not None:
        length = f"of {_seconds(length_s)} instead of {_seconds(cost.length_s)}"
        number = f"{number}, {length}," if number else f"cut to rounds {length}"
    return f"{number} by the time budget" if number else None


def undecided_text(rounds: int, fewest: int) -> str:
    """Why a test with so few rounds is not judged."""
    return f"{counted(rounds, 'round')} ran in the time budget, and {fewest} can decide; raise --kafka-time-budget"


def unconfirmed_text(needed_s: float, *, left_s: float) -> str:
    """Why a suspect was not confirmed: a fresh session did not fit."""
    return (
        f"another fresh session would take {_seconds(needed_s)}, and {_seconds(max(left_s, 0))} of the time budget "
        "were left for it; raise --kafka-time-budget"
    )


def _shortest_s(duration_s: float) -> float:
    return min(duration_s, max(_SHORTEST_S, _SHORTEST_RATIO * duration_s))


def _cut(cost: Cost, share_s: float) -> tuple[int, float | None]:
    """Rounds, and the length to which they are cut, so that a test fits into its share; it is at least `least_s`."""
    rounds = math.floor((share_s - cost.setup_s + _SAME_S) / cost.round_s)
    if rounds >= cost.fewest or cost.shortest_s is None:
        return max(cost.fewest, min(rounds, cost.rounds)), None
    for_rounds_s = share_s * (1 - _RESERVE_RATIO) - cost.setup_s
    length_s = for_rounds_s / cost.fewest - cost.round_setup_s - cost.warmup_s
    return cost.fewest, max(cost.shortest_s, math.floor(length_s * 10) / 10)


BROKEN_OFF_TEXT = "a fresh session took longer than the time budget had left, and does not count; raise it"
"""Why there were no more of them."""


def _seconds(value_s: float) -> str:
    return format_quantity(value_s, Unit.SECONDS)
