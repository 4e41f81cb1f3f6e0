"""Sweeps: tests of one function that differ in one field or parameter, or two. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.scenario.fields import format_field
from pytest_kafkaperf.scenario.scenario import Scenario

DECADE = 10
"""Numbers that span at least this factor are shown on a logarithmic axis."""
_NOT_THE_LOAD = ("rounds",)
"""Fields that say how often to measure, not what."""
_MOST_FIELDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One test of a sweep."""

    nodeid: str
    value: float | str
    """Where it stands on the axis: a number in the field's base unit, or text."""
    label: str
    """The value for people: `16 KiB`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Tests that lie on lines over one field."""

    function: str
    """The nodeid that they share."""
    field: str
    """What the axis shows."""
    line_field: str | None
    """What tells the lines apart; None where there is one line."""
    lines: Mapping[str, tuple[SweepPoint, ...]]
    """By the line's value for people, in the order of the axis; `""` where there is one line."""
    labels: tuple[str, ...]
    """The values on the axis for people, each once, in its order."""

    @property
    def is_text(self) -> bool:
        """Whether the axis has names, not numbers."""
        return any(isinstance(point.value, str) for line in self.lines.values() for point in line)

    @property
    def is_log(self) -> bool:
        """Whether the axis is logarithmic."""
        values = [float(point.value) for line in self.lines.values() for point in line] if not self.is_text else []
        return bool(values) and min(values) > 0 and max(values) >= DECADE * min(values)


@dataclass(frozen=True, slots=True)
class _Test:
    """What tells one test from the others."""

    scenario: Scenario
    parameters: Mapping[str, Any]

    def of(self, name: str) -> Any:
        return self.parameters[name] if name in self.parameters else getattr(self.scenario, name)


def find_sweeps(
    scenarios: Mapping[str, Scenario], parameters: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Sweep, ...]:
    """The sweeps among tests, given by nodeid in the order in which they ran.

    They differ in fields of their scenarios, or in `parameters` that are none, such as fields of the cluster. Of two
    the one with more values is on the axis; of as many, numbers are before text, then the scenario's order decides. A
    field that follows from the other (each value of that has one of this) gives no lines.
    """
    functions: dict[str, dict[str, _Test]] = {}
    for nodeid, scenario in scenarios.items():
        function = function_of(nodeid)
        if function is not None:
            functions.setdefault(function, {})[nodeid] = _Test(scenario, (parameters or {}).get(nodeid, {}))
    found = (_sweep(function, members) for function, members in functions.items())
    return tuple(sweep for sweep in found if sweep is not None)


def function_of(nodeid: str) -> str | None:
    """The nodeid without its parameters; None where a test has none.

    >>> function_of("tests/[a]/test_x.py::test_y[1-a::b]")
    'tests/[a]/test_x.py::test_y'
    """
    file, _, rest = nodeid.partition("::")
    name, bracket, _ = rest.partition("[")
    return f"{file}::{name}" if bracket else None


def _sweep(function: str, members: Mapping[str, _Test]) -> Sweep | None:
    fields = _varying(list(members.values()))
    if len(fields) > _MOST_FIELDS:  # a parameter may be but a name of what the fields say
        fields = [name for name in fields if name in Scenario.model_fields]
    if not 1 <= len(fields) <= _MOST_FIELDS:
        return None
    values = {nodeid: tuple(_plain(test, name) for name in fields) for nodeid, test in members.items()}
    if len(set(values.values())) < len(members):
        return None  # they differ in something that is no field, and would lie on each other
    axis, *others = sorted(fields, key=lambda name: _rank(fields.index(name), list(values.values())))
    follows = len({places[fields.index(axis)] for places in values.values()}) == len(members)
    line_field = None if follows or not others else others[0]
    return _lines(function, members, axis, line_field)


def _varying(tests: Sequence[_Test]) -> list[str]:
    """The fields that somebody set and that are not the same everywhere, in the scenario's order; then parameters."""
    # What a scenario derives by itself (idempotence of transactions, say) is not in `model_fields_set`.
    given = set().union(*(test.scenario.model_fields_set for test in tests)).difference(_NOT_THE_LOAD)
    shared = [name for name in tests[0].parameters if all(name in test.parameters for test in tests)]
    names = [*(name for name in Scenario.model_fields if name in given), *shared]
    return [name for name in names if len({_plain(test, name) for test in tests}) > 1]


def _rank(place: int, values: Sequence[tuple[float | str, ...]]) -> tuple[int, bool, int]:
    own = {each[place] for each in values}
    return -len(own), any(isinstance(value, str) for value in own), place


def _lines(function: str, members: Mapping[str, _Test], axis: str, line_field: str | None) -> Sweep:
    values = {nodeid: _plain(test, axis) for nodeid, test in members.items()}
    numbers = all(isinstance(value, float) for value in values.values())
    # Names stand as they ran, for sorting is stable; numbers among them (`acks` 0, 1, all) before, ascending.
    ascending = sorted(members, key=lambda nodeid: _ascending(values[nodeid]))
    labels = list(dict.fromkeys(_label(members[nodeid], axis) for nodeid in ascending))
    lines: dict[str, list[SweepPoint]] = {}
    for nodeid, test in members.items():
        label = _label(test, axis)
        point = SweepPoint(nodeid=nodeid, value=values[nodeid] if numbers else label, label=label)
        lines.setdefault("" if line_field is None else _label(test, line_field), []).append(point)
    return Sweep(
        function=function,
        field=axis,
        line_field=line_field,
        lines={
            label: tuple(sorted(points, key=lambda point: labels.index(point.label))) for label, points in lines.items()
        },
        labels=tuple(labels),
    )


def _ascending(value: float | str) -> tuple[bool, float]:
    return (True, 0.0) if isinstance(value, str) else (False, value)


def _plain(test: _Test, name: str) -> float | str:
    """A field's value as a number, or as text."""
    value = test.of(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return _label(test, name)


def _label(test: _Test, name: str) -> str:
    value = test.of(name)
    if isinstance(value, Mapping) and name != "record_size":
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
    return "none" if value is None else format_field(name, value)
