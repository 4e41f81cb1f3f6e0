"""The HTML report: one file that needs no network, with a chart of everything that was measured."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.files import write_report

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.spec import Cluster
    from pytest_kafkaperf.runner.result import Result

_NEEDED = ("jinja2", "plotly")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What the page says of the run."""

    created: str
    """When the session began, ISO 8601."""
    plugin: str
    """The plugin's version."""
    environment: Mapping[str, Any]
    """Where the session ran: `key`, under which baselines are filed."""
    commit: str | None
    """Of the tests' repository; None where it is not known."""
    options: Mapping[str, str]
    """Those of the command line, by name without `--kafka-`, for the commands that run a test again."""
    reference_seed: int | None
    """Of the order in which rounds took turns; None without a reference."""
    fingerprint: Callable[[Cluster], Mapping[str, str]]
    """Gives what figures measured on a cluster may depend on."""


def check_installed() -> None:
    """Refuse the option before any load where what it needs is missing; imports nothing.

    Raises:
        UsageError: names what is missing and how to install it.

    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"--kafka-html needs {' and '.join(missing)}: pip install 'pytest-kafkaperf[html]'")


def write_html(path: Path, results: Sequence[Result], facts: RunFacts) -> None:
    """Write the report whole or not at all; `results` are those of all tests, in the order in which they ran.

    Raises:
        UsageError: the file cannot be written; names it and the reason. Or something is not installed.

    """
    check_installed()
    from pytest_kafkaperf.reports.html.page import render  # noqa: PLC0415 - not everybody has installed it

    content = render(results, facts).encode("utf-8", "backslashreplace")  # a nodeid can have a lone surrogate
    write_report(path, content, option="html", what="report")
