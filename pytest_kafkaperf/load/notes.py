"""What the client library says: kept for the report instead of written into the user's terminal."""

from __future__ import annotations

import logging
from typing import Self

_MAX_NOTES = 5


class Notes(logging.Handler):
    """Collects what aiokafka warns of, and what ended its tasks."""

    def __init__(self) -> None:
        super().__init__(level=logging.WARNING)
        self._texts: dict[str, None] = {}
        self._loggers = [logging.getLogger(name) for name in ("aiokafka", "asyncio")]

    def __enter__(self) -> Self:
        for logger in self._loggers:
            logger.addHandler(self)
            logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        for logger in self._loggers:
            logger.removeHandler(self)
            logger.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the first line, and the error that ended a task."""
        error = f": {record.exc_info[1]!r}" if record.exc_info else ""
        if len(self._texts) < _MAX_NOTES:
            self._texts[record.getMessage().partition("\n")[0] + error] = None

    def clear(self) -> None:
        """Forget what was said while clients connected and the group formed: that belongs to a start."""
        self._texts.clear()

    def texts(self) -> list[str]:
        """Each warning once."""
        return list(self._texts)
