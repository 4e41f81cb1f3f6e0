"""The members of an application's consumer group."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.errors import KafkaError, for_code

from pytest_kafkaperf.clusters.client.connection import call, connected
from pytest_kafkaperf.clusters.client.requests import DescribeGroups, ask_coordinator, remove_members
from pytest_kafkaperf.core.errors import ClusterError

if TYPE_CHECKING:
    from pytest_kafkaperf.clusters.spec import Cluster

_TIMEOUT_S = 10


def group_members(cluster: Cluster, group: str, *, without: Collection[str] = ()) -> tuple[str, dict[str, bool]]:
    """Ask the group's coordinator, after the removal of the members `without`, whose processes have ended.

    Returns:
        The state as Kafka names it, such as `Stable` or `Dead` (no such group), or the name of an error. And the ids of
        the members, each with True if it has partitions; Kafka gives a new id to each process that joins.

    Raises:
        ClusterError: it did not answer in time.

    """

    async def ask() -> tuple[str, dict[str, bool]]:
        async with connected(cluster.bootstrap_servers, cluster.access) as client:
            await remove_members(client, group, without)
            error, answer = await ask_coordinator(client, group, 0, DescribeGroups([group]))
        if answer is None:
            return (error or KafkaError).__name__, {}
        code, _, state, _, _, members, *_ = answer.groups[0]
        return for_code(code).__name__ if code else state, {one: _has_partitions(text) for one, *_, text in members}

    try:
        return call(ask(), timeout_s=_TIMEOUT_S)
    except (TimeoutError, KafkaError) as error:
        reason = str(error) or "no answer in time"
        raise ClusterError(f"could not describe consumer group {group!r}: {reason}") from None


def _has_partitions(assigned: bytes) -> bool:
    return bool(assigned and ConsumerProtocolMemberAssignment.decode(assigned).partitions())
