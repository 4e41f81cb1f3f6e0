"""The HTML report: one file that works offline, with charts of all measurements."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.errors import UsageError

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.result import RunResult


def check_installed() -> None:
    """Check that the package of the HTML report is installed, without importing it.

    Raises:
        UsageError: It is missing; the error shows how to install it.

    """
    if importlib.util.find_spec("jinja2") is None:
        raise UsageError("--kafka-report=html needs jinja2: pip install 'pytest-kafkaperf[html]'")


def html_page(run: RunResult) -> str:
    """Return the report of all tests; its package is installed, as `check_installed` has found."""
    from pytest_kafkaperf.reports.html.page import render  # noqa: PLC0415 - needs a package of an extra

    return render(run)
