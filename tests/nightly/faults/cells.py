"""The campaign: what goes wrong in which phase of a run, and what must come of it."""

from __future__ import annotations

import functools
import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED

CREATION, WARMUP, ROUND, DRAINING, CONFIRMATION = PHASES = (
    "topic creation",
    "warm-up",
    "a round",
    "draining",
    "confirmation",
)
_IN_WRITING = ("folder read-only", "disk full", "Ctrl-C", "Ctrl-C twice", "SIGTERM")
WRITING_BASELINE, WRITING_REPORT = "baseline write", "report write"
WRITINGS = (
    *((phase, fault) for phase in (WRITING_BASELINE, WRITING_REPORT) for fault in _IN_WRITING),
    (WRITING_BASELINE, "two runs at once"),
)
"""Phases and faults of `test_writing`."""
DAEMON_STOPPED = "Docker daemon stopped"
"""A fault of `test_docker`."""
ONE_DAEMON = "two jobs on one daemon"
"""A run in `test_docker` next to another one with a cache of its own."""
ONE_TOPIC = "four runs on one topic"
"""Runs of `test_shared_topic`."""

PASSED, FAILED, INTERRUPTED = 0, 1, 2
"""Exit statuses of pytest; `NOT_JUDGED` is the plugin's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One fault in one phase."""

    phase: str
    fault: str
    where: Literal["own", "foreign", "pair"]
    """Brokers of the run's own, one of somebody else, or two of somebody else."""
    status: int
    verdict: str | None
    """None: the test has come to none."""
    reason: str = ""
    """What the reason that is told must match; empty: anything will do."""
    within_s: float = 30
    """From the fault to the end of the run."""
    before: bool = False
    """Whether the fault is there when the phase begins, and not once it is under way."""

    def __str__(self) -> str:
        return f"{self.phase}-{self.fault}-{self.where}".replace(" ", "_")

    def check_reason(self, told: str) -> None:
        """See that the reason is the right one; where there is no verdict, there is none."""
        assert re.search(self.reason, told), told


def cells() -> Iterable[Cell]:
    """All of them, in the order of the table."""
    yield from _brokers()
    yield from _workers()
    yield from _signals()
    yield from _cluster()
    yield from _clock()


_invalid = functools.partial(Cell, status=NOT_JUDGED, verdict="INVALID")
_violated = functools.partial(Cell, status=FAILED, verdict="VIOLATED")
_valid = functools.partial(Cell, status=PASSED, verdict="PASSED", within_s=60)
_slow = functools.partial(Cell, status=FAILED, verdict="REGRESSED", reason="confirmed by 3 fresh trials", within_s=90)
"""Slower than its baseline before the fault, and after."""


def _brokers() -> Iterable[Cell]:
    own = functools.partial(_invalid, where="own")
    killed = functools.partial(own, fault="broker killed", reason="was ended by SIGKILL")
    yield killed(phase=CREATION, before=True)
    yield killed(phase=WARMUP)
    yield killed(phase=ROUND)
    yield killed(phase=DRAINING)
    yield killed(phase=CONFIRMATION, reason="trial 2: .*was ended by SIGKILL")
    stopped = functools.partial(own, fault="broker stopped", within_s=75)
    yield stopped(phase=CREATION, reason="no answer in 20 s", before=True)
    yield stopped(phase=WARMUP, reason="no record was acknowledged for 15 s while")
    yield stopped(phase=ROUND, reason="no record was acknowledged for 15 s while")
    yield stopped(phase=DRAINING, reason="no record was received for 15 s while")
    yield stopped(phase=CONFIRMATION, reason="trial 2: ")
    yield _violated(phase=ROUND, fault="broker stopped for 5 s", where="own", reason="errors == 0")
    full = functools.partial(own, fault="disk full", reason="exited with status|was ended by")
    yield full(phase=CREATION, reason="no answer in 20 s|exited with status", before=True, within_s=60)
    yield full(phase=WARMUP)
    yield full(phase=ROUND)
    yield full(phase=DRAINING)
    yield full(phase=CONFIRMATION, reason="trial 2: .*(exited with status|was ended by)")


def _workers() -> Iterable[Cell]:
    for fault in ("worker killed", "worker out of memory"):  # the trial is measured again
        for phase in (WARMUP, ROUND, DRAINING):  # there are none while a topic is created
            yield _valid(phase=phase, fault=fault, where="foreign")
        yield _slow(phase=CONFIRMATION, fault=fault, where="foreign")


def _signals() -> Iterable[Cell]:
    ended = functools.partial(Cell, where="foreign", verdict=None)
    for phase in PHASES:
        yield ended(phase=phase, fault="Ctrl-C", status=INTERRUPTED)
    for phase in PHASES:
        yield ended(phase=phase, fault="Ctrl-C twice", status=INTERRUPTED)
    for phase in PHASES:
        yield ended(phase=phase, fault="SIGTERM", status=INTERRUPTED)
    own = functools.partial(ended, phase=ROUND, where="own")
    yield own(fault="SIGTERM", status=INTERRUPTED)
    yield own(fault="SIGHUP", status=-signal.SIGHUP)
    yield own(fault="out of memory", status=-signal.SIGKILL)
    yield own(fault="cache folder removed, SIGKILL", status=-signal.SIGKILL)


def _cluster() -> Iterable[Cell]:
    deleted = functools.partial(_invalid, where="foreign", fault="topic deleted", within_s=60)
    for phase in (CREATION, WARMUP, ROUND, DRAINING):
        yield deleted(phase=phase, reason="topic .* was deleted")
    yield deleted(phase=CONFIRMATION, reason="trial 2: .*topic .* was deleted")
    slower = functools.partial(_violated, where="foreign", fault="quota set", within_s=90)
    for phase in (WARMUP, ROUND):
        yield slower(phase=phase, reason="produce.latency.p99")
    yield _valid(phase=DRAINING, fault="quota set", where="foreign", within_s=60)
    yield _slow(phase=CONFIRMATION, fault="quota set", where="foreign", within_s=200)
    for phase in (CREATION, WARMUP, ROUND, DRAINING):
        yield _valid(phase=phase, fault="leaders moved", where="pair", within_s=45)
    yield _slow(phase=CONFIRMATION, fault="leaders moved", where="pair")


def _clock() -> Iterable[Cell]:
    for fault in ("clock set ahead", "clock set back"):
        set_at = functools.partial(_valid, fault=fault, where="own")
        yield set_at(phase=CREATION, before=True)
        for phase in (WARMUP, ROUND, DRAINING):
            yield set_at(phase=phase)
        yield _slow(phase=CONFIRMATION, fault=fault, where="own")
