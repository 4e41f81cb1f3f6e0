"""Whose a batch is, on a topic that others write to: the run's own are known by their tags (see `payload`).

A batch is one producer's, so it is the run's own as a whole or not at all. A foreign value of 16 bytes or more looks
like a tag at random: that its first half is an instant of this round, to the nanosecond, and its second half one of
the round's records does not happen by chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kafkaperf.load.payload import origin
from pytest_kafkaperf.schedule import NS_PER_S

if TYPE_CHECKING:
    from pytest_kafkaperf.load.reading import ReceivedBatch
    from pytest_kafkaperf.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What the records of one round have in common."""

    producers: int
    warmup_ns: int

    @classmethod
    def of(cls, scenario: Scenario) -> Own | None:
        """None on a topic of the run's own, where all records are."""
        if scenario.topic is None:
            return None
        return cls(producers=scenario.producers, warmup_ns=round(scenario.warmup * NS_PER_S))

    def holds(self, batch: ReceivedBatch, *, start_ns: int, now_ns: int, every: bool = True) -> bool:
        """Whether a batch that was read by now is of the round whose window opens at `start_ns`.

        With `every` each record has a tag, else the first of each batch.
        """
        if len(batch.tags) < batch.count:
            return False
        tags = batch.tags if every else batch.tags[:1]
        dues_ns = tags[:, 0]
        producers, indexes = origin(tags[:, 1])
        first_ns = start_ns - self.warmup_ns
        most = now_ns - first_ns  # records: one a nanosecond
        due = (dues_ns >= first_ns) & (dues_ns <= now_ns)
        plausible = (producers >= 0) & (producers < self.producers) & (indexes >= -most) & (indexes <= most)
        return bool((due & plausible).all())
