"""The page: what its template is given, and the file that comes of it."""

from __future__ import annotations

import base64
import collections
import functools
import hashlib
import importlib.resources
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import jinja2
import markupsafe
import plotly.offline

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.text import discreet, printable, without_folders
from pytest_kafkaperf.core.units import counted, format_quantity, format_ratio
from pytest_kafkaperf.reports.failure import describe_advice
from pytest_kafkaperf.reports.html import RunFacts
from pytest_kafkaperf.reports.html.charts import FAMILIES, TEMPLATE, Chart, standard
from pytest_kafkaperf.reports.html.load_charts import capacity_chart, percentiles_chart, rounds_chart
from pytest_kafkaperf.reports.html.sweeps import sweep_charts
from pytest_kafkaperf.reports.html.timeline import broker_charts, latency_chart, throughput_chart
from pytest_kafkaperf.reports.latency_curve import described_search
from pytest_kafkaperf.reports.sweeps import find_sweeps
from pytest_kafkaperf.reports.table import calibration_cells, names_of, row_of
from pytest_kafkaperf.runner.result import Result, standard_of
from pytest_kafkaperf.scenario.fields import format_field
from pytest_kafkaperf.scenario.scenario import Scenario
from pytest_kafkaperf.verdict.calibration import Calibrated
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.verdict import Check

MOST_OPEN = 5
"""Failing tests that are open when the page is; more would hide the table's use."""

_COMMIT = 12
"""Characters of a commit that are shown."""

_DASH = "–"  # noqa: RUF001 - as tables have it


def render(results: Sequence[Result], run: RunFacts) -> str:
    """The whole file."""
    scripts = _scripts()
    return _template().render(
        head=_head(results, run),
        counts=_counts(results),
        tests=_tests(results, run),
        sweeps=_sweeps(results),
        template=TEMPLATE,
        style=markupsafe.Markup(_text("page.css")),  # noqa: S704 - ours
        plotly_js=scripts[0],
        page_js=scripts[1],
        hashes=[_hash(script) for script in scripts],
    )


@functools.cache
def _template() -> jinja2.Template:
    templates = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        finalize=_shown_as_it_is,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["breakable"] = _breakable
    # Escapes < > & ' in it, so that nothing in a figure can end its element.
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return templates.get_template("page.html")


@functools.cache
def _scripts() -> tuple[markupsafe.Markup, markupsafe.Markup]:
    """Plotly, and what draws the charts with it."""
    return _inline(plotly.offline.get_plotlyjs()), _inline(_text("page.js"))


def _shown_as_it_is(value: Any) -> Any:
    """What the page is given, on its way into it; markup is ours."""
    return printable(value, keep="\t\n") if type(value) is str else value


def _breakable(text: str) -> markupsafe.Markup:
    """A name that may go on in the next line after any of its parts."""
    return markupsafe.Markup("<wbr>").join(re.findall(r".*?(?:::|[/_.\[-])|.+", printable(text)))


def _text(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _inline(script: str) -> markupsafe.Markup:
    r"""A script as it can stand in a page; within strings, which is where such text is, `<\/` is the same as `</`."""
    return markupsafe.Markup(script.replace("</script", "<\\/script").replace("<!--", "\\x3c!--"))  # noqa: S704 - ours


def _hash(script: str) -> str:
    """As a content security policy names a script that may run: no other one does."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _head(results: Sequence[Result], run: RunFacts) -> list[tuple[str, str]]:
    versions = dict.fromkeys(f"{each.cluster.version} ({each.cluster.provider})" for each in results)
    references = dict.fromkeys(
        f"{each.reference.version} ({each.reference.provider})" for each in results if each.reference is not None
    )
    seed = "" if run.reference_seed is None else f", order of rounds by seed {run.reference_seed}"
    facts = [
        ("run", _when(run.created)),
        ("commit", run.commit[:_COMMIT] if run.commit else ""),
        ("environment", str(run.environment.get("key", ""))),
        ("Kafka", ", ".join(versions)),
        ("reference", f"{', '.join(references)}{seed}" if references else ""),
        ("pytest-kafkaperf", run.plugin),
    ]
    return [(name, text) for name, text in facts if text]


def _when(created: str) -> str:
    """A time that needs no thought: `2025-01-31 12:00 UTC`; whatever it is, if it is not ISO 8601."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    return f"{moment:%Y-%m-%d %H:%M} {moment.tzname() or ''}".rstrip()


def _counts(results: Sequence[Result]) -> list[tuple[str, int]]:
    """What is worst first."""
    tally = collections.Counter(str(each.verdict) for each in results)
    return [(str(verdict), tally[verdict]) for verdict in reversed(Verdict) if tally[verdict]]


def _tests(results: Sequence[Result], run: RunFacts) -> list[dict[str, Any]]:
    """Those that fail first: they are what a report is opened for. The others in the order in which they ran."""
    names = names_of(results)
    ordered = sorted(results, key=lambda result: not result.verdict.fails)
    return [
        {
            "id": f"test-{number}",
            "name": names[result.nodeid],
            "open": len(results) == 1 or (result.verdict.fails and number <= MOST_OPEN),
            **_test(result, run),
        }
        for number, result in enumerate(ordered, 1)
    ]


def _test(result: Result, run: RunFacts) -> dict[str, Any]:
    change, direction = _change(result)
    charts, brokers = charts_of(result), broker_charts(result)
    return {
        "verdict": str(result.verdict),
        "figures": _headlines(result),
        "change": change,
        "direction": direction,
        "checks": [_check(check) for check in result.checks],
        "why": list(_why(result)),
        "calibration": [_calibrated(name, found) for name, found in result.calibration.items()],
        "charts": charts,
        "broker_charts": brokers,
        "json": [chart.figure for chart in (*charts, *brokers)],
        "scenario": _scenario(result),
        "defaults": _defaults(result),
        "fingerprint": _fingerprint(result, run),
        "standard": standard_of(result),
        "totals": _totals(result),
        "command": command_for(
            result,
            run.options,
            reference_seed=run.reference_seed if result.reference is not None else None,
        ),
    }


def _headlines(result: Result) -> list[str]:
    """As in the terminal: throughput, p50 and p99 of the latency that a record meets on its whole way."""
    family = "e2e.latency" if "e2e.latency.p50" in result.metrics else "produce.latency"
    return [_figure(result, name) for name in ("produce.throughput", f"{family}.p50", f"{family}.p99")]


def _figure(result: Result, name: str) -> str:
    value = result.metrics.get(name)
    return _DASH if value is None else format_quantity(value, CATALOGUE[name].unit).removesuffix(" records/s")


def _change(result: Result) -> tuple[str, str]:
    """The limit relative to the baseline that moved most for the worse, and whether that is `worse` or `better`."""
    relative = [check for check in result.checks if check.change is not None and check.is_relative]
    if not relative:
        return _DASH, ""
    worst = max(relative, key=_badness)
    text = f"{format_ratio(worst.change or 0.0)} {worst.metric.rpartition('latency.')[2].removeprefix('produce.')}"
    return text, {Verdict.REGRESSED: "worse", Verdict.IMPROVED: "better"}.get(worst.outcome, "")


def _badness(check: Check) -> float:
    change = check.change or 0.0
    return change if CATALOGUE[check.metric].better == "lower" else -change


def _check(check: Check) -> dict[str, Any]:
    row = row_of(check)
    limit = _DASH if check.limit_value is None else format_quantity(check.limit_value, CATALOGUE[check.metric].unit)
    return {
        "expression": check.expression,
        "cells": [
            ("observed", f"{row.median} {row.spread}".rstrip()),
            ("limit", row.bound or limit),
            ("baseline", row.baseline or _DASH),
            ("change", f"{row.change} {row.interval}".strip() or _DASH),
            ("finds from", row.detectable or _DASH),
        ],
        "outcome": str(check.outcome),
        "broken": check.outcome.fails,
        "reason": check.reason,
    }


def _calibrated(name: str, found: Calibrated) -> tuple[str, list[tuple[str, str]]]:
    titles = {"finds": "finds from"}  # as with limits: here is room for it
    return name, [(titles.get(title, title), cell or _DASH) for title, cell in calibration_cells(name, found).items()]


def _why(result: Result) -> Iterator[tuple[str, str]]:
    """Kind and text, what matters most first."""
    yield from (("problem", problem.text) for problem in result.problems)
    if result.changed:
        yield "changed", f"against the {standard_of(result)}: {', '.join(result.changed).replace(' -> ', ' → ')}"
    yield from (("warning", text) for text in result.warnings)
    yield from (("note", text) for text in result.notes)
    for one in result.advice:
        yield ("better" if one.better else "worse"), f"{describe_advice(one)}: beyond noise, and without a limit"
    if result.baseline.obstacle is not None and result.baseline.sessions:
        yield "note", f"the baseline is shown and does not count: {result.baseline.obstacle}"


def _totals(result: Result) -> str:
    """What all of it rests on: `5 rounds, 3 fresh sessions, baseline of 5 sessions`."""
    further = len(result.sessions) - 1
    side = next(iter(standard(result)), None)
    parts = [
        counted(len(result.rounds), "round"),
        counted(further, "fresh session") if further else "",
        f"{side.name} of {counted(len(side.sessions), 'session')}" if side and result.reference is None else "",
        "a reference beside it" if side and result.reference is not None else "",
    ]
    return ", ".join(filter(None, parts))


def _scenario(result: Result) -> list[tuple[str, str, str]]:
    """Field, value and source of what something has set."""
    fields = [
        (name, _shown(name, getattr(result.scenario, name)), source)
        for name, source in result.sources.items()
        if name in Scenario.model_fields
    ]
    return fields if result.plan is None else [*fields, ("rate", described_search(result.plan), "search")]


def _defaults(result: Result) -> str:
    rest = ((name, getattr(result.scenario, name)) for name in Scenario.model_fields if name not in result.sources)
    return ", ".join(f"{name} {_shown(name, value)}" for name, value in rest if value not in (None, {}))


def _shown(name: str, value: Any) -> str:
    return "none" if value is None else format_field(name, value)


def _fingerprint(result: Result, run: RunFacts) -> list[tuple[str, str, str]]:
    """Name, what it is here, and what it was there where that differs; what differs stands first."""
    now = run.fingerprint(result.cluster)
    there = result.baseline.fingerprint if result.reference is None else run.fingerprint(result.reference)
    rows = [
        (name, now.get(name, _DASH), there.get(name, _DASH) if there and there.get(name) != now.get(name) else "")
        for name in dict.fromkeys([*now, *there])
    ]
    return sorted(rows, key=lambda row: not row[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class _SweepView:
    id: str
    name: str
    over: str
    charts: tuple[Chart, ...]
    json: list[dict[str, Any]]


def _sweeps(results: Sequence[Result]) -> list[_SweepView]:
    by_nodeid = {result.nodeid: result for result in results if result.rounds}
    found = find_sweeps(
        {nodeid: result.scenario for nodeid, result in by_nodeid.items()},
        {nodeid: result.parameters for nodeid, result in by_nodeid.items()},
    )
    numbers = itertools.count(1)
    return [
        _SweepView(
            id=f"sweep-{next(numbers)}",
            name=without_folders(sweep.function),
            over=sweep.field if sweep.line_field is None else f"{sweep.field} and {sweep.line_field}",
            charts=charts,
            json=[chart.figure for chart in charts],
        )
        for sweep in found
        if (charts := sweep_charts(sweep, by_nodeid))
    ]


def charts_of(result: Result) -> tuple[Chart, ...]:
    """What the load met; charts of which nothing was measured are left out."""
    families = [family for family in FAMILIES if f"{family}.p50" in result.metrics]
    charts = [
        capacity_chart(result),
        rounds_chart(result),
        *(percentiles_chart(result, family) for family in families),
        *(latency_chart(result, family) for family in families),
        throughput_chart(result),
    ]
    return tuple(chart for chart in charts if chart is not None)


_OPTIONS = (
    "client-config",
    "metrics-url",
    "version",
    "image",
    "brokers",
    "jmx",
    "rounds",
    "duration",
    "warmup",
    "preheat",
    "baselines",
    "environment",
    "strict",
    "no-confirm",
    "calibrate",
    "reference",
    "reference-config",
    "reference-client-config",
)
"""Options of the command line that decide what is measured and how it is judged; those of the ini file hold anyway."""


def command_for(result: Result, options: Mapping[str, str], *, reference_seed: int | None) -> str:
    """A line for a shell. `options` are those of the command line, by name without `--kafka-`.

    `auto` becomes the provider that it chose. What may be secret is left out; `LOGIN` and `***` say where.
    """
    given = [
        f"--kafka-{name}" if value == "true" else f"--kafka-{name}={discreet(value, login='LOGIN@')}"
        for name in _OPTIONS
        for value in options.get(name, "").splitlines()
    ]
    seed = [] if reference_seed is None else [f"--kafka-reference-seed={reference_seed}"]
    target = options.get("cluster", "auto")
    started = result.cluster.provider if result.cluster.provider != "external" else None
    cluster = [f"--kafka-cluster={started or target}"] if started or target != "auto" else []
    return shlex.join(["pytest", result.nodeid, *cluster, *given, *seed])
