"""Records encoded in two steps are the same bytes as those of aiokafka's own encoder."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.engines.aiokafka.encoder import (
    EncodedRecord,
    encode_content,
    encode_records,
    join_records,
)

SIZES = st.sampled_from([0, 1, 40, 63, 64, 8191, 8192])
"""On both sides of where a length takes another byte."""
CONTENTS = st.builds(lambda size, byte: bytes([byte]) * size, SIZES, st.integers(0, 255))
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | CONTENTS), max_size=3)
RECORDS = st.lists(st.tuples(st.none() | CONTENTS, CONTENTS, HEADERS), min_size=1, max_size=5)


@given(RECORDS)
def test_without_endings(records: list[EncodedRecord]) -> None:
    """A key or a header may be missing, which is not the same as empty."""
    assert join_records([encode_content(one) for one in records]) == encode_records(records)[0]


@given(RECORDS, st.text(max_size=5), st.integers(1, 20))
def test_with_a_last_header_each(records: list[EncodedRecord], name: str, size: int) -> None:
    """Its value is known later than the rest of the record."""
    contents = [encode_content(one, last_header=name, last_bytes=size) for one in records]
    endings = [bytes([place]) * size for place in range(len(records))]
    whole = [
        (key, value, [*headers, (name, ending)]) for (key, value, headers), ending in zip(records, endings, strict=True)
    ]
    assert join_records(contents, b"".join(endings)) == encode_records(whole)[0]


def test_offsets_of_many_records() -> None:
    """The offset of the 65th record takes a second byte."""
    records: list[EncodedRecord] = [(None, b"%d" % place, []) for place in range(10_000)]
    assert join_records([encode_content(one) for one in records]) == encode_records(records)[0]
