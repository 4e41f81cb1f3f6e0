"""Requests in Kafka's own schemas, with the bytes of a response that a broker would send."""

from __future__ import annotations

import datetime
from io import BytesIO
from typing import Any

import pytest
from aiokafka.errors import IncompatibleBrokerVersion
from kio.index import load_entity_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.constants import EntityType

from pytest_kafkaperf.clusters.admin.schema_request import SchemaRequest

API = 69
"""Kafka's number of ConsumerGroupDescribe."""


def request() -> SchemaRequest:
    return SchemaRequest(
        "consumer_group_describe",
        (0, 1),
        lambda _: {"group_ids": ("g",), "include_authorized_operations": True},
    )


def test_the_newest_version_of_both_sides_is_sent() -> None:
    """Brokers answer a version that they do not know with an error, or close the connection."""
    assert request().prepare({API: (0, 1)}).API_VERSION == 1
    assert request().prepare({API: (0, 5)}).API_VERSION == 1
    assert request().prepare({API: (0, 0)}).API_VERSION == 0


@pytest.mark.parametrize("supported", [{}, {API: (2, 3)}, {3: (0, 12)}])
def test_a_broker_without_the_request_is_an_error_that_names_it(supported: dict[int, tuple[int, int]]) -> None:
    """An old broker, or another implementation, would otherwise look as if it had no such group."""
    with pytest.raises(IncompatibleBrokerVersion, match="ConsumerGroupDescribe"):
        request().prepare(supported)


def test_a_response_is_read_in_the_version_of_its_request() -> None:
    """Version 1 has a field more for each member, and reading it as version 0 would shift everything behind it."""
    schema: Any = load_entity_module("consumer_group_describe", 1, EntityType.response)
    assignment = schema.Assignment(topic_partitions=())
    member = schema.Member(
        member_id="m",
        member_epoch=3,
        client_id="c",
        client_host="/127.0.0.1",
        assignment=assignment,
        target_assignment=assignment,
        member_type=1,
    )
    group = schema.DescribedGroup(
        error_code=ErrorCode.none,
        group_id="g",
        group_state="Stable",
        group_epoch=4,
        assignment_epoch=4,
        assignor_name="uniform",
        members=(member, member),
        authorized_operations=8,
    )
    response = schema.ConsumerGroupDescribeResponse(throttle_time=datetime.timedelta(), groups=(group,))
    sent = BytesIO()
    entity_writer(type(response))(sent, response)
    message = request().prepare({API: (0, 1)})
    read = message.RESPONSE_TYPE.decode(BytesIO(sent.getvalue()))
    assert [(one.group_state, one.group_epoch, len(one.members)) for one in read.groups] == [("Stable", 4, 2)]


def test_the_body_of_a_request_is_not_logged() -> None:
    """aiokafka logs its requests at the level DEBUG, and a body may contain what allows a login."""
    assert "'g'" not in repr(request().prepare({API: (0, 1)}))
