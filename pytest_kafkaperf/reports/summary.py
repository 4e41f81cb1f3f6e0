"""What stands in the terminal after all tests: the table, calibrations, and notes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kafkaperf.reports.compat import compat_lines
from pytest_kafkaperf.reports.hockey import stick_of
from pytest_kafkaperf.reports.notes import names_of, render_notes
from pytest_kafkaperf.reports.terminal import render_calibration, render_stick, render_table, wrapped

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_kafkaperf.result import Ending
    from pytest_kafkaperf.session import Session


def summary_lines(
    perf: Session, endings: Mapping[str, Ending], *, width: int, colour: bool, ascii_only: bool, verbose: bool
) -> list[str]:
    """Lines of at most `width` columns, but for those of `--kafka-compat`: a program reads them."""
    names = names_of(perf.results)
    lines = render_table(perf.results, endings, width=width, colour=colour, ascii_only=ascii_only).splitlines()
    for result in perf.results:
        if result.calibration:
            table = render_calibration(result, width=width, colour=colour, ascii_only=ascii_only)
            lines += ["", names[result.nodeid], *table.splitlines()]
    for result in perf.results:
        stick = stick_of(result, result.rounds[:1])  # later searches begin near its end
        if stick is not None:
            table = render_stick(stick, width=width, colour=colour, ascii_only=ascii_only)
            which = f", the first of {len(result.rounds)} searches" if len(result.rounds) > 1 else ""
            lines += ["", f"{names[result.nodeid]}{which}", *table.splitlines()]
    lines += wrapped(render_notes(perf, verbose=verbose), width=width, ascii_only=ascii_only)
    if perf.settings.compat:
        for result in perf.results:
            lines += ["", *compat_lines(result)]
    return lines
