"""The unit tests of the service, without Kafka."""

import asyncio
import json

import pytest
from enricher import Directory, enriched

ORDER = {"id": "o-1", "customer": "c-1", "amount": 12.5}


def enrich(value: bytes) -> dict[str, object]:
    return json.loads(asyncio.run(enriched(value, Directory().segment)))


def test_an_order_keeps_what_it_has_and_gets_a_segment():
    """Readers of the output topic need both."""
    order = enrich(json.dumps(ORDER).encode())
    assert order["segment"] in ("consumer", "business", "partner")
    assert {name: order[name] for name in ORDER} == ORDER


@pytest.mark.parametrize("value", [b"[]", b"{}", b'{"customer": 7}'])
def test_a_value_that_is_not_an_order_is_refused(value):
    """The service logs it and continues."""
    with pytest.raises(ValueError, match="an order names its customer"):
        enrich(value)
