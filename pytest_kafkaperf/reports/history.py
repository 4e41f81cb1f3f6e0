"""The history: one JSON line a test and session, appended run after run, for tools that look at weeks of them."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from pytest_kafkaperf.errors import UsageError
from pytest_kafkaperf.metrics import CATALOGUE
from pytest_kafkaperf.result import judged, summary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path
    from typing import BinaryIO

    from pytest_kafkaperf.result import Result
    from pytest_kafkaperf.round import Round

SCHEMA = 1
"""Version of a line."""
_LOCK_TIMEOUT_S = 30
"""Bound of waiting for others that append: each holds the lock for one write."""


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
            "schema": SCHEMA,
            "time": trial.created,
            "plugin": plugin,
            "commit": commit,
            "environment": environment(result),
            "nodeid": result.nodeid,
            "session": number,
            "kind": "first" if number == 0 else "calibration" if result.calibration else "fresh",
            "verdict": str(result.verdict),
            "rounds": len(trial.rounds),
            "metrics": _metrics(trial.rounds),
            "fingerprint": dict(fingerprint(result)),
        }
        for result in results
        for number, trial in enumerate(judged(result.trials))
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
            _write(file, content if _ends_whole(file) or not content else b"\n" + content)
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


def _write(file: BinaryIO, content: bytes) -> None:
    """To the end, wherever the file was read (O_APPEND); a disk that fills up may take a part only."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]
    os.fsync(file.fileno())
