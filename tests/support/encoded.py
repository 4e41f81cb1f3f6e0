"""Batches as the engine encodes them, and as aiokafka reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from aiokafka.record.memory_records import MemoryRecords

from pytest_kafkaperf.load.engines.aiokafka.encoder import EncodedBatch
from pytest_kafkaperf.load.engines.aiokafka.templates import Template, Templates
from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.scenarios.scenario import Scenario

Row = tuple[bytes | None, bytes, list[tuple[str, bytes]]]
"""Key, value, headers."""


def payload_of(*, seed: int = 1, **fields: Any) -> Payload:
    return Payload(Scenario.of({"record_size": 100} | fields), seed=seed)


def decoded(body: bytes | bytearray, count: int, codec: int = 0) -> list[Row]:
    """As aiokafka reads it."""
    batch: Any = MemoryRecords(EncodedBatch(body, count, timestamp_ms=7, codec=codec)._build()).next_batch()
    assert batch.validate_crc()
    records = list(batch)
    assert [(record.offset, record.timestamp) for record in records] == [(offset, 7) for offset in range(count)]
    return [(record.key, record.value, list(record.headers)) for record in records]


def values_of(payload: Payload, start: int = 0) -> list[bytes]:
    """Those of one whole batch, untouched."""
    template = Templates(payload).at(start)
    return [value for _, value, _ in decoded(template.body, template.count)]


def batches(templates: Templates, used: Sequence[int]) -> Iterator[tuple[Template, int]]:
    """One batch after the other, each of so many records at most."""
    start = 0
    for most in used:
        template = templates.at(start)
        count = min(most, template.count)
        yield template, count
        start = templates.after(start, template, count)
