"""The contenders: how each of them runs a workload, and what it measures."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from children import ChildError, run_together
from kafka_tools import ToolError, read_consumed, read_produced
from workloads import (
    ACKS,
    BATCH_BYTES,
    CONSUMER_TOOL,
    CPU,
    FETCH_THROUGHPUT,
    LIBRDKAFKA,
    LIBRDKAFKA_TUNED,
    LINGER_MS,
    PARTITIONS,
    PRODUCER_TOOL,
    THROUGHPUT,
)

from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_tools import Tools
    from workloads import Workload

    from pytest_kafkaperf.clusters.cluster import Cluster

RUN_TIMEOUT_S = 300
"""Timeout of one run of one contender."""

_FOLDER = Path(__file__).parent
_PRODUCER_CONFIG = {"acks": str(ACKS), "batch.size": str(BATCH_BYTES), "linger.ms": str(LINGER_MS)}
"""The settings of Kafka's own producer and of librdkafka."""

Values = dict[str, float]
"""Results by their names in `workloads`: throughput in records a second, CPU in seconds per million records."""


class ContenderError(Exception):
    """A failed run of a workload; the text says why it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arena:
    """The things that all contenders share: one broker, and the tools of its version."""

    cluster: Cluster
    tools: Tools

    @contextlib.contextmanager
    def topic(self) -> Iterator[str]:
        """Create an empty topic and delete it afterwards; this project's generator creates its own in the same way."""
        admin = Admin(self.cluster.bootstrap_servers, self.cluster.access)
        name = f"kafkaperf-benchmark-{secrets.token_hex(4)}"
        admin.create_topic(name, Scenario.of({"partitions": PARTITIONS}))
        try:
            yield name
        finally:
            admin.delete_topic(name)

    @contextlib.contextmanager
    def backlog(self, workload: Workload) -> Iterator[str | None]:
        """Return the topic that the other tools drain, filled once by Kafka's own producer; None without a drain."""
        if workload.action == "produce":
            yield None
            return
        with self.topic() as topic:
            run_together(_tool_commands(self, topic, workload), timeout_s=RUN_TIMEOUT_S)
            yield topic


def compete(contender: str, arena: Arena, workload: Workload, backlog: str | None) -> Values:
    """Let a contender run a workload once.

    Raises:
        ContenderError: it failed; the text says why.

    """
    try:
        if backlog is not None and contender in _DRAINING:
            return _DRAINING[contender](arena, workload, backlog)
        if contender in _PRODUCING:
            with arena.topic() as topic:
                return _PRODUCING[contender](arena, workload, topic)
        return _ours(arena, workload)
    except (ChildError, ToolError) as error:
        raise ContenderError(f"{contender} {error}") from error


def _ours(arena: Arena, workload: Workload) -> Values:
    """Run the scenario as a test would declare it, with a cold client and in a separate process.

    CPU covers more than the load, as it does for the tools: at least two starts of Python, creating and deleting the
    topic, and comparing its offsets with the acknowledgements.
    """
    fields = {
        "records": workload.records,
        "record_size": workload.record_size_bytes,
        "producers": workload.producers,
        "partitions": PARTITIONS,
        "acks": ACKS,
        "batch_size": BATCH_BYTES,
        "linger": f"{LINGER_MS} ms",
        "warmup": 0,
        "rounds": 1,
    }
    if workload.action == "drain":
        fields |= {"consumers": 1, "consume": "after"}
    command = [sys.executable, str(_FOLDER / "run_ours.py"), arena.cluster.bootstrap_servers, json.dumps(fields)]
    ended = run_together([command], timeout_s=RUN_TIMEOUT_S)
    told = json.loads(ended.outputs[0][-1].text)
    if workload.action == "drain":
        return {THROUGHPUT: told["metrics"]["consume.throughput"]}
    return {
        THROUGHPUT: told["metrics"]["produce.throughput"],
        CPU: _by_million(ended.cpu_s + told["cpu_s"], workload),
    }


def _producer_tool(arena: Arena, workload: Workload, topic: str) -> Values:
    """Run one process for each producer. Several count from the first start of sending to the last end."""
    ended = run_together(_tool_commands(arena, topic, workload), timeout_s=RUN_TIMEOUT_S)
    produced = [read_produced(lines) for lines in ended.outputs]
    span_s = max(each.ended_s for each in produced) - min(each.began_s for each in produced)
    throughput = produced[0].rate if len(produced) == 1 else sum(each.records for each in produced) / span_s
    return {THROUGHPUT: throughput, CPU: _by_million(ended.cpu_s, workload)}


def _consumer_tool(arena: Arena, workload: Workload, topic: str) -> Values:
    group = f"{topic}-{secrets.token_hex(4)}"
    command = arena.tools.consume(arena.cluster.bootstrap_servers, topic, records=workload.records, group=group)
    ended = run_together([command], timeout_s=RUN_TIMEOUT_S)
    values = read_consumed(ended.outputs[0], records=workload.records)
    return {THROUGHPUT: values["nMsg.sec"], FETCH_THROUGHPUT: values["fetch.nMsg.sec"]}


def _librdkafka_produce(arena: Arena, workload: Workload, topic: str) -> Values:
    size_bytes = workload.record_size_bytes
    return _librdkafka("produce", arena, workload, topic, record_size_bytes=size_bytes, config=_PRODUCER_CONFIG)


def _librdkafka_drain(arena: Arena, workload: Workload, topic: str) -> Values:
    return {THROUGHPUT: _librdkafka("drain", arena, workload, topic, config={})[THROUGHPUT]}


def _librdkafka_tuned_drain(arena: Arena, workload: Workload, topic: str) -> Values:
    """Drain with a larger queue: by default librdkafka stops fetching for a second at 100,000 queued messages."""
    config = {"queued.min.messages": "1000000"}
    return {THROUGHPUT: _librdkafka("drain", arena, workload, topic, config=config)[THROUGHPUT]}


def _librdkafka(action: str, arena: Arena, workload: Workload, topic: str, **more: Any) -> Values:
    if importlib.util.find_spec("confluent_kafka") is None:
        raise ChildError("is not installed; run: pip install --group benchmarks")
    assignment = {
        "servers": arena.cluster.bootstrap_servers,
        "topic": topic,
        "records": workload.records,
        **more,
    }
    command = [sys.executable, str(_FOLDER / "run_librdkafka.py"), action, json.dumps(assignment)]
    ended = run_together([command], timeout_s=RUN_TIMEOUT_S)
    told = json.loads(ended.outputs[0][-1].text)
    return {THROUGHPUT: told["records"] / told["elapsed_s"], CPU: _by_million(ended.cpu_s, workload)}


def _tool_commands(arena: Arena, topic: str, workload: Workload) -> list[list[str]]:
    """Return one command for each producer; each sends an equal part."""
    command = arena.tools.produce(
        arena.cluster.bootstrap_servers,
        topic,
        records=workload.records // workload.producers,
        record_size_bytes=workload.record_size_bytes,
        config=_PRODUCER_CONFIG,
    )
    return [command] * workload.producers


def _by_million(cpu_s: float, workload: Workload) -> float:
    return cpu_s / (workload.records / 1e6)


_PRODUCING: dict[str, Callable[[Arena, Workload, str], Values]] = {
    PRODUCER_TOOL: _producer_tool,
    LIBRDKAFKA: _librdkafka_produce,
}
_DRAINING: dict[str, Callable[[Arena, Workload, str], Values]] = {
    CONSUMER_TOOL: _consumer_tool,
    LIBRDKAFKA: _librdkafka_drain,
    LIBRDKAFKA_TUNED: _librdkafka_tuned_drain,
}
