"""How long a disturbance lasted, by the series of a round."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_kafkaperf.core.notices import Remark
from pytest_kafkaperf.load.recorder import Curves
from pytest_kafkaperf.runner.rounds.recovery import dip, recovery_of


def curves(*p99_ms: float | None, first_s: float = 0.0, counts: tuple[float, ...] = ()) -> Curves:
    p99 = [None if value is None else value / 1000 for value in p99_ms]
    return Curves(interval_s=1, first_s=first_s, count=list(counts), p50=[], p99=p99, max=[])


def recovered(p99_ms: Sequence[float | None], *events_s: float, length_s: float | None = None) -> float | None:
    """The recovery of a round whose series begins with the window."""
    return recovery_of(events_s, curves(*p99_ms), length_s).metrics.get("recovery")


@pytest.mark.parametrize(
    ("p99_ms", "event_s", "recovery"),
    [
        pytest.param([10] * 10, 3.5, 0, id="not felt"),
        pytest.param([10, 10, 10, 900, 500, 10, 10, 10, 10], 3.0, 2, id="two bad seconds"),
        pytest.param([10, 10, 10, 10, 900, 500, 10, 10, 10], 3.5, 2.5, id="begins in the middle of a second"),
        pytest.param([10, 10, 10, None, None, 10, 10, 10], 3.0, 2, id="nothing was due: closed loop, and stuck"),
        pytest.param([10, 10, 10, 900, 10, 10, 900, 10, 10, 10], 3.0, 4, id="two calm seconds are not the end"),
        pytest.param([10, 10, 10, 900, 10, 10, 10, 900], 3.0, 1, id="what comes after three is something else"),
        pytest.param([10, 10, 10, 29], 3.0, 0, id="a little more is noise"),
        pytest.param([10, 10, 10, 900, 900], 3.0, 2, id="not over at the end"),
        pytest.param([10, 10], 0.5, None, id="nothing to compare with"),
    ],
)
def test_a_disturbance_lasts_until_latency_is_ordinary_again(
    p99_ms: list[float | None], event_s: float, recovery: float | None
) -> None:
    """What a limit on `recovery` judges."""
    assert recovered(p99_ms, event_s) == (None if recovery is None else pytest.approx(recovery))


def test_the_warm_up_tells_what_is_ordinary_where_the_event_comes_first() -> None:
    """A broker may be stopped as the window opens."""
    found = recovery_of([0.0], curves(10, 10, 900, 10, 10, 10, first_s=-2.0), None)
    assert found.metrics == {"recovery": 1}


@pytest.mark.parametrize(
    ("p99_ms", "event_s", "recovery"),
    [
        pytest.param([10] * 10 + [None], 8.5, 0, id="no record is due after the window"),
        pytest.param([10] * 5 + [900] * 3 + [10] * 2 + [None], 5.0, 3, id="over before the end"),
        pytest.param([10] * 5, 4.2, 5.8, id="no answer until the end"),
    ],
)
def test_the_length_of_the_window_tells_which_seconds_count(
    p99_ms: list[float | None], event_s: float, recovery: float
) -> None:
    """The last acknowledgements may come after it, or none at all."""
    assert recovered(p99_ms, event_s, length_s=10.0) == pytest.approx(recovery)


@pytest.mark.parametrize(
    ("p99_ms", "is_bound"),
    [
        pytest.param([10] * 5 + [900] * 5, True, id="never"),
        pytest.param([10] * 5, True, id="without any acknowledgement"),
        pytest.param([10] * 5 + [900] * 3 + [10] * 2, True, id="perhaps: two calm seconds can be chance"),
        pytest.param([10] * 5 + [900] * 2 + [10] * 3, False, id="in time"),
        pytest.param([10] * 10, False, id="not needed"),
    ],
)
def test_a_recovery_that_the_window_does_not_show_is_a_lower_bound(
    p99_ms: list[float | None],
    is_bound: bool,  # noqa: FBT001
) -> None:
    """Otherwise a cluster that never recovers would meet each limit that is above the rest of the window."""
    found = recovery_of([5.0], curves(*p99_ms), 10.0)
    assert found.at_least == (("recovery",) if is_bound else ())
    assert [notice.remark for notice in found.warnings].count(Remark.RECOVERY_UNENDED) == is_bound


OUTAGE = [10] * 5 + [900] * 9 + [10] * 6


@pytest.mark.parametrize(
    ("p99_ms", "events_s", "recovery"),
    [
        pytest.param(OUTAGE, [1.0], 0, id="a leader that moves"),
        pytest.param(OUTAGE, [1.0, 5.0], 9, id="and then a broker that stops"),
        pytest.param(OUTAGE, [1.0, 5.0, 14.0], 9, id="which starts again"),
        pytest.param(OUTAGE, [1.0, 5.0, 20.0], 9, id="after the window"),
        pytest.param(OUTAGE, [20.0], None, id="nothing in the window"),
    ],
)
def test_of_several_events_the_longest_recovery_counts(
    p99_ms: list[float | None], events_s: list[float], recovery: float | None
) -> None:
    """A harmless event before the outage must not hide it."""
    assert recovered(p99_ms, *events_s, length_s=20.0) == recovery


def test_an_unknown_end_of_a_shorter_recovery_makes_the_longest_a_lower_bound() -> None:
    """The second outage may take longer than the first one."""
    found = recovery_of([2.0, 9.0], curves(*[10] * 2, *[900] * 3, *[10] * 4, 900), 10.0)
    assert (found.metrics, found.at_least) == ({"recovery": 3}, ("recovery",))


def test_the_dip_is_the_slowest_whole_second_from_the_event_on() -> None:
    """The last second is cut short by the end of the round."""
    produced = curves(1, 1, 1, 1, 1, counts=(50, 1000, 200, 900, 10))
    assert dip(produced, 1.5) == (200, 2.0)
