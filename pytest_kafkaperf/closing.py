"""What is done when pytest's session ends: baselines of tests that are gone are looked for, reports are written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_kafkaperf.collection import Collection, file_of
from pytest_kafkaperf.reports.writing import tell_github, write_reports

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

    from pytest_kafkaperf.result import Ending
    from pytest_kafkaperf.session import Session


def see_orphans(session: pytest.Session, collection: Collection, perf: Session) -> None:
    """Look for baselines of tests that are gone, among the files of which none was left out.

    Raises:
        BaselineError: the folder of baselines cannot be read, or a file not be deleted.

    """
    config = session.config
    kept = {item.nodeid for item in session.items}
    for argument in config.args:
        if "::" in argument:
            collection.leave_out(argument)
            # Relative to where pytest was called, which nodeids are not; of a module's name the file is not known.
            path = os.path.normpath(config.invocation_params.dir / file_of(argument))
            for nodeid in [item.nodeid for item in session.items if str(item.path) == path] or kept:
                collection.leave_out(nodeid)
    if session.shouldstop or session.shouldfail or config.getoption("lf", default=False):
        for nodeid in kept:  # the last failed ones alone are collected
            collection.leave_out(nodeid)
    perf.prune(collected=kept, files=collection.whole_files(kept), whole=not collection.partly(kept))


def write(
    perf: Session, endings: Mapping[str, Ending], *, exit_status: int, errors: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Write the reports that were asked for; what went wrong besides these errors, and lines to print for GitHub."""
    found = write_reports(perf, endings, exit_status=exit_status, errors=errors)
    return found, tell_github(perf, endings, os.environ) if perf.results or endings else []
