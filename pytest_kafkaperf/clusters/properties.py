"""What a broker of the session is told: Kafka's properties. Pure; a provider decides on addresses and files.

Every broker is a controller, too, and has three listeners: CLIENT, which is what a test sees and what `security`
protects, INTERNAL between brokers, and CONTROLLER between controllers; these two are plaintext, on loopback or on a
network of the cluster's own.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

CLIENT, INTERNAL, CONTROLLER = LISTENERS = ("CLIENT", "INTERNAL", "CONTROLLER")

_MAX_INTERNAL_REPLICAS = 3
"""Kafka's own default for its internal topics, where there are so many brokers."""
_INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One broker of a cluster; addresses are `HOST:PORT` by listener."""

    id: int
    bound: Mapping[str, str]
    """Where it listens."""
    advertised: Mapping[str, str]
    """Where the others, or clients, find it."""


def broker_properties(
    node: Node, nodes: Sequence[Node], *, log_folder: str, protection: Mapping[str, str], config: Mapping[str, str]
) -> dict[str, str]:
    """All properties of one broker.

    Args:
        node: the broker.
        nodes: all brokers of the cluster, it among them.
        log_folder: where its data goes.
        protection: properties that protect CLIENT, with its protocol under the key `CLIENT`; see `security`.
        config: of the spec; overrides everything but what makes this broker this one (`spec.OWN_PROPERTIES`).

    """
    protocols = {CLIENT: "PLAINTEXT", INTERNAL: "PLAINTEXT", CONTROLLER: "PLAINTEXT"}
    protected = dict(protection)
    protocols[CLIENT] = protected.pop(CLIENT, "PLAINTEXT")
    identity = {
        "process.roles": "broker,controller",
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(f"{each.id}@{each.advertised[CONTROLLER]}" for each in nodes),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": INTERNAL,
        "listeners": _joined("://", {name: node.bound[name] for name in LISTENERS}),
        "advertised.listeners": _joined("://", {name: node.advertised[name] for name in (CLIENT, INTERNAL)}),
        "listener.security.protocol.map": _joined(":", protocols),
        "log.dirs": log_folder,
    }
    return {**standing(len(nodes)), **config, **protected, **identity}


def standing(brokers: int) -> dict[str, str]:
    """What differs from Kafka's own defaults in every cluster of so many brokers that a session starts."""
    replicas = min(brokers, _MAX_INTERNAL_REPLICAS)
    internal = {}
    for topic in _INTERNAL_TOPICS:
        internal[f"{topic}.replication.factor"] = str(replicas)
        # 50 partitions each are created at the first use, in the middle of somebody's warm-up.
        internal[f"{topic}.num.partitions"] = "5"
    for topic in _INTERNAL_TOPICS[1:]:
        internal[f"{topic}.min.isr"] = str(max(1, replicas - 1))
    return {
        **internal,
        # Consumers of a test start at once: there is nobody to wait 3 s for.
        "group.initial.rebalance.delay.ms": "0",
        # A misspelt topic is an error.
        "auto.create.topics.enable": "false",
        # A topic that is deleted gives its disk space back at once, and its pages that are not written yet: kept for a
        # minute, as by default, they would slow down what is measured next (here to half, once 2 GB were dirty).
        "log.segment.delete.delay.ms": "100",
        "log.initial.task.delay.ms": "500",
    }


def new_uuid() -> str:
    """A UUID as Kafka writes it: base64 without padding; Kafka refuses a leading `-`."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")
        if not text.startswith("-"):
            return text


def _joined(between: str, texts: Mapping[str, str]) -> str:
    return ",".join(f"{name}{between}{text}" for name, text in texts.items())
