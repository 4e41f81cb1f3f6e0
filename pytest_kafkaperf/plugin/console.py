"""Console output: progress while load runs, and the table of results."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.reports.calibration import describe_trial, remaining_s
from pytest_kafkaperf.reports.columns import Paper
from pytest_kafkaperf.reports.standing import describe_slowest, describe_standing, further_by_check
from pytest_kafkaperf.reports.terminal import summary_lines
from pytest_kafkaperf.reports.wording import short, shown_metrics
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.result import RunResult, Trial
from pytest_kafkaperf.runner.time_budget import left_s
from pytest_kafkaperf.verdict.outcome import Judgement

if TYPE_CHECKING:
    from pytest_kafkaperf.load.controller import Progress
    from pytest_kafkaperf.scenarios.scenario import Scenario


@contextlib.contextmanager
def progress(
    item: pytest.Item, test: PerfTest
) -> Iterator[tuple[ProgressLine | RoundLines | None, Callable[[str], None]]]:
    """Yield an object that shows the progress of rounds, and a function that prints a line unless `-q` is given.

    In a terminal, progress is a line that is updated in place. Elsewhere, it is one line per round with `-v`, and None
    without `-v`.
    """
    config = item.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.get_verbosity() < 0:
        yield None, lambda _: None
        return
    terminal = _Terminal(config, reporter)
    is_live = reporter.isatty and not os.environ.get("CI")
    line: ProgressLine | RoundLines | None = None
    metrics = shown_metrics(test.thresholds)
    if is_live:
        terminal.end_line()
        line = ProgressLine(item.name, test.scenario, terminal.write, metrics=metrics)
    elif config.get_verbosity() > 0:
        line = RoundLines(item.name, test.scenario, terminal.write_line, metrics=metrics)

    def say(text: str) -> None:
        if line is not None:
            line.close()
        terminal.write_line(text)

    try:
        yield line, say
    finally:
        if line is not None:
            line.close()
        # With -v, pytest itself prints the test's name again.
        if config.get_verbosity() == 0 and (is_live or terminal.has_lines):
            terminal.write_name(item.nodeid)


class TrialLines:
    """Prints a line after each trial that leaves the test without a verdict or is part of a calibration."""

    def __init__(
        self, test: PerfTest, later: Sequence[PerfTest], say: Callable[[str], None], *, calibrate: int | None
    ) -> None:
        """`later` contains the tests after this one; `calibrate` is the number of calibration trials, or None."""
        self._test = test
        self._later = later
        self._say = say
        self._calibrate = calibrate
        self._began_s = time.monotonic()
        self._has_warned = False
        self._ends_s: list[float] = []
        """End time of each trial, in seconds since the start of the first one."""

    def __call__(self, trials: Sequence[Trial], judgement: Judgement) -> None:
        """Print the line about the last trial."""
        took_s = time.monotonic() - self._began_s
        self._ends_s.append(took_s)
        if self._calibrate is not None:
            rest_s = remaining_s(self._test, self._later, len(trials), self._calibrate, took_s=took_s)
            self._say(describe_trial(self._test, trials, self._calibrate, left_s=rest_s))
        elif judgement.unsettled or len(trials) > 1:
            further = further_by_check(self._test, judgement)
            rest_s = left_s(self._test, self._ends_s, max(further.values(), default=None))
            self._say(describe_standing(self._test, trials, judgement, left_s=rest_s))
            if not self._has_warned and (warning := describe_slowest(further, rest_s)) is not None:
                self._has_warned = True
                self._say(warning)


class _Terminal:
    """pytest's terminal, to which the plugin can write while pytest captures a test's output."""

    def __init__(self, config: pytest.Config, reporter: pytest.TerminalReporter) -> None:
        self._config = config
        self._reporter = reporter
        self.has_lines = False
        """True if lines were written, thus ending pytest's own line."""

    def write(self, text: str) -> None:
        """Write text; characters that standard output cannot encode are replaced."""
        with _uncaptured(self._config):
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
            sys.stdout.flush()

    def write_line(self, text: str) -> None:
        """Write a line of text."""
        self.has_lines = True
        with _uncaptured(self._config):
            self._reporter.ensure_newline()
            self._reporter.write_line(text)

    def end_line(self) -> None:
        """End the line on which pytest has printed the test's file name."""
        with _uncaptured(self._config):
            self._reporter.ensure_newline()

    def write_name(self, nodeid: str) -> None:
        """Write the test's file name as pytest does so that the result follows the name."""
        with _uncaptured(self._config):
            self._reporter.write_fspath_result(nodeid, "")


def print_table(terminalreporter: pytest.TerminalReporter, config: pytest.Config, run: RunResult) -> None:
    """Print the results of all tests, fitted to the terminal width."""
    writer = terminalreporter._tw  # noqa: SLF001 - no public way to the width and color
    terminalreporter.write_sep("=", "kafka performance")
    paper = Paper(width=writer.fullwidth, colour=writer.hasmarkup)
    failures = config.getoption("tbstyle") != "no"
    for line in summary_lines(run, paper, verbose=config.get_verbosity() > 0, failures=failures):
        terminalreporter.write_line(line)


def _uncaptured(config: pytest.Config) -> contextlib.AbstractContextManager[None]:
    """Suspend pytest's capture of output."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    return contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled()


_PROGRESS_S = 0.5
"""Minimum time between two updates of the line."""


class _Output:
    """The common part of both types of progress output: the test, and the terminal."""

    def __init__(self, name: str, scenario: Scenario, write: Callable[[str], None], *, metrics: Sequence[str]) -> None:
        """`metrics` are those shown for each finished round."""
        self._name = printable(name)
        self._scenario = scenario
        self._write = write
        self._metrics = metrics


class ProgressLine(_Output):
    """A line that is overwritten while a scenario runs."""

    def __init__(self, name: str, scenario: Scenario, write: Callable[[str], None], *, metrics: Sequence[str]) -> None:
        super().__init__(name, scenario, write, metrics=metrics)
        self._shown_s = 0.0
        self._seen = (0, time.monotonic())
        self._rate = 0.0

    def update(self, trial: str, number: int, seen: Progress) -> None:
        """Show the progress of round `number`; `trial` is a label, or empty for the first trial."""
        now_s = time.monotonic()
        if now_s - self._shown_s < _PROGRESS_S and not seen.metrics:
            return
        acknowledged, since_s = self._seen
        if seen.acknowledged >= acknowledged:
            self._rate = (seen.acknowledged - acknowledged) / max(now_s - since_s, 1e-9)
        self._seen = (seen.acknowledged, now_s)
        self._shown_s = now_s
        line = self.text(trial, number, seen, self._rate, width=shutil.get_terminal_size().columns - 1)
        self._write(f"\r\x1b[K{line}")

    def close(self) -> None:
        """Clear the line."""
        if self._shown_s:
            self._write("\r\x1b[K")

    def text(self, trial: str, number: int, seen: Progress, rate: float, *, width: int) -> str:
        """Return the progress of round `number` at a rate in records/s; drop the least important parts if necessary."""
        scenario = self._scenario
        # With a payload of samples, the size is unknown.
        size_bytes = None if scenario.record_size is None else scenario.mean_record_size
        parts = {"name": self._name, "trial": trial, "round": _round(scenario, number), "step": seen.step}
        running = {
            "phase": f"{seen.phase}{_elapsed(scenario, seen)}",
            "left": _left(scenario, number, seen),
            "rate": format_quantity(rate, Unit.RECORD_RATE),
            "bandwidth": "" if size_bytes is None else format_quantity(rate * size_bytes, Unit.BYTE_RATE),
            "p99": "" if seen.p99_s is None else f"p99 {format_quantity(seen.p99_s, Unit.SECONDS)}",
            "lag": "" if seen.lag is None else f"lag {format_quantity(seen.lag, Unit.COUNT)}",
        }
        parts |= _values(seen, self._metrics) if seen.metrics else running
        for omitted in (*reversed(self._metrics), "bandwidth", "left", "lag", "p99", ""):
            line = "  ".join(filter(None, parts.values()))
            if len(line) <= width:
                break
            parts.pop(omitted, None)
        return line[:width]


class RoundLines(_Output):
    """A plain line after each round, for log files."""

    def update(self, trial: str, number: int, seen: Progress) -> None:
        """Write the line for round `number` when the round is done."""
        if seen.phase == "done":
            parts = [self._name, trial, _round(self._scenario, number), seen.step]
            self._write("  ".join(filter(None, [*parts, *_values(seen, self._metrics).values()])))

    def close(self) -> None:
        """Do nothing, because each line is complete."""


def _round(scenario: Scenario, number: int) -> str:
    """Return a round's number; a side-by-side trial can have more rounds than the scenario."""
    return f"round {number}/{scenario.rounds}" if number <= scenario.rounds else f"round {number}"


def _values(seen: Progress, metrics: Sequence[str]) -> dict[str, str]:
    """Return a round's values by metric, as shown in the table."""
    values = {name: seen.metrics[name] for name in metrics if name in seen.metrics}
    return {name: f"{name} {short(value, CATALOGUE[name].unit)}" for name, value in values.items()}


def _elapsed(scenario: Scenario, seen: Progress) -> str:
    if seen.phase != "measuring":
        return ""
    whole = f" / {scenario.duration:g} s" if scenario.duration else ""
    return f" {max(0.0, seen.elapsed_s):.1f} s{whole}"


def _left(scenario: Scenario, number: int, seen: Progress) -> str:
    """Return the remaining time for all rounds, excluding connecting and draining; an empty text if unknown."""
    if scenario.duration is None or seen.step:  # the number of steps in a search is unknown
        return ""
    current_s = scenario.duration - seen.elapsed_s if seen.phase in ("warm-up", "measuring") else 0.0
    left_s = max(0.0, current_s) + max(0, scenario.rounds - number) * (scenario.warmup + scenario.duration)
    return f"{left_s:.0f} s left" if left_s >= 1 else ""
