"""The database of orders."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

_SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    partition INTEGER, position INTEGER, id TEXT NOT NULL, amount REAL NOT NULL,
    PRIMARY KEY (partition, position)
) WITHOUT ROWID
"""


class Order(NamedTuple):
    """An order, and its position in the topic."""

    partition: int | None
    position: int | None
    id: str
    amount: float

    @classmethod
    def read(cls, value: bytes, *, partition: int | None, position: int | None) -> Self:
        """Parse a record's value.

        Raises:
            ValueError: the value is not an order.

        """
        match json.loads(value):
            case {"id": str(id_), "amount": int() | float() as amount}:
                return cls(partition, position, id_, amount)
            case _:
                raise ValueError("not an order")


class Store:
    """A SQLite file."""

    def __init__(self, path: str | Path) -> None:
        self._database = sqlite3.connect(path)
        self._database.execute(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def add(self, orders: Iterable[Order]) -> None:
        """Store either all orders or none; orders that are already stored do not change."""
        with self._database:  # one transaction
            self._database.executemany("INSERT OR IGNORE INTO orders VALUES (?, ?, ?, ?)", orders)
