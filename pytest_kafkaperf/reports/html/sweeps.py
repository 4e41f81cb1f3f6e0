"""Sweeps: tests of the same function that differ in one or two fields or parameters, and their charts. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.text import without_secrets
from pytest_kafkaperf.reports.html.charts import BASELINE, SERIES, THIS_TRIAL, baselines_of, line, medians, shortened
from pytest_kafkaperf.reports.html.plot import Chart, label_axis, line_chart
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.scenarios.fields import format_field
from pytest_kafkaperf.scenarios.scenario import Scenario

_NOT_THE_LOAD = ("rounds",)
"""Fields that do not change the load."""
_MAX_FIELDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Tests of the same function, as lines over one field."""

    function: str
    """The tests' nodeid without parameters."""
    field: str
    """Field on the axis."""
    line_field: str | None
    """Field that differs between the lines; None for a single line."""
    lines: Mapping[str, Mapping[str, Result]]
    """Tests by the formatted value of `field`, for each formatted value of `line_field` (`""` for a single line)."""
    labels: tuple[str, ...]
    """Formatted values of `field`, in axis order."""


def find_sweeps(results: Iterable[Result]) -> list[Sweep]:
    """Return the sweeps found in tests, which are given in the order in which they ran.

    Tests in a sweep differ in scenario fields or in other parameters, for example cluster fields. If there are two
    fields, the one with more values is on the axis. If both have the same number of values, numbers take precedence
    over text, followed by the order in the scenario. If each value on the axis corresponds to one value of the other
    field, there is only one line.
    """
    functions: dict[str, dict[str, Result]] = {}
    for result in results:
        function = function_of(result.nodeid)
        if function is not None:
            functions.setdefault(function, {})[result.nodeid] = result  # if a test was repeated, its last result
    found = (_sweep(function, list(tests.values())) for function, tests in functions.items())
    return [sweep for sweep in found if sweep is not None]


def function_of(nodeid: str) -> str | None:
    """Return the nodeid without its parameters; None if the test has no parameters.

    >>> function_of("tests/[a]/test_x.py::test_y[1-a::b]")
    'tests/[a]/test_x.py::test_y'
    """
    file, _, rest = nodeid.partition("::")
    name, bracket, _ = rest.partition("[")
    return f"{file}::{name}" if bracket else None


def _sweep(function: str, tests: Sequence[Result]) -> Sweep | None:
    fields = _varying(tests)
    if len(fields) > _MAX_FIELDS:  # parameters may be mere names for field values
        fields = [name for name in fields if name in Scenario.model_fields]
    if not 1 <= len(fields) <= _MAX_FIELDS:
        return None
    labels = {name: [_label(test, name) for test in tests] for name in fields}
    if len(set(zip(*labels.values(), strict=True))) < len(tests):
        return None  # the tests differ in some other way, so their points would overlap
    has_text = {name: any(_order(test, name)[0] for test in tests) for name in fields}
    axis, *others = sorted(fields, key=lambda name: (-len(set(labels[name])), has_text[name]))
    line_field = others[0] if others and len(set(labels[axis])) < len(tests) else None
    lines: dict[str, dict[str, Result]] = {}
    for test in tests:
        lines.setdefault("" if line_field is None else _label(test, line_field), {})[_label(test, axis)] = test
    ordered = dict.fromkeys(_label(test, axis) for test in sorted(tests, key=lambda test: _order(test, axis)))
    return Sweep(function=function, field=axis, line_field=line_field, lines=lines, labels=tuple(ordered))


def _varying(tests: Sequence[Result]) -> list[str]:
    """Return the fields that are set and differ between tests, in scenario order, followed by parameters."""
    # `model_fields_set` excludes values that a scenario derives from others, such as the idempotence of transactions.
    given = set().union(*(test.scenario.model_fields_set for test in tests)).difference(_NOT_THE_LOAD)
    shared = [name for name in tests[0].parameters if all(name in test.parameters for test in tests)]
    names = [*(name for name in Scenario.model_fields if name in given), *shared]
    return [name for name in names if len({_label(test, name) for test in tests}) > 1]


def _value(test: Result, name: str) -> Any:
    return test.parameters[name] if name in test.parameters else getattr(test.scenario, name)


def _label(test: Result, name: str) -> str:
    """Return a field's formatted value, such as `16 KiB`."""
    value = _value(test, name)
    if isinstance(value, Mapping) and name != "record_size":
        return ", ".join(f"{key}={item}" for key, item in without_secrets(value).items()) or "none"
    return format_field("" if name in test.parameters else name, value)  # a parameter has its own unit


def _order(test: Result, name: str) -> tuple[bool, float]:
    """Return a sort key: numbers come before texts, as in 0, 1, all; texts keep the order of the run."""
    value = _value(test, name)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return not is_number, value if is_number else 0


_METRICS = (
    "capacity",
    "produce.throughput",
    "produce.bandwidth",
    "consume.throughput",
    "produce.latency.p99",
    "e2e.latency.p99",
    "broker.cpu",
)


def sweep_charts(sweep: Sweep) -> list[Chart]:
    """Return a chart of each metric over the sweep's field, in equal steps."""
    return [chart for name in _METRICS if (chart := _chart(name, sweep)) is not None]


def _chart(name: str, sweep: Sweep) -> Chart | None:
    unit = CATALOGUE[name].unit
    lines = []
    for (label, line_tests), colour in zip(sweep.lines.items(), itertools.cycle(SERIES), strict=False):
        tests = {place: line_tests[value] for place, value in enumerate(sweep.labels) if value in line_tests}
        if sweep.line_field is None:
            lines.append(line("baseline", _baselines(name, tests), BASELINE, dots_in=unit))
        values = {place: found for place, one in tests.items() if (found := one.values().get(name))}
        middles = {place: statistics.median(found) for place, found in values.items()}
        legend = THIS_TRIAL if sweep.line_field is None else f"{sweep.line_field} {shortened(label)}"
        lines.append(line(legend, middles, colour, ends=values, dots_in=unit))
    x = label_axis([*map(shortened, sweep.labels)], title=sweep.field)
    return line_chart(name, lines, unit, x=x, note="bars: lowest and highest round")


def _baselines(name: str, tests: Mapping[int, Result]) -> dict[int, float]:
    """Return the median of each test's baseline."""
    found = {}
    for place, test in tests.items():
        decides = next(iter(baselines_of(test).values()), [])
        middle = medians([*itertools.chain.from_iterable(decides)], [name])
        if middle:
            found[place] = middle[name]
    return found
