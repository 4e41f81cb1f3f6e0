"""Who makes the load: how many worker processes of each kind, on this machine or through a Dask cluster."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from pytest_kafkaperf.errors import UsageError
from pytest_kafkaperf.target import HOST, MAX_PORT

_MAX_WORKERS = 1000
_SCHEME = "dask://"
_DEFAULT_PORT = 8786
_SCHEDULER = re.compile(rf"{HOST}(:(?P<port>\d{{1,5}}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """How many worker processes a scenario gets, no more of a kind than it has clients, and where they run."""

    producing: int | None = None
    """None: as many as there are cores, or Dask workers."""
    consuming: int | None = None
    """The same."""
    scheduler: str | None = None
    """`HOST:PORT` of the Dask cluster that they run on; None: they run on this machine."""
    reason: str = ""
    """Why so many, for people."""
    is_measured: bool = False
    """Whether a trial has told how many."""

    @property
    def is_open(self) -> bool:
        """Whether a measurement may say how many are needed."""
        return self.producing is None and self.scheduler is None


def cores() -> int:
    """Those of this machine: for so many workers of a kind there is a place."""
    return os.cpu_count() or 1


def parse_crew(text: str | None) -> Crew:
    """Read the text of `--kafka-workers`: a number, or the scheduler of a Dask cluster.

    Raises:
        UsageError: neither.

    """
    if text is None:
        return Crew()
    word = text.strip()
    if re.fullmatch(r"[0-9]{1,9}", word):
        if not 1 <= int(word) <= _MAX_WORKERS:
            raise UsageError(f"--kafka-workers={text}: use 1 to {_MAX_WORKERS} worker processes of each kind")
        return Crew(producing=int(word), consuming=int(word), reason=f"--kafka-workers={word}")
    if not word.startswith(_SCHEME):
        raise UsageError(
            f"--kafka-workers={text}: valid are a number of worker processes, such as 4, and dask://HOST[:PORT] of a "
            "Dask scheduler, such as dask://scheduler:8786"
        )
    found = _SCHEDULER.fullmatch(word.removeprefix(_SCHEME))
    if found is None:
        raise UsageError(
            f"--kafka-workers={text}: the address of a Dask scheduler is dask://HOST[:PORT], such as "
            "dask://scheduler:8786 or dask://[::1]:8786"
        )
    port = int(found["port"] or _DEFAULT_PORT)
    if not 1 <= port <= MAX_PORT:
        raise UsageError(f"--kafka-workers={text}: port {port} is not one of 1 to {MAX_PORT}")
    return Crew(scheduler=f"{found['host']}:{port}", reason=f"--kafka-workers={word}")
