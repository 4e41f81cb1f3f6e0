"""The time budget: what is cut, in which order, and that the sum fits."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.budget import (
    ROUND_SETUP_S,
    SETUP_S,
    UNKNOWN_LENGTH_S,
    Cost,
    Plan,
    cost_of,
    cut_text,
    fewest_rounds,
    fits,
    goes_on,
    plan,
    unconfirmed_text,
    undecided_text,
)
from pytest_kafkaperf.scenario import Scenario


def _cost(**fields: Any) -> Cost:
    known: dict[str, Any] = {"setup_s": 5.0, "round_setup_s": 1.5, "warmup_s": 2.0, "length_s": 5.0, "shortest_s": 2.5}
    return Cost(**{**known, "rounds": 5, "fewest": 3, **fields})


def _planned(*costs: Cost, left_s: float) -> Plan:
    found = plan(costs, left_s=left_s)
    assert isinstance(found, Plan)
    return found


@st.composite
def _costs(draw: st.DrawFn) -> Cost:
    length_s = draw(st.one_of(st.none(), st.floats(min_value=0.1, max_value=60)))
    ratio = draw(st.floats(min_value=0.1, max_value=1))
    rounds = draw(st.integers(min_value=1, max_value=20))
    return Cost(
        setup_s=draw(st.floats(min_value=0, max_value=30)),
        warmup_s=draw(st.floats(min_value=0, max_value=10)),
        length_s=length_s,
        shortest_s=None if length_s is None or draw(st.booleans()) else length_s * ratio,
        rounds=rounds,
        fewest=draw(st.integers(min_value=1, max_value=rounds)),
    )


_LISTS = st.lists(_costs(), min_size=1, max_size=6)
_LEFT = st.floats(min_value=0, max_value=3000)


@given(_LISTS, _LEFT)
def test_all_plans_together_never_exceed_the_budget(costs: list[Cost], left_s: float) -> None:
    """It bounds the whole run, however the tests differ."""
    spent_s = 0.0
    for place, cost in enumerate(costs):
        found = plan(costs[place:], left_s=left_s - spent_s)
        if isinstance(found, Plan):
            assert cost.planned_s(found) <= found.deadline_s + 1e-5
            assert found.deadline_s <= found.latest_s <= left_s - spent_s + 1e-5
            spent_s += cost.planned_s(found)
    assert spent_s <= left_s + 1e-4


@given(_LISTS, _LEFT)
def test_a_plan_is_within_what_can_decide_and_what_was_declared(costs: list[Cost], left_s: float) -> None:
    """Fewer rounds could not decide, and shorter ones would be another measurement."""
    found, first = plan(costs, left_s=left_s), costs[0]
    if isinstance(found, Plan):
        assert first.fewest <= found.rounds <= first.rounds
        if found.length_s is not None:
            assert first.shortest_s is not None
            assert first.length_s is not None
            assert first.shortest_s <= found.length_s <= first.length_s
            assert found.rounds == first.fewest  # rounds go first
    else:
        assert left_s < first.least_s


@given(_LISTS, _LEFT, st.floats(min_value=0, max_value=1000))
def test_more_time_never_gives_less(costs: list[Cost], left_s: float, more_s: float) -> None:
    """Raising the option must not cost a round."""

    def gets(left_s: float) -> tuple[int, float]:
        found = plan(costs, left_s=left_s)
        if isinstance(found, str):
            return (0, 0.0)
        return (found.rounds, found.length_s or costs[0].length_s or 0.0)

    assert gets(left_s) <= gets(left_s + more_s)


@given(_LISTS)
def test_where_everything_fits_nothing_is_cut(costs: list[Cost]) -> None:
    """A budget that is large enough changes nothing."""
    left_s = sum(cost.total_s for cost in costs)
    for place, cost in enumerate(costs):
        found = _planned(*costs[place:], left_s=left_s)
        assert (found.rounds, found.length_s) == (cost.rounds, None)
        left_s -= cost.total_s


@given(_LISTS)
def test_without_a_budget_it_does_not_matter_what_comes_later(costs: list[Cost]) -> None:
    """Nobody need look at hundreds of tests before each of them."""
    assert plan(costs, left_s=math.inf) == plan(costs[:1], left_s=math.inf)


@given(_LISTS)
def test_each_test_gets_what_it_needs_before_any_gets_more(costs: list[Cost]) -> None:
    """A long test in front must not keep those behind it from deciding."""
    left_s = sum(cost.least_s for cost in costs)
    for place, cost in enumerate(costs):
        found = _planned(*costs[place:], left_s=left_s)
        left_s -= cost.planned_s(found)


def test_rounds_are_cut_before_the_length() -> None:
    """5 s and a round of 8.5 s: with 40 s four rounds, with 25 s three shorter ones."""
    assert _planned(_cost(), left_s=47.5).rounds == 5
    assert _planned(_cost(), left_s=40) == Plan(rounds=4, length_s=None, deadline_s=40, latest_s=40)
    shorter = _planned(_cost(), left_s=25)
    assert (shorter.rounds, shorter.length_s) == (3, 2.7)
    assert _planned(_cost(), left_s=23) == Plan(rounds=3, length_s=2.5, deadline_s=23, latest_s=23)


def test_what_cannot_be_cut_in_length_is_cut_in_rounds_only() -> None:
    """`records` say what to send."""
    fixed = _cost(shortest_s=None)
    assert _planned(fixed, left_s=30.5) == Plan(rounds=3, length_s=None, deadline_s=30.5, latest_s=30.5)
    assert isinstance(plan([fixed], left_s=30.4), str)


def test_what_does_not_fit_says_what_it_takes_and_what_was_left() -> None:
    """The reader has to decide by how much to raise the budget."""
    assert plan([_cost()], left_s=20) == (
        "not run: 3 rounds that can decide would take 23 s, and 20 s of the time budget were left; "
        "raise --kafka-time-budget, or run fewer tests"
    )
    assert plan([_cost(rounds=1, fewest=1)], left_s=-3) == (
        "not run: 1 round that can decide would take 11 s, and 0 s of the time budget were left; "
        "raise --kafka-time-budget, or run fewer tests"
    )


def test_the_first_test_may_use_what_the_others_do_not() -> None:
    """For fresh sessions of a suspect: all that the others do not need."""
    two = [_cost(), _cost()]
    assert _planned(*two, left_s=100) == Plan(rounds=5, length_s=None, deadline_s=52.5, latest_s=77)
    scarce = _planned(*two, left_s=66)
    assert (scarce.rounds, scarce.deadline_s, scarce.latest_s) == (3, 33, 43)


def test_a_round_that_takes_longer_than_was_guessed_ends_the_test_within_its_share() -> None:
    """A closed loop of so many records: only running it tells."""
    unknown = _cost(length_s=None, shortest_s=None, rounds=8)
    budget = _planned(unknown, unknown, left_s=146)
    assert (budget.rounds, budget.deadline_s) == (8, 73)

    def rounds(round_s: float, *, left_s: float = 146) -> int:
        done = 0
        while goes_on(
            unknown,
            budget,
            done=done,
            round_s=round_s,
            spent_s=5 + done * round_s,
            left_s=left_s - 5 - done * round_s,
        ):
            done += 1
        return done

    assert rounds(8.5) == 8
    assert rounds(12) == 5
    assert rounds(40) == 3  # beyond the share, but what can decide comes first
    assert rounds(60) == 2  # beyond the budget


def test_rounds_are_given_back_where_they_are_shorter_than_was_guessed() -> None:
    """A guess that was too long must not cost rounds."""
    unknown = _cost(length_s=None, shortest_s=None)
    budget = _planned(unknown, left_s=31)
    assert budget.rounds == 3
    assert goes_on(unknown, budget, done=4, round_s=4, spent_s=21, left_s=10)
    assert not goes_on(unknown, budget, done=5, round_s=4, spent_s=25, left_s=100)


def test_a_session_fits_by_the_measured_round() -> None:
    """Fresh clusters take their start, too."""
    assert fits(8, left_s=8)
    assert not fits(8, left_s=7.9)
    assert fits(8, left_s=45, rounds=5, setup_s=5)
    assert not fits(8, left_s=44, rounds=5, setup_s=5)


@pytest.mark.parametrize(
    ("fields", "length_s", "shortest_s"),
    [
        ({}, 5, 2.5),
        ({"duration": "10 s", "rate": 100}, 10, 5),
        ({"duration": "1.5 s"}, 1.5, 1),
        ({"duration": "0.4 s"}, 0.4, 0.4),
        ({"records": 1000}, None, None),
        ({"records": 1000, "rate": 500}, 2, None),
        ({"records": 3000, "rate": "100 records/s for 10 s, 1k records/s"}, 12, None),
        ({"rate": "1k -> 5k records/s over 30 s"}, 30, None),
    ],
)
def test_the_length_follows_from_the_scenario(
    fields: dict[str, Any], length_s: float | None, shortest_s: float | None
) -> None:
    """Only a duration at one rate can be cut: anything else would be another load."""
    cost = cost_of(Scenario.of({**fields, "warmup": "1 s", "rounds": 7}), fewest=3)
    assert (cost.length_s, cost.shortest_s) == pytest.approx((length_s, shortest_s))
    assert (cost.warmup_s, cost.rounds, cost.fewest) == (1, 7, 3)
    assert cost.total_s == pytest.approx(SETUP_S + 7 * (ROUND_SETUP_S + 1 + (length_s or UNKNOWN_LENGTH_S)))


def test_a_length_that_something_hangs_on_is_kept_and_rounds_are_never_more_than_declared() -> None:
    """A broker that is stopped after 8 s of 10 s."""
    whole = cost_of(Scenario.of({"duration": "10 s", "rounds": 2}), fewest=4, whole=True)
    assert whole == dataclasses.replace(whole, length_s=10, shortest_s=None, rounds=2, fewest=2)


@pytest.mark.parametrize(
    ("declared", "enough", "fewest"), [(5, 1, 3), (2, 1, 2), (5, 4, 4), (9, 5, 5), (5, 13, 5), (30, 13, 13)]
)
def test_the_fewest_rounds_are_those_that_can_decide(declared: int, enough: int, fewest: int) -> None:
    """At least three, so that one wild round does not; and never more than there are."""
    assert fewest_rounds(declared, lambda rounds: rounds >= enough) == fewest


def test_a_test_that_ran_too_few_rounds_says_so() -> None:
    """It is neither passed nor failed by them."""
    assert undecided_text(1, 3) == "1 round ran in the time budget, and 3 can decide; raise --kafka-time-budget"


@pytest.mark.parametrize(
    ("rounds", "length_s", "text"),
    [
        (5, None, None),
        (4, None, "cut to 4 of 5 rounds by the time budget"),
        (3, 2.7, "cut to 3 of 5 rounds, of 2.7 s instead of 5 s, by the time budget"),
        (5, 2.7, "cut to rounds of 2.7 s instead of 5 s by the time budget"),
    ],
)
def test_what_was_cut_is_told(rounds: int, length_s: float | None, text: str | None) -> None:
    """Figures of a shortened test look like any others."""
    assert cut_text(_cost(), rounds=rounds, length_s=length_s) == text


def test_a_suspect_without_time_for_a_session_is_told() -> None:
    """It is neither cleared nor confirmed."""
    assert unconfirmed_text(47.5, left_s=12.25) == (
        "another fresh session would take 47.5 s, and 12.2 s of the time budget were left for it; "
        "raise --kafka-time-budget"
    )
