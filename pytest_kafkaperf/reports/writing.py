"""The reports of a session that are files, the lines of its history, and what GitHub is told."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from pytest_kafkaperf.core.errors import KafkaPerfError, UsageError
from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.reports.ci import annotate, append_summary, commands, write_metrics
from pytest_kafkaperf.reports.json import write_json
from pytest_kafkaperf.reports.markdown import write_markdown
from pytest_kafkaperf.runner.result import judged, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import BinaryIO

    from pytest_kafkaperf.runner.result import Ending, Result
    from pytest_kafkaperf.runner.round import Round
    from pytest_kafkaperf.runner.session import Session


HISTORY_SCHEMA = 1
"""Version of a line of the history."""
_USAGE_ERROR = 4
"""pytest's exit status where all tests passed and a report cannot be written."""
_LOCK_TIMEOUT_S = 30
"""Bound of waiting for others that append: each holds the lock for one write."""


def write_reports(
    perf: Session, endings: Mapping[str, Ending], *, exit_status: int, errors: Sequence[str]
) -> list[str]:
    """Write those that were asked for, each whole or not at all; what went wrong.

    `endings` are those of all perf tests that pytest ran, by nodeid; `errors` what went wrong before.
    """
    settings, results = perf.settings, perf.results
    seed = None if settings.reference is None else perf.seed
    found: list[str] = []

    def page(path: Path) -> None:
        from pytest_kafkaperf.reports.html import RunFacts, write_html  # noqa: PLC0415 - an extra

        facts = RunFacts(
            created=perf.created,
            plugin=perf.plugin,
            environment=perf.environment(),
            commit=perf.commit,
            options=settings.command_line,
            reference_seed=seed,
            fingerprint=lambda cluster: cluster.fingerprint,
        )
        write_html(path, results, facts)

    def json(path: Path) -> None:
        write_json(
            path,
            results,
            endings,
            created=perf.created,
            plugin=perf.plugin,
            environment=perf.environment(),
            reference_seed=seed,
            exit_status=exit_status or (_USAGE_ERROR if errors or found else 0),
            errors=[*errors, *found],
        )

    # The JSON report at last: it tells what became of the run, the other reports included.
    asked: list[tuple[Path | None, Callable[[Path], None]]] = [
        (settings.markdown, lambda path: write_markdown(path, results, endings)),
        (settings.gitlab_metrics, lambda path: write_metrics(path, results)),
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


def add_to_history(perf: Session, result: Result) -> None:
    """Add the lines of one result, where a history is kept.

    Raises:
        UsageError: it cannot be written; names the file and the reason.

    """
    if perf.settings.history is None:
        return
    lines = history_lines(
        [result],
        plugin=perf.plugin,
        commit=perf.commit,
        environment=lambda each: perf.environment_key(each.cluster.provider),
        fingerprint=lambda each: each.cluster.fingerprint,
    )
    append_history(perf.settings.history, lines)


def history_lines(
    results: Sequence[Result],
    *,
    plugin: str,
    commit: str | None,
    environment: Callable[[Result], str],
    fingerprint: Callable[[Result], Mapping[str, str]],
) -> list[dict[str, Any]]:
    """One line for each session of each test that counts, in their order. Figures are in base units.

    `environment` gives the key that a result's baseline is filed under, `fingerprint` what its figures depend on.
    """
    return [
        {
            "schema": HISTORY_SCHEMA,
            "time": session.created,
            "plugin": plugin,
            "commit": commit,
            "environment": environment(result),
            "nodeid": result.nodeid,
            "session": number,
            "kind": "first" if number == 0 else "calibration" if result.calibration else "fresh",
            "verdict": str(result.verdict),
            "rounds": len(session.rounds),
            "metrics": _metrics(session.rounds),
            "fingerprint": dict(fingerprint(result)),
        }
        for result in results
        for number, session in enumerate(judged(result.sessions))
    ]


def append_history(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Add lines to the end of a file, which is made where it is missing; without lines it is only opened.

    Sessions that append at the same time wait for each other (`NAME.lock` lies beside the file), and each adds its
    lines in one piece. What a writer that was killed left without its end is closed off, and spoils no other line.

    Raises:
        UsageError: the file cannot be written, or others held it too long; names it and the reason.

    """
    content = "".join(f"{json.dumps(line, allow_nan=False)}\n" for line in lines).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock"), timeout=_LOCK_TIMEOUT_S), path.open("ab+", 0) as file:
            write_all(file, content if _ends_whole(file) or not content else b"\n" + content)
    except Timeout as error:
        raise UsageError(
            f"--kafka-history={path}: cannot add to the history: others have held {error.lock_file} for "
            f"{_LOCK_TIMEOUT_S} s; delete it if none is running"
        ) from None
    except OSError as error:
        raise UsageError(f"--kafka-history={path}: cannot add to the history: {error.strerror or error}") from None


def _metrics(rounds: Sequence[Round]) -> dict[str, float | None]:
    """Over the rounds of one session that have it; None where there is no such number in JSON."""
    values = {name: [one.metrics[name] for one in rounds if name in one.metrics] for name in CATALOGUE}
    found = {name: summary(name, each) for name, each in values.items() if each}
    return {name: value if math.isfinite(value) else None for name, value in found.items()}


def _ends_whole(file: BinaryIO) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def write_all(file: BinaryIO, content: bytes) -> None:
    """To the end, wherever the file was read (O_APPEND); a disk that fills up may take a part only."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())
