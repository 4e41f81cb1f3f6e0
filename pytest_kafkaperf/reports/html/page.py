"""The HTML page: the template's values, and the rendering."""

from __future__ import annotations

import base64
import collections
import functools
import hashlib
import importlib.resources
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import jinja2
import markupsafe

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.problems import merged
from pytest_kafkaperf.core.text import printable, without_folders
from pytest_kafkaperf.core.units import Unit, counted, short_change
from pytest_kafkaperf.reports import wording
from pytest_kafkaperf.reports.calibration import calibration_cells, calibration_remarks
from pytest_kafkaperf.reports.headline import Headline, headline_of
from pytest_kafkaperf.reports.html.charts import broker_charts, charts_of
from pytest_kafkaperf.reports.html.sweeps import find_sweeps, sweep_charts
from pytest_kafkaperf.reports.latency_curve import describe_search
from pytest_kafkaperf.reports.remedy import command_for, is_compared
from pytest_kafkaperf.runner.evidence import baseline_doubts
from pytest_kafkaperf.runner.result import Ending, Result, RunResult, judged, unmeasured
from pytest_kafkaperf.scenarios.fields import format_field
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.detectable import Calibrated
from pytest_kafkaperf.verdict.outcome import Check, Verdict

_FAR = 0.9
"""Ratio of the output rate to the input rate; both are shown if the ratio is below this limit or above its inverse."""
MAX_OPEN = 5
"""Maximum number of failed tests to expand when the page opens; more would make the page too long to scan."""

_COMMIT = 12
"""Number of characters to show of a commit hash."""

_DASH = "–"  # noqa: RUF001 - the usual mark of an empty cell


def render(run: RunResult) -> str:
    """Return the content of the HTML file."""
    results, endings = run.results, run.endings
    script = _script()
    return _template().render(
        head=_head(run),
        counts=_counts(results),
        unmeasured=unmeasured(results, endings),
        gate_changes=wording.gate_changes(run),
        tests=_tests(run),
        sweeps=_sweeps(results),
        style=markupsafe.Markup(_text("page.css")),  # noqa: S704 - a file of this package
        script=script,
        script_hash=_hash(script),
    )


@functools.cache
def _template() -> jinja2.Template:
    templates = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        finalize=_printable,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["breakable"] = _breakable
    return templates.get_template("page.html")


def _script() -> markupsafe.Markup:
    """Return the page's script."""
    return markupsafe.Markup(_text("page.js"))  # noqa: S704 - a file of this package


def _printable(value: Any) -> Any:
    """Replace invisible characters in texts, except in `Markup`, a str subclass that only this package creates."""
    return printable(value, keep="\t\n") if type(value) is str else value


def _breakable(text: str) -> markupsafe.Markup:
    """Return a name that can be broken into lines after each of its parts."""
    return markupsafe.Markup("<wbr>").join(re.findall(r".*?(?:::|[/_.\[-])|.+", printable(text)))


def _text(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    """Return the hash by which the content security policy allows a script to run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _head(run: RunResult) -> list[tuple[str, str]]:
    results = run.results
    versions = dict.fromkeys(f"{each.cluster.version} ({each.cluster.provider})" for each in results)
    live_baselines = dict.fromkeys(
        str(each.revision or f"{each.live_baseline.version} ({each.live_baseline.provider})")
        for each in results
        if each.live_baseline is not None
    )
    facts = [
        ("run", f"{datetime.fromisoformat(run.created):%Y-%m-%d %H:%M %Z}"),
        ("commit", run.commit[:_COMMIT] if run.commit else ""),
        ("environment", str(run.environment.get("key", ""))),
        ("Kafka", ", ".join(versions)),
        ("baseline", ", ".join(live_baselines)),
        ("pytest-kafkaperf", run.plugin),
    ]
    return [(name, text) for name, text in facts if text]


def _counts(results: Sequence[Result]) -> list[tuple[str, int]]:
    """Return the number of tests by verdict, worst first."""
    tally = collections.Counter(str(each.verdict) for each in results)
    return [(str(verdict), tally[verdict]) for verdict in reversed(Verdict) if tally[verdict]]


def _tests(run: RunResult) -> list[dict[str, Any]]:
    """Return all tests' template values: failed tests first, then the others in the order in which they ran."""
    results, endings = run.results, run.endings
    names = wording.names_of(results)
    failed = {nodeid for nodeid, ending in endings.items() if ending.fails}
    failed |= {result.nodeid for result in results if result.verdict.fails}
    ordered = sorted(results, key=lambda result: result.nodeid not in failed)
    return [
        {
            "id": f"test-{number}",
            "name": names[result.nodeid],
            "open": len(results) == 1 or (result.nodeid in failed and number <= MAX_OPEN),
            **_test(result, endings.get(result.nodeid), strict=run.settings.strict),
        }
        for number, result in enumerate(ordered, 1)
    ]


def _test(result: Result, ending: Ending | None, *, strict: bool) -> dict[str, Any]:
    headline = headline_of(result, strict=strict)
    change, direction = _change(result)
    return {
        "verdict": str(result.verdict),
        "how": ", ".join(filter(None, (wording.remark_of(result, ending), wording.how_of(result)))),
        "took": wording.took(result.took_s) if result.took_s else "",
        "main_values": _main_values(result),
        "change": change,
        "direction": direction,
        "headline": headline,
        "checks": [_check(check, result) for check in result.checks],
        "why": [*(("failed", text) for text in wording.failure_next_to(result, ending)), *_why(result, headline)],
        "calibration": [_calibrated(name, found, result) for name, found in result.calibration.items()],
        "charts": charts_of(result),
        "broker_charts": broker_charts(result),
        "scenario": _scenario(result),
        "defaults": _defaults(result),
        "fingerprint": _fingerprint(result),
        "totals": _totals(result),
        "command": command_for(result),
    }


def _main_values(result: Result) -> list[str]:
    """Return throughput, and p50 and p99 of end-to-end latency (or produce latency if only that was measured)."""
    family = "e2e.latency" if "e2e.latency.p50" in result.metrics else "produce.latency"
    rate_name = "produce.throughput" if "produce.throughput" in result.metrics else "consume.throughput"
    names = (rate_name, f"{family}.p50", f"{family}.p99")
    judged = {check.metric: check.observed for check in result.checks if check.observed is not None}
    metrics = {**result.metrics, **judged}
    values = [(name, metrics.get(name), CATALOGUE[name].unit) for name in names]
    texts = [
        (name, _DASH if value is None else wording.short(value, unit).removesuffix("/s"))
        for name, value, unit in values
    ]
    rate, *latencies = [wording.bounded(text, name, result) for name, text in texts]
    sent, received = (metrics.get(f"{side}.throughput", 0.0) for side in ("produce", "consume"))
    if 0 < received < _FAR * sent or received * _FAR > sent > 0:
        rate = f"{wording.short(received, Unit.RECORD_RATE).removesuffix('/s')} of {rate}"
    return [rate, *latencies]


def _change(result: Result) -> tuple[str, str]:
    """Return the worst change among the thresholds relative to the baseline, and `worse`, `better` or ''."""
    relative = [check for check in result.checks if check.change is not None and check.is_relative]
    if not relative or not is_compared(result):
        return _DASH, ""
    worst = max(relative, key=_badness)
    text = f"{short_change(worst.change or 0.0)} {worst.metric.rpartition('latency.')[2].removeprefix('produce.')}"
    return text, {Verdict.REGRESSED: "worse", Verdict.IMPROVED: "better"}.get(worst.outcome, "")


def _badness(check: Check) -> float:
    change = check.change or 0.0
    return change if CATALOGUE[check.metric].better == "lower" else -change


def _check(check: Check, result: Result) -> dict[str, Any]:
    row = wording.row_of(check, result)
    cells = {
        "measured": row.measured,
        "rounds": row.rounds,
        "baseline": row.baseline,
        "change (range)": f"{row.change} ({row.interval})" if row.interval else row.change,
    }
    return {
        "expression": check.expression,
        "cells": [(title, text or _DASH) for title, text in cells.items()],
        "outcome": str(check.outcome),
        "broken": check.outcome.fails,
        "reason": row.why if check.outcome is not Verdict.PASSED or check.rerun else "",
    }


def _calibrated(name: str, found: Calibrated, result: Result) -> tuple[str, list[tuple[str, str]], list[str]]:
    cells = [(title, cell or _DASH) for title, cell in calibration_cells(name, found).items()]
    return name, cells, calibration_remarks(name, found, result)


def _why(result: Result, headline: Headline | None) -> Iterator[tuple[str, str]]:
    """Yield the kinds and texts of the remarks on a test, most important first, excluding those in the headline."""
    first = headline.sentence if headline is not None else ""
    yield from (("problem", problem.text) for problem in merged(result.problems) if problem.sentence not in first)
    if result.changed and not (headline is not None and headline.changed):
        yield "changed", ", ".join(wording.changes_of(result))
    yield from (("warning", text) for text in wording.without_repeats(result.warnings))
    yield from (("warning", notice.text) for notice in baseline_doubts(result))
    cause = headline.cause if headline is not None else ""
    for note in result.notes:
        if str(note) not in first and str(note) != cause:
            yield "note", str(note)
    for one in result.other_changes:
        yield (
            ("better" if one.better else "worse"),
            f"{wording.describe_other_change(one)}: beyond noise, but has no threshold",
        )
    if result.baseline.obstacle is not None and result.baseline.trials:
        yield "note", f"the charts show a baseline that does not count: {result.baseline.obstacle}"


def _totals(result: Result) -> str:
    """Return a text such as `5 rounds, 3 fresh trials, baseline of 5 trials`."""
    first, *further = judged(result.trials)
    rounds = counted(len(result.rounds), "round")
    if first.other_side is not None:
        return f"{counted(1 + len(further), 'trial')} of {rounds}, side by side with a live baseline"
    side_by_side = any(trial.other_side is not None for trial in further)
    parts = [
        rounds,
        f"{counted(len(further), 'trial')} side by side" if side_by_side else "",
        counted(len(further), "fresh trial") if further and not side_by_side else "",
        f"baseline of {counted(result.baseline_trials, 'trial')}" if result.baseline_trials else "",
    ]
    return ", ".join(filter(None, parts))


def _scenario(result: Result) -> list[tuple[str, str, str]]:
    """Return the name, value and source of each scenario field with a non-default value."""
    fields = [
        (name, format_field(name, getattr(result.scenario, name)), source)
        for name, source in result.sources.items()
        if name in Scenario.model_fields
    ]
    return fields if result.plan is None else [*fields, ("rate", describe_search(result.plan), "search")]


def _defaults(result: Result) -> str:
    rest = ((name, getattr(result.scenario, name)) for name in Scenario.model_fields if name not in result.sources)
    return ", ".join(f"{name} {format_field(name, value)}" for name, value in rest if value not in (None, {}))


def _fingerprint(result: Result) -> list[tuple[str, str, str]]:
    """Return the name, value, and differing baseline value of each fact; changed facts come first."""
    now = result.cluster.fingerprint
    before = result.baseline.fingerprint if result.live_baseline is None else result.live_baseline.fingerprint
    rows = [
        (name, now.get(name, _DASH), before.get(name, _DASH) if before and before.get(name) != now.get(name) else "")
        for name in dict.fromkeys([*now, *before])
    ]
    return sorted(rows, key=lambda row: not row[2])


def _sweeps(results: Sequence[Result]) -> list[dict[str, Any]]:
    found = []
    for number, sweep in enumerate(find_sweeps(result for result in results if result.rounds), 1):
        charts = sweep_charts(sweep)
        if charts:
            found.append(
                {
                    "id": f"sweep-{number}",
                    "name": without_folders(sweep.function),
                    "over": sweep.field if sweep.line_field is None else f"{sweep.field} and {sweep.line_field}",
                    "charts": charts,
                }
            )
    return found
