"""Scenario: the workload of a test, in Kafka's terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.core.metrics import FEWEST_RECORDS, LOAD_METRICS, READING_METRICS, STEADINESS_METRICS
from pytest_kafkaperf.scenarios import fields
from pytest_kafkaperf.scenarios.fields import DEFAULT_SIZE, Count, MarkerFields, RecordRate, Seconds, shares_of
from pytest_kafkaperf.scenarios.identify import BY_HEADER, HEADER, ONE
from pytest_kafkaperf.scenarios.payloads import Generated, Samples, Sizes, format_sizes, mean_size
from pytest_kafkaperf.scenarios.rate import is_steady, peak_rate, timed_s

KEY_BYTES = 8
"""Size of a key: a 64-bit big-endian integer, as Kafka's LongSerializer writes it."""
TAG_BYTES = 16
"""Size of the tag at the start of each value, for end-to-end timing: due time and origin (see `load.payload`)."""
RECORDS_TIMEOUT_S = 3600
"""Maximum duration of a closed-loop window that ends after a number of records."""

_TOPIC_PROPERTIES = ("partitions", "replication_factor", "topic_config")
"""Fields that apply only to topics that the plugin creates."""
_LENGTHS = frozenset({"records", "duration"})
_OF_READING = ("topic", "producers", "consum", "isolation_level", "warmup", "rounds", *_TOPIC_PROPERTIES)
"""Prefixes of the fields that apply even without producers."""
_DEFAULT_DURATION_S = 5.0
"""Maximum default duration. Tests whose rounds have a constant rate can use a shorter one (see `runner.perftest`)."""
_MAX_CLIENTS = 1000
_GROUP = (
    "set watch_group to measure an application's consumer group; the plugin chooses the groups for its own consumers"
)
_TRANSACTIONS = (
    "set transaction_size to use transactions, for example transaction_size=100, and "
    "isolation_level='read_committed' for consumers"
)
_THRESHOLDS = "declare thresholds with the marker kafka_threshold('produce.latency.p99 <= 25 ms')"
_OF_CLUSTER = (
    *("brokers", "version", "image", "config", "security", "jmx", "heap", "log_dirs"),
    *("quick_compiler", "logs_in_memory"),
)
_HINTS = {
    "group": _GROUP,
    "group_id": _GROUP,
    "consumer_group": _GROUP,
    "replicas": "did you mean 'replication_factor'?",
    "min_insync_replicas": "set the topic's property: topic_config={'min.insync.replicas': 2}",
    "exactly_once": _TRANSACTIONS,
    "transactional": _TRANSACTIONS,
    "transactional_id": _TRANSACTIONS,
    "threshold": _THRESHOLDS,
    "thresholds": _THRESHOLDS,
    **{name: f"declare it with the marker kafka_cluster({name}=...)" for name in _OF_CLUSTER},
}


class Scenario(MarkerFields):
    """Workload, with quantities in base units: seconds, bytes, records."""

    hints: ClassVar[Mapping[str, str]] = MappingProxyType(_HINTS)

    records: Annotated[fields.Records, Field(ge=1, le=10**12)] | None = None
    """Number of records in each round; cannot be combined with `duration`."""
    duration: Annotated[Seconds, Field(gt=0, le=86_400)] | None = None
    """Duration of each round's window. Default without `records`: 2 s, or up to 5 s if fewer than 50 records would
    otherwise be above a quantile with a threshold. For a ramp or steps: their total duration, but at least 5 s."""
    record_size: fields.RecordSize | None = None
    """Size of each value, or a distribution of sizes (share of records by size). Default: 100 B; None with samples or a
    payload function."""
    payload: fields.Payload = "random"
    """Content of records: random bytes (incompressible), zeros, samples from a file, a template, or a function
    `(index, random)` that returns a value or a `Record`. With `{"function": FUNCTION, "pool": 10_000}`, this number of
    records is generated in advance and sent repeatedly."""
    rate: RecordRate | None = None
    """Records/s across all producers (open loop); None: as fast as brokers acknowledge records (closed loop)."""
    backlog: Annotated[fields.Records, Field(ge=0, le=10**12)] = 0
    """Number of records that the plugin writes before the load without measuring them, either at full speed or, on an
    external cluster, at the load's highest `rate`. When the window opens, consumers of a new topic start reading,
    and the plugin starts `kafka_app` applications."""
    key: fields.Key | None = None
    """Distribution of record keys; None: no keys."""
    headers: fields.Headers = Field(default_factory=dict)
    """Headers for each record: a mapping of names to UTF-8 text."""
    producers: Count = Field(default=1, ge=0, le=_MAX_CLIENTS)
    """Number of producers; 0: write nothing, and read all records that an existing `topic` contains when the window
    opens."""
    client: Literal["batch", "record"] = "batch"
    """`batch`: producers pass whole batches to the client library; `record`: they call `send()` for each record."""
    acks: fields.Acks = "all"
    """Replicas that must store a record before the broker acknowledges it."""
    batch_size: Annotated[fields.Bytes, Field(ge=1, le=1 << 30)] = 16 * 1024
    """Maximum batch size; a larger record is sent in a separate batch."""
    linger: Annotated[Seconds, Field(le=60)] = 0.005
    """Maximum time that a batch waits for more records."""
    compression: fields.Compression = None
    """Compression codec for batches; None: no compression."""
    idempotence: fields.Flag = False
    """Idempotent producers: brokers discard duplicates caused by retries (KIP-98); requires acks `all`. Unlike in the
    Java client, this is off by default, because it allows only one in-flight batch per partition; Java allows five."""
    transaction_size: Annotated[fields.Records, Field(ge=1, le=10**9)] | None = None
    """Number of records in each transaction; implies idempotence. None: no transactions."""
    abort_ratio: Annotated[fields.Ratio, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.0
    """Share of transactions that producers abort."""
    producer_config: Mapping[str, Any] = Field(default_factory=dict)
    """Other parameters for the client library's producer, named as in the library or in Kafka."""
    consumers: Count = Field(default=0, ge=0, le=_MAX_CLIENTS)
    """Number of consumers in each consumer group."""
    consumer_groups: Count = Field(default=1, ge=1, le=_MAX_CLIENTS)
    """Number of consumer groups, each of which reads the whole topic."""
    consume: Literal["live", "after"] = "live"
    """`live`: consumers read while producers write; `after`: they read all records after producers have finished."""
    isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted"
    """`read_committed` hides the records of open and aborted transactions from consumers."""
    consumer_config: Mapping[str, Any] = Field(default_factory=dict)
    """Other parameters for the client library's consumer, named as in the library or in Kafka."""
    topic: fields.Topic | None = None
    """Topic to write to and read from. If the plugin starts the brokers, it creates a missing topic before `kafka_app`
    starts an application, and deletes it after the test. On other clusters, the topic must already exist and is never
    changed. None: a new topic for each load."""
    output_topic: fields.Topic | None = None
    """Existing topic to which an application writes its results from `topic`. Consumers read this topic, so end-to-end
    latency includes the application. None: consumers read the producers' records."""
    identify: fields.Identification = BY_HEADER
    """Part of a record that identifies it, to match each record from `output_topic` with its input record:
    `header` (the application copies the header `kafkaperf-tag`), `key`, `json:FIELD`, a function that takes a record,
    or `value:16` (the plugin writes a tag into the first 16 bytes of the value). If the application renames the
    identity: a mapping with `input` and `output`."""
    expect: fields.Expectation = ONE
    """Number of records in `output_topic` for each input record, or a range that starts with 0, such as `0..3`."""
    dead_letter_topic: fields.Topic | None = None
    """Existing topic to which an application writes the records that it cannot process; `app.dead_letters` counts
    them. None: not counted."""
    watch_group: fields.Groups = ()
    """Consumer group of an application that reads `topic`, or a list of groups. The plugin computes lag, delay and
    drain time from the groups' committed offsets. Each metric reports the slowest group's value."""
    partitions: Count = Field(default=6, ge=1, le=10_000)
    """Number of partitions in topics that the plugin creates; an existing topic keeps its partitions."""
    replication_factor: Annotated[Count, Field(ge=1, le=100)] | None = None
    """Number of replicas of each partition; None: the cluster's default. For an existing topic, the plugin reads the
    number from the cluster."""
    topic_config: fields.Config = Field(default_factory=dict)
    """Topic properties, named as in Kafka."""
    warmup: Annotated[Seconds, Field(le=3600)] = 0.5
    """Duration of the warm-up before each round's window, with the same load."""
    rounds: Count = Field(default=5, ge=1, le=1000)
    """Number of rounds in a trial."""

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        problems = [
            *self._problems_of_records(),
            *self._problems_of_producers(),
            *self._problems_of_consumers(),
            *self._problems_without_producers(),
            *self._problems_of_group(),
            *self._problems_of_backlog(),
            *self._problems_of_output(),
            *self._problems_of_identities(),
            *self._problems_of_dead_letters(),
            *(() if info.context is None else info.context(self)),
        ]
        if problems:
            raise ValueError("; ".join(problems))
        self._set("producer_config", _in_one_spelling(self.producer_config))
        self._set("consumer_config", _in_one_spelling(self.consumer_config))
        if not self.producers:
            self._set("consume", "after")
        elif self.records is None and self.duration is None:
            self._set("duration", max(_DEFAULT_DURATION_S, timed_s(self.rate)))
        if self.record_size is None and not isinstance(self.payload, Samples | Generated):
            self._set("record_size", DEFAULT_SIZE)
        if self.transaction_size is not None:
            self._set("idempotence", True)
        return self

    @property
    def record_sizes(self) -> Sizes:
        """Share of records by value size, in ascending order.

        Raises:
            ValueError: the payload consists of samples or comes from a function, which define the sizes.

        """
        if self.record_size is None:
            raise ValueError("record_sizes is undefined, because this payload defines the sizes")
        return shares_of(self.record_size)

    @property
    def mean_record_size(self) -> float:
        """Mean size of a value in bytes; raises the same errors as `record_sizes`."""
        return mean_size(self.record_sizes)

    @property
    def all_headers(self) -> list[tuple[str, bytes]]:
        """Each record's headers in order; the header for the tag, if any, is last."""
        tag = [(HEADER, bytes(TAG_BYTES))] if self.tags_in_header else []
        return [*((name, text.encode()) for name, text in self.headers.items()), *tag]

    @property
    def tags_in_header(self) -> bool:
        """True if records carry their tag in a header instead of the value, because the value must stay unchanged."""
        keeps_values = self.output_topic is not None or bool(self.watch_group) or isinstance(self.payload, Generated)
        return keeps_values and self.identify.input.kind == "header"

    @property
    def joins_identities(self) -> bool:
        """True if records carry no tag, and an application's output is joined with its input by their identities."""
        return not self.identify.by_tag

    @property
    def catches_up(self) -> bool:
        """True if consumers start to read a backlog when the window opens."""
        return bool(self.backlog and self.consumers) and self.topic is None

    def refuse_topic_properties(self) -> None:
        """Reject properties for a new topic, because the scenario's topic already exists.

        Raises:
            ScenarioError: the scenario has such properties; the message lists them.

        """
        given = [name for name in _TOPIC_PROPERTIES if name in self.model_fields_set]
        if self.topic is not None and given:
            raise ScenarioError(
                f"{', '.join(given)} cannot be combined with topic {self.topic!r}, because the plugin did not create it"
                f" and never changes existing topics; remove {'it' if len(given) == 1 else 'them'}, or remove topic to "
                "use a new topic"
            )

    def metrics(self) -> tuple[str, ...]:
        """Return the names of the metrics that this scenario's load measures, in the catalog's order."""
        if not self.producers:
            return READING_METRICS
        measured = {
            **dict.fromkeys(STEADINESS_METRICS, is_steady(self.rate, records=self.records, duration=self.duration)),
            "produce.delay": self.rate is not None,
            "app.output_ratio": self.output_topic is not None and self.expect.most > 0,
            "app.dead_letters": self.dead_letter_topic is not None,
            "unsent": self.rate is not None,
            "consume": self.consumers > 0,
            "e2e": self.consumers > 0 and self.consume == "live",
            "lag": self.consumers > 0 and self.consume == "live" and self.expect == ONE,
            "rebalance": self.consumers > 0,
            "catchup": self.catches_up,
            "lost": self.acks != 0,
            "duplicated": self.acks != 0,
            **dict.fromkeys(
                ("app.lag", "app.throughput", "app.delay", "app.drain", "app.rebalance"), bool(self.watch_group)
            ),
            "reordered": self.acks != 0 and self.output_topic is None,  # applications may repartition records
        }
        absent = tuple(prefix for prefix, present in measured.items() if not present)
        most = self._most_records()
        rare = tuple(f".{part}" for part, fewest in FEWEST_RECORDS.items() if most is not None and most < fewest)
        return tuple(name for name in LOAD_METRICS if not name.startswith(absent) and not name.endswith(rare))

    def _most_records(self) -> float | None:
        """Return the maximum number of records in a round; None if it depends on the cluster."""
        if self.records is not None or self.rate is None or self.duration is None:
            return self.records
        return peak_rate(self.rate) * self.duration

    def _set(self, name: str, value: Any) -> None:
        """Set a field during validation, even though the model is frozen."""
        object.__setattr__(self, name, value)

    def _problems_of_records(self) -> Iterator[str]:
        if self.records is not None and self.duration is not None:
            yield "records and duration cannot be combined; give only one of them"
        if isinstance(self.payload, Samples) and self.record_size is not None:
            yield (
                f"record_size {format_sizes(self.record_size)} cannot be combined with samples, which define the "
                "sizes; remove record_size, or set record_size=None to override another marker"
            )
        if isinstance(self.payload, Generated):
            yield from self._problems_of_generated(self.payload)

    def _problems_of_generated(self, payload: Generated) -> Iterator[str]:
        if self.record_size is not None:
            yield (
                f"record_size {format_sizes(self.record_size)} cannot be combined with a payload function, which "
                "defines the sizes; remove record_size, or set record_size=None to override another marker"
            )
        if self.identify.input.kind == "value":
            yield (
                "identify='value:16' cannot be combined with a payload function, because it would overwrite the start "
                "of each value; use 'header', 'key', 'json:FIELD' or a function"
            )
        has_own_keys = self.identify.input.kind == "key" and self.key is not None and self.key.kind == "sequential"
        if payload.pool is not None and self.joins_identities and not has_own_keys:
            yield (
                f"identify={str(self.identify.input)!r} requires a different identity for each record, but the records "
                f"of a pool repeat; remove pool, or set key='sequential' and identify='key'"
            )
        if self.client == "record":
            yield "a payload function requires client='batch'; remove client"

    def _problems_of_producers(self) -> Iterator[str]:
        needs_all = "idempotence" if self.transaction_size is None else "transaction_size"
        if self.acks != "all" and (self.idempotence or self.transaction_size is not None):
            yield f"{needs_all} requires acks='all', not acks={self.acks}; remove one of them"
        if self.transaction_size is not None and "idempotence" in self.model_fields_set and not self.idempotence:
            yield "transaction_size requires idempotence; remove idempotence=False"
        if self.transaction_size is None and self.abort_ratio:
            yield "abort_ratio requires transactions; set transaction_size, for example transaction_size=100"
        timeouts = {"transaction_timeout_ms", "transaction.timeout.ms"}.intersection(self.producer_config)
        if self.transaction_size is None and timeouts:
            yield f"producer_config: {timeouts.pop()!r} requires transactions; set transaction_size, or remove it"

    def _problems_of_consumers(self) -> Iterator[str]:
        for name in ("consumer_groups", "consume", "isolation_level", "consumer_config"):
            if not self.consumers and self._is_changed(name):
                yield f"{name} requires consumers; set consumers=1 or more, or remove {name}"
        if self.consumers * self.consumer_groups > _MAX_CLIENTS:
            yield (
                f"{self.consumer_groups} groups of {self.consumers} consumers are "
                f"{self.consumers * self.consumer_groups} clients; use at most {_MAX_CLIENTS} clients"
            )
        smallest = min(shares_of(self.record_size))
        if self.consumers and smallest < TAG_BYTES and not (self.tags_in_header or self.joins_identities):
            yield (
                f"record_size {smallest} B is too small for consumers, because end-to-end timing writes "
                f"{TAG_BYTES} B into each value; use at least {TAG_BYTES} B, or consumers=0"
            )
        if self.consumers and self.acks == 0:
            yield (
                "acks=0 cannot be combined with consumers, because lost and late records would look the same; use "
                "acks=1 or 'all'"
            )

    def _problems_without_producers(self) -> Iterator[str]:
        if self.producers:
            return
        if self.topic is None or not self.consumers:
            yield "producers=0 only reads an existing topic; set topic, and consumers=1 or more"
        fields = [name for name in type(self).model_fields if not name.startswith(_OF_READING)]
        given = [name for name in fields if self._is_changed(name)]
        if given and (given, self.record_size) != (["record_size"], DEFAULT_SIZE):  # as in its baseline
            yield f"producers=0 writes nothing; remove {', '.join(given)}, or set producers=1 or more"

    def _is_changed(self, name: str) -> bool:
        """Return True if a field was given and differs from its default."""
        field = type(self).model_fields[name]
        return name in self.model_fields_set and getattr(self, name) != field.get_default(call_default_factory=True)

    def _problems_of_group(self) -> Iterator[str]:
        if self.watch_group and self.topic is None:
            yield (
                "watch_group requires topic; set it to the topic that the application reads, for example topic='orders'"
            )
        if self.watch_group and self.acks == 0:
            yield "watch_group cannot be combined with acks=0, which returns no offsets; use acks=1 or 'all'"
        if HEADER in self.headers and (self.watch_group or self.output_topic is not None):
            yield f"headers: the name {HEADER!r} is reserved for the plugin; use another name"

    def _problems_of_backlog(self) -> Iterator[str]:
        if not self.backlog or not self.producers:  # without producers, that is the problem to report
            return
        if self.consume != "live":
            yield (
                f"backlog cannot be combined with consume={self.consume!r}, because consumers must catch up while "
                "producers write; remove one of them"
            )
        elif not (self.catches_up or self.watch_group or self.output_topic):
            consumers = "set consumers=1 or more"
            if self.consumers:
                consumers = "consumers of an existing topic start at its end, so remove topic"
            yield (
                f"nothing reads the backlog; {consumers}, or set topic and watch_group (or output_topic) to measure an "
                "application"
            )

    def _problems_of_output(self) -> Iterator[str]:
        if self.output_topic is None:
            return
        output = f"output_topic {self.output_topic!r}"
        if self.topic is None:
            yield f"{output} requires topic; set it to the topic that the application reads, for example topic='orders'"
        elif self.topic == self.output_topic:
            yield f"{output} is the same as topic; set it to the topic that the application writes to, or remove it"
        if not self.consumers:
            yield f"{output} requires consumers; set consumers=1 or more"
        if self.consume != "live":
            yield f"{output} requires consume='live', not consume={self.consume!r}; remove consume"
        if self.abort_ratio:
            yield (
                f"{output} cannot be combined with abort_ratio, because applications may or may not read aborted "
                "records; remove abort_ratio"
            )

    def _problems_of_dead_letters(self) -> Iterator[str]:
        if self.dead_letter_topic is None:
            return
        if self.topic is None:
            yield (
                f"dead_letter_topic {self.dead_letter_topic!r} requires topic; set it to the topic that the "
                "application reads, for example topic='orders'"
            )
        elif self.output_topic is None and not self.watch_group:
            yield (
                f"dead_letter_topic {self.dead_letter_topic!r} requires output_topic or watch_group, because otherwise "
                "nothing shows when the application has read all records; set one of them"
            )
        elif self.dead_letter_topic in (self.topic, self.output_topic):
            yield f"dead_letter_topic {self.dead_letter_topic!r} is the same as topic or output_topic; set another one"

    def _problems_of_identities(self) -> Iterator[str]:
        if self.output_topic is None:
            for name in ("identify", "expect"):
                if self._is_changed(name):
                    yield f"{name} requires output_topic; set output_topic, or remove {name}"
            return
        if not self.joins_identities:
            if self.expect != ONE:
                yield (
                    f"expect='{self.expect}' requires an identity in the records themselves; set identify to 'key', "
                    "'json:FIELD' or a function"
                )
            return
        if self.client == "record":
            yield f"identify={str(self.identify)!r} requires client='batch'; remove client"
        if self.backlog:
            yield (
                f"backlog cannot be combined with identify={str(self.identify)!r}, because the backlog's records have "
                "the same identities as the load's; remove one of them"
            )


def _in_one_spelling(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return client parameters with underscores instead of dots, in alphabetical order."""
    return dict(sorted((name.replace(".", "_"), value) for name, value in parameters.items()))


def merge(*levels: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the fields of several markers, ordered from the farthest to the closest; the closest one wins.

    `records` and `duration` are mutually exclusive, so a marker with either of them overrides both.
    """
    merged: dict[str, Any] = {}
    for level in levels:
        if not _LENGTHS.isdisjoint(level):
            merged = {name: value for name, value in merged.items() if name not in _LENGTHS}
        merged.update(level)
    return merged
