"""Reports for continuous integration: GitHub annotations and job summary, GitLab metrics, JUnit properties."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from pytest_kafkaperf.core.files import write_report
from pytest_kafkaperf.core.metrics import CATALOGUE, QUANTILES, Metric
from pytest_kafkaperf.core.text import UNSEEN, printable, without_folders
from pytest_kafkaperf.core.units import Unit
from pytest_kafkaperf.reports.markdown import LIMIT_BYTES, markdown
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.verdict import Check

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family


MOST = 10
"""Errors of one step that are shown, and as many warnings."""

_LEAST_ROOM_BYTES = 4096
"""Of a summary: less holds nothing worth reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One remark at a line of a file."""

    level: Literal["error", "warning"]
    title: str
    message: str
    file: str
    """Relative to the repository's root."""
    line: int | None
    """From 1."""

    @property
    def command(self) -> str:
        """The line that the runner reads."""
        where = f",line={self.line}" if self.line is not None else ""
        return f"::{self.level} file={_property(self.file)}{where},title={_property(self.title)}::{_data(self.message)}"


def annotate(
    results: Sequence[Result], endings: Mapping[str, Ending], *, root: Path, workspace: Path | None
) -> list[Annotation]:
    """One for each test that failed, was not decided, or has warnings; the gravest first, errors before warnings.

    `endings` are those of all perf tests that pytest ran, by nodeid; their files are relative to `root`. `workspace`
    is where the repository lies.
    """
    by_nodeid = {result.nodeid: result for result in results}
    found: list[tuple[tuple[bool, int], Annotation]] = []
    for ending in endings.values():
        result = by_nodeid.get(ending.nodeid)
        message = _message(result, ending)
        if message is None:
            continue
        verdict = None if result is None else result.verdict
        # Of a test that measured nothing, nothing is known: that is graver than a bad figure.
        gravity = len(Verdict) if verdict is None else list(Verdict).index(verdict)
        annotation = Annotation(
            level="error" if ending.fails else "warning",
            title=f"{without_folders(ending.nodeid)}: {verdict or 'not measured'}",
            message=message,
            file=_file(ending.file, root=root, workspace=workspace),
            line=ending.line,
        )
        found.append(((not ending.fails, -gravity), annotation))
    return [annotation for _, annotation in sorted(found, key=lambda each: each[0])]


def commands(found: Sequence[Annotation], problem: str | None) -> list[str]:
    """The lines to print: what GitHub shows, and how many more there are; before them what went wrong here."""
    lines = [] if problem is None else [f"::warning title=kafkaperf::{_data(problem)}"]
    for level in ("error", "warning"):
        chosen = [each for each in found if each.level == level]
        lines += [each.command for each in chosen[:MOST]]
        if len(chosen) > MOST:
            lines.append(f"kafkaperf: {len(chosen) - MOST} more {level}s: GitHub shows {MOST} of a step")
    return lines


def append_summary(path: Path, results: Sequence[Result], endings: Mapping[str, Ending]) -> str | None:
    """Add the summary to what the step's summary holds already; what went wrong: a warning, and never the verdict."""
    try:
        with path.open("ab") as file:
            room_bytes = LIMIT_BYTES - file.tell() - 1
            if room_bytes < _LEAST_ROOM_BYTES:
                return f"the job summary has no room left: {file.tell():,} of {LIMIT_BYTES:,} bytes are taken"
            file.write(b"\n" + markdown(results, endings, limit_bytes=room_bytes).encode())
    except OSError as error:
        return f"cannot write the job summary {path}: {error.strerror or error}"
    return None


def _message(result: Result | None, ending: Ending) -> str | None:
    """What is told at the test's line; None where there is nothing."""
    if ending.fails:
        return ending.reason or ending.outcome
    if result is None:
        return None
    unmet = [
        f"{check.expression}: {check.reason}"
        for check in result.checks
        if check.outcome.fails or check.outcome is Verdict.INCONCLUSIVE
    ]
    return "\n".join([*map(str, result.problems), *unmet, *result.notes, *result.warnings]) or None


def _file(file: str, *, root: Path, workspace: Path | None) -> str:
    """As GitHub knows it; of a file elsewhere, as short as it can be."""
    path = Path(os.path.normpath(root / file))
    folder = next((each for each in (workspace, root) if each is not None and path.is_relative_to(each)), None)
    return (path if folder is None else path.relative_to(folder)).as_posix()


def _data(text: str) -> str:
    return printable(text, keep="\t\r\n").replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")


_SUFFIXES = {
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
"""What names end in: the base unit."""

_ENDING = re.compile(f"[%#]|{UNSEEN.pattern}")

_DIGITS = 4
"""GitLab compares texts, and shows them as they are: more digits are noise."""


def write_metrics(path: Path, results: Sequence[Result]) -> None:
    """Write the metrics whole or not at all.

    Raises:
        UsageError: the file cannot be written; names it and the reason.

    """
    write_report(path, metrics_text(results).encode(), option="gitlab-metrics", what="metrics")


def metrics_text(results: Sequence[Result]) -> str:
    """Every metric of every test, in its base unit: `kafka_produce_throughput_records_per_second{test="..."} 5003`.

    Quantiles of a latency are one metric with a label: `kafka_produce_latency_seconds{test="...",quantile="0.99"}`.
    """
    from prometheus_client import CollectorRegistry  # noqa: PLC0415 - slow, and only GitLab's metrics need it
    from prometheus_client.openmetrics.exposition import generate_latest  # noqa: PLC0415 - the same

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(results))
    content: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return content.decode()


class _Families:
    """What prometheus_client takes for a collector."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = results

    def collect(self) -> Iterable[Family]:
        families: dict[str, Family] = {}
        for result in {each.nodeid: each for each in self._results}.values():  # of one that was run again the last
            for name, value in result.metrics.items():
                family, labels = _family(CATALOGUE[name])
                known = families.setdefault(family.name, family)
                known.add_sample(family.name, {"test": _label(result.nodeid), **labels}, float(f"{value:.{_DIGITS}g}"))
        return families.values()


def _family(subject: Metric) -> tuple[Family, dict[str, str]]:
    """The metric family of a metric, and what labels tell it from others of the same."""
    from prometheus_client.core import Metric as Family  # noqa: PLC0415 - as above

    part = next((part for part in QUANTILES if subject.name.endswith(f".{part}")), None)
    if part is not None:
        meaning = subject.meaning.removesuffix(f": {part}")
        name = _name(subject.name.removesuffix(f".{part}"), subject.unit)
        return Family(name, f"{meaning}, median over the rounds", "summary"), {"quantile": str(QUANTILES[part])}
    how = "sum" if subject.summed else "median"
    return Family(_name(subject.name, subject.unit), f"{subject.meaning}, {how} over the rounds", "gauge"), {}


def _name(name: str, unit: Unit) -> str:
    return "_".join(filter(None, ("kafka", *name.split("."), _SUFFIXES[unit])))


def _label(nodeid: str) -> str:
    """By number, as in addresses, what cannot be seen, and what GitLab takes for the beginning of a comment: `#`.

    The per cent sign, too, so that no two tests get the same label.
    """
    return _ENDING.sub(lambda found: quote(found[0], errors="surrogatepass"), nodeid)


def junit_properties(result: Result) -> list[tuple[str, object]]:
    """The verdict, why it is INVALID, each metric, and what was found of each limit, numbered from 1.

    Figures are in the metric's base unit, changes are ratios; what is not known is left out.
    """
    return [
        ("kafka_verdict", str(result.verdict)),
        *(("kafka_problem", problem.text) for problem in result.problems),
        *result.metrics.items(),
        *(each for number, check in enumerate(result.checks, 1) for each in _of_check(f"kafka_check_{number}", check)),
    ]


def _of_check(prefix: str, check: Check) -> Iterator[tuple[str, object]]:
    yield prefix, check.expression
    yield f"{prefix}_outcome", str(check.outcome)
    yield f"{prefix}_reason", check.reason
    figures = {
        "observed": check.observed,
        "limit": check.limit_value,
        "baseline": check.baseline,
        "change": check.change,
        "detectable": check.detectable,
    }
    for name, value in figures.items():
        if value is not None and math.isfinite(value):
            yield f"{prefix}_{name}", value
