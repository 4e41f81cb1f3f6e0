"""Reports for continuous integration: GitHub annotations and job summary, GitLab metrics, JUnit properties."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_kafkaperf.core.metrics import CATALOGUE, QUANTILES, Metric
from pytest_kafkaperf.core.text import UNSEEN, printable, without_folders
from pytest_kafkaperf.core.units import Unit
from pytest_kafkaperf.reports.headline import headline_of
from pytest_kafkaperf.reports.markdown import LIMIT_BYTES, markdown
from pytest_kafkaperf.reports.run_headline import Outcome, State, outcomes_of
from pytest_kafkaperf.runner.result import Result, RunResult

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family


MAX_ANNOTATIONS = 10
"""Maximum number of errors, and likewise of warnings, that GitHub shows for a step."""

_MIN_SUMMARY_BYTES = 4096
"""Minimum size of a useful summary."""


def annotate(run: RunResult, *, workspace: Path | None) -> list[str]:
    """Return workflow commands for tests that failed, are undecided or have warnings, up to GitHub's limit.

    Errors come first, starting with the worst tests. `workspace` is the repository folder.
    """
    found: dict[str, list[str]] = {"error": [], "warning": []}
    for each in outcomes_of(run):
        message = _message(each, strict=run.settings.strict)
        if each.ending is not None and message is not None:
            verdict = "not measured" if each.result is None else each.result.verdict
            title = f"{without_folders(each.nodeid)}: {verdict}"
            file = _file(each.ending.file, root=run.settings.root, workspace=workspace)
            level = "error" if each.fails else "warning"
            found[level].append(command(level, title, message, file=file, line=each.ending.line))
    lines = []
    for level, commands in found.items():
        lines += commands[:MAX_ANNOTATIONS]
        if len(commands) > MAX_ANNOTATIONS:
            lines.append(
                f"kafkaperf: {len(commands) - MAX_ANNOTATIONS} more {level}s are not annotated, because GitHub shows "
                f"at most {MAX_ANNOTATIONS} of each step"
            )
    return lines


def command(level: str, title: str, message: str, *, file: str | None = None, line: int | None = None) -> str:
    """Return the workflow command that creates an annotation; `line` counts from 1."""
    known = {"file": file, "line": None if line is None else str(line), "title": title}
    properties = ",".join(f"{name}={_property(text)}" for name, text in known.items() if text is not None)
    return f"::{level} {properties}::{_data(message)}"


def run_url(variables: Mapping[str, str]) -> str | None:
    """Return the URL of the CI run that these environment variables describe; None if it is unknown."""
    server, repository, run_id = (variables.get(f"GITHUB_{name}") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    if server and repository and run_id:
        return f"{server}/{repository}/actions/runs/{run_id}"
    return variables.get("CI_JOB_URL")  # GitLab


def append_summary(path: Path, run: RunResult) -> str | None:
    """Append to the step's job summary; return any problem as a warning, which never affects a verdict."""
    try:
        with path.open("ab") as file:
            free_bytes = LIMIT_BYTES - file.tell() - 1
            if free_bytes < _MIN_SUMMARY_BYTES:
                return f"cannot add to the job summary: {file.tell():,} of {LIMIT_BYTES:,} bytes are in use"
            file.write(b"\n" + markdown(run, limit_bytes=free_bytes).encode())
    except OSError as error:
        return f"cannot write the job summary {path}: {error.strerror or error}"
    return None


def _message(outcome: Outcome, *, strict: bool) -> str | None:
    """Return a test's annotation text, starting with the headline; None if the test does not need an annotation."""
    result, ending = outcome.result, outcome.ending
    if ending is not None and ending.fails and (result is None or outcome.state is State.FAILED):
        return ending.reason or ending.outcome
    if result is None:
        return None
    headline = headline_of(result, strict=strict)
    lines = [] if headline is None else [*headline.lines]
    if not outcome.fails:
        notes = () if outcome.state.is_good else result.notes  # for example the duration of a comparison
        lines += map(str, (*notes, *result.warnings))
    return "\n".join(lines) or None


def _file(file: str, *, root: Path, workspace: Path | None) -> str:
    """Return a file's path relative to the workspace if possible, or else relative to `root`, or else absolute."""
    path = Path(os.path.normpath(root / file))
    folder = next((each for each in (workspace, root) if each is not None and path.is_relative_to(each)), None)
    return (path if folder is None else path.relative_to(folder)).as_posix()


def _data(text: str) -> str:
    return printable(text, keep="\t\r\n").replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


_SUFFIXES: dict[str, str] = {
    Unit.SECONDS: "seconds",
    Unit.BYTES: "bytes",
    Unit.RECORDS: "records",
    Unit.RECORD_RATE: "records_per_second",
    Unit.BYTE_RATE: "bytes_per_second",
    Unit.CORES: "cores",
    Unit.CPU_COST: "seconds_per_million_records",
    Unit.RATIO: "ratio",
    Unit.COUNT: "",
}
"""Suffixes of metric names, by base unit."""

_QUOTED = re.compile(f"[%#]|{UNSEEN.pattern}")

_DIGITS = 4
"""Number of significant digits in a value; GitLab compares and shows values as text, and further digits are noise."""


def metrics_text(results: Sequence[Result]) -> str:
    """Return all metrics as OpenMetrics, such as `kafka_produce_throughput_records_per_second{test="..."} 5003`.

    A latency's quantiles share one metric and differ in a label:
    `kafka_produce_latency_seconds{test="...",quantile="0.99"}`.
    """
    from prometheus_client.openmetrics.exposition import generate_latest  # noqa: PLC0415 - slow to import

    families: dict[str, Family] = {}
    for result in {each.nodeid: each for each in results}.values():  # if a test was repeated, its last result
        for name, value in result.metrics.items():
            family, labels = _family(CATALOGUE[name])
            known = families.setdefault(family.name, family)
            known.add_sample(family.name, {"test": _label(result.nodeid), **labels}, float(f"{value:.{_DIGITS}g}"))
    content: bytes = generate_latest(SimpleNamespace(collect=families.values))  # type: ignore[no-untyped-call]
    return content.decode()


def _family(subject: Metric) -> tuple[Family, dict[str, str]]:
    """Return a metric's family, and the labels for its samples."""
    from prometheus_client.core import Metric as Family  # noqa: PLC0415 - slow to import

    part = next((part for part in QUANTILES if subject.name.endswith(f".{part}")), None)
    if part is not None:
        meaning = subject.meaning.removesuffix(f": {part}")
        name = _name(subject.name.removesuffix(f".{part}"), subject.unit)
        return Family(name, f"{meaning}, median over the rounds", "summary"), {"quantile": str(QUANTILES[part])}
    meaning = f"{subject.meaning}, {subject.over_rounds} over the rounds"
    return Family(_name(subject.name, subject.unit), meaning, "gauge"), {}


def _name(name: str, unit: str) -> str:
    suffix = _SUFFIXES[unit] if unit in _SUFFIXES else re.sub(r"\W+", "_", unit.replace("/", "_per_"), flags=re.ASCII)
    return "_".join(filter(None, ("kafka", *name.split("."), suffix.strip("_"))))


def _label(nodeid: str) -> str:
    """Percent-encode invisible characters and `#`, which GitLab treats as the start of a comment.

    The percent sign is also encoded, which ensures that the labels of different tests always differ.
    """
    return _QUOTED.sub(lambda found: quote(found[0], errors="surrogatepass"), nodeid)


def junit_properties(result: Result) -> list[tuple[str, object]]:
    """Return the verdict, the problems, the metrics, and the threshold results, numbered from 1.

    Values are in base units, and changes are ratios. Unknown values are omitted.
    """
    found: list[tuple[str, object]] = [
        ("kafka_verdict", str(result.verdict)),
        *([("kafka_accepted", True)] if result.accepted else []),
        *(("kafka_problem", problem.text) for problem in result.problems),
        *result.metrics.items(),
    ]
    for number, check in enumerate(result.checks, 1):
        prefix = f"kafka_check_{number}"
        values = {
            "observed": check.observed,
            "limit": check.limit_value,
            "baseline": check.baseline,
            "change": check.change,
            "detectable_change": check.detectable_change,
        }
        found += [(prefix, check.expression), (f"{prefix}_verdict", str(check.outcome))]
        found.append((f"{prefix}_reason", check.reason))
        known = ((name, value) for name, value in values.items() if value is not None and math.isfinite(value))
        found += [(f"{prefix}_{name}", value) for name, value in known]
    return found
