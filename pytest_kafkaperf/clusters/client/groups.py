"""Consumer groups: those that read a topic, and the members of one."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from aiokafka import errors as kafka_errors
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.protocol import admin as requests
from aiokafka.protocol import group as membership

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.client.connection import call, connected
from pytest_kafkaperf.clusters.client.requests import DescribeGroups, ask_coordinator
from pytest_kafkaperf.core.errors import ClusterError

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.spec import Cluster

TIMEOUT_S = 5
"""Timeout of all requests: no measurement depends on them."""
_MEMBERS_TIMEOUT_S = 10


def groups_reading(topic: str, bootstrap_servers: str, access: Access, *, ignored: str) -> list[str] | None:
    """Return the consumer groups with a member that reads the topic, but not those whose names begin with `ignored`.

    Returns None if that is unknown: the cluster does not answer, this client may not see groups, or none is known to
    read the topic but the members of some are not known, as in a rebalance and in a group of KIP-848's protocol.
    """
    work = _groups_reading(topic, bootstrap_servers, access, ignored)
    with contextlib.suppress(ClusterError):
        return call(work, "list consumer groups", bootstrap_servers, timeout_s=TIMEOUT_S)
    return None


def group_members(cluster: Cluster, group: str, *, without: Collection[str] = ()) -> tuple[str, set[str]]:
    """Ask the group's coordinator, after the removal of the members `without`, whose processes have ended.

    Returns:
        The state as Kafka names it, such as `Stable` or `Dead` (no such group), or the name of an error. And the ids of
        the members that have partitions; Kafka gives a new id to each process that joins.

    Raises:
        ClusterError: it did not answer in time.

    """

    async def ask() -> tuple[str, set[str]]:
        async with connected(cluster.bootstrap_servers, cluster.access) as client:
            for member in without:
                await ask_coordinator(client, group, 0, membership.LeaveGroupRequest(group, member))
            error, answer = await ask_coordinator(client, group, 0, DescribeGroups([group]))
        if error is not kafka_errors.NoError:
            return error.__name__, set()
        _, _, state, _, _, members, *_ = answer.groups[0]
        return state, {member for member, *_, assignment in members if _topics(assignment)}

    what = f"describe consumer group {group!r}"
    return call(ask(), what, cluster.bootstrap_servers, timeout_s=_MEMBERS_TIMEOUT_S)


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
