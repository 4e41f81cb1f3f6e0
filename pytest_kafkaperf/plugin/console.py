"""Console output: progress while load runs, the table of results, and annotations for CI."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping

import pytest

from pytest_kafkaperf.reports.layout import Paper
from pytest_kafkaperf.reports.progress import ProgressLine, RoundLines
from pytest_kafkaperf.reports.table import shown_metrics
from pytest_kafkaperf.reports.terminal import summary_lines
from pytest_kafkaperf.runner.perf_run import PerfRun
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.result import Ending


@contextlib.contextmanager
def progress(
    item: pytest.Item, test: PerfTest
) -> Iterator[tuple[ProgressLine | RoundLines | None, Callable[[str], None]]]:
    """Yield the progress of rounds, and a function that prints a line, which does nothing with `-q`.

    Progress is a line that is updated in a terminal, one line per round if output is redirected with `-v`, or None.
    """
    config = item.config
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.get_verbosity() < 0:
        yield None, lambda _: None
        return
    live = reporter.isatty and not os.environ.get("CI")
    printed = False

    def write(text: str) -> None:
        with _uncaptured(config):
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
            sys.stdout.flush()

    def write_line(text: str) -> None:
        nonlocal printed
        printed = True
        with _uncaptured(config):
            reporter.ensure_newline()
            reporter.write_line(text)

    def say(text: str) -> None:
        if line is not None:
            line.close()
        write_line(text)

    line: ProgressLine | RoundLines | None = None
    metrics = shown_metrics(test.thresholds)
    if live:
        with _uncaptured(config):
            reporter.ensure_newline()
        line = ProgressLine(item.name, test.scenario, write, metrics=metrics)
    elif config.get_verbosity() > 0:
        line = RoundLines(item.name, test.scenario, write_line, metrics=metrics)
    try:
        yield line, say
    finally:
        if line is not None:
            line.close()
        # With -v, pytest itself writes the name of the test again.
        if config.get_verbosity() == 0 and (live or printed):
            with _uncaptured(config):
                reporter.write_fspath_result(item.nodeid, "")


def print_table(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config, perf: PerfRun, endings: Mapping[str, Ending]
) -> None:
    """Print the results of all tests, as wide as the terminal."""
    writer = terminalreporter._tw  # noqa: SLF001 - has the width and colour; there is no public way
    terminalreporter.write_sep("=", "kafka performance")
    paper = Paper(width=writer.fullwidth, colour=writer.hasmarkup)
    for line in summary_lines(perf, endings, paper, verbose=config.get_verbosity() > 0):
        terminalreporter.write_line(line)


def _uncaptured(config: pytest.Config) -> contextlib.AbstractContextManager[None]:
    """Suspend pytest's capture of output."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    return contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled()
