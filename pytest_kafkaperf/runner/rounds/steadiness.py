"""Measures whether a load ends as it began: the last third of its window compared with the whole. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from pytest_kafkaperf.load.recorder import Curves


def steadiness(values: Sequence[float | None]) -> float | None:
    """Return the median of the last third of the values, divided by the median of all; 1 if they are steady.

    The last third is rounded down. A median ignores single outliers, so only a change that lasts shows. Places without
    a value are left out. None if the last third has no values, or the median of all is 0.
    """
    known = [value for value in values if value is not None]
    last = [value for value in values[len(values) - len(values) // 3 :] if value is not None]
    whole = statistics.median(known) if known else 0.0
    return statistics.median(last) / whole if last and whole else None


def steadiness_metrics(series: Mapping[str, Curves], length_s: float | None) -> dict[str, float]:
    """Return the steadiness of the rate and of the end-to-end p99, from the complete intervals of the window.

    `length_s` is the duration of the window; None if it is not fixed. An interval without acknowledgements has a rate
    of 0. One in which no received record was due has no p99.
    """
    if length_s is None:
        return {}
    found: dict[str, float | None] = {}
    if "produce" in series:
        rates = _in_window(series["produce"], series["produce"]["count"], length_s)
        found["produce.throughput.steadiness"] = steadiness([rate or 0.0 for rate in rates])
    if "consume" in series:
        p99_s = _in_window(series["consume"], series["consume"]["p99"], length_s)
        found["e2e.latency.p99.steadiness"] = steadiness(p99_s)
    return {name: value for name, value in found.items() if value is not None}


def _in_window(curves: Curves, values: Sequence[float | None], length_s: float) -> list[float | None]:
    """Return the values of the window's complete intervals, without the warm-up; None where the series has none."""
    interval_s = curves["interval_s"]
    skipped = round(curves["first_s"] / interval_s)
    count = math.floor(round(length_s / interval_s, 6))
    places = (place - skipped for place in range(count))
    return [values[place] if 0 <= place < len(values) else None for place in places]
