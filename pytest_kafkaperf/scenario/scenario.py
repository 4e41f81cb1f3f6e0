"""What to run: one workload, in Kafka's own words."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from pytest_kafkaperf.core.metrics import LOAD_METRICS
from pytest_kafkaperf.scenario import client_config
from pytest_kafkaperf.scenario.fields import (
    DEFAULT_SIZE,
    Acks,
    Bytes,
    Compression,
    Config,
    Correlation,
    Count,
    Flag,
    Headers,
    Key,
    MarkerFields,
    Payload,
    Ratio,
    RecordRate,
    Records,
    RecordSize,
    Seconds,
    Topic,
    shares_of,
)
from pytest_kafkaperf.scenario.rate import timed_s
from pytest_kafkaperf.scenario.records import HEADER, Samples, Sizes, format_sizes, mean_size

KEY_BYTES = 8
"""A key is an integer of 64 bits, big-endian, as Kafka's LongSerializer writes it."""
TAG_BYTES = 16
"""What end-to-end timing writes into the head of each value: due time and origin (see `load.payload`)."""
RECORDS_TIMEOUT_S = 3600
"""Bound of a closed-loop window that ends after a number of records."""

_OF_THE_TOPIC = ("partitions", "replication_factor", "topic_config")
"""What a topic that exists has already."""
_LENGTHS = frozenset({"records", "duration"})
_DEFAULT_DURATION_S = 5.0
_MAX_CLIENTS = 1000


class Scenario(MarkerFields):
    """One workload. Quantities are base units here: seconds, bytes, records."""

    records: Annotated[Records, Field(ge=1, le=10**12)] | None = None
    """Records of a round; excludes `duration`."""
    duration: Annotated[Seconds, Field(gt=0, le=86_400)] | None = None
    """Seconds in which records are due; where neither is given 5 s, or as long as a longer shape of rates takes."""
    record_size: RecordSize | None = None
    """Bytes of a value, or shares of the records by size; 100 B where nothing is given, None with samples."""
    payload: Payload = "random"
    """What values hold: random bytes (incompressible), zeros, or samples from a file."""
    rate: RecordRate | None = None
    """Records a second over all producers (open loop); None: as fast as they are acknowledged (closed loop)."""
    key: Key | None = None
    """Keys of records; None: they have none."""
    headers: Headers = Field(default_factory=dict)
    """Headers of each record, name to text (UTF-8)."""
    producers: Count = Field(default=1, ge=1, le=_MAX_CLIENTS)
    """Clients that write."""
    client: Literal["batch", "record"] = "batch"
    """`batch`: whole batches are handed to the client library; `record`: one `send()` a record."""
    acks: Acks = "all"
    """Replicas that must have a record before it is acknowledged."""
    batch_size: Annotated[Bytes, Field(ge=1, le=1 << 30)] = 16 * 1024
    """Upper bound of a batch in bytes; a record that is larger travels alone."""
    linger: Annotated[Seconds, Field(le=60)] = 0.005
    """Seconds that a batch waits for more records."""
    compression: Compression = None
    """Codec of batches; None: they are not compressed."""
    idempotence: Flag = False
    """Whether brokers refuse what a producer's retries send twice (KIP-98); needs acks `all`."""
    transaction_size: Annotated[Records, Field(ge=1, le=10**9)] | None = None
    """Records of each transaction of one producer; implies idempotence. None: no transactions."""
    abort_ratio: Annotated[Ratio, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Share of the transactions that are aborted."""
    producer_config: Mapping[str, Any] = Field(default_factory=dict)
    """Further parameters of aiokafka's producer, in its spelling or in Kafka's own."""
    consumers: Count = Field(default=0, ge=0, le=_MAX_CLIENTS)
    """Members of each consumer group."""
    consumer_groups: Count = Field(default=1, ge=1, le=_MAX_CLIENTS)
    """Groups that read the whole topic, each for itself."""
    consume: Literal["live", "backlog"] = "live"
    """`live`: read while the producers write; `backlog`: read what they have written, afterwards."""
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    """Whether consumers get records of open and aborted transactions."""
    consumer_config: Mapping[str, Any] = Field(default_factory=dict)
    """Further parameters of aiokafka's consumer, in its spelling or in Kafka's own."""
    topic: Topic | None = None
    """A topic that exists: written and read, and never created, changed or deleted; None: the run makes its own."""
    output_topic: Topic | None = None
    """A topic that exists, where an application puts what it makes of the records of `topic`: consumers read this one,
    and end-to-end time runs through the application; None: consumers read what was written."""
    correlate: Correlation = None
    """A function from a record of `output_topic` to the first 16 bytes of the value of the record that it was made of;
    None: the application passes the header `kafkaperf-tag` on."""
    partitions: Count = Field(default=6, ge=1, le=10_000)
    """Partitions of the topic; of one that exists, those that the cluster tells before the load."""
    replication_factor: Count = Field(default=1, ge=1, le=100)
    """Replicas of each partition; of a topic that exists as with `partitions`."""
    topic_config: Config = Field(default_factory=dict)
    """Properties of the topic, in Kafka's words."""
    warmup: Annotated[Seconds, Field(le=3600)] = 2.0
    """Seconds of the same load before each window opens."""
    rounds: Count = Field(default=5, ge=1, le=1000)
    """How often the load is measured."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = [
            *self._problems_of_records(),
            *self._problems_of_producers(),
            *self._problems_of_consumers(),
            *self._problems_of_topic(),
            *client_config.problems("producer", self.producer_config),
            *client_config.problems("consumer", self.consumer_config),
        ]
        if problems:
            raise ValueError("; ".join(problems))
        self._set("producer_config", client_config.read(self.producer_config))
        self._set("consumer_config", client_config.read(self.consumer_config))
        if self.records is None and self.duration is None:
            self._set("duration", max(_DEFAULT_DURATION_S, timed_s(self.rate)))
        if self.record_size is None and not isinstance(self.payload, Samples):
            self._set("record_size", DEFAULT_SIZE)
        if self.transaction_size is not None:
            self._set("idempotence", True)
        return self

    @property
    def record_sizes(self) -> Sizes:
        """Shares of the records by size of their values, ascending.

        Raises:
            ValueError: the samples decide.

        """
        if self.record_size is None:
            raise ValueError("the samples decide the sizes of records")
        return shares_of(self.record_size)

    @property
    def mean_record_size(self) -> float:
        """Mean bytes of a value; raises as `record_sizes` does."""
        return mean_size(self.record_sizes)

    @property
    def min_record_size(self) -> int:
        """Bytes of the smallest value; raises as `record_sizes` does."""
        return min(self.record_sizes)

    @property
    def max_record_size(self) -> int:
        """Bytes of the largest value; raises as `record_sizes` does."""
        return max(self.record_sizes)

    @property
    def all_headers(self) -> list[tuple[str, bytes]]:
        """The headers that each record has, in their order: that of its tag, where it has one, is the last."""
        tag = [(HEADER, bytes(TAG_BYTES))] if self.tags_in_header else []
        return [*((name, text.encode()) for name, text in self.headers.items()), *tag]

    @property
    def tags_in_header(self) -> bool:
        """Whether a record's tag is in a header, so that values are left as they are."""
        return self.output_topic is not None and self.correlate is None

    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that load of this scenario can give, in the catalogue's order."""
        return _metrics(
            paced=self.rate is not None,
            read=self.consumers > 0,
            live=self.consume == "live",
            acknowledged=self.acks != 0,
            own_order=self.output_topic is None,
        )

    def _set(self, name: str, value: Any) -> None:
        """For validation only: the scenario is frozen."""
        object.__setattr__(self, name, value)

    def _problems_of_records(self) -> Iterator[str]:
        if self.records is not None and self.duration is not None:
            yield "give 'records' or 'duration', not both"
        if isinstance(self.payload, Samples) and self.record_size is not None:
            yield (
                f"record_size {format_sizes(self.record_size)} with samples: the samples decide the size; leave "
                "record_size out, or take it back by record_size=None"
            )

    def _problems_of_producers(self) -> Iterator[str]:
        needs_all = "idempotence" if self.transaction_size is None else "transaction_size"
        if self.acks != "all" and (self.idempotence or self.transaction_size is not None):
            yield f"{needs_all} with acks={self.acks}: it needs acks='all'; leave one of them out"
        if self.transaction_size is not None and "idempotence" in self.model_fields_set and not self.idempotence:
            yield "transaction_size with idempotence=False: transactions need it; leave idempotence out"
        if self.transaction_size is None and self.abort_ratio:
            yield "abort_ratio without transactions: give transaction_size, for example transaction_size=100"
        timeouts = {"transaction_timeout_ms", "transaction.timeout.ms"}.intersection(self.producer_config)
        if self.transaction_size is None and timeouts:
            yield f"producer_config: {timeouts.pop()!r} without transactions; give transaction_size, or leave it out"

    def _problems_of_consumers(self) -> Iterator[str]:
        for name in ("consumer_groups", "consume", "isolation_level", "consumer_config"):
            if not self.consumers and self._differs(name):
                yield f"{name} without consumers: nobody reads; give consumers=1 or more, or leave {name} out"
        if self.consumers * self.consumer_groups > _MAX_CLIENTS:
            yield (
                f"{self.consumer_groups} groups of {self.consumers} consumers are "
                f"{self.consumers * self.consumer_groups} clients; at most {_MAX_CLIENTS} can be"
            )
        smallest = min(shares_of(self.record_size))
        if self.consumers and smallest < TAG_BYTES and not self.tags_in_header:
            yield (
                f"record_size {smallest} B is too small with consumers: end-to-end timing writes "
                f"{TAG_BYTES} B into each value; use at least {TAG_BYTES} B, or consumers=0"
            )
        if self.consumers and self.acks == 0:
            yield "acks=0 with consumers: what was lost cannot be told from what is late; use acks=1 or 'all'"

    def _differs(self, name: str) -> bool:
        """Whether a field was given, and not as it is by default."""
        field = type(self).model_fields[name]
        return name in self.model_fields_set and getattr(self, name) != field.get_default(call_default_factory=True)

    def _problems_of_topic(self) -> Iterator[str]:
        given = [name for name in _OF_THE_TOPIC if name in self.model_fields_set]
        if self.topic is not None and given:
            yield (
                f"{', '.join(given)} with topic {self.topic!r}: a topic that exists has its own, and is never changed; "
                f"leave {'it' if len(given) == 1 else 'them'} out, or leave topic out for one that the run creates"
            )
        if self.output_topic is None:
            if self.correlate is not None:
                yield "correlate without output_topic: there is nothing to correlate; give output_topic, too"
            return
        asked = f"output_topic {self.output_topic!r}"
        if self.topic is None:
            yield f"{asked} without topic: name the topic that the application reads, for example topic='orders'"
        elif self.topic == self.output_topic:
            yield f"{asked} is topic, too: name the one that the application writes, or leave output_topic out"
        if not self.consumers:
            yield f"{asked} without consumers: nobody reads it; give consumers=1 or more"
        if self.consume != "live":
            yield f"{asked} with consume={self.consume!r}: what comes out is timed as it comes; leave consume out"
        if self.abort_ratio:
            yield f"{asked} with abort_ratio: applications may or may not read what was aborted; leave abort_ratio out"
        if HEADER in self.headers:
            yield f"headers: {HEADER!r} is the one that carries the tag; use another name"


def merge(*levels: Mapping[str, Any]) -> dict[str, Any]:
    """Merge fields from the farthest to the closest level; the closest wins field by field.

    `records` and `duration` are one choice: a level that names either decides both.
    """
    merged: dict[str, Any] = {}
    for level in levels:
        if not _LENGTHS.isdisjoint(level):
            merged = {name: value for name, value in merged.items() if name not in _LENGTHS}
        merged.update(level)
    return merged


@functools.cache  # of a few kinds of load, each test of a session asks again
def _metrics(*, paced: bool, read: bool, live: bool, acknowledged: bool, own_order: bool) -> tuple[str, ...]:
    """`own_order`: records stand in the topic that is read as they were written."""

    def measured(name: str) -> bool:
        family = name.split(".", maxsplit=1)[0]
        if family == "consume":
            return read
        if family in ("e2e", "lag"):
            return read and live
        if name.startswith("produce.delay"):
            return paced
        if name == "reordered" and not own_order:
            return False  # an application may well hand records to other partitions
        return acknowledged or name not in ("lost", "duplicated", "reordered")

    return tuple(filter(measured, LOAD_METRICS))
