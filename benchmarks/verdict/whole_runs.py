"""Runs of pytest, commits of git and files of results, for the benchmarks in this folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TIMEOUT_S = 3600


def pytest_report(project: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """Run pytest in a project's folder with further arguments and variables, and return its JSON report.

    Raises:
        SystemExit: there is no report; contains the output.

    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--kafka-report=json:{report}"]
        done = subprocess.run(  # noqa: S603 - pytest, on the benchmarks' own tests
            [*command, *arguments],
            cwd=project,
            env={**os.environ, **environment},
            timeout=_TIMEOUT_S,
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.exists():
            raise SystemExit(done.stdout + done.stderr)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return found


def append(results: Path, line: Mapping[str, Any]) -> None:
    """Append one result to a file in JSON Lines format."""
    with results.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(line)}\n")


def recorded(results: Path) -> list[dict[str, Any]]:
    """Return all results of such a file, oldest first; empty if there is no file."""
    return [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()] if results.exists() else []


def git(folder: Path, *words: str) -> str:
    """Run git in a folder and return its output, without spaces around it."""
    identity = ["-c", "user.name=Benchmark", "-c", "user.email=benchmark@example.com"]
    command = ["git", "-C", str(folder), *identity, *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - fixed arguments
    return done.stdout.strip()
