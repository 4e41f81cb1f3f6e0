"""Figures of other tools: files of their output made into the rounds of one session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pytest_kafkaperf.core.errors import UsageError, shortened
from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.reports.interchange import kafka_consumer, kafka_producer
from pytest_kafkaperf.reports.interchange.openmessaging import read_result
from pytest_kafkaperf.reports.interchange.runs import MAX_SHOWN, ToolRun, Unfinished
from pytest_kafkaperf.verdict.baselines.record import Imported

_BINARY = "it is binary or not UTF-8, and the text that a tool prints is needed, in UTF-8"

_UNLIKE_RATIO = 2
"""Runs of one workload seldom lie farther apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file, and the runs whose output stands in it."""

    name: str
    """Without folders."""
    runs: tuple[ToolRun, ...]


def read_source(content: bytes, *, name: str) -> Source:
    """Read a file of a tool's output: text of Kafka's own tools, or a result of OpenMessaging Benchmark.

    Raises:
        UsageError: it holds no run, or one that cannot be; names the file and, where there is one, the line.

    """
    try:
        text = _decoded(content)
        if not text.strip():
            raise UsageError("it is empty; run the tool to its end, and keep what it prints")  # noqa: TRY301
        runs = (read_result(text),) if text.lstrip().startswith("{") else read_output(text)
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None
    return Source(name=name, runs=runs)


def rounds_of(sources: Sequence[Source]) -> tuple[Mapping[str, float], ...]:
    """The runs as rounds: those of one tool in their order, those of several tools side by side.

    A metric that some rounds lack decides nothing. So several tools must have as many runs each, and each a metric of
    its own: the first run of the producer and the first of the consumer are the first round.

    Raises:
        UsageError: they have not.

    """
    by_tool: dict[str, list[ToolRun]] = {}
    for run in (run for source in sources for run in source.runs):
        by_tool.setdefault(run.tool, []).append(run)
    told = " and ".join(f"{counted(len(runs), 'run')} of {tool}" for tool, runs in by_tool.items())
    if len({len(runs) for runs in by_tool.values()}) > 1:
        raise UsageError(
            f"{told} make no rounds in which each has its figures; give as many of each, or import one tool alone"
        )
    return tuple(_joined(together, told) for together in zip(*by_tool.values(), strict=True))


def origin(sources: Sequence[Source]) -> Imported:
    """What a baseline keeps of where its figures came from."""
    *others, last = dict.fromkeys(run.tool for source in sources for run in source.runs)
    tool = f"{', '.join(others)} and {last}" if others else last
    return Imported(tool=tool, files=tuple(source.name for source in sources))


def notes_on(sources: Sequence[Source], rounds: Sequence[Mapping[str, float]]) -> list[str]:
    """What is to know of the figures, each once."""
    notes: dict[str, list[int]] = {}
    for source in sources:
        for run in source.runs:
            for note in run.notes:
                notes.setdefault(f"{source.name}: {note}", []).append(run.line)
    found = [f"{note} ({_lines(lines)})" for note, lines in notes.items()]
    for name in ("produce.throughput", "consume.throughput"):
        values = [one[name] for one in rounds if one.get(name)]
        if values and max(values) > _UNLIKE_RATIO * min(values):
            found.append(
                f"{name} differs by a factor of {max(values) / min(values):.1f} between rounds: if they are of several "
                "workloads, import those of one"
            )
    return found


def _lines(lines: Sequence[int]) -> str:
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"


def _decoded(content: bytes) -> str:
    """The text of a file; Windows PowerShell writes what a program prints as UTF-16."""
    encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        raise UsageError(_BINARY) from None
    if "\0" in text:
        raise UsageError(_BINARY)
    return text


def _joined(runs: Sequence[ToolRun], told: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for run in runs:
        twice = [name for name in run.metrics if name in found]
        if twice:
            raise UsageError(f"{told}: several give {twice[0]}; import one of them")
        found |= run.metrics
    return {name: found[name] for name in CATALOGUE if name in found}


TOOLS = (kafka_producer.TOOL, kafka_consumer.TOOL, kafka_consumer.SHARE_TOOL, kafka_consumer.LATENCY_TOOL)


def read_output(text: str) -> tuple[ToolRun, ...]:
    """The runs whose output stands in a text, in its order; what else stands there is passed over.

    Raises:
        UsageError: there is no run, or one that cannot be; names the line.

    """
    lines = text.splitlines()
    found = [
        one for read in (kafka_producer.read, kafka_consumer.read, kafka_consumer.read_latency) for one in read(lines)
    ]
    runs = tuple(sorted((one for one in found if isinstance(one, ToolRun)), key=lambda one: one.line))
    broken = sorted((one for one in found if isinstance(one, Unfinished)), key=lambda one: one.line)
    if runs:
        *others, last = runs
        return (*others, replace(last, notes=(*last.notes, *(f"left out: {one}" for one in broken))))
    if broken:
        raise UsageError(f"{broken[0]}; run it to its end")
    first = next((line.strip() for line in lines if line.strip()), "")
    raise UsageError(
        f"this is no output of {', '.join(TOOLS)}, nor a result of OpenMessaging Benchmark (JSON); "
        f"its first line is {shortened(first, MAX_SHOWN)!r}"
    )
