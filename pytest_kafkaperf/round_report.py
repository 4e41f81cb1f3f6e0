"""What the workers of one round reported, and what the controller saw meanwhile. Plain values."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_kafkaperf.brokers.figures import Sample
from pytest_kafkaperf.brokers.partitions import State
from pytest_kafkaperf.worker_report import Consumed, Produced, WorkerReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What an audit of the log found: records, exactly."""

    lost: int
    """Acknowledged, and not in the log."""
    duplicated: int
    """In the log beyond once."""
    reordered: int
    """In the log behind later ones of the same producer and partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """What the workers of one round reported, and what the controller saw."""

    workers: Sequence[WorkerReport]
    start_ns: int | None
    """When the window opened; None when it never did."""
    drain_ns: int | None = None
    """When production was over and the rest could be read; None when it never was."""
    problems: Sequence[str] = ()
    lag_max: int = 0
    lag_end: int = 0
    log_growth: Mapping[int, int] | None = None
    """Offsets that the topic's log gained, by partition; None where it cannot be told."""
    audit: Audit | str | None = None
    """What the log really holds, or why it could not be looked at; None where counts leave no doubt."""
    samples: Mapping[str | int, Sequence[Sample]] = field(default_factory=dict)
    """Readings of the brokers, by broker."""
    unread: Sequence[str] = ()
    """Why some of what brokers tell could not be read."""
    states: Sequence[tuple[int, State]] = ()
    """What the topic's partitions were like, each with its instant."""
    actions: Sequence[tuple[int, str]] = ()
    """What was done to brokers, each with its instant."""
    broken: bool = False
    """The cluster or the workers are gone: no further round can run."""

    @property
    def produced(self) -> list[Produced]:
        """Of all producers."""
        return [part for worker in self.workers for part in worker.produced]

    @property
    def consumed(self) -> list[Consumed]:
        """Of all consumers."""
        return [part for worker in self.workers for part in worker.consumed]

    def acknowledged(self) -> dict[int, int]:
        """Acknowledged records by partition, warm-up included: what must stand in the log."""
        return _summed(part.acknowledged_by_partition for part in self.produced)

    def expected_growth(self) -> dict[int, int]:
        """Offsets that the log must gain at least, by partition."""
        return _summed(
            tally for part in self.produced for tally in (part.acknowledged_by_partition, part.markers_by_partition)
        )

    def received(self) -> dict[int, int]:
        """Received records of the window by consumer group."""
        return _summed({part.group: part.received} for part in self.consumed)

    def unknown(self) -> int:
        """Records that may stand in the log or not."""
        return sum(part.unknown for part in self.produced)

    def disordered(self) -> int:
        """Records whose acknowledgements were not in order."""
        return sum(part.disordered for part in self.produced)

    def log_differences(self) -> tuple[int, int]:
        """How many records the log lacks, and has beyond what was acknowledged, partition by partition."""
        expected, growth = self.expected_growth(), self.log_growth or {}
        gaps = [expected.get(part, 0) - growth.get(part, 0) for part in expected.keys() | growth.keys()]
        return sum(gap for gap in gaps if gap > 0), -sum(gap for gap in gaps if gap < 0)

    @property
    def in_doubt(self) -> bool:
        """Whether counts leave open what the log holds: only an audit can tell."""
        disordered = self.disordered() + sum(part.disordered for part in self.consumed)
        return self.log_growth is not None and (
            self.log_differences() != (0, 0) or self.unknown() > 0 or disordered > 0
        )


def _summed(tallies: Iterable[Mapping[int, int]]) -> dict[int, int]:
    total: collections.Counter[int] = collections.Counter()
    for tally in tallies:
        total.update(tally)
    return dict(total)
