"""What GitHub Actions shows of a run: annotations at the tests' lines, and a job summary.

Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands; the escapes are those of
`packages/core/src/command.ts` in https://github.com/actions/toolkit.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_kafkaperf.collection import without_folders
from pytest_kafkaperf.finding import Verdict
from pytest_kafkaperf.printable import printable
from pytest_kafkaperf.reports.markdown import LIMIT_BYTES, markdown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_kafkaperf.result import Ending, Result

MOST = 10
"""Errors of one step that are shown, and as many warnings."""
_LEAST_ROOM_BYTES = 4096
"""Of a summary: less holds nothing worth reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One remark at a line of a file."""

    level: Literal["error", "warning"]
    title: str
    message: str
    file: str
    """Relative to the repository's root."""
    line: int | None
    """From 1."""

    @property
    def command(self) -> str:
        """The line that the runner reads."""
        where = f",line={self.line}" if self.line is not None else ""
        return f"::{self.level} file={_property(self.file)}{where},title={_property(self.title)}::{_data(self.message)}"


def annotate(
    results: Sequence[Result], endings: Mapping[str, Ending], *, root: Path, workspace: Path | None
) -> list[Annotation]:
    """One for each test that failed, was not decided, or has warnings; the gravest first, errors before warnings.

    `endings` are those of all perf tests that pytest ran, by nodeid; their files are relative to `root`. `workspace`
    is where the repository lies.
    """
    by_nodeid = {result.nodeid: result for result in results}
    found: list[tuple[tuple[bool, int], Annotation]] = []
    for ending in endings.values():
        result = by_nodeid.get(ending.nodeid)
        message = _message(result, ending)
        if message is None:
            continue
        verdict = None if result is None else result.verdict
        # Of a test that measured nothing, nothing is known: that is graver than a bad figure.
        gravity = len(Verdict) if verdict is None else list(Verdict).index(verdict)
        annotation = Annotation(
            level="error" if ending.fails else "warning",
            title=f"{without_folders(ending.nodeid)}: {verdict or 'not measured'}",
            message=message,
            file=_file(ending.file, root=root, workspace=workspace),
            line=ending.line,
        )
        found.append(((not ending.fails, -gravity), annotation))
    return [annotation for _, annotation in sorted(found, key=lambda each: each[0])]


def commands(found: Sequence[Annotation], problem: str | None) -> list[str]:
    """The lines to print: what GitHub shows, and how many more there are; before them what went wrong here."""
    lines = [] if problem is None else [f"::warning title=kafkaperf::{_data(problem)}"]
    for level in ("error", "warning"):
        chosen = [each for each in found if each.level == level]
        lines += [each.command for each in chosen[:MOST]]
        if len(chosen) > MOST:
            lines.append(f"kafkaperf: {len(chosen) - MOST} more {level}s: GitHub shows {MOST} of a step")
    return lines


def append_summary(path: Path, results: Sequence[Result], endings: Mapping[str, Ending]) -> str | None:
    """Add the summary to what the step's summary holds already; what went wrong: a warning, and never the verdict."""
    try:
        with path.open("ab") as file:
            room_bytes = LIMIT_BYTES - file.tell() - 1
            if room_bytes < _LEAST_ROOM_BYTES:
                return f"the job summary has no room left: {file.tell():,} of {LIMIT_BYTES:,} bytes are taken"
            file.write(b"\n" + markdown(results, endings, limit_bytes=room_bytes).encode())
    except OSError as error:
        return f"cannot write the job summary {path}: {error.strerror or error}"
    return None


def _message(result: Result | None, ending: Ending) -> str | None:
    """What is told at the test's line; None where there is nothing."""
    if ending.fails:
        return ending.reason or ending.outcome
    if result is None:
        return None
    unmet = [
        f"{check.expression}: {check.reason}"
        for check in result.checks
        if check.outcome.fails or check.outcome is Verdict.INCONCLUSIVE
    ]
    return "\n".join([*result.problems, *unmet, *result.notes, *result.warnings]) or None


def _file(file: str, *, root: Path, workspace: Path | None) -> str:
    """As GitHub knows it; of a file elsewhere, as short as it can be."""
    path = Path(os.path.normpath(root / file))
    folder = next((each for each in (workspace, root) if each is not None and path.is_relative_to(each)), None)
    return (path if folder is None else path.relative_to(folder)).as_posix()


def _data(text: str) -> str:
    return printable(text, keep="\t\r\n").replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")
