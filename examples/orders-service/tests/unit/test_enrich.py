import json

import pytest

from orders_service.enrich import enriched

ORDER = {"id": "o-1", "customer": "c-1", "amount": 12.5, "items": [{"sku": "s-1", "count": 2}]}


def enrich(**changes):
    return json.loads(enriched(json.dumps({**ORDER, **changes}).encode()))


def test_an_order_keeps_what_it_has():
    order = enrich()
    assert {name: order[name] for name in ORDER} == ORDER


@pytest.mark.parametrize(("amount", "priority"), [(499.99, "standard"), (500, "express")])
def test_large_orders_are_sent_by_express(amount, priority):
    assert enrich(amount=amount)["priority"] == priority


def test_pieces_are_counted_over_all_items():
    assert enrich(items=[{"sku": "s-1", "count": 2}, {"sku": "s-2", "count": 3}])["pieces"] == 5


@pytest.mark.parametrize("value", [b"", b"[]", b"{}", b'{"amount": "7", "items": []}', b"\xff"])
def test_a_value_that_is_not_an_order_is_refused(value):
    with pytest.raises(ValueError):
        enriched(value)
