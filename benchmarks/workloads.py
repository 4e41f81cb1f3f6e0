"""The workloads, and the claims on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_kafkaperf.core.units import Unit

PARTITIONS = 6
ACKS = 1
BATCH_BYTES = 16 * 1024
LINGER_MS = 5
"""Settings of all contenders, without compression; every other setting is the default of each."""

OURS = "pytest-kafkaperf"
PRODUCER_TOOL = "kafka-producer-perf-test"
CONSUMER_TOOL = "kafka-consumer-perf-test"
LIBRDKAFKA = "confluent-kafka"
LIBRDKAFKA_TUNED = "confluent-kafka, tuned"
"""librdkafka with a larger queue than its default, with which it pauses."""

THROUGHPUT = "records/s"
"""The throughput, as each contender reports it."""
FETCH_THROUGHPUT = "fetch records/s"
"""The throughput of `kafka-consumer-perf-test` without the time of joining the group: `fetch.nMsg.sec`."""
CPU = "CPU s/M records"
"""User and system seconds of the whole client processes, start-up included, by million records."""

UNITS = {THROUGHPUT: Unit.RECORD_RATE, FETCH_THROUGHPUT: Unit.RECORD_RATE, CPU: Unit.CPU_COST}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One row of the table: a result of this project against one of another tool."""

    rival: str
    name: str = THROUGHPUT
    rival_name: str | None = None
    """The name of the other tool's result, if it differs."""
    at_least: float | None = None
    """Bound of the ratio of ours to theirs; a row without one only informs."""
    at_most: float | None = None

    def is_met(self, ratio: float) -> bool | None:
        """Return True if this ratio is within the bound; None without a bound."""
        if self.at_least is not None:
            return ratio >= self.at_least
        return None if self.at_most is None else ratio <= self.at_most

    def target(self) -> str:
        """Format the bound."""
        if self.at_least is not None:
            return f">= {self.at_least:.1f}x"
        return "" if self.at_most is None else f"<= {self.at_most:.2f}x"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload that every contender runs in turn."""

    name: str
    title: str
    action: Literal["produce", "drain"]
    records: int
    """Records in all; each producer sends an equal part."""
    record_size_bytes: int
    producers: int = 1
    claims: tuple[Claim, ...]

    @property
    def contenders(self) -> tuple[str, ...]:
        """The contenders: ours first, then the others in the order of the claims."""
        return (OURS, *dict.fromkeys(claim.rival for claim in self.claims))


def _against_tool(at_least: float) -> tuple[Claim, ...]:
    return (
        Claim(rival=PRODUCER_TOOL, at_least=at_least),
        Claim(rival=PRODUCER_TOOL, name=CPU, at_most=1 / 3),
    )


WORKLOADS = (
    Workload(
        name="produce-100B",
        title="produce, 100 B",
        action="produce",
        records=3_000_000,
        record_size_bytes=100,
        claims=(*_against_tool(2.0), Claim(rival=LIBRDKAFKA, at_least=1.5), Claim(rival=LIBRDKAFKA, name=CPU)),
    ),
    Workload(
        name="produce-1KiB",
        title="produce, 1 KiB",
        action="produce",
        records=500_000,
        record_size_bytes=1024,
        claims=_against_tool(1.0),
    ),
    Workload(
        name="produce-10KiB",
        title="produce, 10 KiB",
        action="produce",
        records=100_000,
        record_size_bytes=10 * 1024,
        claims=_against_tool(1.0),
    ),
    Workload(
        name="produce-100B-x3",
        title="produce, 100 B, 3 producers",
        action="produce",
        records=9_000_000,
        record_size_bytes=100,
        producers=3,
        claims=_against_tool(1.5),
    ),
    Workload(
        name="drain-100B",
        title="drain, 100 B",
        action="drain",
        records=5_000_000,
        record_size_bytes=100,
        claims=(
            Claim(rival=CONSUMER_TOOL, at_least=1.2),
            Claim(rival=CONSUMER_TOOL, rival_name=FETCH_THROUGHPUT),
            Claim(rival=LIBRDKAFKA, at_least=1.5),
            Claim(rival=LIBRDKAFKA_TUNED),
        ),
    ),
)
