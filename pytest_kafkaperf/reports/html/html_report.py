"""The HTML report: one file that works offline, with charts of all measurements."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.errors import UsageError

if TYPE_CHECKING:
    from pytest_kafkaperf.runner.result import RunResult


_NEEDED = ("jinja2", "plotly")


def check_installed() -> None:
    """Check that the packages of the HTML report are installed, without importing them.

    Raises:
        UsageError: A package is missing; the text says how to install it.

    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"--kafka-report=html needs {' and '.join(missing)}: pip install 'pytest-kafkaperf[html]'")


def html_page(run: RunResult) -> str:
    """Return the report of all tests; its packages are installed, as `check_installed` has found."""
    from pytest_kafkaperf.reports.html.page import render  # noqa: PLC0415 - needs packages of an extra

    return render(run)
