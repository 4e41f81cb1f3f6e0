"""Limits: the text of a `kafka_threshold` marker, read once at collection.

Grammar: `METRIC OP LIMIT`; OP is one of `<= < >= > ==`; LIMIT is a quantity, `baseline`, `baseline + N%`,
`baseline - N%`, or `max(a, b)` / `min(a, b)` of those.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pytest_kafkaperf.core.errors import ScenarioError, UnitError
from pytest_kafkaperf.core.metrics import Metric, metric
from pytest_kafkaperf.core.units import format_quantity, parse

Operator = Literal["<=", "<", ">=", ">", "=="]


@dataclass(frozen=True, slots=True, kw_only=True)
class Absolute:
    """A quantity in the metric's base unit."""

    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """The baseline times `factor`: 1.2 for `baseline + 20%`, 0.9 for `baseline - 10%`."""

    factor: float

    @property
    def log_tolerance(self) -> float:
        """How much worse may be, on the log scale (at least 0): the distance from the baseline to the limit."""
        return abs(math.log(self.factor))


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """The larger or the smaller of an absolute and a relative limit; two of one kind are read as one limit."""

    kind: Literal["max", "min"]
    parts: tuple[Absolute | Relative, Absolute | Relative]

    @property
    def absolute(self) -> Absolute:
        """The part that is a quantity."""
        return next(part for part in self.parts if isinstance(part, Absolute))

    def takes_one(self, operator: Operator) -> bool:
        """Whether one part that holds will do: so it is with `<= max` and `>= min`; `<= min` and `>= max` take both."""
        return (self.kind == "max") == operator.startswith("<")


Limit = Absolute | Relative | Extreme


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One limit on one metric."""

    expression: str
    """As the user wrote it."""
    metric: Metric
    operator: Operator
    limit: Limit

    @property
    def needs_baseline(self) -> bool:
        """Whether the limit speaks of the baseline."""
        return self.relative is not None

    @property
    def relative(self) -> Relative | None:
        """The part of the limit that speaks of the baseline; two of them are read as one."""
        parts = self.limit.parts if isinstance(self.limit, Extreme) else (self.limit,)
        return next((part for part in parts if isinstance(part, Relative)), None)


def count_gated(thresholds: Iterable[Threshold]) -> int:
    """How many limits speak of the baseline: any of them could fail a test by chance."""
    return sum(threshold.needs_baseline for threshold in thresholds)


_EXAMPLE = "for example 'produce.latency.p99 <= 25 ms' or 'produce.throughput >= baseline - 10%'"
_OPERATORS = "<= < >= > =="
_OPERATOR = re.compile(r"[<>=!]+")
_RELATIVE = re.compile(r"baseline(?:\s*(?P<sign>[+-])\s*(?P<percent>\d+(?:\.\d+)?|\.\d+)\s*%)?", re.ASCII)
_EXTREME = re.compile(r"(?P<kind>max|min)\s*\((?P<parts>.*)\)", re.DOTALL)
_MAX_LENGTH = 300
"""Characters of an expression; longer text is a mistake and only costs time to read."""


def parse_threshold(expression: str) -> Threshold:
    """Read one expression.

    Raises:
        ScenarioError: not of the grammar, an unknown metric, a unit of another dimension, or a limit relative to
            the baseline that cannot be judged.

    """
    if not isinstance(expression, str):
        raise ScenarioError(f"cannot read threshold {expression!r}: expected text, {_EXAMPLE}")
    if len(expression) > _MAX_LENGTH:
        raise ScenarioError(
            f"cannot read threshold {expression[:40]!r}...: it has {len(expression)} characters, at most {_MAX_LENGTH} "
            f"are read; expected METRIC OP LIMIT, {_EXAMPLE}"
        )
    return _read(expression)


def describe_limit(limit: Limit, subject: Metric) -> str:
    """A limit for people: `25 ms`, `baseline + 20 %`, `max(baseline, 5 ms)`."""
    match limit:
        case Absolute(value=value):
            return format_quantity(value, subject.unit, digits=6)
        case Relative(factor=factor):
            if factor == 1:
                return "baseline"
            percent = f"{abs(factor - 1) * 100:.6f}".rstrip("0").rstrip(".")  # the grammar has no exponents
            return f"baseline {'+' if factor > 1 else '-'} {percent} %"
        case Extreme(kind=kind, parts=parts):
            return f"{kind}({', '.join(describe_limit(part, subject) for part in parts)})"


def holds(value: float, operator: Operator, limit: float) -> bool:
    """Whether a figure keeps an absolute limit."""
    match operator:
        case "<=":
            return value <= limit
        case "<":
            return value < limit
        case ">=":
            return value >= limit
        case ">":
            return value > limit
        case "==":
            return value == limit


def limit_value(limit: Limit, baseline: float | None) -> float | None:
    """A limit in the metric's base unit, given the baseline's figure; None where it takes one and there is none."""
    match limit:
        case Absolute(value=value):
            return value
        case Relative(factor=factor):
            return None if baseline is None else baseline * factor
        case Extreme(kind=kind, parts=parts):
            first, second = (limit_value(part, baseline) for part in parts)
            return None if first is None or second is None else _EXTREMES[kind](first, second)


_EXTREMES = {"max": max, "min": min}


def _read_anew(expression: str) -> Threshold:
    operators = list(_OPERATOR.finditer(expression))
    if len(operators) != 1:
        raise ScenarioError(
            f"cannot read threshold {expression!r}: expected METRIC OP LIMIT with one of {_OPERATORS}, {_EXAMPLE}"
        )
    found = operators[0]
    if found.group() not in _OPERATORS.split():
        raise ScenarioError(f"threshold {expression!r}: {found.group()!r} is no operator; use one of {_OPERATORS}")
    try:
        subject = metric(expression[: found.start()].strip())
        limit = _limit(expression[found.end() :].strip(), subject)
    except (ScenarioError, UnitError) as error:
        raise ScenarioError(f"threshold {expression!r}: {error}") from None
    threshold = Threshold(
        expression=" ".join(expression.split()),
        metric=subject,
        operator=found.group(),  # type: ignore[arg-type]
        limit=limit,
    )
    _refuse_unjudgeable(threshold)
    return threshold


_read = functools.lru_cache(maxsize=1000)(_read_anew)  # tests of one session have much the same limits


def _limit(text: str, subject: Metric) -> Limit:
    extreme = _EXTREME.fullmatch(text)
    if extreme is None:
        return _simple(text, subject)
    kind: Literal["max", "min"] = "max" if extreme["kind"] == "max" else "min"
    parts = extreme["parts"].split(",")
    if len(parts) != 2:  # noqa: PLR2004 - the grammar takes two
        raise ScenarioError(f"{text!r}: {kind} takes two limits, for example 'max(baseline + 20%, 5 ms)'")
    match [_simple(part.strip(), subject) for part in parts]:
        case [Absolute(value=first), Absolute(value=second)]:
            return Absolute(value=_EXTREMES[kind](first, second))
        case [Relative(factor=first), Relative(factor=second)]:
            return Relative(factor=_EXTREMES[kind](first, second))
        case mixed:
            return Extreme(kind=kind, parts=(mixed[0], mixed[1]))


def _simple(text: str, subject: Metric) -> Absolute | Relative:
    if not text.startswith("baseline"):
        return Absolute(value=parse(text, subject.unit))
    relative = _RELATIVE.fullmatch(text)
    if relative is None:
        raise ScenarioError(f"cannot read {text!r}; use 'baseline', 'baseline + N%' or 'baseline - N%'")
    change = float(relative["percent"] or 0) / 100
    factor = 1 - change if relative["sign"] == "-" else 1 + change
    if factor <= 0:
        raise ScenarioError(f"{text!r} leaves nothing of the baseline; use less than 100%")
    return Relative(factor=factor)


def _refuse_unjudgeable(threshold: Threshold) -> None:
    """A limit relative to the baseline says how much worse is too much; nothing else can be judged by ranks."""
    subject, relative = threshold.metric, threshold.relative
    if relative is None:
        return
    if subject.can_be_zero:
        raise ScenarioError(
            f"threshold {threshold.expression!r}: {subject.name} can be zero and so has no ratio to a baseline; "
            f"use an absolute limit, for example '{subject.name} == 0'"
        )
    lower = subject.better == "lower"
    operators, sign = (("<=", "<"), "+") if lower else ((">=", ">"), "-")
    worse_allowed = relative.factor >= 1 if lower else relative.factor <= 1
    if threshold.operator not in operators or not worse_allowed:
        raise ScenarioError(
            f"threshold {threshold.expression!r}: for {subject.name} {subject.better} is better, so a baseline limit "
            f"is '{subject.name} {operators[0]} baseline {sign} N%'"
        )
