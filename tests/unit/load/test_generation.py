"""Records of payload functions, and identities of records."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load import generation
from pytest_kafkaperf.load.generation import (
    BLOCK,
    INDEXES,
    Generator,
    Identifier,
    PlainRecord,
    description_of,
    first_records,
    identity_function,
    record_of,
    unchanged,
)
from pytest_kafkaperf.scenarios.identify import parse_identify
from pytest_kafkaperf.scenarios.payloads import Generated, Record

NONCE = (1 << 62, 7)
SOURCE = random.Random(1)


def order(index: int, source: random.Random) -> str:
    """A record that depends on all that a function receives."""
    return f"{index} {source.random()}"


def index_only(index: int, _: random.Random) -> str:
    """A record that is quickly made."""
    return f"{index}"


def large(index: int, _: random.Random) -> bytes:
    """Records of 1 MiB."""
    return index.to_bytes(1 << 20, "big")


def slow(index: int, _: random.Random) -> str:
    """Records that take 1 ms each."""
    time.sleep(0.001)
    return f"{index}"


def generator(function: Callable[..., Any] = order, **place: int) -> Generator[PlainRecord]:
    return Generator(Generated(function=function), unchanged, **{"load": 3} | place)


def values(records: list[PlainRecord]) -> list[bytes]:
    return [one.value for one in records]


def indexes(records: list[PlainRecord]) -> list[int]:
    return [int(one.value.split()[0]) for one in records]


steps = st.lists(st.tuples(st.booleans(), st.integers(0, 700)), min_size=1, max_size=8)


@given(steps)
def test_records_are_the_same_however_they_are_taken(steps: list[tuple[bool, int]]) -> None:
    """Two sides of a comparison get the same load, although one of them has more time to make records ahead."""
    ours, taken = generator(), []
    for is_ahead, count in steps:
        if is_ahead:
            assert ours.make_ahead(count)
        else:
            taken += ours.take(count)
    assert taken == generator().take(len(taken))
    assert ours.made >= len(taken)


@given(st.integers(1, 5), st.integers(1, 40))
def test_the_producers_of_a_load_share_its_indexes(producers: int, count: int) -> None:
    """An application that ignores known records would otherwise drop those of the second producer."""
    each = [generator(index_only, producer=number, producers=producers).take(count) for number in range(producers)]
    found = sorted(index for records in each for index in indexes(records))
    assert found == list(range(3 * INDEXES, 3 * INDEXES + producers * count))


def test_a_producers_records_depend_on_the_load_and_the_producer_only() -> None:
    """A producer may run in any worker process, which makes a generator of its own."""
    assert generator(producer=1, producers=2).take(10) == generator(producer=1, producers=2).take(10)
    others = [{"load": 4}, {"producer": 0}, {}]
    usual = {"producer": 1, "producers": 2}
    found = [values(generator(order, **usual | place).take(10)) for place in others]
    assert len({value.split()[1] for part in found for value in part}) == 30


def test_a_block_of_records_can_be_generated_by_itself() -> None:
    """It has its own seed, so a function that draws more numbers for one record changes no other block."""

    def draws(index: int, source: random.Random) -> str:
        if index % INDEXES == 5:
            source.random()
        return order(index, source)

    usual, other = (generator(function).take(2 * BLOCK + 1) for function in (order, draws))
    same = [ours == theirs for ours, theirs in zip(usual, other, strict=True)]
    assert same == [True] * 5 + [False] * (BLOCK - 5) + [True] * (BLOCK + 1)


def test_the_first_records_are_those_of_the_first_producer() -> None:
    """A pool, and the record size that is shown, come from them."""
    assert first_records(Generated(function=order), 10, load=3) == generator().take(10)


def test_records_are_made_ahead_once() -> None:
    """Those that wait are taken first, and no record is made twice or skipped."""
    ours = generator(index_only)
    assert (ours.make_ahead(10), ours.made, ours.make_ahead(10), ours.made) == (True, 10, True, 10)
    assert indexes(ours.take(3) + ours.take(12)) == [3 * INDEXES + number for number in range(15)]
    assert (ours.made, ours.spent_ns > 0) == (15, True)


def test_the_time_for_making_records_ahead_is_limited() -> None:
    """A response that has arrived waits as long."""
    ours = generator(slow)
    assert not ours.make_ahead(1000, most_ns=3_000_000)
    assert 1 <= ours.made <= 4
    assert ours.spent_ns >= ours.made * 1_000_000


def test_waiting_records_take_limited_memory() -> None:
    """Thousands of records of 1 MiB would not fit, so 9 of them count as ready."""
    ours = generator(large)
    assert ours.make_ahead(4096, most_ns=60_000_000_000)
    assert ours.made == (generation.MOST_AHEAD_BYTES >> 20) + 1
    assert (len(ours.take(20)), ours.made) == (20, 20)
    assert ours.make_ahead(4096, most_ns=60_000_000_000)
    assert ours.made == 20 + (generation.MOST_AHEAD_BYTES >> 20) + 1


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (b"\x00", PlainRecord(None, b"\x00", [])),
        ("ä", PlainRecord(None, "ä".encode(), [])),
        ("", PlainRecord(None, b"", [])),
        ({"id": 1, "lines": [{"n": "ä"}]}, PlainRecord(None, b'{"id":1,"lines":[{"n":"\\u00e4"}]}', [])),
        (Record(value={"id": 1}), PlainRecord(None, b'{"id":1}', [])),
        (
            Record(value="v", key="k", headers={"b": "1", "a": b"2"}),
            PlainRecord(b"k", b"v", [("b", b"1"), ("a", b"2")]),
        ),
        (Record(value=b"v", key=b""), PlainRecord(b"", b"v", [])),
    ],
)
def test_a_function_returns_a_value_or_a_whole_record(made: Any, expected: PlainRecord) -> None:
    """Users write what they would give to their own producer."""
    assert record_of("made", lambda *_: made, 0, SOURCE) == expected


def broken(index: int, _: random.Random) -> Any:
    """A function with several mistakes in it."""
    return [None, 7, Record(value="v", key=7), Record(value="v", headers={"a": 7}), {"id": b"1"}][index]  # type: ignore[arg-type,dict-item]


@pytest.mark.parametrize(
    ("index", "told"),
    [
        (0, "returned the value None; return bytes, text, a dict or a Record (index 0)"),
        (1, "returned the value 7; return bytes, text, a dict or a Record (index 1)"),
        (2, "returned the key 7; return bytes, text, a dict or a Record (index 2)"),
        (3, "returned the header 'a' 7; return bytes, text, a dict or a Record (index 3)"),
        (4, "failed: TypeError: Object of type bytes is not JSON serializable (index 4)"),
        (5, "failed: IndexError: list index out of range (index 5)"),
    ],
)
def test_an_error_of_a_function_shows_its_name_and_the_index(index: int, told: str) -> None:
    """With the index, the user can call the function again."""
    with pytest.raises(LoadError, match=f"^{re.escape(f'payload: {__name__}.broken {told}')}$"):
        record_of(f"{__name__}.broken", broken, index, SOURCE)


def found_in(value: Any, path: str) -> bytes | None:
    """Return what a JSON selector finds in a value."""
    encoded = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    return identity_function(parse_identify(f"json:{path}").input)(SimpleNamespace(value=encoded))


ORDER = {"id": 7, "order": {"id": "ä", "lines": [{"n": 1.5}, {"n": True}]}, "none": None, "": 1}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("id", b"7"),
        ("order.id", "ä".encode()),
        ("order.lines.0.n", b"1.5"),
        ("order.lines.1.n", b"true"),
        ("order.lines.2.n", None),
        ("order.lines.n", None),
        ("order.lines", None),
        ("order", None),
        ("order.id.x", None),
        ("id.x", None),
        ("none", None),
        ("none.x", None),
        ("absent", None),
    ],
)
def test_a_json_selector_finds_text_and_numbers(path: str, expected: bytes | None) -> None:
    """A record of another kind has no identity, and is not an error: other programs may write to the topic."""
    assert found_in(ORDER, path) == expected


@pytest.mark.parametrize(
    "value",
    [None, b"", b"{", b"\xff\xfe", b"7", b'"id"', b"[]", b"[" * 100_000],
    ids=["none", "empty", "open", "not UTF-8", "number", "text", "list", "nested"],
)
def test_whatever_another_program_has_written_has_no_identity(value: bytes | None) -> None:
    """A consumer must not stop because of it."""
    assert found_in(value, "id") is None


@given(st.integers() | st.text(st.characters(exclude_categories=["Cs"])))
def test_a_field_is_the_same_in_any_spelling_of_json(identity: int | str) -> None:
    """Applications write documents with other separators, escapes and orders of fields."""
    spellings = [
        json.dumps({"id": identity, "a": 1}, separators=(",", ":")),
        json.dumps({"a": [1], "id": identity}, indent=2, ensure_ascii=False),
    ]
    assert {found_in(one.encode(), "id") for one in spellings} == {str(identity).encode()}


def of_record(record: Any) -> Any:
    """A user's function with mistakes for some records."""
    return {b"text": "ä", b"bytes": b"\x00", b"none": None, b"number": 7}[record.value]


def named(value: bytes) -> bytes | None:
    return identity_function(parse_identify(of_record).input)(SimpleNamespace(value=value))


def test_a_function_returns_text_or_bytes_or_none() -> None:
    """Text counts as its UTF-8 encoding, so a function and a key can identify the same record."""
    assert [named(value) for value in (b"text", b"bytes", b"none")] == ["ä".encode(), b"\x00", None]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (b"number", "returned 7; return text or bytes, or None if nothing identifies the record"),
        (b"other", "failed: KeyError: b'other'"),
    ],
)
def test_an_error_of_an_identity_function_shows_its_name(value: bytes, told: str) -> None:
    """It is the user's own code."""
    with pytest.raises(LoadError, match=f"^{re.escape(f'identify: {__name__}.of_record {told}')}$"):
        named(value)


def hashed(key: bytes | None, nonce: tuple[int, int] = NONCE) -> int | None:
    return Identifier(parse_identify("key").input, nonce).hash_of(SimpleNamespace(key=key))


@given(st.lists(st.binary(max_size=20), unique=True, max_size=20))
def test_a_hash_has_64_bits_and_depends_on_the_identity(keys: list[bytes]) -> None:
    """The controller keeps hashes as int64, and each worker must compute the same one."""
    hashes = [hashed(key) for key in keys]
    assert hashes == [hashed(key) for key in keys]
    assert len(set(hashes)) == len(keys)
    assert all(one is not None and -(2**63) <= one < 2**63 for one in hashes)


def test_a_hash_depends_on_the_loads_nonce() -> None:
    """The output of an earlier load with the same identities must not match."""
    assert hashed(b"a") != hashed(b"a", (NONCE[0] + 1, NONCE[1]))


def test_a_record_without_an_identity_has_no_hash() -> None:
    """An empty key is one."""
    assert (hashed(None), hashed(b"") is None) == (None, False)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (None, b'{"id": "secret", "total": 3}', "no key and the JSON fields 'id', 'total'"),
        (b"secret", b"secret", "a key of 6 B and a value of 6 B, which is not a JSON object"),
        (b"", b"[1]", "a key of 0 B and a value of 3 B, which is not a JSON object"),
        (None, None, "no key and no value"),
        (None, b"{}", "no key and the value {}"),
        (None, b"\xff\xfe", "no key and a value of 2 B, which is not a JSON object"),
        (None, b"[" * 100_000, "no key and a value of 100000 B, which is not a JSON object"),
        (None, json.dumps(dict.fromkeys("abcdefghijkl")).encode(), "no key and the JSON fields {} and 2 more"),
    ],
)
def test_a_record_is_described_without_its_content(key: bytes | None, value: bytes | None, expected: str) -> None:
    """It may belong to another program."""
    ten = ", ".join(map(repr, "abcdefghij"))
    record = SimpleNamespace(key=key, value=value, headers=())
    assert description_of(record) == expected.replace("fields {}", f"fields {ten}")
