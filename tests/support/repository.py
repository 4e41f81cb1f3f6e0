"""Git repositories of tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    """Git without the settings of whoever runs the tests."""
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    surroundings = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *words], env=surroundings, check=True, capture_output=True, text=True
    ).stdout.strip()
