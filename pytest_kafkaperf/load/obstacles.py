"""Obstacles: why a topic does not do for a scenario, with what was asked for and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pytest_kafkaperf.errors import nearest
from pytest_kafkaperf.load.names import PREFIX
from pytest_kafkaperf.load.payload import size_of_headers, size_of_varint
from pytest_kafkaperf.scenario import KEY_BYTES

if TYPE_CHECKING:
    from pytest_kafkaperf.load.topics import TopicSight
    from pytest_kafkaperf.scenario import Scenario

_FEW_TOPICS = 20
"""So many are all named where none is near."""
_BATCH_OVERHEAD_BYTES = 61
"""The header of a batch (https://kafka.apache.org/documentation/#recordbatch)."""


def topic_problems(scenario: Scenario, sight: TopicSight) -> Iterator[str]:
    """Why a topic does not do for a scenario."""
    named = f"topic {sight.name!r}" if scenario.topic is not None else "the topic of this scenario"
    if sight.leaderless:
        yield leaderless(named, sight)
    policy = sight.config.get("cleanup.policy", "")
    if "compact" in policy and scenario.key is None:
        yield (
            f"{named} is compacted (cleanup.policy={policy}), and the cluster refuses records without a key there; "
            "give a key, for example key='uniform:1000', or use a topic that is not compacted"
        )
    # More than there are replicas is no obstacle: brokers then ask for all of them (tried with 3.9.1, 4.0.0, 4.3.1).
    least = min(int(sight.config.get("min.insync.replicas", "1")), sight.replication_factor)
    if scenario.acks == "all" and not sight.leaderless and sight.in_sync < least:
        yield (
            f"acks='all' on {named}: min.insync.replicas asks for {least} replicas in sync, and a partition has "
            f"{sight.in_sync} of {sight.replication_factor}; start the brokers again that are down, or use acks=1"
        )
    room = sight.config.get("max.message.bytes")
    largest = largest_batch_bytes(scenario)
    if room is not None and largest > int(room) and scenario.compression is None:
        raised = "set in topic_config" if scenario.topic is None else "have the topic's owner set"
        yield (
            f"{named} takes batches of up to {room} B (max.message.bytes), and this scenario can make one of "
            f"{largest} B (batch_size={scenario.batch_size}, largest record with its batch "
            f"{_largest_alone_bytes(scenario)} B); use a smaller {_too_large(scenario, int(room))}, or "
            f"{raised} max.message.bytes={largest}"
        )


def leaderless(named: str, sight: TopicSight) -> str:
    """What is said of a topic that cannot be used in whole."""
    partitions = ", ".join(map(str, sight.leaderless))
    return f"{named} has no leader for partition {partitions}: brokers of the cluster are down; start them again"


def gone(topic: str) -> str:
    """What is said of a topic that was there when load began."""
    return f"topic {topic!r} is gone: somebody has deleted it while load ran"


def absent(topic: str, visible: Iterable[str]) -> str:
    """What is said of a topic that is not there, with those of a like name."""
    others = sorted(name for name in visible if not name.startswith(("__", PREFIX)))
    hint = nearest(topic, others) if others else ""
    if others and not hint.startswith("did you mean") and len(others) > _FEW_TOPICS:
        hint = f"none of the {len(others)} topics that can be seen has a like name"
    create = "a topic that is named must exist: create it, or leave topic out for one of the run's own"
    return f"topic {topic!r} does not exist{f', {hint}' if hint else ''}; {create}".replace("?;", "?")


def largest_batch_bytes(scenario: Scenario) -> int:
    """The most that a batch of this scenario can have, before compression."""
    return max(scenario.batch_size, _largest_alone_bytes(scenario))


def _largest_alone_bytes(scenario: Scenario) -> int:
    """A batch that holds nothing but the largest record; of samples, which are not read here, nothing is known."""
    if scenario.record_size is None:
        return 0
    value_bytes = scenario.max_record_size
    key_bytes = 0 if scenario.key is None else KEY_BYTES
    body_bytes = (
        4  # attributes, deltas of timestamp and offset, length of the key: a byte each
        + key_bytes
        + size_of_varint(value_bytes)
        + value_bytes
        + size_of_headers(scenario.all_headers)
    )
    return _BATCH_OVERHEAD_BYTES + size_of_varint(body_bytes) + body_bytes


def _too_large(scenario: Scenario, room_bytes: int) -> str:
    too_large = {
        "batch_size": scenario.batch_size > room_bytes,
        "record_size": _largest_alone_bytes(scenario) > room_bytes,
    }
    return " and ".join(name for name, is_too_large in too_large.items() if is_too_large)
