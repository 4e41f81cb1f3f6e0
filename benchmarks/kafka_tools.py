"""Kafka's own performance tools, of the broker's version: their jar, command lines and output."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kafkaperf.clusters.brokers import distribution, downloads, java

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from children import Line

_JVM_OPTIONS = (
    # The values of bin/kafka-producer-perf-test.sh and bin/kafka-consumer-perf-test.sh (KAFKA_HEAP_OPTS), and those of
    # bin/kafka-run-class.sh for every tool (KAFKA_JVM_PERFORMANCE_OPTS).
    "-Xmx512M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
    # As in config/tools-log4j2.yaml.
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)

_PRODUCED = re.compile(r"(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec .* 99\.9th\.")
"""The summary at the end; interval lines have no percentiles."""


class ToolError(Exception):
    """Output of a tool that lacks the expected numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The tools of one version, ready to run."""

    java: Path
    classpath: str

    def produce(
        self, servers: str, topic: str, *, records: int, record_size_bytes: int, config: Mapping[str, str]
    ) -> list[str]:
        """Return the command line of `kafka-producer-perf-test`, without a limit of its rate.

        `--producer-props` has a successor since 4.2, which older versions do not know.
        """
        properties = [f"{name}={value}" for name, value in {"bootstrap.servers": servers, **config}.items()]
        return [
            *self._tool("org.apache.kafka.tools.ProducerPerformance"),
            *("--topic", topic, "--num-records", str(records), "--record-size", str(record_size_bytes)),
            *("--throughput", "-1", "--producer-props", *properties),
        ]

    def consume(self, servers: str, topic: str, *, records: int, group: str) -> list[str]:
        """Return the command line of `kafka-consumer-perf-test`; `--messages` has a successor since 4.2, too."""
        return [
            *self._tool("org.apache.kafka.tools.ConsumerPerformance"),
            *("--bootstrap-server", servers, "--topic", topic, "--messages", str(records), "--group", group),
        ]

    def _tool(self, name: str) -> list[str]:
        return [str(self.java), *_JVM_OPTIONS, "-cp", self.classpath, name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """The last line of `kafka-producer-perf-test`."""

    records: int
    rate: float
    """Records a second, from before the first `send()` to after `close()`."""
    ended_s: float
    """The instant at which the tool printed it, by `time.monotonic`."""

    @property
    def began_s(self) -> float:
        """The instant at which it began to send: its end minus the time that follows from its own numbers."""
        return self.ended_s - self.records / self.rate


def installed_tools(version: str) -> Tools:
    """Return the tools of a version whose broker has been started, so that its jars are in the cache.

    This fetches only the jar of the tools themselves. The rest are the broker's jars: if both are resolved together,
    another coordinate can pull in an older kafka-clients.
    """
    runtime, cache = java.find(), distribution.cache_folder()
    kafka = distribution.installed(version, java=runtime, cache=cache)
    jar = cache / "tools" / f"kafka-tools-{version}.jar"
    if not jar.exists():
        _fetch(version, jar)
    return Tools(java=runtime.path, classpath=os.pathsep.join(map(str, (jar, *kafka.classpath))))


def read_produced(lines: Sequence[Line]) -> Produced:
    """Read the summary of one producer.

    Raises:
        ToolError: there is none.

    """
    for line in reversed(lines):
        found = _PRODUCED.match(line.text)
        if found:
            return Produced(records=int(found["records"]), rate=float(found["rate"]), ended_s=line.at_s)
    raise ToolError(f"kafka-producer-perf-test printed no summary: {[line.text for line in lines[-3:]]}")


def read_consumed(lines: Sequence[Line], *, records: int) -> dict[str, float]:
    """Read the numbers of one consumer, by the header's names: `nMsg.sec`, `fetch.nMsg.sec` and others.

    Raises:
        ToolError: there are none, or it read fewer records than asked.

    """
    rows = [[cell.strip() for cell in line.text.split(",")] for line in lines]
    header = next((row for row in rows if "nMsg.sec" in row), None)
    if header is None or len(rows[-1]) != len(header):
        raise ToolError(f"kafka-consumer-perf-test printed no numbers: {[line.text for line in lines[-3:]]}")
    cells = dict(zip(header, rows[-1], strict=True))
    values = {name: float(text) for name, text in cells.items() if not name.endswith(".time")}
    if values["data.consumed.in.nMsg"] < records:
        raise ToolError(f"kafka-consumer-perf-test read {values['data.consumed.in.nMsg']:.0f} of {records} records")
    return values


def _fetch(version: str, jar: Path) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jar.parent) as scratch:
        tools, fetched = f"org.apache.kafka:kafka-tools:{version}", Path(scratch) / "fetched"
        downloads.fetch_one("Kafka's tools", tools, scratch=fetched, target=jar).rename(jar)
