"""The commit of the code under test, as git tells it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

_TIMEOUT_S = 5
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Set for whatever runs within a hook of git: there they would name another repository than the folder's."""
_HEAD = r"(?m)^# branch\.oid ([0-9a-f]{40,64})$"


def current_commit(folder: Path, *, besides: Path | None = None) -> str | None:
    """The commit that is checked out in `folder`, with `-dirty` where tracked files differ from it.

    None where there is no git, no repository, no commit yet, or no answer within 5 s.

    By git itself: `pytest_benchmark.utils.get_commit_info` looks into the working directory instead of a folder, runs
    four unbounded commands, writes git's index, and gives words such as `unknown` where there is no git or no commit.

    Args:
        folder: a folder of the working tree, such as pytest's rootdir.
        besides: a folder in it whose files may differ: baselines change with every session that writes them, and the
            code under test does not.

    """
    git = shutil.which("git")
    if git is None:
        return None
    told = _told([git, "-C", str(folder), *_STATUS, *_paths(folder, besides)])
    found = re.search(_HEAD, told)
    if found is None:
        return None
    differs = any(not line.startswith("#") for line in told.splitlines())
    return f"{found[1]}-dirty" if differs else found[1]


_STATUS = (
    "-c",
    "core.fsmonitor=false",  # it would start a process that outlives this one
    "status",
    "--porcelain=v2",
    "--branch",
    "--no-ahead-behind",
    "--untracked-files=no",
)


def _paths(folder: Path, besides: Path | None) -> list[str]:
    """All of the working tree but that folder; one that is not in `folder` is no matter."""
    folder = folder.resolve()
    besides = None if besides is None else (folder / besides).resolve()
    if besides is None or besides == folder or not besides.is_relative_to(folder):
        return ["--", ":/"]
    return ["--", ":/", f":(exclude,literal){besides.relative_to(folder).as_posix()}"]


def _told(command: list[str]) -> str:
    """What git says, or nothing where it fails."""
    surroundings = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        done = subprocess.run(  # noqa: S603 - the user's git
            command,
            env={**surroundings, "GIT_OPTIONAL_LOCKS": "0"},  # an index that somebody else is about to write
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
