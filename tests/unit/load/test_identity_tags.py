"""Tags: which record of which producer, due when."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.identity import NO_NONCE, Tagger, origin, tags_every_record
from pytest_kafkaperf.scenarios.scenario import Scenario


@given(index=st.integers(-(2**47), 2**47 - 1), producer=st.integers(0, 999), due_ns=st.integers(0, 2**62))
def test_tags_come_back(index: int, producer: int, due_ns: int) -> None:
    """Indexes below zero, the warm-up's, must not spill into the producer's bits; one or many are the same."""
    tagger = Tagger(NO_NONCE, producer=producer)
    tag = tagger.tag(index, due_ns)
    tags = tagger.tags(np.array([index, 3]), np.array([due_ns, 4]))

    assert tags.tobytes() == tag + tagger.tag(3, 4)
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
