"""Sweeps: tests of one function that differ in one or two fields or parameters. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.scenarios.fields import format_field
from pytest_kafkaperf.scenarios.scenario import Scenario

_NOT_THE_LOAD = ("rounds",)
"""Fields that do not change the load."""
_MAX_FIELDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Tests of one function as lines over one field."""

    function: str
    """Nodeid of the tests without their parameters."""
    field: str
    """Field on the axis."""
    line_field: str | None
    """Field that differs between the lines; None for a single line."""
    lines: Mapping[str, Mapping[str, str]]
    """Nodeids by the formatted value of `field`, by the formatted value of `line_field`, `""` of a single line."""
    labels: tuple[str, ...]
    """Formatted values of `field` in the order of the axis."""


@dataclass(frozen=True, slots=True)
class _Test:
    """The fields and parameters of one test."""

    scenario: Scenario
    parameters: Mapping[str, Any]

    def of(self, name: str) -> Any:
        return self.parameters[name] if name in self.parameters else getattr(self.scenario, name)

    def label(self, name: str) -> str:
        """Return the formatted value of a field: `16 KiB`."""
        value = self.of(name)
        if isinstance(value, Mapping) and name != "record_size":
            return ", ".join(f"{key}={item}" for key, item in value.items()) or "none"
        return "none" if value is None else format_field(name, value)

    def order(self, name: str) -> tuple[bool, float]:
        """Return the key by which numbers come before texts, such as 0, 1 and all; texts keep the order of the run."""
        value = self.of(name)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return not is_number, value if is_number else 0


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
    labels = {name: [test.label(name) for test in members.values()] for name in fields}
    if len(set(zip(*labels.values(), strict=True))) < len(members):
        return None  # the tests differ in something else, so that their points would overlap
    has_text = {name: any(test.order(name)[0] for test in members.values()) for name in fields}
    axis, *others = sorted(fields, key=lambda name: (-len(set(labels[name])), has_text[name]))
    line_field = others[0] if others and len(set(labels[axis])) < len(members) else None
    lines: dict[str, dict[str, str]] = {}
    for nodeid, test in members.items():
        lines.setdefault("" if line_field is None else test.label(line_field), {})[test.label(axis)] = nodeid
    ordered = dict.fromkeys(test.label(axis) for test in sorted(members.values(), key=lambda test: test.order(axis)))
    return Sweep(
        function=function,
        field=axis,
        line_field=line_field,
        lines={line: {label: found[label] for label in ordered if label in found} for line, found in lines.items()},
        labels=tuple(ordered),
    )


def _varying(tests: Sequence[_Test]) -> list[str]:
    """Return the fields that are set and differ between tests, in the order of the scenario, and then parameters."""
    # `model_fields_set` excludes values that a scenario derives from others, such as the idempotence of transactions.
    given = set().union(*(test.scenario.model_fields_set for test in tests)).difference(_NOT_THE_LOAD)
    shared = [name for name in tests[0].parameters if all(name in test.parameters for test in tests)]
    names = [*(name for name in Scenario.model_fields if name in given), *shared]
    return [name for name in names if len({test.label(name) for test in tests}) > 1]
