"""A chart as drawn on the page: an SVG that fits any width, because all its positions are percentages. Pure.

The browser uses these percentages to position text. Everything else is a path in a 100-by-100 box, which is stretched
to the chart area; a dot is a line of length 0 with a thick, round cap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pytest_kafkaperf.core.units import Unit
from pytest_kafkaperf.reports.wording import short

SPAN = 20
"""Minimum factor between the smallest and the largest value on a logarithmic axis."""
_MOST_TICKS = 6
"""Maximum number of labels on an axis; this number fits on a phone."""
_MOST_LOG_TICKS = 9
"""Maximum number of labels on a logarithmic vertical axis, large enough for labels between the decades."""
_LABELS_CH = 36
"""Maximum total length, in characters, of side-by-side labels below a chart."""
_LEADS = (1, 2, 5)
_BINARY_LEADS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
_BINARY = (Unit.BYTES, Unit.BYTE_RATE)
_GAP = 0.04
"""Fraction of a logarithmic axis that is empty at each end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An axis's range and labels."""

    low: float
    """Value at the left or bottom end."""
    high: float
    """Value at the right or top end; may be smaller than the value at the other end."""
    is_log: bool = False
    ticks: Mapping[float, str]
    """Labels, by value."""
    title: str = ""

    def place(self, value: float) -> float:
        """Return a value's distance from the low end, as a percentage of the axis."""
        low, high, at = (math.log(each) if self.is_log else each for each in (self.low, self.high, value))
        return 100 * (at - low) / (high - low)


def value_axis(values: Sequence[float], unit: str, *, title: str = "") -> Axis:
    """Return an axis for values in a base unit; it starts at 0, or is logarithmic if the values span `SPAN`."""
    low, high = min(values), max(values)
    if low > 0 and high >= SPAN * low:
        ticks = _log_ticks(low, high, most=_MOST_LOG_TICKS, binary=unit in _BINARY)
        return Axis(low=low, high=high, is_log=True, ticks={tick: short(tick, unit) for tick in ticks}, title=title)
    step = _step(max(high, 0) - min(low, 0), binary=unit in _BINARY)
    bottom, top = math.floor(min(low, 0) / step), math.ceil(max(high, 0) / step)
    ticks = [place * step for place in range(bottom, max(top, bottom + 1) + 1)]
    return Axis(low=ticks[0], high=ticks[-1], ticks={tick: short(tick, unit) for tick in ticks}, title=title)


def span_axis(values: Sequence[float], *, title: str, least_step: float = 0.0) -> Axis:
    """Return an axis from the minimum to the maximum of plain numbers such as seconds."""
    low, high = min(values), max(values)
    step = max(_step(high - low), least_step)
    ticks = _multiples(step, low, high)
    return Axis(low=low, high=max(high, low + step), ticks={tick: f"{tick:.6g}" for tick in ticks}, title=title)


def label_axis(labels: Sequence[str], *, title: str = "") -> Axis:
    """Return an axis with a label at each of 0, 1, 2 and so on."""
    return Axis(low=-0.4, high=len(labels) - 0.6, ticks=dict(enumerate(labels)), title=title)


def log_axis(values: Sequence[float], text: Callable[[float], str], *, title: str = "") -> Axis:
    """Return a logarithmic horizontal axis for values above 0."""
    gap = max((max(values) / min(values)) ** _GAP, 1 + _GAP)
    low, high = min(values) / gap, max(values) * gap
    ticks = _log_ticks(low, high, most=_MOST_TICKS)
    return Axis(low=low, high=high, is_log=True, ticks={tick: text(tick) for tick in ticks}, title=title)


def _log_ticks(low: float, high: float, *, most: int, binary: bool = False) -> list[float]:
    """Return powers of 2 for bytes, otherwise 1, 2 and 5 in each decade; in a narrow range, multiples of a step."""
    base, leads = (2, (1,)) if binary else (10, _LEADS)
    exponents = range(math.floor(math.log(low, base)), math.ceil(math.log(high, base)) + 1)
    found = [lead * float(base) ** exponent for exponent in exponents for lead in leads]
    found = [tick for tick in found if low <= tick <= high]
    if len(found) < len(_LEADS):
        return _multiples(_step(high - low), low, high)
    if len(found) > most and not binary:
        found = [tick for tick in found if math.log10(tick).is_integer()]
    return found[:: math.ceil(len(found) / most)]


def _step(span: float, *, binary: bool = False) -> float:
    """Return the tick spacing: 1, 2 or 5 times a power of 10; for bytes, `_BINARY_LEADS` times a power of 1024."""
    least = (span or 1) / (_MOST_TICKS - 1)
    base, leads = (1024.0, _BINARY_LEADS) if binary else (10.0, _LEADS)
    scale = base ** math.floor(math.log(least, base))
    return next((lead * scale for lead in leads if lead * scale >= least), base * scale)


def _multiples(step: float, low: float, high: float) -> list[float]:
    """Return the multiples of `step` from `low` to `high`, without those that rounding moves beyond an end."""
    slack = step * _SLACK_RATIO
    found = (place * step for place in range(math.ceil(low / step), math.floor(high / step) + 1))
    return [each for each in found if low - slack <= each <= high + slack]


_SLACK_RATIO = 1e-6
"""Share of a step by which a label may miss its axis, as `3 * 0.1` exceeds 0.3. Values above 2 ** 50 miss by more."""


class Point(NamedTuple):
    """A point and its tooltip."""

    x: float
    y: float
    text: str = ""


class Bar(NamedTuple):
    """A vertical bar and its tooltip."""

    x: float
    low: float
    high: float
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Points of the same kind, or a line through them."""

    name: str
    colour: str
    """A CSS color."""
    points: tuple[Point, ...] = ()
    line: Literal["line", "thin", ""] = "line"
    dots: Literal["dot", "square", ""] = ""
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A line across the chart at `x` or `y`, or the area between two values of `x`."""

    x: tuple[float, ...] = ()
    y: float | None = None
    colour: str
    style: Literal["dashed", "dotted", "solid", "shade"]


class SvgPath(NamedTuple):
    """A path in the 100-by-100 box, and its tooltip."""

    d: str
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart with its caption."""

    title: str
    note: str = ""
    """Explanation next to the title."""
    x: Axis
    y: Axis
    series: Sequence[Trace]
    marks: Sequence[Mark] = ()
    ends: tuple[str, str] = ("", "")
    """Meanings of the two directions on the horizontal axis."""
    height_px: int = 200
    """Height of the chart area without the labels."""
    wide: bool = False
    """True if the chart takes up the full width of the page."""

    @property
    def legend(self) -> list[Trace]:
        """The series in the legend, which excludes thin lines."""
        return [each for each in self.series if each.line != "thin"]

    @property
    def left_ch(self) -> int:
        """Length of the longest label on the left, in characters."""
        return max(map(len, self.y.ticks.values()), default=0)

    @property
    def below_ch(self) -> int:
        """Length in characters of the longest label below the chart if labels do not fit side by side; 0 otherwise."""
        lengths = [len(label) for label in self.x.ticks.values()]
        return max(lengths) if sum(lengths) > _LABELS_CH else 0

    @property
    def grid(self) -> str:
        """The path for the grid lines at the labels."""
        across = (f"M0 {_number(100 - self.y.place(tick))}H100" for tick in self.y.ticks)
        up = (f"M{_number(self.x.place(tick))} 0V100" for tick in self.x.ticks)
        return "".join((*across, *up))

    @property
    def x_labels(self) -> list[tuple[str, str]]:
        """Positions and texts of the labels below the chart."""
        return [(_number(self.x.place(tick)), text) for tick, text in self.x.ticks.items()]

    @property
    def y_labels(self) -> list[tuple[str, str]]:
        """Positions (from the top) and texts of the labels on the left."""
        return [(_number(100 - self.y.place(tick)), text) for tick, text in self.y.ticks.items()]

    def paths_of(self, series: Trace) -> Iterator[tuple[str, list[SvgPath]]]:
        """Yield the paths for a series, by style sheet class."""
        places = [self._place(point.x, point.y) for point in series.points]
        if series.bars:
            ends = ((self._place(bar.x, bar.low), self._place(bar.x, bar.high), bar.text) for bar in series.bars)
            yield "bar", [SvgPath(f"M{low}L{high}", text) for low, high, text in ends]
        if series.line and places:
            yield series.line, [SvgPath("M" + "L".join(places))]
        if series.dots and places:
            texts = (point.text for point in series.points)
            yield series.dots, [SvgPath(f"M{place}h0", text) for place, text in zip(places, texts, strict=True)]

    def path_of(self, mark: Mark) -> str:
        """Return the path for a mark."""
        if mark.y is not None:
            return f"M0 {_number(100 - self.y.place(mark.y))}H100"
        first, *more = (_number(self.x.place(x)) for x in mark.x)
        return f"M{first} 0V100H{more[0]}V0Z" if more else f"M{first} 0V100"

    def _place(self, x: float, y: float) -> str:
        return f"{_number(self.x.place(x))} {_number(100 - self.y.place(y))}"


def _number(percent: float) -> str:
    """Format a position to a tenth of a percent, which is at most one pixel."""
    return f"{percent:.1f}".removesuffix(".0")


def line_chart(
    title: str, series: Sequence[Trace], unit: str, *, x: Axis, note: str = "", marks: Sequence[Mark] = ()
) -> Chart | None:
    """Return a chart of values in a base unit; None if no line has two points other than the one at 0."""
    drawn = [each for each in series if each.points]
    if not any(len(each.points) > 1 and any(point.y for point in each.points) for each in drawn):
        return None
    values = [point.y for each in drawn for point in each.points]
    values += [end for each in drawn for bar in each.bars for end in (bar.low, bar.high)]
    values += [mark.y for mark in marks if mark.y is not None]
    y = value_axis(values, unit)
    notes = [note, "log scale" if y.is_log else ""]
    return Chart(title=title, note="; ".join(filter(None, notes)), x=x, y=y, series=drawn, marks=marks)


def xs_of(series: Sequence[Trace]) -> list[float]:
    """Return the horizontal positions of all points and bars."""
    points = [point.x for each in series for point in each.points]
    return points + [bar.x for each in series for bar in each.bars]
