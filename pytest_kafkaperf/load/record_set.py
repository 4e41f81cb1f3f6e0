"""A set of records that takes two bits a record, for the output of an application."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np

_CHUNK_BITS = 14
"""Records whose names differ only in these bits share a chunk of 4 KiB: names of one producer follow one another."""
_PLACES = (1 << _CHUNK_BITS) - 1
_IN_SET, _MEASURED = 0b01, 0b10
_ALL_MEASURED = 0b10101010


class RecordSet:
    """A set of records by their names (see `load.payload.names_of`), some of which are measured."""

    def __init__(self) -> None:
        self._chunks: dict[int, bytearray] = {}
        """Two bits for each record, by the upper bits of its name."""

    @classmethod
    def union(cls, sets: Iterable[RecordSet]) -> Self:
        """Return a set with the records of all `sets`."""
        union = cls()
        for one in sets:
            for number, chunk in one._chunks.items():  # noqa: SLF001 - another set of the same class
                known = np.frombuffer(union._chunks.setdefault(number, bytearray(len(chunk))), np.uint8)
                known |= np.frombuffer(chunk, np.uint8)
        return union

    def add(self, name: int, *, measured: bool) -> bool:
        """Add a record; return False if the set had it."""
        number = name >> _CHUNK_BITS
        chunk = self._chunks.get(number)
        if chunk is None:
            chunk = self._chunks[number] = bytearray((_PLACES + 1) // 4)
        byte, shift = (name & _PLACES) >> 2, (name & 3) << 1
        if chunk[byte] >> shift & _IN_SET:
            return False
        chunk[byte] |= (_IN_SET | _MEASURED if measured else _IN_SET) << shift
        return True

    def measured(self) -> int:
        """Return the number of measured records."""
        chunks = (np.frombuffer(chunk, np.uint8) for chunk in self._chunks.values())
        return sum(int(np.bitwise_count(chunk & _ALL_MEASURED).sum()) for chunk in chunks)

    def has_measured(self, name: int) -> bool:
        """Return True if the set has the record, and it is measured."""
        chunk = self._chunks.get(name >> _CHUNK_BITS)
        return chunk is not None and bool(chunk[(name & _PLACES) >> 2] >> ((name & 3) << 1) & _MEASURED)
