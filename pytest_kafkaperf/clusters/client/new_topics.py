"""New topics of a run: the request, and the problems of one that the cluster refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.protocol import admin, api

from pytest_kafkaperf.scenarios.scenario import Scenario


class _CreateTopicsStruct(admin.CreateTopicsRequest_v3):  # type: ignore[misc] # aiokafka ships no types
    """CreateTopics v4: as v3, but a replication factor of -1 is the cluster's default (KIP-464)."""

    API_VERSION = 4


class CreateTopic(api.Request[admin.CreateTopicsRequest_v3 | _CreateTopicsStruct]):  # type: ignore[misc]
    """Requests a new topic; aiokafka's own request has no version 4."""

    API_KEY = 19

    def __init__(
        self, topic: str, partitions: int, replication_factor: int | None, config: Mapping[str, str], timeout_ms: int
    ) -> None:
        self.topic, self.config = topic, config
        replicas = -1 if replication_factor is None else replication_factor
        self._new: tuple[Any, ...] = (topic, partitions, replicas, [], list(config.items()))
        self._timeout_ms = timeout_ms

    def build(self, request_struct_class: type[Any]) -> Any:
        """Build the request; aiokafka calls it."""
        if self._new[2] < 0 and request_struct_class is not _CreateTopicsStruct:
            raise kafka_errors.IncompatibleBrokerVersion(
                "brokers before Kafka 2.4 have no default replication factor for requests; give replication_factor"
            )
        return request_struct_class([self._new], self._timeout_ms, False)


def replicas_problem(wanted: int | None, brokers: int, servers: str, reason: str) -> str:
    """Return the problem of a replication factor that the cluster refuses; None is the cluster's own default."""
    if wanted is None:
        return (
            f"the cluster at {servers} has {brokers} brokers and refuses its own default.replication.factor "
            f"({reason}); give replication_factor={brokers} or less"
        )
    if wanted > brokers:
        return (
            f"replication_factor={wanted} needs {wanted} brokers, and the cluster at {servers} has {brokers} "
            f"({reason}); use replication_factor={brokers} or less, or a cluster of {wanted} brokers"
        )
    return (
        f"the cluster at {servers} refuses replication_factor={wanted} ({reason}); give the one that it demands, or "
        "leave replication_factor out to use its default"
    )


def policy_problem(scenario: Scenario, config: Mapping[str, str], reason: str) -> str:
    """Return the problem of a topic that the cluster's policy forbids, with what the plugin asked for."""
    replicas = "left to the cluster" if scenario.replication_factor is None else scenario.replication_factor
    given = {"partitions": scenario.partitions, "replication_factor": replicas, **config}
    wanted = ", ".join(f"{name}={value}" for name, value in given.items())
    return (
        f"its policy for new topics forbids it: {reason} (requested: {wanted}); set partitions, replication_factor or "
        "topic_config to what the policy demands, or use an existing topic: topic='NAME'"
    )
