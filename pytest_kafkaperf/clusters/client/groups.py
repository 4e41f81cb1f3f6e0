"""The members of a consumer group."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from aiokafka import errors as kafka_errors
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.protocol import group as membership

from pytest_kafkaperf.clusters.client.connection import call, connected
from pytest_kafkaperf.clusters.client.requests import DescribeGroups, ask_coordinator

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.spec import Cluster

_MEMBERS_TIMEOUT_S = 10


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


def _topics(assignment: bytes) -> set[str]:
    with contextlib.suppress(ValueError):  # other protocols, such as Kafka Connect's, have other assignments
        return {one for one, _ in ConsumerProtocolMemberAssignment.decode(assignment).assignment}
    return set()
