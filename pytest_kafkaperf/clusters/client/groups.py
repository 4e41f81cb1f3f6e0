"""The consumer groups that read a topic."""

from __future__ import annotations

import contextlib

from aiokafka import errors as kafka_errors
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.protocol import admin as requests

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.client.connection import call, connected
from pytest_kafkaperf.clusters.client.requests import DescribeGroups

TIMEOUT_S = 5
"""Timeout of all requests: no measurement depends on them."""


def groups_reading(topic: str, bootstrap_servers: str, access: Access, *, ignored: str) -> list[str] | None:
    """Return the consumer groups with a member that reads the topic, but not those whose names begin with `ignored`.

    Returns None if that is unknown: the cluster does not answer, this client may not see groups, or none is known to
    read the topic but the members of some are not known, as in a rebalance and in a group of KIP-848's protocol.
    """
    try:
        return call(_groups_reading(topic, bootstrap_servers, access, ignored), timeout_s=TIMEOUT_S)
    except (TimeoutError, kafka_errors.KafkaError, NotImplementedError):  # unknown version of a request
        return None


async def _groups_reading(topic: str, bootstrap_servers: str, access: Access, ignored: str) -> list[str] | None:
    reading, unknown = [], False
    async with connected(bootstrap_servers, access) as client:
        for broker in client.cluster.brokers():
            listed = await client.send(broker.nodeId, requests.ListGroupsRequest())
            names = [group for group, *_ in listed.groups if not group.startswith(ignored)]
            described = await client.send(broker.nodeId, DescribeGroups(names))
            for code, group, state, _, _, members, *_ in described.groups:
                if any(topic in _topics(assignment) for *_, assignment in members):
                    reading.append(group)
                unknown |= bool(code) or state not in ("Stable", "Empty")
    return sorted(reading) if reading or not unknown else None


def _topics(assignment: bytes) -> set[str]:
    with contextlib.suppress(ValueError):  # other protocols, such as Kafka Connect's, have other assignments
        return {one for one, _ in ConsumerProtocolMemberAssignment.decode(assignment).assignment}
    return set()
