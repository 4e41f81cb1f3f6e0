"""How long a disturbance lasted, by the series of a round."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.load.timeseries import Curves
from pytest_kafkaperf.runner.measurement import dip, recovery_s


def curves(*p99_ms: float | None, first_s: float = 0.0, counts: tuple[float, ...] = ()) -> Curves:
    p99 = [None if value is None else value / 1000 for value in p99_ms]
    return Curves(interval_s=1, first_s=first_s, count=list(counts), p50=[], p99=p99, max=[])


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
    assert recovery_s(curves(*p99_ms), event_s) == (None if recovery is None else pytest.approx(recovery))


def test_the_warm_up_tells_what_is_ordinary_where_the_event_comes_first() -> None:
    """A broker may be stopped as the window opens."""
    assert recovery_s(curves(10, 10, 900, 10, 10, 10, first_s=-2.0), 0.0) == 1


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
    assert recovery_s(curves(*p99_ms), event_s, 10.0) == pytest.approx(recovery)


def test_the_dip_is_the_slowest_whole_second_from_the_event_on() -> None:
    """The last second is cut short by the end of the round."""
    produced = curves(1, 1, 1, 1, 1, counts=(50, 1000, 200, 900, 10))
    assert dip(produced, 1.5) == (200, 2.0)
