"""Memory of a consumer that reads the output of an application for hours."""

from __future__ import annotations

import asyncio
import itertools
import types
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.load.clock import now_ns
from pytest_kafkaperf.load.engines.aiokafka.consumer import Consumer
from pytest_kafkaperf.load.engines.aiokafka.group_member import GroupMember
from pytest_kafkaperf.load.identity import ReceivedBatch, Tagger
from pytest_kafkaperf.load.recorder import Series
from pytest_kafkaperf.load.shared_counters import Counter, SharedCounters
from pytest_kafkaperf.scenarios.scenario import Scenario

RECORDS = 3_000_000
BATCH = 10_000
MOST_BYTES = 30 << 20


class Application:
    """A client whose polls return the next records that an application has put out, and one of them again."""

    _coordinator = types.SimpleNamespace(generation=1)

    def __init__(self, taggers: list[Tagger], counters: SharedCounters) -> None:
        self._taggers = itertools.cycle(taggers)
        self._counters = counters
        self._many = len(taggers)
        self._batches = 0

    async def getmany(self, **_: object) -> dict[TopicPartition, list[ReceivedBatch]]:
        if self._batches * BATCH >= RECORDS:
            self._counters.all_produced(1)
            return {}
        first = self._batches // self._many * BATCH
        indexes = np.arange(first, first + BATCH)
        indexes[-1] = first if self._batches == 0 else indexes[-1]
        tags = next(self._taggers).tags(indexes, now_ns()).astype(np.int64)
        self._batches += 1
        return {TopicPartition("out", 0): [ReceivedBatch(0, BATCH, tags, BATCH * 100)]}


def test_records_of_an_application_take_two_bits(tmp_path: Path) -> None:
    """One by one they took 100 bytes: 5 GB for 50 million."""
    fields: dict[str, Any] = {"topic": "in", "output_topic": "out", "consumers": 1, "producers": 2, "warmup": 0}
    scenario, nonce = Scenario.of(fields), (1 << 60, 1 << 61)
    with SharedCounters.create(tmp_path / "counters", 1) as counters:
        consumer = Consumer(
            GroupMember(Application([Tagger(nonce, producer=number) for number in (0, 1)], counters)),
            scenario,
            group=0,
            nonce=nonce,
            counters=counters,
            on_received=lambda: counters.write(0, Counter.RECEIVED, consumer.report.total),
        )
        start_ns, before = now_ns(), psutil.Process().memory_info().rss
        found = asyncio.run(consumer.run(start_ns - 10**9, Series(start_ns), drain_s=1))
        grown = psutil.Process().memory_info().rss - before

    assert grown < MOST_BYTES
    assert (found.received, found.repeated, found.came_out.measured()) == (RECORDS - 1, 1, RECORDS - 1)
