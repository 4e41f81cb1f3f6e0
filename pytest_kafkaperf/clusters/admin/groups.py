"""Groups of every protocol: their state, their members, and the offsets that they have reached.

Kafka has a request for each protocol: DescribeGroups for classic groups, ConsumerGroupDescribe for the consumer
protocol (KIP-848), StreamsGroupDescribe for Kafka Streams (KIP-1071) and ShareGroupDescribe for share groups (KIP-932).
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from aiokafka.protocol import admin, api
from aiokafka.protocol import commit as commits
from aiokafka.protocol import group as membership

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.acls import Operation, Resource, granted, refusal
from pytest_kafkaperf.clusters.admin.connection import call, connected
from pytest_kafkaperf.clusters.admin.schema_request import SchemaRequest
from pytest_kafkaperf.clusters.admin.wire import TRANSIENT, ask_coordinator
from pytest_kafkaperf.core.errors import ClusterError

_TIMEOUT_S = 60
"""Time limit for describing a group: up to four requests, each of which may wait for a coordinator."""


class Protocol(enum.StrEnum):
    """A protocol by which a group shares its work."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"
    SHARE = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group."""

    client_id: str
    host: str
    assignment: frozenset[tuple[str, int]] = frozenset()
    """The member's partitions or, in Kafka Streams, its active tasks; empty while the group rebalances."""

    @property
    def partitions(self) -> int:
        """Number of the member's partitions or active tasks."""
        return len(self.assignment)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A group as described by its coordinator."""

    protocol: Protocol | None = None
    """None if there is no such group."""
    state: str = "Dead"
    """Kafka's name for the state, such as `Stable`; `Dead` if there is no such group."""
    epoch: int | None = None
    """Number that rises with each rebalance; None in classic groups, as brokers do not report their generation."""
    members: Mapping[str, Member] = field(default_factory=dict)
    """Members by id. Each process that joins gets a new id."""
    operations: frozenset[Operation] | None = None
    """Operations that this client is permitted to perform; None if the cluster does not report them."""
    unsupported: tuple[str, ...] = ()
    """Requests that the cluster does not support, so groups of their protocols look as if they did not exist."""


class _DescribeGroupsStruct(admin.DescribeGroupsRequest_v3):  # type: ignore[misc] # aiokafka ships no types
    """DescribeGroups v3; aiokafka parses this response as v2, without the permitted operations."""

    RESPONSE_TYPE = admin.DescribeGroupsResponse_v3


class _DescribeGroups(api.Request[_DescribeGroupsStruct]):  # type: ignore[misc]
    """Request for the description and permitted operations of a classic group."""

    API_KEY = 15

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[_DescribeGroupsStruct]) -> _DescribeGroupsStruct:
        """Build the request; called by aiokafka."""
        return request_struct_class([self._group], True)


async def describe_group(
    client: Any, group: str, *, expected: Protocol = Protocol.CLASSIC, known: dict[str, int] | None = None
) -> Group:
    """Query a group's coordinator, whatever the group's protocol is; `expected` is asked for first.

    `known` contains coordinators by group, as in `ask_coordinator`.

    Raises:
        KafkaError: such as GroupAuthorizationFailedError.

    """
    unsupported, operations = [], None
    known = {} if known is None else known
    for protocol in sorted(Protocol, key=lambda one: one is not expected):
        request = _DescribeGroups(group) if protocol is Protocol.CLASSIC else _description(protocol, group)
        try:
            error, answer = await ask_coordinator(client, group, 0, request, known)
        except kafka_errors.IncompatibleBrokerVersion:
            error = kafka_errors.UnsupportedVersionError
        if error is kafka_errors.UnsupportedVersionError:
            unsupported.append(str(request))
        elif error is kafka_errors.NoError:
            found = _classic(answer) if protocol is Protocol.CLASSIC else _described(protocol, answer)
            if found.state != "Dead":
                return found
            operations = found.operations
        elif error is not kafka_errors.GroupIdNotFound:
            raise error
    return Group(operations=operations, unsupported=tuple(unsupported))


async def permitted_operations(client: Any, group: str) -> frozenset[Operation] | None:
    """Return what this client may do with a group of the classic protocol, which does not have to exist.

    None if the cluster does not report it.

    Raises:
        KafkaError: such as GroupAuthorizationFailedError.

    """
    error, answer = await ask_coordinator(client, group, 0, _DescribeGroups(group))
    if error is not kafka_errors.NoError:
        raise error
    return _classic(answer).operations


def _classic(answer: Any) -> Group:
    _, _, state, _, _, members, operations = answer.groups[0]
    found = {
        member: Member(client_id=client_id, host=host.lstrip("/"), assignment=_classic_assignment(assignment))
        for member, client_id, host, _, assignment in members
    }
    return Group(protocol=Protocol.CLASSIC, state=state, members=found, operations=granted(operations))


_DESCRIPTIONS = {
    Protocol.CONSUMER: ("consumer_group_describe", (0, 1)),
    Protocol.STREAMS: ("streams_group_describe", (0,)),
    Protocol.SHARE: ("share_group_describe", (1,)),
}
"""kio's name and versions of the request for each protocol; version 0 of the last one was an early-access version."""


def _description(protocol: Protocol, group: str) -> SchemaRequest:
    name, versions = _DESCRIPTIONS[protocol]
    return SchemaRequest(name, versions, lambda _: {"group_ids": (group,), "include_authorized_operations": True})


def _described(protocol: Protocol, response: Any) -> Group:
    answer = response.groups[0]
    assignment_of = _tasks if protocol is Protocol.STREAMS else _assignment
    return Group(
        protocol=protocol,
        state=answer.group_state,
        epoch=answer.group_epoch,
        members={
            member.member_id: Member(
                client_id=member.client_id, host=member.client_host.lstrip("/"), assignment=assignment_of(member)
            )
            for member in answer.members
        },
        operations=granted(answer.authorized_operations),
    )


def _assignment(member: Any) -> frozenset[tuple[str, int]]:
    topics = member.assignment.topic_partitions
    return frozenset((topic.topic_name, partition) for topic in topics for partition in topic.partitions)


def _tasks(member: Any) -> frozenset[tuple[str, int]]:
    tasks = member.assignment.active_tasks
    return frozenset((one.subtopology_id, partition) for one in tasks for partition in one.partitions)


def _classic_assignment(assignment: bytes) -> frozenset[tuple[str, int]]:
    with contextlib.suppress(ValueError):  # other clients, such as Kafka Connect, have different assignments
        decoded = ConsumerProtocolMemberAssignment.decode(assignment)
        return frozenset((topic, partition) for topic, numbers in decoded.assignment for partition in numbers)
    return frozenset()


def unsupported_protocols(group: Group) -> str:
    """Return text that names the protocols whose groups this cluster cannot describe; empty if it can describe all."""
    if not group.unsupported:
        return ""
    return (
        f"the cluster does not support {' and '.join(group.unsupported)}, so the groups of these protocols are not "
        "visible; watch a classic group, or use newer brokers (4.0 for consumer groups, 4.2 for the others)"
    )


def read_group(servers: str, access: Access, group: str, *, without: Collection[str] = ()) -> Group:
    """Describe a group after removing the members in `without`, whose processes have ended.

    Raises:
        ClusterError: the cluster did not answer in time, or this client is not permitted to see the group.

    """

    async def ask() -> Group:
        async with connected(servers, access) as client:
            try:
                if without:
                    await remove_members(client, group, without)
                return await describe_group(client, group)
            except kafka_errors.GroupAuthorizationFailedError:
                resource = Resource(kind="group", name=group)
                raise ClusterError(refusal([Operation.DESCRIBE], resource, access, servers)) from None
            except TRANSIENT as error:
                return Group(state=type(error).__name__)

    return call(ask(), f"describe consumer group {group!r}", servers, timeout_s=_TIMEOUT_S)


_LEAVE = -1
"""Member epoch of a heartbeat that leaves a group."""


async def remove_members(client: Any, group: str, members: Collection[str] | None = None) -> None:
    """Remove members (None: all) whose processes have ended from a group; Kafka counts them for up to a minute."""
    known: dict[str, int] = {}
    found = await describe_group(client, group, known=known)
    for member in found.members if members is None else members:
        request = _departure(found.protocol, group, member)
        if request is not None:
            await ask_coordinator(client, group, 0, request, known)


def _departure(protocol: Protocol | None, group: str, member: str) -> Any:
    """Return the request by which a member leaves a group; None if there is no such group."""
    fields = {"group_id": group, "member_id": member, "member_epoch": _LEAVE}
    match protocol:
        case Protocol.CLASSIC:
            return membership.LeaveGroupRequest(group, member)
        case Protocol.CONSUMER:
            return SchemaRequest("consumer_group_heartbeat", (0, 1), lambda _: {**fields, "topic_partitions": None})
        case Protocol.SHARE:
            return SchemaRequest("share_group_heartbeat", (1,), lambda _: fields)
        case Protocol.STREAMS:
            unchanged = ("active_tasks", "standby_tasks", "warmup_tasks", "client_tags", "task_offsets")
            rest = {"endpoint_information_epoch": 0, **dict.fromkeys((*unchanged, "task_end_offsets"))}
            return SchemaRequest("streams_group_heartbeat", (0,), lambda _: {**fields, **rest})
    return None


Offsets = list[tuple[int, int, int]]
"""Rows of partition, error code and offset."""


def offsets_request(protocol: Protocol | None, group: str, topic: str, partitions: int) -> Any:
    """Return the request for the offsets that a group has reached; `offsets_in` reads its response."""
    numbers = tuple(range(partitions))
    if protocol is not Protocol.SHARE:
        return commits.OffsetFetchRequest(group, [(topic, list(numbers))])
    return SchemaRequest(
        "describe_share_group_offsets",
        (0, 1),
        lambda schema: {
            "groups": (
                schema.DescribeShareGroupOffsetsRequestGroup(
                    group_id=group,
                    topics=(schema.DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=numbers),),
                ),
            )
        },
    )


def offsets_in(protocol: Protocol | None, answer: Any, ends: Sequence[int]) -> Offsets:
    """Return the offset after the last committed record in each partition; -1 if there is none.

    The members of a share group may finish records in any order, and the group's start offset moves only with the next
    acknowledgement. Therefore, the result for a share group is the number of records that are done: the end offset
    (read before the request, in `ends`) minus the lag that brokers report since Kafka 4.2 (KIP-1226), or else the start
    offset.

    Raises:
        KafkaError: the whole request was refused.

    """
    whole = answer.groups[0] if protocol is Protocol.SHARE else answer
    code = int(getattr(whole, "error_code", 0))
    if code:
        raise kafka_errors.for_code(code)
    if protocol is not Protocol.SHARE:
        return [(partition, code, offset) for partition, offset, _, code in answer.topics[0][1]]
    rows = [one for topic in whole.topics for one in topic.partitions]
    return [(one.partition_index, int(one.error_code), _done(one, ends)) for one in rows]


def _done(partition: Any, ends: Sequence[int]) -> int:
    lag = getattr(partition, "lag", -1)
    start: int = partition.start_offset
    return start if lag < 0 else max(start, ends[partition.partition_index] - lag)
