"""The HTML report: one file that needs no network, with a chart of everything that was measured."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from pytest_kafkaperf.errors import UsageError
from pytest_kafkaperf.files import write_report

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pytest_kafkaperf.clusters import Cluster
    from pytest_kafkaperf.result import Result

_NEEDED = ("jinja2", "plotly")


def check_installed() -> None:
    """Refuse the option before any load where what it needs is missing; imports nothing.

    Raises:
        UsageError: names what is missing and how to install it.

    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(f"--kafka-html needs {' and '.join(missing)}: pip install 'pytest-kafkaperf[html]'")


def write_html(
    path: Path,
    results: Sequence[Result],
    *,
    created: str,
    plugin: str,
    environment: Mapping[str, Any],
    commit: str | None,
    options: Mapping[str, str],
    reference_seed: int | None,
    fingerprint: Callable[[Cluster], Mapping[str, str]],
) -> None:
    """Write the report whole or not at all.

    Args:
        path: where to.
        results: of all tests, in the order in which they ran.
        created: when the session began, ISO 8601.
        plugin: the plugin's version.
        environment: where the session ran: `key`, under which baselines are filed.
        commit: of the tests' repository; None where it is not known.
        options: those of the command line, by name without `--kafka-`, for the commands that run a test again.
        reference_seed: of the order in which rounds took turns; None without a reference.
        fingerprint: what figures measured on a cluster may depend on.

    Raises:
        UsageError: the file cannot be written; names it and the reason. Or something is not installed.

    """
    check_installed()
    from pytest_kafkaperf.reports.html.page import Run, render  # noqa: PLC0415 - not everybody has installed it

    run = Run(
        created=created,
        plugin=plugin,
        environment=str(environment.get("key", "")),
        commit=commit,
        options=options,
        reference_seed=reference_seed,
        fingerprint=fingerprint,
    )
    content = render(results, run).encode("utf-8", "backslashreplace")  # a nodeid can have a lone surrogate
    write_report(path, content, option="html", what="report")
