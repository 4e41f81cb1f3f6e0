"""What a worker reports of a round. Plain picklable values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.histogram import Histogram
from pytest_kafkaperf.series import Series


@dataclass(slots=True, kw_only=True)
class Produced:
    """What one producer did. Counts of the window, unless they say otherwise."""

    producer: int = 0
    sent: int = 0
    acknowledged: int = 0
    """With transactions: committed."""
    bytes: int = 0
    """Keys and values of what was acknowledged."""
    aborted: int = 0
    """Records of transactions that were aborted."""
    failed: int = 0
    """Records whose send failed for good, warm-up included."""
    unknown: int = 0
    """Of the failed, those that may stand in the log all the same."""
    unknown_indexes: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Indexes of those, as long as they are not too many."""
    missing: int = 0
    """Records due in the window that were never sent."""
    late: int = 0
    """Records sent more than `LATE_NS` after they could have been: the generator's doing."""
    behind: int = 0
    """Records unsent at the end of the window although there was room for them."""
    sent_late: int = 0
    """Records sent after the end of the window, whatever held them."""
    first_due_ns: int | None = None
    last_ack_ns: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    delay: Histogram = field(default_factory=Histogram)
    acknowledged_by_partition: dict[int, int] = field(default_factory=dict)
    """Warm-up and aborted transactions included: what must stand in the log."""
    markers_by_partition: dict[int, int] = field(default_factory=dict)
    """Ends of transactions, each of which takes an offset in the log."""
    disordered: int = 0
    """Records whose acknowledgement named an offset that is not beyond all before it: to be looked at."""
    failures: dict[str, int] = field(default_factory=dict)
    """Records by the error that ended them."""


@dataclass(slots=True, kw_only=True)
class Consumed:
    """What one consumer received: records due in the window."""

    group: int = 0
    received: int = 0
    bytes: int = 0
    last_ns: int | None = None
    latency: Histogram = field(default_factory=Histogram)
    unread: int = 0
    """Records in the log beyond the position when the wait for the rest ended."""
    total: int = 0
    """Records received in all, warm-up included."""
    disordered: int = 0
    """Records that did not continue those of their producer and partition: to be looked at."""
    names: list[npt.NDArray[np.int64]] = field(default_factory=list)
    """Of what an application put out: which records it was made of (see `load.payload`), each once."""
    repeated: int = 0
    """Of what an application put out: how much it had put out before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """The clock of a machine of a Dask cluster, by which a worker there told instants."""

    name: str
    """One for all processes of that machine."""
    host: str
    """The machine, for people."""
    offset_ns: int
    """What was added to it for the controller's time."""
    uncertainty_ns: int
    """How far it may be, at most, from the one that all machines' clocks were compared with."""
    is_here: bool
    """Whether that machine is the controller's after all."""


@dataclass(slots=True, kw_only=True)
class WorkerReport:
    """What one worker did."""

    worker: int
    produced: list[Produced] = field(default_factory=list)
    consumed: list[Consumed] = field(default_factory=list)
    produce_series: Series = field(default_factory=lambda: Series(0))
    """Acknowledgements, and produce latency by due time."""
    consume_series: Series = field(default_factory=lambda: Series(0))
    """Receptions, and end-to-end latency by due time."""
    cpu_s: float = 0.0
    """User and system seconds of the process in the window."""
    busy_ratio: float = 0.0
    """Share of the window in which the process ran or waited for a core: near 1 it is the bottleneck."""
    notes: list[str] = field(default_factory=list)
    """What the client library warned of, each once."""
    clock: Clock | None = None
    """None: the controller's own, of a worker that it started itself."""
