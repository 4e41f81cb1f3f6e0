"""What stands in the terminal: a table of results, and a line of progress while load runs."""

from __future__ import annotations

import io
import math
import shutil
import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pytest_kafkaperf.comparison import sign_of
from pytest_kafkaperf.metrics import CATALOGUE
from pytest_kafkaperf.reports.notes import names_of
from pytest_kafkaperf.units import format_percent, format_quantity, format_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_kafkaperf.load.pool import Progress
    from pytest_kafkaperf.result import Result
    from pytest_kafkaperf.scenario import Scenario
    from pytest_kafkaperf.verdict import Check

_STYLES = {
    "PASSED": "green",
    "IMPROVED": "bold green",
    "REGRESSED": "bold red",
    "VIOLATED": "bold red",
    "INVALID": "bold magenta",
    "INCONCLUSIVE": "yellow",
}
_PROGRESS_S = 0.5
"""Time between two updates of the progress line."""


def render_table(results: Sequence[Result], *, width: int, colour: bool, ascii_only: bool) -> str:
    """One row a test: verdict, throughput, latency, and the change against the baseline."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    table.add_column("test", overflow="fold", min_width=12)
    table.add_column("verdict", no_wrap=True)
    for title in ("records/s", "p50", "p99"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("change", no_wrap=True)
    names = names_of(results)
    for result in results:
        # The latency that matters most to who reads is the one that a record meets on its whole way.
        family = "e2e.latency" if "e2e.latency.p50" in result.metrics else "produce.latency"
        table.add_row(
            Text(names[result.nodeid]),
            Text(str(result.verdict), style=_STYLES[str(result.verdict)]),
            _figure(result, "produce.throughput"),
            _figure(result, f"{family}.p50"),
            _figure(result, f"{family}.p99"),
            _change(result),
        )
    return _plain(_print(table, width=width, colour=colour), ascii_only=ascii_only)


def render_calibration(result: Result, *, width: int, colour: bool, ascii_only: bool) -> str:
    """One row a metric: how much rounds and sessions differ, how often the rule would have erred, what it finds."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=False)
    table.add_column("metric", overflow="fold", min_width=12)
    for title in ("within", "between", "limit", "suspect", "false alarms", "finds"):
        table.add_column(title, justify="right", no_wrap=True)
    for name, found in result.calibration.items():
        sign = sign_of(CATALOGUE[name])
        table.add_row(
            name,
            format_percent(found.noise.within),
            format_percent(found.noise.between) + ("?" if found.noise.assumed else ""),
            format_ratio(math.expm1(sign * found.tolerance)),
            f"{found.suspects} of {found.sessions}",
            f"{found.alarms} of {found.splits}" if found.splits else "-",
            format_ratio(math.expm1(sign * found.detectable)) if math.isfinite(found.detectable) else "-",
        )
    return _plain(_print(table, width=width, colour=colour), ascii_only=ascii_only)


class ProgressLine:
    """One line that is written again and again while a scenario runs."""

    def __init__(self, name: str, scenario: Scenario, write: Callable[[str], None]) -> None:
        self._name = name
        self._scenario = scenario
        self._write = write
        self._shown_s = 0.0
        self._seen = (0, time.monotonic())
        self._rate = 0.0

    def update(self, session: str, number: int, seen: Progress) -> None:
        """Show how far round `number` is, and of which session where it is not the first."""
        now_s = time.monotonic()
        if now_s - self._shown_s < _PROGRESS_S:
            return
        acknowledged, since_s = self._seen
        if seen.acknowledged >= acknowledged:
            self._rate = (seen.acknowledged - acknowledged) / max(now_s - since_s, 1e-9)
        self._seen, self._shown_s = (seen.acknowledged, now_s), now_s
        line = (
            f"{self._name}{f'  {session}' if session else ''}  round {number}/{self._scenario.rounds}  {seen.phase}"
            f"{self._elapsed(seen)}  {format_quantity(self._rate, CATALOGUE['produce.throughput'].unit)}"
        )
        columns = shutil.get_terminal_size().columns
        self._write(f"\r\x1b[K{line[: columns - 1]}")

    def clear(self) -> None:
        """Leave no trace of it."""
        if self._shown_s:
            self._write("\r\x1b[K")

    def _elapsed(self, seen: Progress) -> str:
        if seen.phase != "measuring":
            return ""
        whole = f" / {self._scenario.duration:g} s" if self._scenario.duration else ""
        return f" {max(0.0, seen.elapsed_s):.1f} s{whole}"


def _plain(text: str, *, ascii_only: bool) -> str:
    return text.replace("µ", "u").encode("ascii", "replace").decode() if ascii_only else text


def _print(table: Table, *, width: int, colour: bool) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=colour,
        no_color=not colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        highlight=False,
        markup=False,
        emoji=False,
    )
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def _figure(result: Result, name: str) -> str:
    value = result.metrics.get(name)
    if value is None:
        return "-"
    return format_quantity(value, CATALOGUE[name].unit).removesuffix(" records/s")


def _change(result: Result) -> Text:
    """The gated metric that moved most for the worse, or least for the better."""
    relative = [check for check in result.checks if check.is_relative]
    changed = [check for check in relative if check.change is not None]
    if not changed:
        return Text("none yet" if relative else "-", style="dim")
    worst = max(changed, key=_badness)
    change = worst.change or 0.0
    text = f"{format_ratio(change)} {worst.metric.rpartition('latency.')[2].removeprefix('produce.')}"
    if text.startswith("0.0"):
        return Text(text)
    return Text(text, style="red" if _badness(worst) > 0 else "green")


def _badness(check: Check) -> float:
    change = check.change or 0.0
    return change if CATALOGUE[check.metric].better == "lower" else -change
