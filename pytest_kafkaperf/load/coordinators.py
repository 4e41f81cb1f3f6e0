"""Coordinators of groups and of transactional ids, each asked within a bound."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from aiokafka import errors as kafka_errors

from pytest_kafkaperf.load.kafka import admin, api, coordination, types
from pytest_kafkaperf.load.kafka import group as membership

_COORDINATOR_S = 5
"""Bound of waiting for the broker that keeps a group or a transactional id; the load waits longer."""
_TICK_S = 0.05
LATER: tuple[type[Exception], ...] = (
    kafka_errors.GroupCoordinatorNotAvailableError,
    kafka_errors.GroupLoadInProgressError,
    kafka_errors.NotCoordinatorForGroupError,
)
"""A coordinator that is about to be one."""


async def ask_coordinator(client: Any, key: str, kind: int, request: Any) -> tuple[type[Exception] | None, Any]:
    """What the coordinator of a group (0) or of a transactional id (1) answers; the error where there is no answer."""
    deadline = time.monotonic() + _COORDINATOR_S
    while True:
        found = await client.send(client.get_random_node(), coordination.FindCoordinatorRequest(key, kind))
        error: type[Exception] = kafka_errors.for_code(found.error_code)
        if error is kafka_errors.NoError:
            with contextlib.suppress(kafka_errors.NodeNotReadyError, kafka_errors.KafkaConnectionError):
                answer = await client.send(found.coordinator_id, request)
                codes = [answer.error_code] if hasattr(answer, "error_code") else [one[0] for one in answer.groups]
                if not any(kafka_errors.for_code(code) in LATER for code in codes):
                    return None, answer
        elif error not in LATER:
            return error, None
        if time.monotonic() > deadline:
            return error, None
        await asyncio.sleep(_TICK_S)


async def dismiss(client: Any, group: str) -> None:
    """Let the members of a group leave it in their place: a worker that was killed counts as one for 10 s more."""
    _, answer = await ask_coordinator(client, group, 0, AskGroup(group))
    if answer is not None:
        _, _, _, _, _, members, *_ = answer.groups[0]
        for member, *_ in members:
            await ask_coordinator(client, group, 0, membership.LeaveGroupRequest(group, member))


class _AskGroupStruct(api.RequestStruct):  # type: ignore[misc] # aiokafka ships no types
    """DescribeGroups v3; aiokafka's own forgets the operations in the answer."""

    API_KEY = 15
    API_VERSION = 3
    RESPONSE_TYPE = admin.DescribeGroupsResponse_v3
    SCHEMA = types.Schema(
        ("groups", types.Array(types.String("utf-8"))), ("include_authorized_operations", types.Boolean)
    )


class AskGroup(api.Request[_AskGroupStruct]):  # type: ignore[misc]
    """One group, and what this client may do with it."""

    API_KEY = 15

    def __init__(self, group: str) -> None:
        self._group = group

    def build(self, request_struct_class: type[_AskGroupStruct]) -> _AskGroupStruct:
        """As aiokafka asks for it."""
        return request_struct_class([self._group], True)
