"""Decoding of fetched batches, against aiokafka's own iteration."""

from __future__ import annotations

import inspect
import re
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError, UnsupportedForMessageFormatError
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from aiokafka.structs import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.engines.aiokafka.decoder import (
    BatchedRecords,
    FetchedBatches,
    record_layout,
    uniform_tags,
)
from pytest_kafkaperf.load.identity import ReceivedBatch

PARTITION = TopicPartition("t", 7)
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
TRANSACTIONAL, CONTROL = 0x10, 0x20
ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"
HEADER_BYTES, ATTRIBUTES_AT, CRC_AT, EPOCH_AT = 61, 21, 17, 12

Headers = list[tuple[str, bytes | None]]
Summary = tuple[int, int, list[list[int]], int]
"""Offset, count, tags, bytes: a `ReceivedBatch` that compares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = 1_700_000_000_000
    gap: int = 0
    """How many records before it compaction took out."""


def tagged(size_bytes: int = 100, *, origin: int = -2) -> bytes:
    return struct.pack(">qq", 10**15 + 1, origin) + bytes(size_bytes - 16)


def batch_of(
    records: list[Record], *, base_offset: int = 0, codec: int = 0, flags: int = 0, producer_id: int = 5
) -> bytes:
    builder = DefaultRecordBatchBuilder(2, codec, 0, producer_id, 0, 0, 1 << 30)
    delta = -1
    for record in records:
        delta += 1 + record.gap
        builder.append(delta, record.timestamp, record.key, record.value, list(record.headers))
    data = bytearray(builder.build())
    data[:8] = struct.pack(">q", base_offset)
    data[ATTRIBUTES_AT + 1] |= flags
    return sealed(data)


def sealed(data: bytearray) -> bytes:
    """With the CRC that belongs to it."""
    data[CRC_AT:ATTRIBUTES_AT] = struct.pack(">I", calc_crc32c(data[ATTRIBUTES_AT:]))
    return bytes(data)


def received(data: bytes, fetch_offset: int = 0) -> list[Summary]:
    batches = [batch.received(fetch_offset) for batch in FetchedBatches(data).checked(PARTITION)]
    return [
        (batch.offset, batch.count, batch.tags.tolist(), batch.size_bytes) for batch in batches if batch is not None
    ]


def by_aiokafka(data: bytes, fetch_offset: int = 0) -> list[Summary]:
    """The slow, obvious version."""
    result = []
    batches = MemoryRecords(data)
    while batches.has_next():
        batch: Any = batches.next_batch()
        assert batch.validate_crc()
        records = [record for record in batch if record.offset >= fetch_offset]
        if batch.is_control_batch or not records:
            continue
        tags = [list(struct.unpack(">qq", r.value[:16])) for r in records if r.value and len(r.value) >= 16]
        size_bytes = sum(len(record.key or b"") + len(record.value or b"") for record in records)
        result.append((records[0].offset, len(records), tags, size_bytes))
    return result


def is_uniform(data: bytes) -> bool:
    (batch,) = FetchedBatches(data).checked(PARTITION)
    return uniform_tags(batch.uncompressed(), batch.record_count) is not None


def outcome(read: Any, data: bytes) -> list[Summary] | str:
    try:
        result: list[Summary] = read(data)
    except Exception as error:  # noqa: BLE001 - whatever aiokafka raises of such data
        return type(error).__name__
    return result


texts = st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple)
any_records = st.lists(
    st.builds(
        Record,
        value=st.none() | texts | st.binary(min_size=16, max_size=300),
        key=st.none() | texts,
        headers=headers,
        timestamp=st.integers(0, 2**45),
        gap=st.sampled_from([0, 0, 0, 1, 5, 63, 9000]),
    ),
    min_size=1,
    max_size=20,
)


@st.composite
def uniform_records(draw: st.DrawFn) -> list[Record]:
    """Of one layout: sizes of key and value, and headers, do not change. Lengths cross the widths of varints."""
    count = draw(st.sampled_from([1, 2, 63, 64, 65, 150]))
    value_bytes = draw(st.sampled_from([16, 17, 51, 52, 53, 54, 55, 56, 57, 63, 64, 100, 300, 8170, 8191, 8192]))
    key_bytes = draw(st.none() | st.sampled_from([0, 1, 8, 63, 64]))
    noise = np.random.default_rng(draw(st.integers(0, 9)))
    shared = draw(headers)
    jitter_ms = draw(st.sampled_from([1, 30]))
    return [
        Record(
            value=noise.bytes(value_bytes),
            key=None if key_bytes is None else noise.bytes(key_bytes),
            headers=shared,
            timestamp=10**12 + int(noise.integers(jitter_ms)) * (index > 0),
        )
        for index in range(count)
    ]


codecs = st.sampled_from(list(CODECS.values()))


@given(records=any_records, base_offset=st.integers(0, 2**50), skipped=st.integers(-5, 30), codec=codecs)
def test_any_records_are_read_as_aiokafka_reads_them(
    records: list[Record], base_offset: int, skipped: int, codec: int
) -> None:
    """Keys, nulls, headers, sizes, timestamps, compaction, compression, a fetch that begins inside the batch."""
    data = batch_of(records, base_offset=base_offset, codec=codec)

    assert received(data, base_offset + skipped) == by_aiokafka(data, base_offset + skipped)


@given(records=uniform_records(), base_offset=st.integers(0, 2**50), skipped=st.integers(-5, 160), codec=codecs)
def test_uniform_records_take_the_fast_way_and_are_the_same(
    records: list[Record], base_offset: int, skipped: int, codec: int
) -> None:
    """The way of nearly all records of a load; no property of a uniform batch may lead away from it."""
    data = batch_of(records, base_offset=base_offset, codec=codec)

    assert is_uniform(data)
    assert received(data, base_offset + skipped) == by_aiokafka(data, base_offset + skipped)


@pytest.mark.parametrize("count", [64, 65, 8191, 8192, 8193, 20_000])
def test_offsets_of_any_width_take_the_fast_way(count: int) -> None:
    """In large batches they take three bytes."""
    data = batch_of([Record(value=tagged(20))] * count)

    assert is_uniform(data)
    assert received(data) == by_aiokafka(data)


@given(records=uniform_records(), data=st.data())
def test_a_uniform_batch_with_one_byte_changed_is_read_as_aiokafka_reads_it(
    records: list[Record], data: st.DataObject
) -> None:
    """Whatever the fast way takes for granted would show here; the CRC is made right again."""
    changed = bytearray(batch_of(records))
    # Some byte of the last records' encoding, or any.
    where = data.draw(st.integers(HEADER_BYTES, len(changed) - 1) | st.integers(HEADER_BYTES, HEADER_BYTES + 30))
    changed[where] = data.draw(st.sampled_from([changed[where] ^ 1 << bit for bit in range(8)]) | st.integers(0, 255))
    result = sealed(changed)

    assert outcome(received, result) == outcome(by_aiokafka, result)


@given(parts=st.lists(any_records | uniform_records(), min_size=1, max_size=4), codec=codecs, data=st.data())
def test_a_fetch_cut_off_anywhere_gives_its_complete_batches(
    parts: list[list[Record]], codec: int, data: st.DataObject
) -> None:
    """Brokers send as many bytes as were asked for, wherever that is."""
    whole = b"".join(batch_of(part, base_offset=1000 * index, codec=codec) for index, part in enumerate(parts))
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    ours, theirs = FetchedBatches(cut), MemoryRecords(cut)

    assert received(cut) == by_aiokafka(cut)
    assert (ours.has_next(), ours.size_in_bytes()) == (theirs.has_next(), theirs.size_in_bytes())


@given(records=any_records | uniform_records(), codec=codecs, data=st.data())
def test_any_bit_that_flips_under_the_crc_is_an_error(records: list[Record], codec: int, data: st.DataObject) -> None:
    """Corrupt data has no results. It tells where it was."""
    damaged = bytearray(batch_of(records, base_offset=41, codec=codec))
    damaged[data.draw(st.integers(CRC_AT, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(
        CorruptRecordException, match=r"wrong CRC in TopicPartition\(topic='t', partition=7\) at .* 41$"
    ):
        received(bytes(damaged))


def test_batches_before_a_damaged_one_are_read() -> None:
    """They are handed out one by one."""
    good, bad = batch_of([Record(value=tagged())]), bytearray(batch_of([Record(value=tagged())]))
    bad[-1] ^= 1
    batches = FetchedBatches(good + bytes(bad)).checked(PARTITION)

    assert next(batches).received(0) is not None
    with pytest.raises(CorruptRecordException):
        next(batches)


def test_the_leaders_epoch_is_not_under_the_crc() -> None:
    """Brokers write it into batches as they come."""
    data = bytearray(batch_of([Record(value=tagged())]))
    data[EPOCH_AT + 3] = 9

    assert received(bytes(data)) == [(0, 1, [[10**15 + 1, -2]], 100)]


def test_the_header_is_told() -> None:
    """Transactions are judged by it, and reading goes on where it says."""
    records = [Record(value=b"a"), Record(value=b"b", gap=3)]
    (batch,) = FetchedBatches(batch_of(records, base_offset=10, flags=TRANSACTIONAL)).checked(PARTITION)

    assert (batch.base_offset, batch.next_offset, batch.record_count, batch.producer_id) == (10, 15, 2, 5)
    assert (batch.is_transactional, batch.is_control_batch, batch.aborts()) == (True, False, False)


@pytest.mark.parametrize("codec", [0, CODECS["gzip"]])
@pytest.mark.parametrize(
    ("fetch_offset", "since_ms", "expected"),
    [(0, 999.5, [1000, 1030, 1010]), (11, 999.5, [1030, 1010]), (0, 1010, [1030, 1010]), (0, 1030.5, [])],
)
def test_timestamps_of_producers_are_those_of_the_new_records(
    codec: int, fetch_offset: int, since_ms: float, expected: list[int]
) -> None:
    """They need not be in order."""
    records = [Record(value=b"a", timestamp=at_ms) for at_ms in (1000, 1030, 1010)]
    (batch,) = FetchedBatches(batch_of(records, base_offset=10, codec=codec)).checked(PARTITION)
    assert batch.created_ms(fetch_offset, since_ms) == expected


def test_timestamps_of_brokers_tell_nothing_about_the_way_to_them() -> None:
    """A topic with `message.timestamp.type=LogAppendTime`."""
    (batch,) = FetchedBatches(batch_of([Record(value=b"a")], flags=0x08)).checked(PARTITION)
    assert batch.created_ms(0, 0) == []


@pytest.mark.parametrize(("key", "aborts"), [(ABORT, True), (COMMIT, False)], ids=["abort", "commit"])
def test_the_end_of_a_transaction_is_no_record(key: bytes, aborts: bool) -> None:  # noqa: FBT001
    """It takes an offset, and says what becomes of the records before it."""
    marker = batch_of([Record(key=key, value=bytes(16))], base_offset=3, flags=TRANSACTIONAL | CONTROL)
    (batch,) = FetchedBatches(marker).checked(PARTITION)

    assert batch.received(0) is None
    assert (batch.is_control_batch, batch.aborts(), batch.next_offset) == (True, aborts, 4)


def test_a_batch_that_compaction_emptied_gives_nothing_but_where_to_read_on() -> None:
    """Brokers keep such batches for their producer's sequence."""
    data = bytearray(batch_of([Record(value=b"a")] * 3, base_offset=7)[:HEADER_BYTES])
    data[8:12] = struct.pack(">i", HEADER_BYTES - 12)
    data[-4:] = bytes(4)
    (batch,) = FetchedBatches(sealed(data)).checked(PARTITION)

    assert (batch.received(0), batch.next_offset) == (None, 10)


def test_values_too_short_for_a_tag_count_without_one() -> None:
    """Somebody else may write to a topic."""
    records = [Record(value=b"short"), Record(key=b"key", value=None), Record(value=tagged(20)), Record(value=b"")]

    assert received(batch_of(records)) == [(0, 4, [[10**15 + 1, -2]], 5 + 3 + 20)]


def test_tags_are_int64_and_may_be_kept() -> None:
    """They outlive what was fetched, which is large."""
    (batch,) = FetchedBatches(batch_of([Record(value=tagged())] * 3)).checked(PARTITION)
    result = batch.received(1)

    assert isinstance(result, ReceivedBatch)
    assert result.tags.dtype == np.int64
    assert result.tags.shape == (2, 2)
    assert isinstance(result.tags.base, np.ndarray)
    assert result.tags.base.base is None


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    """Its bytes are no records."""
    with pytest.raises(UnsupportedCodecError, match=f"unknown codec {codec} at offset 4$"):
        received(batch_of([Record(value=tagged())], base_offset=4, flags=codec))


@pytest.mark.parametrize("magic", [0, 1])
def test_an_older_message_format_is_refused(magic: int) -> None:
    """Brokers before Kafka 0.11 have it; later ones convert, and since 4.0 none knows it."""
    builder = LegacyRecordBatchBuilder(magic, 0, 1000)
    builder.append(0, 1, None, b"value")

    with pytest.raises(
        UnsupportedForMessageFormatError,
        match=rf"message format {magic} in TopicPartition\(topic='t', partition=7\) at offset 0: "
        r"must be format 2 \(Kafka 0.11 or newer\); use newer brokers$",
    ):
        received(bytes(builder.build()))


@pytest.mark.parametrize("length", [-1, 0, 4, 5, 14, 48])
def test_a_batch_too_short_for_what_it_must_hold_is_an_error(length: int) -> None:
    """Reading past it would find nonsense, or the same bytes for ever."""
    data = bytearray(batch_of([Record(value=tagged())], base_offset=6))
    data[8:12] = struct.pack(">i", length)

    with pytest.raises(
        CorruptRecordException, match=r"a batch of \d+ bytes in .* at offset 6 is shorter than its header$"
    ):
        received(bytes(data))


def test_the_layouts_that_are_remembered_are_few_and_small() -> None:
    """A worker's memory must not grow with what it reads."""
    spans, tail_bytes = record_layout(None, 100, 107, 14)

    assert tail_bytes == 1
    assert sum(len(span.prescribed) + span.mask.nbytes for span in spans) < 20 * 2**14
    assert record_layout.cache_parameters()["maxsize"] == 64


@given(
    steps=st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["data", "data", "plain", "commit", "abort"]))),
    isolation_level=st.sampled_from([fetcher.READ_UNCOMMITTED, fetcher.READ_COMMITTED]),
)
def test_transactions_are_read_as_aiokafka_reads_them(steps: list[tuple[int, str]], isolation_level: int) -> None:
    """Records of an aborted transaction are in the log, and nobody who reads committed ones may count them."""
    log: list[bytes] = []
    aborted: list[tuple[int, int]] = []
    open_since: dict[int, int] = {}
    for offset, (producer_id, step) in enumerate(steps):
        record = Record(value=tagged(origin=offset), key=ABORT if step == "abort" else COMMIT)
        flags = {"data": TRANSACTIONAL, "plain": 0}.get(step, TRANSACTIONAL | CONTROL)
        log.append(batch_of([record], base_offset=offset, flags=flags, producer_id=producer_id))
        if step == "data":
            open_since.setdefault(producer_id, offset)
        elif step != "plain":
            since = open_since.pop(producer_id, None)
            if step == "abort" and since is not None:
                aborted.append((producer_id, since))
    data = b"".join(log)

    rest = (aborted, 0, None, None, True, isolation_level)
    ours = BatchedRecords(PARTITION, FetchedBatches(data), *rest)
    theirs = fetcher.PartitionRecords(PARTITION, MemoryRecords(data), *rest)
    assert [batch.tags[0, 1] for batch in ours] == [record.offset for record in theirs]
    assert ours.next_fetch_offset == theirs.next_fetch_offset


def test_the_fetcher_asks_of_fetched_data_what_record_batches_answer() -> None:
    """`RecordBatches` stands in for `MemoryRecords`, which fetchers look up in their module each time."""
    source = inspect.getsource(fetcher.Fetcher._proc_fetch_request)

    assert "records = MemoryRecords(part_data[-1])" in source
    assert set(re.findall(r"\brecords\.(\w+)", source)) == {"has_next", "size_in_bytes"}
    for name in ("_consume_aborted_up_to", "_aborted_producers", "_isolation_level", "_tp", "_records"):
        assert name in inspect.getsource(fetcher.PartitionRecords)
