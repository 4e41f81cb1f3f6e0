"""A file that a user names, read as a whole."""

from __future__ import annotations

from pathlib import Path

from pytest_kafkaperf.errors import UsageError

_MAX_FILE_BYTES = 16 << 20
"""A hundred times the certificates of all public authorities."""


def content_of(path: Path) -> bytes:
    """All of a file.

    Raises:
        UsageError: why it cannot be read.

    """
    try:
        if path.is_dir():
            raise UsageError(f"{path}: a directory; name a file")
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except PermissionError:
        raise UsageError(f"{path}: no permission to read it") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if len(content) > _MAX_FILE_BYTES:
        raise UsageError(f"{path}: larger than {_MAX_FILE_BYTES >> 20} MiB, which no such file is")
    return content
