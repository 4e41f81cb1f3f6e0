"""Files that are written whole or not at all: baselines and reports."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Put a whole file in the place of another, or leave that as it is; makes the folder where it is missing.

    Raises:
        OSError: it cannot be written; nothing of it is left.

    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".kafkaperf-{secrets.token_hex(8)}.tmp"  # short, whatever the file's name is
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
