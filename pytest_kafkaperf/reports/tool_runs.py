"""Imports the output of Kafka's own tools as the rounds of one trial.

Sources: `ProducerPerformance` and `ConsumerPerformance`, Kafka 1.x to 4.3.

The throughput of `kafka-producer-perf-test` is the number of acknowledged records divided by the time from before the
first `send()` to after the last acknowledgement, and its latency is the time from `send()` to the acknowledgement. In a
closed loop, both match the plugin's metrics. With `--throughput`, the tool still measures latency from the send,
whereas the plugin measures it from the time at which a record is due. The tool's bandwidth includes only record values;
the plugin's bandwidth also includes keys.

The plugin measures `consume.throughput` from the start of the window, when the consumers have joined their group.
`kafka-consumer-perf-test` prints two throughputs: `nMsg.sec` includes the time to join the group, and `fetch.nMsg.sec`
does not, so `fetch.nMsg.sec` and `fetch.MB.sec` are imported if the output contains them. The tool reads records that
are already in the log; compare its results with `consume="after"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from pytest_kafkaperf.core.errors import UsageError, shortened
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.verdict.baseline_file import Imported

PRODUCER, CONSUMER = "kafka-producer-perf-test", "kafka-consumer-perf-test"
_MB = Fraction(2**20)
_MS = Fraction(1, 1000)
_PRODUCED = {
    "records/sec": ("produce.throughput", Fraction(1)),
    "MB/sec": ("produce.bandwidth", _MB),
    "avg latency": ("produce.latency.mean", _MS),
    "max latency": ("produce.latency.max", _MS),
    "50th": ("produce.latency.p50", _MS),
    "95th": ("produce.latency.p95", _MS),
    "99th": ("produce.latency.p99", _MS),
    "99.9th": ("produce.latency.p99.9", _MS),
}
_CONSUMED = {"nMsg.sec": ("consume.throughput", Fraction(1)), "MB.sec": ("consume.bandwidth", _MB)}
"""Metric and unit of each value, by the tool's name for the value."""
_SUMMARY = re.compile(
    r"(?P<steady>steady state )?records sent, (\S+) records?/sec \((\S+) MB/sec\), (\S+) ms avg latency, "
    r"(\S+) ms max latency, (\S+) ms 50th, (\S+) ms 95th, (\S+) ms 99th, (\S+) ms 99\.9th"
)
_FAILED = re.compile(r"[\w.]+Exception\b")
"""First line of a stack trace. The tool prints failed sends but does not count them, and exits with status 0."""
_TIMEOUT = re.compile(r"timeout \((\d+) ms\) exceeded")
_NUMBER = re.compile(r"\d{1,18}(\.\d{1,18})?", re.ASCII)
_COARSE_S = 0.01
"""Latency below which a rounding error of one millisecond exceeds 10%."""
_MAX_SHOWN = 60
"""Maximum length of a quoted line in an error, in characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """Measurements from one run of a tool."""

    tool: str
    file: str
    """File name without folders."""
    line: int
    """Number of the line with the measurements, starting at 1."""
    metrics: Mapping[str, float]
    """Values in base units, by the plugin's metric names."""
    notes: tuple[str, ...] = ()
    """Notes on the values."""


def read_runs(content: bytes, *, file: str) -> list[ToolRun]:
    """Return the runs in a file; lines that do not contain a run's result are ignored.

    Raises:
        UsageError: the file does not contain a run, or contains an invalid one; the message contains the file and, if
            possible, the line.

    """
    try:
        lines = content.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise UsageError(f"{file}: this is not text in UTF-8; give what the tool printed") from None
    runs = [*_producer_runs(lines, file), *_consumer_runs(lines, file)]
    if not runs:
        first = shortened(next((line.strip() for line in lines if line.strip()), ""), _MAX_SHOWN)
        raise UsageError(
            f"{file}: this is not the output of a finished run of {PRODUCER} or {CONSUMER}; its first line is {first!r}"
        )
    return runs


def rounds_of(runs: Sequence[ToolRun]) -> tuple[Mapping[str, float], ...]:
    """Combine runs into rounds: the first runs of both tools become the first round, and so on.

    Raises:
        UsageError: the tools have different numbers of runs, so some rounds would lack metrics.

    """
    produced, consumed = ([run.metrics for run in runs if run.tool == tool] for tool in (PRODUCER, CONSUMER))
    if produced and consumed and len(produced) != len(consumed):
        raise UsageError(
            f"{counted(len(produced), 'run')} of {PRODUCER} and {counted(len(consumed), 'run')} of {CONSUMER} cannot "
            "be combined into rounds; give as many runs of each tool, or import one tool alone"
        )
    if produced and consumed:
        return tuple({**first, **second} for first, second in zip(produced, consumed, strict=True))
    return tuple(produced or consumed)


def origin(runs: Sequence[ToolRun]) -> Imported:
    """Return the tools and files to record in the baseline."""
    tools, files = (dict.fromkeys(each) for each in ((run.tool for run in runs), (run.file for run in runs)))
    return Imported(tool=" and ".join(tools), files=tuple(files))


def notes_on(runs: Sequence[ToolRun]) -> list[str]:
    """Return the notes on all runs, without duplicates, each with its line numbers."""
    notes: dict[str, list[str]] = {}
    for run in runs:
        for note in run.notes:
            notes.setdefault(f"{run.file}: {note}", []).append(str(run.line))
    return [f"{note} (line{'s' if len(lines) > 1 else ''} {', '.join(lines)})" for note, lines in notes.items()]


def _producer_runs(lines: Sequence[str], file: str) -> list[ToolRun]:
    """Return a run for each final row. With `--warmup-records`, the steady-state row replaces the preceding row."""
    runs: list[ToolRun] = []
    failures = sum(_FAILED.match(line) is not None for line in lines)
    notes = [f"{counted(failures, 'failed send')} in the output, which the tool does not count"] if failures else []
    is_whole = False
    for number, line in enumerate(lines, 1):
        if found := _SUMMARY.search(line):
            steady, *texts = found.groups()
            if steady and is_whole:
                runs.pop()
            is_whole = not steady
            values = {name: (text, *_PRODUCED[name]) for name, text in zip(_PRODUCED, texts, strict=True)}
            runs.append(_run(PRODUCER, file, number, values, notes))
    return runs


def _consumer_runs(lines: Sequence[str], file: str) -> Iterator[ToolRun]:
    """Yield a run for each row below a header."""
    names: list[str] = []
    notes: list[str] = []
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.split(",")]
        if _CONSUMED.keys() <= {*cells}:
            names = cells
            if "threadId" in names:
                raise UsageError(
                    f"{file}: line {number}: each row of --show-detailed-stats describes only an interval; run the "
                    "tool without that option"
                )
        elif waited := _TIMEOUT.search(line):
            notes = [f"the tool waited {waited[1]} ms for records that never came, which lowers its results"]
        elif names and cells[0][:1].isdigit() and " records sent, " not in line:
            if len(cells) != len(names):
                raise UsageError(
                    f"{file}: line {number}: this row has {len(cells)} cells but its header has {len(names)}, because "
                    "the output is cut off or has decimal commas; run the tool again with LC_ALL=C and let it finish"
                )
            row = dict(zip(names, cells, strict=True))
            prefix = "fetch."
            # Some old versions print a negative time and wrong values.
            if not {"fetch.nMsg.sec", "fetch.MB.sec"} <= row.keys() or row.get("fetch.time.ms", "").startswith("-"):
                prefix = ""
                notes.append("nMsg.sec and MB.sec include the time to join the group; the output has no other values")
            values = {f"{prefix}{name}": (row[f"{prefix}{name}"], *_CONSUMED[name]) for name in _CONSUMED}
            yield _run(CONSUMER, file, number, values, notes)
            notes = []


def _run(
    tool: str, file: str, line: int, values: Mapping[str, tuple[str, str, Fraction]], notes: Sequence[str]
) -> ToolRun:
    """Return a run; `values` has the text, metric and unit of each value, by the tool's name for the value.

    A printed 0 is a rounded value: a latency of "0 ms" is below one millisecond. It is omitted, because a ratio to 0
    does not exist.
    """
    metrics: dict[str, float] = {}
    for name, (text, metric, unit) in values.items():
        if _NUMBER.fullmatch(text) is None:
            raise UsageError(
                f"{file}: line {line}: {name} is {shortened(text, _MAX_SHOWN)!r}, which is not a number such as "
                "1234.5; remove this run, or run the tool again with LC_ALL=C"
            )
        metrics[metric] = float(Fraction(text) * unit)
    known = {name: value for name, value in metrics.items() if value}
    if not known:
        raise UsageError(f"{file}: line {line}: all values are 0, so nothing was measured; remove this run")
    zeros = ", ".join(name for name in metrics if name not in known)
    coarse = ", ".join(
        f"{name} {value * 1000:g} ms" for name, value in known.items() if ".latency.p" in name and value < _COARSE_S
    )
    more = {
        "omitted, because 0 means too small to print": zeros,
        "known only in whole milliseconds, so ratios are inexact": coarse,
    }
    texts = (*notes, *(f"{note}: {names}" for note, names in more.items() if names))
    return ToolRun(tool=tool, file=file, line=line, metrics=known, notes=texts)
