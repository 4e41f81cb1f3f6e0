"""All reports of a session that are files, and what GitHub is told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kafkaperf.errors import KafkaPerfError
from pytest_kafkaperf.reports.github import annotate, append_summary, commands
from pytest_kafkaperf.reports.gitlab import write_metrics
from pytest_kafkaperf.reports.json import write_json
from pytest_kafkaperf.reports.markdown import write_markdown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pytest_kafkaperf.result import Ending
    from pytest_kafkaperf.session import Session

_USAGE_ERROR = 4
"""pytest's exit status where all tests passed and a report cannot be written."""


def write_reports(
    perf: Session, endings: Mapping[str, Ending], *, exit_status: int, errors: Sequence[str]
) -> list[str]:
    """Write those that were asked for, each whole or not at all; what went wrong.

    `endings` are those of all perf tests that pytest ran, by nodeid; `errors` what went wrong before.
    """
    settings = perf.settings
    seed = None if settings.reference is None else perf.seed

    def markdown(path: Path) -> None:
        write_markdown(path, perf.results, endings)

    def gitlab(path: Path) -> None:
        write_metrics(path, perf.results)

    def page(path: Path) -> None:
        from pytest_kafkaperf.reports.html import write_html  # noqa: PLC0415 - an extra

        write_html(
            path,
            perf.results,
            created=perf.created,
            plugin=perf.plugin,
            environment=perf.environment(),
            commit=perf.commit,
            options=settings.command_line,
            reference_seed=seed,
            fingerprint=lambda cluster: cluster.fingerprint,
        )

    def json(path: Path) -> None:
        write_json(
            path,
            perf.results,
            endings,
            created=perf.created,
            plugin=perf.plugin,
            environment=perf.environment(),
            reference_seed=seed,
            exit_status=exit_status or (_USAGE_ERROR if errors or found else 0),
            errors=[*errors, *found],
        )

    found: list[str] = []
    # The JSON report at last: it tells what became of the run, the other reports included.
    asked: list[tuple[Path | None, Callable[[Path], None]]] = [
        (settings.markdown, markdown),
        (settings.gitlab_metrics, gitlab),
        (settings.html, page),
        (settings.json, json),
    ]
    for path, write in asked:
        try:
            if path is not None:
                write(path)
        except KafkaPerfError as error:
            found.append(str(error))
    return found


def tell_github(perf: Session, endings: Mapping[str, Ending], variables: Mapping[str, str]) -> list[str]:
    """Add to the job's summary under GitHub Actions; the lines that are to be printed, none elsewhere."""
    if variables.get("GITHUB_ACTIONS") != "true":
        return []
    summary, workspace = variables.get("GITHUB_STEP_SUMMARY"), variables.get("GITHUB_WORKSPACE")
    problem = append_summary(Path(summary), perf.results, endings) if summary else None
    root = Path(workspace) if workspace else None
    return commands(annotate(perf.results, endings, root=perf.settings.root, workspace=root), problem)
