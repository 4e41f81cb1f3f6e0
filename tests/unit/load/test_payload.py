"""What records hold: any first records of a template are a batch that aiokafka reads back."""

from __future__ import annotations

import collections
import gzip
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load import payload as payloads
from pytest_kafkaperf.load.engines.aiokafka.encoder import CODECS, EncodedBatch
from pytest_kafkaperf.load.payload import Payload, Stamp, origin, tags_every_record
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_kafkaperf.load.payload import Template

MIB = 1 << 20
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
    template = payload.template(start)
    return [value for _, value, _ in decoded(template.body, template.count)]


def batches(payload: Payload, used: Sequence[int]) -> Iterator[tuple[Template, int]]:
    """One batch after the other, each of so many records at most."""
    start = 0
    for most in used:
        template = payload.template(start)
        count = min(most, template.count)
        yield template, count
        start = payload.after(start, template, count)


texts = st.text(max_size=5).filter(lambda text: text.isprintable())
workloads = st.fixed_dictionaries(
    {
        "record_size": st.sampled_from([16, 17, 51, 52, 63, 64, 100, 3000, 8192])
        | st.just({"20 B": 0.6, "70 B": 0.3, "900 B": 0.1}),
        "batch_size": st.sampled_from([1, 300, 2000, 16 << 10]),
        "payload": st.sampled_from(["random", "zeros"]),
        "key": st.sampled_from(["none", "sequential"]),
        "headers": st.dictionaries(texts.filter(bool), texts, max_size=3) | st.just({"h": "x" * 200}),
        "consumers": st.sampled_from([0, 1]),
    }
)


@given(fields=workloads, data=st.data())
def test_any_first_records_of_a_template_are_a_batch(fields: dict[str, Any], data: st.DataObject) -> None:
    """Keys, values, headers, tags: what the engine writes ahead and into it is what anybody reads."""
    payload = payload_of(**fields)
    start = data.draw(st.integers(0, len(payload.values) - 1))
    template = payload.template(start)
    count = data.draw(st.integers(1, template.count) | st.just(template.count))
    first = data.draw(st.integers(-(2**47), 2**46))
    indexes, dues_ns = np.arange(first, first + count), np.arange(count) * 3 + 10**18
    keys = np.arange(count) - 5 if fields["key"] == "sequential" else None
    stamp = Stamp(payload, producer=999)
    rows = decoded(stamp.body(template, indexes=indexes, dues_ns=dues_ns, keys=keys), count)

    every = fields["consumers"] > 0 or keys is not None
    values = [payload.values[(start + place) % len(payload.values)] for place in range(count)]
    for place, value in enumerate(values):
        if place == 0 or every:
            tag = struct.pack(">qq", int(dues_ns[place]), (999 << 48) | (int(indexes[place]) & (2**48 - 1)))
            values[place] = tag + value[TAG_BYTES:]
    assert [value for _, value, _ in rows] == values
    assert [key for key, _, _ in rows] == [
        None if keys is None else int(keys[place]).to_bytes(8, "big", signed=True) for place in range(count)
    ]
    assert {tuple(headers) for _, _, headers in rows} == {
        tuple((name, text.encode()) for name, text in fields["headers"].items())
    }
    sizes = np.cumsum([len(value) + (0 if keys is None else 8) for value in values])
    assert template.sizes[:count].tolist() == sizes.tolist()


THROUGH = {"topic": "orders", "output_topic": "orders-enriched", "consumers": 1}


@given(fields=workloads)
def test_through_an_application_the_tag_is_the_last_header(fields: dict[str, Any]) -> None:
    """It reads the values, so these stay what the payload has; keys and other headers, too."""
    payload = payload_of(**{**fields, **THROUGH})
    template = payload.template(0)
    indexes, dues_ns = np.arange(template.count), np.arange(template.count) + 10**18
    keys = np.arange(template.count) if fields["key"] == "sequential" else None
    stamp = Stamp(payload, producer=3)
    rows = decoded(stamp.body(template, indexes=indexes, dues_ns=dues_ns, keys=keys), template.count)

    given_ = [(name, text.encode()) for name, text in fields["headers"].items()]
    assert [value for _, value, _ in rows] == [
        payload.values[place % len(payload.values)] for place in range(len(rows))
    ]
    assert [headers for _, _, headers in rows] == [
        [*given_, ("kafkaperf-tag", stamp.tag(place, 10**18 + place))] for place in range(len(rows))
    ]
    assert [key for key, _, _ in rows] == [None if keys is None else place.to_bytes(8) for place in range(len(rows))]


@given(fields=workloads)
def test_a_template_holds_what_fits_into_a_batch_and_one_record_always(fields: dict[str, Any]) -> None:
    """As with Kafka's own producer: a record larger than a batch travels alone."""
    payload = payload_of(**fields)
    template = payload.template(0)
    size = len(EncodedBatch(template.body, template.count, timestamp_ms=0)._build())
    longest = payload.largest + 8 + 300  # with its key, headers and lengths

    assert template.ends[-1] == len(template.body)
    assert size <= fields["batch_size"] or template.count == 1
    assert size + longest > fields["batch_size"]


def test_a_template_is_not_written_to() -> None:
    """It serves for batches to come, and for other producers of the worker."""
    payload = payload_of(consumers=1, key="sequential")
    template = payload.template(0)
    before = bytes(template.body)
    indexes = np.arange(template.count)
    for stamp in (Stamp(payload, producer=1), Stamp(payload, producer=2)):
        stamp.body(template, indexes=indexes, dues_ns=indexes, keys=indexes)

    assert payload.template(0).body == before


@pytest.fixture(scope="module")
def plain() -> Payload:
    """A payload for all examples."""
    return payload_of()


@given(index=st.integers(-(2**47), 2**47 - 1), producer=st.integers(0, 999), due_ns=st.integers(0, 2**62))
def test_tags_come_back(plain: Payload, index: int, producer: int, due_ns: int) -> None:
    """Indexes below zero, the warm-up's, must not spill into the producer's bits; one or many are the same."""
    stamp = Stamp(plain, producer=producer)
    tag = stamp.tag(index, due_ns)
    tags = stamp.tags(np.array([index, 3]), np.array([due_ns, 4]))

    assert tags.tobytes() == tag + stamp.tag(3, 4)
    due, named = struct.unpack(">qq", tag)
    assert (due, origin(named)) == (due_ns, (producer, index))
    producers, indexes = origin(tags[:, 1].astype(np.int64))
    assert (producers.tolist(), indexes.tolist()) == ([producer, producer], [index, 3])


@pytest.mark.parametrize(
    ("fields", "every"),
    [({}, False), ({"consumers": 1}, True), ({"key": "uniform:9"}, True), ({"client": "record"}, True)],
)
def test_every_record_has_a_tag_where_its_batch_does_not_tell_which_it_is(
    fields: dict[str, Any],
    every: bool,  # noqa: FBT001
) -> None:
    """Records with keys do not follow each other in a batch, and a client that batches by itself chooses them."""
    assert tags_every_record(Scenario.of(fields)) == every


def test_values_that_are_too_short_for_a_tag_are_left_alone() -> None:
    """Without consumers any size can be; keys are written all the same."""
    payload = payload_of(record_size=TAG_BYTES - 1, key="sequential")
    template, indexes = payload.template(0), np.arange(3)
    rows = decoded(Stamp(payload, producer=1).body(template, indexes=indexes, dues_ns=5, keys=indexes), 3)

    assert not payload.tagged
    assert [value for _, value, _ in rows] == payload.values[:3]
    assert [key for key, _, _ in rows] == [bytes(8), bytes(7) + b"\1", bytes(7) + b"\2"]


@pytest.mark.parametrize("record_size", [16, 17, 100, 5000, 3 * MIB, 40 * MIB])
def test_every_value_has_the_asked_size(record_size: int) -> None:
    """With the tag or without: bandwidth is counted by it."""
    payload = payload_of(record_size=record_size)

    assert {len(value) for value in payload.values} == {record_size} == {payload.largest}
    assert {len(value) for value in values_of(payload)} == {record_size}


def test_small_values_take_a_bounded_memory() -> None:
    """Each is an object of Python, which takes more than its bytes."""
    values = payload_of(record_size=10, batch_size=MIB).values
    assert sum(map(sys.getsizeof, values)) + sys.getsizeof(values) <= 40 * MIB


def test_the_same_seed_makes_the_same_records_and_another_does_not() -> None:
    """A round can be repeated byte by byte, and rounds differ."""
    assert values_of(payload_of(seed=1)) == values_of(payload_of(seed=1))
    assert values_of(payload_of(seed=1)) != values_of(payload_of(seed=2))


@pytest.mark.parametrize(
    ("record_size", "batch_size"),
    [(20, 16 << 10), (100, 16 << 10), (100, MIB), (10_000, MIB), ({"20 B": 0.9, "1 KiB": 0.1}, MIB)],
)
def test_records_do_not_compress(record_size: Any, batch_size: int) -> None:
    """Compression costs what it would cost on real data, and saves nothing that it would not."""
    payload = payload_of(record_size=record_size, batch_size=batch_size)
    for template, _ in batches(payload, [10**9] * 3):
        data = b"".join(value for _, value, _ in decoded(template.body, template.count))
        assert len(gzip.compress(data)) > 0.99 * len(data)
        packed = EncodedBatch(template.body, template.count, timestamp_ms=0, codec=CODECS["zstd"])
        assert len(packed._build()) > 0.97 * len(data)


def test_zeros_are_zeros() -> None:
    """The other extreme, for whoever wants to see what compression can do."""
    assert set(values_of(payload_of(payload="zeros"))) == {bytes(100)}


def test_few_templates_serve_for_all_batches_of_one_size() -> None:
    """They are encoded once: the speed of the generator rests on that, whether batches are full or not."""
    for used in ([10**9] * 1000, [1] * 1000, [7, 10**9] * 500):
        payload = payload_of()
        templates = {id(template) for template, _ in batches(payload, used)}
        assert 50 < len(templates) < 100


MIXES = [
    {"100 B": 0.9, "10 KiB": 0.1},
    {"16 B": 0.5, "20 B": 0.3, "1 KiB": 0.15, "4 KiB": 0.05},
    {"1 KiB": 0.5, "100 KiB": 0.5},  # all of them would take half a GiB
    {"100 B": 0.999, "10 MiB": 0.001},
]


@pytest.mark.parametrize("mix", MIXES, ids=str)
def test_a_mix_of_sizes_is_as_asked_for_whatever_batches_hold(
    monkeypatch: pytest.MonkeyPatch, mix: dict[str, float]
) -> None:
    """Of full batches, and of those of one record at a low rate: each value follows the one before."""
    monkeypatch.setattr(payloads, "_DECK", 1000)  # a tenth of the work; the next test counts all values
    shares = Scenario.of({"record_size": mix}).record_sizes
    payload = payload_of(record_size=mix, batch_size=2000)
    total = len(payload.values)
    for most in (1, 7, 10**9):
        sizes: list[int] = []
        for template, count in batches(payload, [most] * total):
            sizes += np.diff(template.sizes[:count], prepend=0).tolist()
            if len(sizes) >= total:
                break
        counted = collections.Counter(sizes[:total])
        assert {size: count / total for size, count in counted.items()} == pytest.approx(dict(shares), abs=1e-4)
        assert sum(sizes[:total]) / total == pytest.approx(
            sum(size * share for size, share in shares.items()), rel=0.01
        )


@pytest.mark.parametrize("mix", MIXES, ids=str)
def test_a_mix_of_sizes_is_mixed_and_takes_a_bounded_memory(mix: dict[str, float]) -> None:
    """No long run of one size, and the largest values come again rather than fill the worker."""
    payload = payload_of(record_size=mix)
    sizes = np.array([len(value) for value in payload.values])
    counted = collections.Counter(sizes.tolist())
    assert {size: count / len(sizes) for size, count in counted.items()} == pytest.approx(
        dict(Scenario.of({"record_size": mix}).record_sizes), abs=1e-4
    )
    kept = {id(value): len(value) for value in payload.values}

    assert sum(kept.values()) <= 32 * MIB + payload.largest
    halves = np.array_split(sizes, 2)
    assert (halves[0] == sizes.min()).mean() == pytest.approx((halves[1] == sizes.min()).mean(), abs=0.05)
    smallest = [value for value in payload.values if len(value) == sizes.min()]
    assert len(set(smallest)) > 0.99 * len(smallest)  # of 16 random bytes none are the same


def samples_file(folder: Path, content: bytes) -> dict[str, str]:
    (folder / "samples").write_bytes(content)
    return {"file": str(folder / "samples")}


def sampled(samples: dict[str, str], **fields: Any) -> Payload:
    return Payload(Scenario.of({"payload": samples} | fields), seed=1)


@pytest.mark.parametrize(("delimiter", "between"), [(None, b"\n"), ("--", b"--"), ("é", "é".encode())])
def test_samples_are_what_stands_between_delimiters(tmp_path: Path, delimiter: str | None, between: bytes) -> None:
    """Empty ones, as at the end of a file, are none; each of the others comes equally often."""
    values = [b"one sample of many", b"another\r", b"\0\xff", b"the longest of all of these samples"]
    samples = samples_file(tmp_path, between.join([*values, b"", b""])) | (
        {"delimiter": delimiter} if delimiter else {}
    )
    payload = sampled(samples)
    rows = [row for template, count in batches(payload, [3] * 8) for row in decoded(template.body, template.count)[:3]]

    assert sorted(payload.values) == sorted(values)
    assert (payload.tagged, payload.largest) == (False, 35)
    assert collections.Counter(value for _, value, _ in rows) == dict.fromkeys(values, 6)


def test_samples_come_in_an_order_of_their_seed(tmp_path: Path) -> None:
    """A file is often sorted; batches should not be."""
    samples = samples_file(tmp_path, b"\n".join(b"%d" % number for number in range(100)))
    first, again = sampled(samples), sampled(samples)

    assert first.values == again.values != sorted(first.values, key=int)
    assert Payload(Scenario.of({"payload": samples}), seed=2).values != first.values


def test_samples_have_tags_where_all_have_room_for_one(tmp_path: Path) -> None:
    """With consumers all must have: end-to-end time is written into each."""
    long = samples_file(tmp_path, b"\n".join([b"x" * 16, b"y" * 40]))
    assert sampled(long, consumers=1).tagged

    short = samples_file(tmp_path, b"\n".join([b"x" * 15, b"y" * 40]))
    assert not sampled(short).tagged
    with pytest.raises(LoadError) as raised:
        sampled(short, consumers=1)
    assert str(raised.value) == (
        f"the samples in file:{tmp_path}/samples have values smaller than 16 B: with consumers, end-to-end timing "
        "writes 16 B into each; use longer samples, or consumers=0"
    )


def test_samples_that_cannot_be_used_are_told_with_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker finds out first: it may be another machine."""
    samples = samples_file(tmp_path, b"\n\n\n")
    with pytest.raises(LoadError, match=rf"^no samples in {tmp_path}/samples: it contains only delimiters$"):
        sampled(samples)
    with pytest.raises(LoadError, match=rf"^cannot read the samples in {tmp_path}/none: No such file or directory$"):
        sampled({"file": str(tmp_path / "none")})
    monkeypatch.setattr("pytest_kafkaperf.load.payload._MAX_SAMPLES_BYTES", 2)
    with pytest.raises(LoadError, match=rf"^the samples in {tmp_path}/samples are too large; use at most 0 MiB$"):
        sampled(samples)
