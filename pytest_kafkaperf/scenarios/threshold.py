"""Parsing and formatting of thresholds, the expressions in `kafka_threshold` markers.

The grammar is `METRIC OP LIMIT`. OP is one of `<= < >= > ==`. LIMIT is a quantity, `baseline`, `baseline + N%`,
`baseline - N%`, or `max(a, b)` or `min(a, b)` of these.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, cast

from pytest_kafkaperf.core.errors import ScenarioError, UnitError
from pytest_kafkaperf.core.metrics import Better, Metric, metric
from pytest_kafkaperf.core.units import Unit, format_quantity, parse

Operator = Literal["<=", "<", ">=", ">", "=="]


@dataclass(frozen=True, slots=True, kw_only=True)
class Absolute:
    """Fixed limit, in the metric's base unit."""

    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """Limit equal to the baseline times `factor`: 1.2 for `baseline + 20%`, 0.9 for `baseline - 10%`."""

    factor: float

    @property
    def log_tolerance(self) -> float:
        """Distance between the baseline and the limit on a log scale; at least 0."""
        return abs(math.log(self.factor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """Maximum or minimum of an absolute and a relative limit.

    The parser reduces two absolute or two relative limits to one.
    """

    kind: Literal["max", "min"]
    parts: tuple[Absolute | Relative, Absolute | Relative]

    @property
    def absolute(self) -> Absolute:
        """Absolute part of the limit."""
        return next(part for part in self.parts if isinstance(part, Absolute))

    def takes_one(self, operator: Operator) -> bool:
        """Return True if meeting one part is enough (`<= max`, `>= min`), False if both must be met."""
        return (self.kind == "max") == operator.startswith("<")


Limit = Absolute | Relative | Extreme


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """Threshold for one metric."""

    expression: str
    """Threshold text with normalized whitespace."""
    metric: Metric
    operator: Operator
    limit: Limit
    implied: bool = False
    """True if the plugin added the threshold, for example `lost == 0` (see `runner.perftest`)."""
    from_ini: bool = field(default=False, compare=False)
    """True if only the ini file declares the threshold, which then applies only to tests that measure its metric."""

    @property
    def relative(self) -> Relative | None:
        """Part of the limit that refers to the baseline, or None."""
        parts = self.limit.parts if isinstance(self.limit, Extreme) else (self.limit,)
        return next((part for part in parts if isinstance(part, Relative)), None)

    @property
    def allows_better(self) -> bool:
        """True if any value that is better than one within the limit is also within it, unlike with `errors >= 1`."""
        is_lower = self.metric.better == "lower"
        best = 0.0 if is_lower else _HIGHEST.get(self.metric.name)
        is_best = self.operator == "==" and best is not None and self.limit == Absolute(value=best)
        return is_best or self.operator.startswith("<" if is_lower else ">")


_HIGHEST = {"app.output_ratio": 1.0}
"""Highest possible values."""


def count_gated(thresholds: Iterable[Threshold]) -> int:
    """Return the number of baseline-relative thresholds, each of which could fail a test by chance."""
    return sum(threshold.relative is not None for threshold in thresholds)


_EXAMPLE = "for example 'produce.latency.p99 <= 25 ms' or 'produce.throughput >= baseline - 10%'"
_COMPARISONS: dict[Operator, Callable[[float, float], bool]] = {
    "<=": operator.le,
    "<": operator.lt,
    ">=": operator.ge,
    ">": operator.gt,
    "==": operator.eq,
}
_OPERATORS = " ".join(_COMPARISONS)
_OPERATOR = re.compile(r"[<>=!]+")
_TURNED = str.maketrans("<>", "><")
_BETWEEN = re.compile(r"\s+and\s+|\s*&&?\s*|\s*[,;]\s*")
_NAME = re.compile(r"[a-z][\w.]*", re.ASCII)
_RELATIVE = re.compile(r"baseline(?:\s*(?P<sign>[+-])\s*(?P<percent>\d+(?:\.\d+)?|\.\d+)\s*%)?", re.ASCII)
_EXTREME = re.compile(r"(?P<kind>max|min)\s*\((?P<parts>.*)\)", re.DOTALL)
_LEAST_TOLERANCE = 0.01 * (1 - 1e-9)
"""Minimum tolerance, with some margin for rounding errors."""
_MAX_LENGTH = 300
"""Maximum length of an expression, in characters."""


def parse_threshold(expression: str) -> Threshold:
    """Parse a threshold expression.

    Raises:
        ScenarioError: the syntax is invalid, the metric is unknown, the unit has another dimension, or the limit is
            relative to the baseline although this metric or operator does not allow that.

    """
    if not isinstance(expression, str):
        raise ScenarioError(f"invalid threshold {expression!r}: must be text, {_EXAMPLE}")
    if len(expression) > _MAX_LENGTH:
        raise ScenarioError(
            f"invalid threshold {expression[:40]!r}...: has {len(expression)} characters, but must have at most "
            f"{_MAX_LENGTH}, in the form METRIC OP LIMIT, {_EXAMPLE}"
        )
    return _parse(expression)


def parse_declared(expression: str) -> Threshold:
    """Parse a threshold declared by a test or the ini file. Its tolerance must be at least 1%.

    Raises:
        ScenarioError: as in `parse_threshold`, or the tolerance is too small.

    """
    threshold = parse_threshold(expression)
    relative, subject = threshold.relative, threshold.metric
    if relative is None or abs(relative.factor - 1) >= _LEAST_TOLERANCE:
        return threshold
    sign = "+" if subject.better == "lower" else "-"
    raise ScenarioError(
        f"invalid threshold {threshold.expression!r}: a tolerance of {abs(relative.factor - 1) * 100:.2g}% would fail "
        "unchanged software because of noise; allow at least 1%, or about 10% with stored baselines: "
        f"'{subject.name} {threshold.operator} baseline {sign} 10%'"
    )


def describe_limit(limit: Limit, subject: Metric) -> str:
    """Format a limit for display: `25 ms`, `baseline + 20%`, `max(baseline, 5 ms)`."""
    match limit:
        case Absolute(value=value):
            return format_quantity(value, subject.unit, digits=6)
        case Relative(factor=factor):
            if factor == 1:
                return "baseline"
            percent = f"{abs(factor - 1) * 100:.6f}".rstrip("0").rstrip(".")  # the grammar has no exponents
            return f"baseline {'+' if factor > 1 else '-'} {percent}%"
        case Extreme(kind=kind, parts=parts):
            return f"{kind}({', '.join(describe_limit(part, subject) for part in parts)})"


def holds(value: float, operator: Operator, limit: float) -> bool:
    """Return True if a value meets an absolute limit."""
    return _COMPARISONS[operator](value, limit)


def limit_value(limit: Limit, baseline: float | None) -> float | None:
    """Return a limit in the metric's base unit; None if it refers to the baseline and `baseline` is None."""
    match limit:
        case Absolute(value=value):
            return value
        case Relative(factor=factor):
            return None if baseline is None else baseline * factor
        case Extreme(kind=kind, parts=parts):
            first, second = (limit_value(part, baseline) for part in parts)
            return None if first is None or second is None else _EXTREMES[kind](first, second)


_EXTREMES = {"max": max, "min": min}


def _parse(expression: str) -> Threshold:
    operators = list(_OPERATOR.finditer(expression))
    if len(operators) != 1:
        problem = _several(expression) or f"must be METRIC OP LIMIT, where OP is one of {_OPERATORS}, {_EXAMPLE}"
        raise ScenarioError(f"invalid threshold {expression!r}: {problem}")
    found = operators[0]
    if found[0] not in _OPERATORS.split():
        raise ScenarioError(f"invalid threshold {expression!r}: unknown operator {found[0]!r}; use one of {_OPERATORS}")
    left, right = expression[: found.start()].strip(), expression[found.end() :].strip()
    if _is_name(right) and not _is_name(left):
        turned = f"{right} {found[0].translate(_TURNED)} {left}"
        raise ScenarioError(f"invalid threshold {expression!r}: put the metric first: {turned!r}")
    try:
        better: Better = "higher" if found[0].startswith(">") else "lower"
        subject = metric(left, better)
        limit = _parse_limit(right, subject)
    except (ScenarioError, UnitError) as error:
        raise ScenarioError(f"invalid threshold {expression!r}: {error}") from None
    operator = cast("Operator", found[0])
    threshold = Threshold(expression=" ".join(expression.split()), metric=subject, operator=operator, limit=limit)
    _check_relative(threshold)
    return threshold


def _several(expression: str) -> str | None:
    """Return the error for text that contains several thresholds, such as `a == 0 and b == 0`; None for other text."""
    parts = _BETWEEN.split(expression)
    if len(parts) == 1 or any(len(_OPERATOR.findall(part)) != 1 for part in parts):
        return None
    return f"these are {len(parts)} thresholds; declare them separately: {', '.join(map(repr, parts))}"


def _is_name(text: str) -> bool:
    """Return True if the text could be a metric name."""
    return text != "baseline" and _NAME.fullmatch(text) is not None


@functools.lru_cache(maxsize=1000)  # many tests in a run have the same thresholds
def _parse_limit(text: str, subject: Metric) -> Limit:
    extreme = _EXTREME.fullmatch(text)
    if extreme is None:
        return _parse_part(text, subject)
    kind: Literal["max", "min"] = "max" if extreme["kind"] == "max" else "min"
    parts = extreme["parts"].split(",")
    if len(parts) != 2:  # noqa: PLR2004 - the grammar takes two
        raise ScenarioError(f"{text!r}: {kind} must have two limits, for example 'max(baseline + 20%, 5 ms)'")
    match [_parse_part(part.strip(), subject) for part in parts]:
        case [Absolute(value=first), Absolute(value=second)]:
            return Absolute(value=_EXTREMES[kind](first, second))
        case [Relative(factor=first), Relative(factor=second)]:
            return Relative(factor=_EXTREMES[kind](first, second))
        case mixed:
            return Extreme(kind=kind, parts=(mixed[0], mixed[1]))


def _parse_part(text: str, subject: Metric) -> Absolute | Relative:
    is_percentage = text.endswith("%") and subject.unit != Unit.RATIO and not subject.is_own
    if "baseline" not in text and not is_percentage:
        value = parse(text, subject.unit)
        if subject.unit == Unit.RATIO and value >= 1 and "%" not in text and not subject.is_own:
            raise ScenarioError(f"{text!r} is {value:.0%}; write '{text}%' or '{value:.0%}'")
        return Absolute(value=value)
    relative = _RELATIVE.fullmatch(text)
    if relative is None:
        sign = "+" if subject.better == "lower" else "-"
        raise ScenarioError(
            f"cannot read {text!r}; write the allowed change as a percentage, for example 'baseline {sign} 10%'"
        )
    change = float(relative["percent"] or 0) / 100
    factor = 1 - change if relative["sign"] == "-" else 1 + change
    if factor <= 0:
        raise ScenarioError(f"invalid limit {text!r}: must subtract less than 100%")
    return Relative(factor=factor)


def _check_relative(threshold: Threshold) -> None:
    """Check that a relative limit restricts how much worse the metric can become. Other limits cannot be judged."""
    subject, relative = threshold.metric, threshold.relative
    if relative is None:
        return
    if subject.can_be_zero:
        example = "== 0" if subject.better == "lower" else ">= 90%"
        raise ScenarioError(
            f"invalid threshold {threshold.expression!r}: {subject.name} can be zero, so it has no ratio to a "
            f"baseline; use an absolute limit, for example '{subject.name} {example}'"
        )
    lower = subject.better == "lower"
    operators, sign = (("<=", "<"), "+") if lower else ((">=", ">"), "-")
    worse_allowed = relative.factor >= 1 if lower else relative.factor <= 1
    if threshold.operator not in operators or not worse_allowed:
        raise ScenarioError(
            f"invalid threshold {threshold.expression!r}: {subject.better} values of {subject.name} are better; "
            f"use '{subject.name} {operators[0]} baseline {sign} N%'"
        )
