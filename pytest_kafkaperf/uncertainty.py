"""How far end-to-end latency may be off between machines, and which limits that leaves open. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kafkaperf.threshold import Absolute, Extreme, Threshold
from pytest_kafkaperf.units import Unit, format_quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kafkaperf.round import Round

_FAMILY = "e2e.latency"


def uncertainty_s(rounds: Iterable[Round]) -> float | None:
    """The most over those rounds; None where every record came and went on one machine."""
    return max((one.e2e_uncertainty_s for one in rounds if one.e2e_uncertainty_s is not None), default=None)


def describe_uncertainty(seconds: float) -> str:
    """What is to know of the figures."""
    return f"end-to-end latency is between machines whose clocks are known to {_shown(seconds)}"


def open_limits(thresholds: Sequence[Threshold], values: Sequence[float | None], seconds: float | None) -> list[str]:
    """Why limits on end-to-end latency cannot be judged: they are finer than the clocks.

    `values` are those of the limits; None where one speaks of a baseline that is not there.
    """
    if seconds is None:
        return []
    return [
        f"threshold {threshold.expression!r}: the limit is {format_quantity(limit, Unit.SECONDS)}, and the clocks of "
        f"the machines that send and receive are known to {_shown(seconds)} only; loosen the limit, bring the machines "
        "and the Dask scheduler into one network, or let one machine send and receive"
        for threshold, value in zip(thresholds, values, strict=True)
        if threshold.metric.name.startswith(_FAMILY)
        and (limit := _quantity(threshold) if value is None else value) is not None
        and limit < seconds
    ]


def _quantity(threshold: Threshold) -> float | None:
    """What of a limit is known without a baseline."""
    match threshold.limit:
        case Absolute(value=value):
            return value
        case Extreme() as extreme:
            return extreme.absolute.value
        case _:
            return None


def _shown(seconds: float) -> str:
    return f"±{format_quantity(seconds, Unit.SECONDS, digits=2)}"
