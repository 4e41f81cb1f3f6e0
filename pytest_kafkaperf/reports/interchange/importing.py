"""The import of other tools' output files as the rounds of one session."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_kafkaperf.core.errors import UsageError, shortened
from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.reports.interchange import kafka_consumer, kafka_producer
from pytest_kafkaperf.reports.interchange.runs import MAX_SHOWN, ToolRun, Unfinished
from pytest_kafkaperf.verdict.baselines.record import Imported

_BINARY = "the file is binary or not UTF-8; give the text that the tool printed, in UTF-8"

_MAX_RATIO = 2
"""Factor beyond which runs are probably of different workloads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file and the runs in it."""

    name: str
    """File name without folders."""
    runs: tuple[ToolRun, ...]


def read_source(content: bytes, *, name: str) -> Source:
    """Read a file with output of Kafka's own tools.

    Raises:
        UsageError: The file contains no run, or an invalid one; the text names the file and, if possible, the line.

    """
    try:
        text = _decoded(content)
        if not text.strip():
            raise UsageError("the file is empty; run the tool to its end and save its output")  # noqa: TRY301
        runs = read_output(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    return Source(name=name, runs=runs)


def rounds_of(sources: Sequence[Source]) -> tuple[Mapping[str, float], ...]:
    """Combine the runs into rounds: the first runs of all tools make the first round, and so on.

    All rounds must have the same metrics. So all tools must have the same number of runs, and no two tools may measure
    the same metric.

    Raises:
        UsageError: The tools have different numbers of runs, or two of them measured the same metric.

    """
    by_tool: dict[str, list[ToolRun]] = {}
    for run in (run for source in sources for run in source.runs):
        by_tool.setdefault(run.tool, []).append(run)
    numbers = " and ".join(f"{counted(len(runs), 'run')} of {tool}" for tool, runs in by_tool.items())
    if len({len(runs) for runs in by_tool.values()}) > 1:
        raise UsageError(
            f"{numbers} cannot be combined into rounds; give as many runs of each tool, or import one tool alone"
        )
    rounds = (dict(ChainMap(*(run.metrics for run in runs))) for runs in zip(*by_tool.values(), strict=True))
    return tuple({name: one[name] for name in CATALOGUE if name in one} for one in rounds)


def origin(sources: Sequence[Source]) -> Imported:
    """Return the tool and the files for the baseline."""
    *others, last = dict.fromkeys(run.tool for source in sources for run in source.runs)
    tool = f"{', '.join(others)} and {last}" if others else last
    return Imported(tool=tool, files=tuple(source.name for source in sources))


def notes_on(sources: Sequence[Source], rounds: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the notes on all runs, each once with its lines, and on large differences between rounds."""
    notes: dict[str, list[int]] = {}
    for source in sources:
        for run in source.runs:
            for note in run.notes:
                notes.setdefault(f"{source.name}: {note}", []).append(run.line)
    found = [f"{note} ({_lines(lines)})" for note, lines in notes.items()]
    for name in ("produce.throughput", "consume.throughput"):
        values = [one[name] for one in rounds if one.get(name)]
        if values and max(values) > _MAX_RATIO * min(values):
            found.append(
                f"{name} differs by a factor of {max(values) / min(values):.1f} between rounds; if the runs are of "
                "different workloads, import those of only one"
            )
    return found


def _lines(lines: Sequence[int]) -> str:
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"


def _decoded(content: bytes) -> str:
    """Decode a file as UTF-8, or as UTF-16, which Windows PowerShell writes, if it starts with a byte order mark."""
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise UsageError(_BINARY) from None
    if "\0" in text:
        raise UsageError(_BINARY)
    return text


TOOLS = (kafka_producer.TOOL, kafka_consumer.TOOL)


def read_output(text: str) -> tuple[ToolRun, ...]:
    """Return the runs in the output of Kafka's tools, in the order of their lines; other lines are ignored.

    Raises:
        UsageError: The text contains no run, or an invalid one; the text names the line.

    """
    lines = text.splitlines()
    found = sorted([*kafka_producer.read(lines), *kafka_consumer.read(lines)], key=lambda one: one.line)
    runs = [one for one in found if isinstance(one, ToolRun)]
    unfinished = [one for one in found if isinstance(one, Unfinished)]
    if runs:
        *others, last = runs
        return (*others, replace(last, notes=(*last.notes, *(f"omitted: {one}" for one in unfinished))))
    if unfinished:
        raise UsageError(f"{unfinished[0]}; run the tool to its end")
    first = next((line.strip() for line in lines if line.strip()), "")
    raise UsageError(f"this is not output of {' or '.join(TOOLS)}; its first line is {shortened(first, MAX_SHOWN)!r}")
