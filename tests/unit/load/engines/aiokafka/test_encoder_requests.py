"""Produce requests and responses: byte for byte those of aiokafka, which encodes and decodes them field by field."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.protocol import produce
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.engines.aiokafka.encoder import Response, correlation_id_of, encode_request, version_for

VERSIONS = (5, 6, 7)
topics = st.dictionaries(
    st.text(max_size=9), st.lists(st.tuples(st.integers(0, 2**31 - 1), st.binary(max_size=99)), max_size=4), max_size=3
)
outcomes = st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 2**15 - 1), *[st.integers(-1, 2**63 - 1)] * 3)


@given(
    batches=topics,
    header=st.tuples(st.sampled_from(VERSIONS), st.integers(0, 2**31 - 1), st.text(max_size=9)),
    acks=st.sampled_from([-1, 1]),
    timeout_ms=st.integers(0, 2**31 - 1),
)
def test_a_request_is_byte_for_byte_aiokafkas_own(
    batches: Any, header: tuple[int, int, str], acks: int, timeout_ms: int
) -> None:
    """A broker closes the connection of a client whose request it cannot read."""
    version, correlation_id, client_id = header
    theirs = getattr(produce, f"ProduceRequest_v{version}")(None, acks, timeout_ms, list(batches.items()))
    body = theirs.build_request_header(correlation_id=correlation_id, client_id=client_id).encode() + theirs.encode()

    ours = encode_request(
        batches, version=version, correlation_id=correlation_id, client_id=client_id, acks=acks, timeout_ms=timeout_ms
    )
    assert ours == len(body).to_bytes(4, "big") + body


@given(
    version=st.sampled_from(VERSIONS),
    rows=st.lists(st.tuples(st.text(max_size=9), st.lists(outcomes, max_size=4)), max_size=3),
)
def test_a_response_is_read_as_aiokafka_reads_it(version: int, rows: Any) -> None:
    """Its sender handles errors with what we have read."""
    theirs = getattr(produce, f"ProduceResponse_v{version}")
    data = (42).to_bytes(4, "big") + theirs(rows, 0).encode()

    ours = Response.decode(data)
    assert (correlation_id_of(data), ours.topics, ours.API_VERSION in VERSIONS) == (42, rows, True)


@pytest.mark.parametrize(
    ("supported", "expected"),
    [((3, 13), 7), ((0, 7), 7), ((0, 6), 6), ((0, 5), 5), ((0, 4), None), ((8, 13), None)],
    ids=str,
)
def test_the_newest_version_that_both_know_is_used(supported: tuple[int, int], expected: int | None) -> None:
    """Requests of other versions are left to aiokafka."""
    assert version_for(supported) == expected
