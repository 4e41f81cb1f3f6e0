"""The wait for what an application has yet to put out."""

from __future__ import annotations

import asyncio
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiokafka.structs import TopicPartition

from pytest_kafkaperf.load.clock import now_ns
from pytest_kafkaperf.load.engines.aiokafka import consumer as consuming
from pytest_kafkaperf.load.engines.aiokafka.consumer import Consumer
from pytest_kafkaperf.load.engines.aiokafka.group_member import GroupMember
from pytest_kafkaperf.load.identity import ReceivedBatch, Tagger
from pytest_kafkaperf.load.messages import Consumed
from pytest_kafkaperf.load.recorder import Series
from pytest_kafkaperf.load.shared_counters import Counter, SharedCounters
from pytest_kafkaperf.scenarios.scenario import Scenario

FIELDS: dict[str, Any] = {"topic": "in", "output_topic": "out", "consumers": 1, "producers": 1, "warmup": 0}
NONCE = (1 << 60, 1 << 61)


def received(folder: Path, polls: list[range], *, acknowledged: int, settled: int) -> Consumed:
    """Consume what these polls return, and nothing afterwards, after producers that have ended."""
    scenario = Scenario.of(FIELDS)
    tagger = Tagger(NONCE, producer=0)
    left = iter(polls)

    class Application:
        _coordinator = types.SimpleNamespace(generation=1)

        async def getmany(self, **_: object) -> dict[TopicPartition, list[ReceivedBatch]]:
            await asyncio.sleep(0)  # a poll lets the timeouts of the loop end
            indexes = np.array(next(left, range(0)))
            if not indexes.size:
                return {}
            tags = tagger.tags(indexes, now_ns()).astype(np.int64)
            return {TopicPartition("out", 0): [ReceivedBatch(0, indexes.size, tags, indexes.size * 100)]}

    with SharedCounters.create(folder / "counters", 1) as counters:
        counters.write(0, Counter.VISIBLE, acknowledged)
        counters.write(0, Counter.SETTLED, settled)
        counters.all_produced(1)
        consumer = Consumer(
            GroupMember(Application()),
            scenario,
            group=0,
            nonce=NONCE,
            counters=counters,
            on_received=lambda: counters.write(0, Counter.RECEIVED, consumer.report.total),
        )
        start_ns = now_ns()
        return asyncio.run(consumer.run(start_ns - 10**9, Series(start_ns), drain_s=1))


def test_records_that_were_not_acknowledged_do_not_end_the_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five of unknown outcome come out before the last five of twenty, which would be lost."""
    monkeypatch.setattr(consuming, "_QUIET_S", 0.2)
    polls = [range(20, 25), range(15), range(0), range(0), range(15, 20)]
    assert received(tmp_path, polls, acknowledged=20, settled=25).total == 25


def test_the_last_record_ends_the_wait_if_all_were_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each round would take ten seconds more; here, an hour."""
    monkeypatch.setattr(consuming, "_QUIET_S", 3600)
    assert received(tmp_path, [range(20)], acknowledged=20, settled=20).total == 20
