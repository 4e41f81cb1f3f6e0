"""Sweeps: tests of one function that differ in one or two fields or parameters. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.scenarios.fields import format_field
from pytest_kafkaperf.scenarios.scenario import Scenario

DECADE = 10
"""Factor between smallest and largest number from which the axis is logarithmic."""
_NOT_THE_LOAD = ("rounds",)
"""Fields that do not change the load."""
_MAX_FIELDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One test of a sweep."""

    nodeid: str
    value: float | str
    """Value of the field: a number in its base unit, or text."""
    label: str
    """Formatted value: `16 KiB`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Tests of one function as lines over one field."""

    function: str
    """Nodeid of the tests without their parameters."""
    field: str
    """Field on the axis."""
    line_field: str | None
    """Field that differs between the lines; None for a single line."""
    lines: Mapping[str, tuple[SweepPoint, ...]]
    """Points in the order of the axis, by the formatted value of `line_field`; the key of a single line is `""`."""
    labels: tuple[str, ...]
    """Formatted values on the axis without repetitions, in its order."""

    @property
    def is_text(self) -> bool:
        """True if the values on the axis are texts."""
        return any(isinstance(point.value, str) for line in self.lines.values() for point in line)

    @property
    def is_log(self) -> bool:
        """True if the axis is logarithmic."""
        values = [float(point.value) for line in self.lines.values() for point in line] if not self.is_text else []
        return bool(values) and min(values) > 0 and max(values) >= DECADE * min(values)


@dataclass(frozen=True, slots=True)
class _Test:
    """The fields and parameters of one test."""

    scenario: Scenario
    parameters: Mapping[str, Any]

    def of(self, name: str) -> Any:
        return self.parameters[name] if name in self.parameters else getattr(self.scenario, name)


def find_sweeps(
    scenarios: Mapping[str, Scenario], parameters: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Sweep, ...]:
    """Return the sweeps among tests, which are given by nodeid in the order in which they ran.

    Tests of a sweep differ in fields of their scenarios or in `parameters`, such as fields of the cluster. Of two
    fields, the one with more values is on the axis; if they have equally many, numbers come before text, and then the
    order of the scenario decides. If each value on the axis belongs to one value of the other field, there is only one
    line.
    """
    functions: dict[str, dict[str, _Test]] = {}
    for nodeid, scenario in scenarios.items():
        function = function_of(nodeid)
        if function is not None:
            functions.setdefault(function, {})[nodeid] = _Test(scenario, (parameters or {}).get(nodeid, {}))
    found = (_sweep(function, members) for function, members in functions.items())
    return tuple(sweep for sweep in found if sweep is not None)


def function_of(nodeid: str) -> str | None:
    """Return the nodeid without its parameters; None if the test has no parameters.

    >>> function_of("tests/[a]/test_x.py::test_y[1-a::b]")
    'tests/[a]/test_x.py::test_y'
    """
    file, _, rest = nodeid.partition("::")
    name, bracket, _ = rest.partition("[")
    return f"{file}::{name}" if bracket else None


def _sweep(function: str, members: Mapping[str, _Test]) -> Sweep | None:
    fields = _varying(list(members.values()))
    if len(fields) > _MAX_FIELDS:  # parameters may only be names for values of fields
        fields = [name for name in fields if name in Scenario.model_fields]
    if not 1 <= len(fields) <= _MAX_FIELDS:
        return None
    columns = {name: [_plain(test, name) for test in members.values()] for name in fields}
    if len(set(zip(*columns.values(), strict=True))) < len(members):
        return None  # the tests differ in something else, so that their points would overlap
    axis, *others = sorted(fields, key=lambda name: _rank(columns[name]))
    line_field = others[0] if others and len(set(columns[axis])) < len(members) else None
    return _lines(function, members, axis, line_field)


def _varying(tests: Sequence[_Test]) -> list[str]:
    """Return the fields that are set and differ between tests, in the order of the scenario, and then parameters."""
    # `model_fields_set` excludes values that a scenario derives from others, such as the idempotence of transactions.
    given = set().union(*(test.scenario.model_fields_set for test in tests)).difference(_NOT_THE_LOAD)
    shared = [name for name in tests[0].parameters if all(name in test.parameters for test in tests)]
    names = [*(name for name in Scenario.model_fields if name in given), *shared]
    return [name for name in names if len({_plain(test, name) for test in tests}) > 1]


def _rank(values: Sequence[float | str]) -> tuple[int, bool]:
    return -len(set(values)), any(isinstance(value, str) for value in values)


def _lines(function: str, members: Mapping[str, _Test], axis: str, line_field: str | None) -> Sweep:
    values = {nodeid: _plain(test, axis) for nodeid, test in members.items()}
    numbers = all(isinstance(value, float) for value in values.values())
    # Numbers come before texts (`acks` is 0, 1 or all); the sort is stable, so texts keep the order of the run.
    ordered = sorted(members, key=lambda nodeid: _order(values[nodeid]))
    labels = list(dict.fromkeys(_label(members[nodeid], axis) for nodeid in ordered))
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


def _order(value: float | str) -> tuple[bool, float]:
    return (True, 0.0) if isinstance(value, str) else (False, value)


def _plain(test: _Test, name: str) -> float | str:
    """Return the value of a field as a number or as text."""
    value = test.of(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return _label(test, name)


def _label(test: _Test, name: str) -> str:
    value = test.of(name)
    if isinstance(value, Mapping) and name != "record_size":
        return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
    return "none" if value is None else format_field(name, value)
