"""How a perf test ended, as pytest's reports of its phases tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.errors import shortened
from pytest_kafkaperf.result import Ending

if TYPE_CHECKING:
    import pytest

_MOST_REASON = 2000
"""Characters of why a test failed that reports keep."""


def ending_of(item: pytest.Item, report: pytest.TestReport, before: Ending | None) -> Ending | None:
    """How a test ends, as far as this phase tells; None where it says nothing new."""
    expected = hasattr(report, "wasxfail")
    outcome: Any = f"x{report.outcome}" if expected and report.passed else report.outcome
    if report.skipped and expected:
        outcome = "xfailed"
    elif report.failed and report.when != "call":
        outcome = "error"
    if (before is not None and before.fails) or (outcome == "passed" and report.when != "call"):
        return None
    file, line, _ = item.location
    return Ending(
        nodeid=item.nodeid,
        outcome=outcome,
        reason=None if report.passed else _reason(report),
        file=file,
        line=None if line is None else line + 1,
    )


def _reason(report: pytest.TestReport) -> str:
    """What failed, without the lines of code that led there."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if isinstance(report.longrepr, tuple):  # of a skipped test: file, line, reason
        text = str(report.longrepr[-1])
    else:
        text = report.longreprtext if crash is None else str(crash.message)
    return shortened(text, _MOST_REASON)
