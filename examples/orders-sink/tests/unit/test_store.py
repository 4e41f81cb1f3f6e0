import sqlite3

import pytest

from orders_sink.store import Order, Store

FIRST, SECOND = Order(0, 0, "o-1", 12.5), Order(0, 1, "o-2", 7)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "orders.sqlite"


def stored(path):
    return sqlite3.connect(path).execute("SELECT * FROM orders").fetchall()


def test_orders_are_on_disk_after_add(path):
    with Store(path) as store:
        store.add([FIRST, SECOND])
        assert stored(path) == [FIRST, SECOND]


def test_an_order_that_is_read_again_is_stored_once(path):
    with Store(path) as store:
        store.add([FIRST])
    with Store(path) as store:
        store.add([FIRST, SECOND])
    assert stored(path) == [FIRST, SECOND]


def test_an_error_leaves_nothing_of_its_transaction(path):
    def broken():
        yield FIRST
        raise OSError("the connection is gone")

    with Store(path) as store:
        with pytest.raises(OSError, match="gone"):
            store.add(broken())
        assert stored(path) == []


def test_an_order_is_read():
    assert Order.read(b'{"id": "o-1", "amount": 12.5, "items": []}', partition=0, position=0) == FIRST


@pytest.mark.parametrize("value", [b"", b"[]", b'{"id": "o-1"}', b'{"id": 7, "amount": 7}', b"\xff"])
def test_a_value_that_is_not_an_order_is_refused(value):
    with pytest.raises(ValueError):
        Order.read(value, partition=0, position=0)
