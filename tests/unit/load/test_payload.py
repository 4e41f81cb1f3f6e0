"""What records hold."""

from __future__ import annotations

import collections
import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load import payload as payloads
from pytest_kafkaperf.load.engines.aiokafka.encoder import CODECS, EncodedBatch
from pytest_kafkaperf.load.engines.aiokafka.templates import Templates
from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.encoded import batches, decoded, payload_of, values_of

MIB = 1 << 20


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
    for template, _ in batches(Templates(payload), [10**9] * 3):
        data = b"".join(value for _, value, _ in decoded(template.body, template.count))
        assert len(gzip.compress(data)) > 0.99 * len(data)
        packed = EncodedBatch(template.body, template.count, timestamp_ms=0, codec=CODECS["zstd"])
        assert len(packed._build()) > 0.97 * len(data)


def test_zeros_are_zeros() -> None:
    """The other extreme, for whoever wants to see what compression can do."""
    assert set(values_of(payload_of(payload="zeros"))) == {bytes(100)}


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
        for template, count in batches(Templates(payload), [most] * total):
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
    rows = [
        row
        for template, count in batches(Templates(payload), [3] * 8)
        for row in decoded(template.body, template.count)[:3]
    ]

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
        f"the samples in file:{tmp_path}/samples include values smaller than 16 B, but with consumers, end-to-end "
        "timing writes 16 B into each; use longer samples, or consumers=0"
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
