"""The table of the campaign, as a page of the guide: rows of cells that were run take the place of those before."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION

_INTRODUCTION = """\
# Faults

This table shows how runs end when something fails, by the phase in which it fails. Each fault is real: it is injected
from outside into a run of `pytest` with a real broker. Each row is a test in `tests/nightly/faults`, which also checks
that no traceback is shown, that the run ends without help, and that nothing is left behind: no process, file, shared
memory, topic or consumer group. The tests write this page, as described in `tests/README.md`.

"Started" brokers were started by the run; the others belong to an external cluster. Seconds are the time from the fault
to the end of the run, on {machine}.

After SIGHUP and SIGKILL, the run cannot clean up. Its supervisor, a small process, stops the brokers and workers and
removes the files within 2 seconds. Topics on an external cluster have an expiry time in their names, and a later run
removes them after that time.

"""
_HEAD = ("phase", "fault", "brokers", "outcome", "seconds")
_WHERE = {"own": "started", "foreign": "external", "pair": "external, two"}
_MOST = 170
"""Characters of an outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What came of a cell."""

    phase: str
    fault: str
    where: str
    outcome: str
    seconds: float

    @property
    def key(self) -> tuple[str, ...]:
        """What makes it another row."""
        return self.phase, self.fault, _WHERE[self.where]

    @property
    def texts(self) -> tuple[str, ...]:
        """Its cells in Markdown."""
        return *self.key, _plain(self.outcome), f"{self.seconds:.0f}"


def outcome_of(status: int, verdict: str | None, reason: str) -> str:
    """In a few words: the verdict with its reason, or how the run ended without one."""
    ending = {2: "interrupted, exit status 2"}.get(status)
    if status == 1 and verdict in ("PASSED", "MEASURED"):
        ending = "and the test fails"
    if status < 0:
        ending = "ended at once"
    found = ", ".join(part for part in (verdict, ending) if part)
    return f"{found}: {reason}" if reason else found


def write(page: Path, row: Row, order: Iterable[tuple[str, ...]]) -> None:
    """Write the page: this row, and those that it has of other cells in `order`."""
    known = _read(page) | {row.key: row.texts}
    table = [known[key] for key in order if key in known]
    lines = [_HEAD, ("---",) * len(_HEAD), *table]
    text = _INTRODUCTION.format(machine=_machine()) + "".join(f"| {' | '.join(line)} |\n" for line in lines)
    page.write_text(text, encoding="utf-8")


def key_of(phase: str, fault: str, where: str) -> tuple[str, ...]:
    """Of a cell's row."""
    return phase, fault, _WHERE[where]


def _read(page: Path) -> dict[tuple[str, ...], tuple[str, ...]]:
    if not page.exists():
        return {}
    found = re.findall(r"^\| (.+) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    rows = [tuple(line.split(" | ")) for line in found]
    return {row[:3]: row for row in rows if len(row) == len(_HEAD)}


def _plain(text: str) -> str:
    """Without what differs from run to run, and what Markdown would take for its own."""
    text = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text)
    text = re.sub(rf"{PREFIX}\d{{8}}T\d{{6}}Z-[0-9a-f]{{12}}", f"{PREFIX}...", text)
    text = re.sub(r"\(pid \d+\)", "(pid ...)", text)
    text = re.sub(r"(/[\w.-]+)+/(?=[\w.-]+)", ".../", text)
    text = text.replace("|", "\\|").replace("<", "&lt;").strip(" ;")
    return text if len(text) <= _MOST else f"{text[:_MOST]}..."


def _machine() -> str:
    memory_gib = psutil.virtual_memory().total / (1 << 30)
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {memory_gib:.0f} GiB, {platform.system()} "
        f"{platform.release().partition('-')[0]}, Python {platform.python_version()}, Kafka {DEFAULT_VERSION}"
    )
