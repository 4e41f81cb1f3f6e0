"""Report files, the history file, and the output for GitHub Actions."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from pytest_kafkaperf.core.errors import KafkaPerfError, UsageError
from pytest_kafkaperf.core.files import remove_report, write_report
from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.reports.ci import annotate, append_summary, command, metrics_text, run_url
from pytest_kafkaperf.reports.html.html_report import html_page
from pytest_kafkaperf.reports.json_report import json_text
from pytest_kafkaperf.reports.markdown import markdown
from pytest_kafkaperf.runner.result import judged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import BinaryIO

    from pytest_kafkaperf.runner.result import Result, RunResult, Trial
    from pytest_kafkaperf.runner.rounds.round import Round
    from pytest_kafkaperf.runner.settings import Settings


HISTORY_SCHEMA_VERSION = 1
"""Version of the format of a line."""
_LOCK_TIMEOUT_S = 30
"""Maximum time to wait for the file's lock, which other runs hold while writing."""


def write_reports(run: RunResult, *, exit_status: Callable[[bool], int], variables: Mapping[str, str]) -> RunResult:
    """Write the requested reports; return the run, with an error for each report that could not be written.

    A failed report does not leave a partial file behind. `exit_status` returns the run's exit status, depending on
    whether there are errors. `variables` are the environment variables, which identify the CI run's page.
    """
    # The JSON report is written last, because it lists the errors from the other reports.
    texts: dict[str, Callable[[RunResult], str]] = {
        "markdown": lambda run: markdown(run, run_url=run_url(variables)),
        "gitlab": lambda run: metrics_text(run.results),
        "html": html_page,
        "json": lambda run: json_text(run, exit_status=exit_status(bool(run.errors))),
    }
    for kind, text in texts.items():
        path = run.settings.reports.get(kind)
        try:
            if path is not None:
                write_report(path, text(run), kind=kind)
        except KafkaPerfError as error:
            run = dataclasses.replace(run, errors=(*run.errors, str(error)))
        except Exception as error:  # noqa: BLE001 - for example from a parameter's `__str__`; the others are written
            problem = f"--kafka-report={kind}: {type(error).__name__}: {error}"
            run = dataclasses.replace(run, errors=(*run.errors, problem))
    return run


def remove_reports(settings: Settings) -> None:
    """Remove an earlier run's reports so they cannot be mistaken for the reports of a later run that was killed.

    Raises:
        UsageError: a file cannot be removed; the message contains the option, the file and the reason.

    """
    for kind, path in settings.reports.items():
        if kind != "history":
            remove_report(path, kind=kind)


def report_to_github(run: RunResult, variables: Mapping[str, str]) -> list[str]:
    """Append to the job summary and return the annotations to print; do nothing outside GitHub Actions."""
    if variables.get("GITHUB_ACTIONS") != "true":
        return []
    summary = variables.get("GITHUB_STEP_SUMMARY")
    workspace = variables.get("GITHUB_WORKSPACE")
    problem = append_summary(Path(summary), run) if summary else None
    root = Path(workspace) if workspace else None
    warnings = [] if problem is None else [command("warning", "kafkaperf", problem)]
    return [*warnings, *annotate(run, workspace=root)]


def history_lines(result: Result, *, plugin: str, commit: str | None, environment: str) -> list[dict[str, Any]]:
    """Return one line for each of a test's trials that count, in order, with values in base units.

    `environment` is the key under which the baseline is stored.
    """
    return [
        {
            "schema_version": HISTORY_SCHEMA_VERSION,
            "time": trial.created,
            "plugin": plugin,
            "commit": commit,
            "environment": environment,
            "nodeid": result.nodeid,
            "trial": number,
            "kind": _kind_of(trial, result, is_first=number == 0),
            "verdict": str(result.verdict),
            "rounds": len(trial.rounds),
            "metrics": _metrics(trial.rounds),
            "fingerprint": result.cluster.fingerprint,
        }
        for number, trial in enumerate(judged(result.trials))
    ]


def _kind_of(trial: Trial, result: Result, *, is_first: bool) -> str:
    if trial.other_side is not None:
        return "side by side"
    if is_first:
        return "first"
    return "calibration" if result.calibration else "fresh"


def append_history(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Append lines to a file, creating it if necessary; without lines, check only that the file can be opened.

    A lock (`NAME.lock` next to the file) makes concurrent runs append one after another. If the file's last line is
    incomplete because its writer was killed, a line break is added first so that no other line is corrupted.

    Raises:
        UsageError: the file cannot be written, or another run held its lock for too long; the message contains the
            file.

    """
    content = "".join(f"{json.dumps(line, allow_nan=False)}\n" for line in lines).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock"), timeout=_LOCK_TIMEOUT_S), path.open("ab+") as file:
            file.write(content if _ends_with_newline(file) or not content else b"\n" + content)
            file.flush()
            os.fsync(file.fileno())
    except Timeout as error:
        raise UsageError(
            f"--kafka-report=history:{path}: cannot append to the history: another run has held {error.lock_file} for "
            f"{_LOCK_TIMEOUT_S} s; delete the lock file if no other run is active"
        ) from None
    except OSError as error:
        raise UsageError(
            f"--kafka-report=history:{path}: cannot append to the history: {error.strerror or error}"
        ) from None


def _metrics(rounds: Sequence[Round]) -> dict[str, float | None]:
    """Return a summary of each metric over a trial's rounds; None for values that JSON cannot represent."""
    values = {name: [one.metrics[name] for one in rounds if name in one.metrics] for name in CATALOGUE}
    found = {name: CATALOGUE[name].aggregate(each) for name, each in values.items() if each}
    return {name: value if math.isfinite(value) else None for name, value in found.items()}


def _ends_with_newline(file: BinaryIO) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
