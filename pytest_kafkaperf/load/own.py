"""Whose a batch is, on a topic that others write to: the run's own are known by their tags (see `payload`).

A batch is one producer's, so it is the run's own as a whole or not at all; but for an application's batches, which can
hold what it made of records of this round beside anything else. A foreign value of 16 bytes or more looks
like a tag at random: that its first half is an instant of this round, to the nanosecond, and its second half one of
the round's records does not happen by chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.load.payload import origin
from pytest_kafkaperf.units import NS_PER_S

if TYPE_CHECKING:
    from pytest_kafkaperf.load.reading import ReceivedBatch
    from pytest_kafkaperf.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What the records of one round have in common."""

    producers: int
    warmup_ns: int
    is_application: bool = False
    """Whether an application writes the topic, of records that it has read."""

    @classmethod
    def of(cls, scenario: Scenario) -> Own | None:
        """None on a topic of the run's own, where all records are."""
        if scenario.topic is None:
            return None
        return cls(
            producers=scenario.producers,
            warmup_ns=round(scenario.warmup * NS_PER_S),
            is_application=scenario.output_topic is not None,
        )

    def part(self, batch: ReceivedBatch, *, start_ns: int, now_ns: int) -> ReceivedBatch | None:
        """What of a batch that was read by now is of the round whose window opens at `start_ns`."""
        if not self.is_application:
            return batch if self.holds(batch, start_ns=start_ns, now_ns=now_ns) else None
        tags = batch.tags[self._plausible(batch.tags, start_ns, now_ns)]
        if not len(tags):
            return None
        return replace(batch, count=len(tags), tags=tags, size_bytes=round(batch.size_bytes * len(tags) / batch.count))

    def holds(self, batch: ReceivedBatch, *, start_ns: int, now_ns: int, every: bool = True) -> bool:
        """Whether a batch that was read by now is of the round whose window opens at `start_ns`.

        With `every` each record has a tag, else the first of each batch.
        """
        if len(batch.tags) < batch.count:
            return False
        return bool(self._plausible(batch.tags if every else batch.tags[:1], start_ns, now_ns).all())

    def _plausible(self, tags: npt.NDArray[np.int64], start_ns: int, now_ns: int) -> npt.NDArray[np.bool_]:
        dues_ns = tags[:, 0]
        producers, indexes = origin(tags[:, 1])
        first_ns = start_ns - self.warmup_ns
        most = now_ns - first_ns  # records: one a nanosecond
        due = (dues_ns >= first_ns) & (dues_ns <= now_ns)
        named = (producers >= 0) & (producers < self.producers) & (indexes >= -most) & (indexes <= most)
        plausible: npt.NDArray[np.bool_] = due & named
        return plausible
