"""The HTML report: one file that works offline, with charts of all measurements."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.errors import UsageError

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.result import RunResult


def check_installed() -> None:
    """Check that the package for the HTML report is installed, without importing the package.

    Raises:
        UsageError: the package is missing; the error shows how to install it.

    """
    if importlib.util.find_spec("jinja2") is None:
        raise UsageError("--kafka-report=html needs jinja2: pip install 'pytest-kafkaperf[html]'")


def html_page(run: RunResult) -> str:
    """Return the report of all tests; `check_installed` must have succeeded."""
    from pytest_kafkaperf.reports.html.page import render  # noqa: PLC0415 - needs a package of an extra

    return render(run)
