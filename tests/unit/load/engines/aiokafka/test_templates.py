"""Templates: any first records of one are a batch that aiokafka reads back."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.engines.aiokafka.encoder import EncodedBatch
from pytest_kafkaperf.load.engines.aiokafka.templates import Stamp, Templates
from pytest_kafkaperf.load.identity import NO_NONCE, Tagger
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES
from tests.support.encoded import batches, decoded, payload_of

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
    template = Templates(payload).at(start)
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
    template = Templates(payload).at(0)
    indexes, dues_ns = np.arange(template.count), np.arange(template.count) + 10**18
    keys = np.arange(template.count) if fields["key"] == "sequential" else None
    stamp, tagger = Stamp(payload, producer=3), Tagger(NO_NONCE, producer=3)
    rows = decoded(stamp.body(template, indexes=indexes, dues_ns=dues_ns, keys=keys), template.count)

    given_ = [(name, text.encode()) for name, text in fields["headers"].items()]
    assert [value for _, value, _ in rows] == [
        payload.values[place % len(payload.values)] for place in range(len(rows))
    ]
    assert [headers for _, _, headers in rows] == [
        [*given_, ("kafkaperf-tag", tagger.tag(place, 10**18 + place))] for place in range(len(rows))
    ]
    assert [key for key, _, _ in rows] == [None if keys is None else place.to_bytes(8) for place in range(len(rows))]


@given(fields=workloads)
def test_a_template_holds_what_fits_into_a_batch_and_one_record_always(fields: dict[str, Any]) -> None:
    """As with Kafka's own producer: a record larger than a batch travels alone."""
    payload = payload_of(**fields)
    template = Templates(payload).at(0)
    size = len(EncodedBatch(template.body, template.count, timestamp_ms=0)._build())
    longest = payload.largest + 8 + 300  # with its key, headers and lengths

    assert template.ends[-1] == len(template.body)
    assert size <= fields["batch_size"] or template.count == 1
    assert size + longest > fields["batch_size"]


def test_a_template_is_not_written_to() -> None:
    """It serves for batches to come, and for other producers of the worker."""
    payload = payload_of(consumers=1, key="sequential")
    templates = Templates(payload)
    template = templates.at(0)
    before = bytes(template.body)
    indexes = np.arange(template.count)
    for stamp in (Stamp(payload, producer=1), Stamp(payload, producer=2)):
        stamp.body(template, indexes=indexes, dues_ns=indexes, keys=indexes)

    assert templates.at(0).body == before


def test_values_that_are_too_short_for_a_tag_are_left_alone() -> None:
    """Without consumers any size can be; keys are written all the same."""
    payload = payload_of(record_size=TAG_BYTES - 1, key="sequential")
    template, indexes = Templates(payload).at(0), np.arange(3)
    rows = decoded(Stamp(payload, producer=1).body(template, indexes=indexes, dues_ns=5, keys=indexes), 3)

    assert not payload.tagged
    assert [value for _, value, _ in rows] == payload.values[:3]
    assert [key for key, _, _ in rows] == [bytes(8), bytes(7) + b"\1", bytes(7) + b"\2"]


def test_few_templates_serve_for_all_batches_of_one_size() -> None:
    """They are encoded once: the speed of the generator rests on that, whether batches are full or not."""
    for used in ([10**9] * 1000, [1] * 1000, [7, 10**9] * 500):
        found = {id(template) for template, _ in batches(Templates(payload_of()), used)}
        assert 50 < len(found) < 100
