"""Batch templates: records encoded in advance, the first of which become a batch's body."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.load.engines.aiokafka.encoder import encode_records
from pytest_kafkaperf.load.identity import Int64s, Tagger
from pytest_kafkaperf.load.payload import MAX_POOL_BYTES, Payload
from pytest_kafkaperf.scenarios.payloads import size_of_headers, size_of_varint
from pytest_kafkaperf.scenarios.scenario import KEY_BYTES, TAG_BYTES

_MAX_TEMPLATES = 1024

_NO_KEY = bytes(KEY_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """Encoded records and the positions of their parts, as arrays of shape `(records,)`."""

    body: bytes
    count: int
    """Number of records."""
    ends: Int64s
    """End position of each record."""
    sizes: Int64s
    """Cumulative size of keys and values in bytes."""
    keys_at: Int64s
    tags_at: Int64s
    """Position of each tag: the start of the value, or of the last header's value."""


class Templates:
    """One worker's templates. Its producers share them, each starting at a different value."""

    def __init__(self, payload: Payload) -> None:
        self.payload = payload
        kept = MAX_POOL_BYTES // max(payload.batch_size, payload.largest)
        self.at = functools.lru_cache(maxsize=max(1, min(_MAX_TEMPLATES, kept)))(self._encoded)
        """Function that returns enough encoded values, from a given start, to fill a batch."""

    def after(self, start: int, template: Template, used: int) -> int:
        """Return the next batch's start, after `used` records of the template at `start`.

        Values of mixed sizes follow one another, so batches that end early have the same mix as full batches. If all
        values have the same size, a few starts are enough for all batches.
        """
        values = len(self.payload.values)
        if self.payload.mixed:
            return (start + used) % values
        following = start + template.count
        return following if following + template.count <= values else 0

    def _encoded(self, start: int) -> Template:
        payload = self.payload
        key = _NO_KEY if payload.keyed else None
        others = payload.headers[:-1] if payload.tags_first_header else payload.headers
        headers = itertools.chain([payload.headers], itertools.repeat(others))
        rows = ((key, value, mine) for value, mine in zip(self._from(start), headers, strict=False))
        body, ends = encode_records(rows, payload.batch_size)
        lengths = np.array([len(value) for value, _ in zip(self._from(start), ends, strict=False)], dtype=np.int64)
        ends_at = np.array(ends, dtype=np.int64)
        header_bytes = np.full(len(ends), size_of_headers(others))
        header_bytes[0] = size_of_headers(payload.headers)
        values_at = ends_at - header_bytes - lengths
        return Template(
            body=body,
            count=len(ends),
            ends=ends_at,
            sizes=np.cumsum(lengths + (KEY_BYTES if payload.keyed else 0)),
            keys_at=values_at - np.array([size_of_varint(length) for length in lengths.tolist()]) - KEY_BYTES,
            tags_at=ends_at - TAG_BYTES if payload.tags_in_header else values_at,
        )

    def _from(self, start: int) -> Iterator[bytes]:
        """Yield all values repeatedly, from `start` on."""
        values = self.payload.values
        for position in itertools.count(start):
            yield values[position % len(values)]


class Stamp:
    """Writer of one producer's tags and keys into batches."""

    def __init__(self, payload: Payload, *, producer: int) -> None:
        self._payload = payload
        self._tagger = Tagger(payload.nonce, producer=producer)

    def body(
        self, template: Template, *, indexes: Int64s, dues_ns: Int64s | int, keys: Int64s | None
    ) -> bytes | bytearray:
        """Return the template's first records with the given indexes, due times and keys.

        `indexes` and `keys` have shape `(records,)`. So does `dues_ns`, unless it is a single instant for all records.
        """
        count, payload = indexes.size, self._payload
        whole = template.body if count == template.count else template.body[: int(template.ends[count - 1])]
        if not payload.tagged and keys is None:
            return whole
        body = bytearray(whole)
        if keys is not None:
            _write(body, template.keys_at[:count], keys.astype(">i8"))
        if payload.tagged and payload.tags_all:
            _write(body, template.tags_at[:count], self._tagger.tags(indexes, dues_ns))
        elif payload.tagged:
            at, due_ns = int(template.tags_at[0]), dues_ns if isinstance(dues_ns, int) else int(dues_ns[0])
            body[at : at + TAG_BYTES] = self._tagger.tag(int(indexes[0]), due_ns)
        return body


def _write(body: bytearray, places: Int64s, rows: npt.NDArray[Any]) -> None:
    """Write each row's bytes at its position."""
    data = rows.reshape(len(rows), -1).view(np.uint8)
    np.frombuffer(body, dtype=np.uint8)[places[:, None] + np.arange(data.shape[1])] = data
