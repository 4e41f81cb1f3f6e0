"""What to run: one workload, in Kafka's own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from pytest_kafkaperf.errors import UnitError
from pytest_kafkaperf.fields import MarkerFields
from pytest_kafkaperf.metrics import CATALOGUE
from pytest_kafkaperf.units import Unit, format_quantity, parse, parse_exact

TAG_BYTES = 16
"""What end-to-end timing writes into the head of each value: due time and origin (see `load.records`)."""


def _seconds(quantity: Any) -> float:
    return parse(quantity, Unit.SECONDS)


def _bytes(quantity: Any) -> int:
    return _whole(quantity, Unit.BYTES)


def _records(quantity: Any) -> int:
    return _whole(quantity, Unit.RECORDS)


def _rate(quantity: Any) -> float:
    """Records a second; a readable rate in bytes comes here only with a record size that is refused anyway."""
    if _is_byte_rate(quantity):
        return parse(quantity, Unit.BYTE_RATE)
    rate = parse(quantity, Unit.RECORD_RATE)
    if not 0 < rate <= _MAX_RATE:
        raise UnitError("out of range; use more than 0 and at most 1G records/s")
    return rate


def _is_byte_rate(quantity: Any) -> bool:
    return isinstance(quantity, str) and quantity.rstrip().endswith("B/s")


def _count(value: Any) -> Any:
    """True is no count, although Python takes it for 1."""
    if isinstance(value, bool):
        raise ValueError("use a whole number")  # noqa: TRY004 - pydantic names the field of a ValueError
    return value


def _whole(quantity: Any, unit: Unit) -> int:
    exact = parse_exact(quantity, unit)
    if exact.denominator != 1:
        raise UnitError(f"{quantity!r} is not a whole number of {'bytes' if unit is Unit.BYTES else 'records'}")
    return int(exact)


def _acks(value: Any) -> Any:
    """Kafka's own spellings; True is no number of acknowledgements, although Python takes it for 1."""
    if isinstance(value, bool):
        return str(value)
    return {"0": 0, "1": 1, "-1": "all", -1: "all"}.get(value, value) if isinstance(value, str | int) else value


def _compression(value: Any) -> Any:
    return None if value == "none" else value


def _config(value: Any) -> Any:
    """Kafka's configuration is text; Python's True and 5 are what people write."""
    if not isinstance(value, Mapping):
        return value
    return {name: _config_text(item) for name, item in value.items()}


def _config_text(item: Any) -> Any:
    if isinstance(item, bool):
        return str(item).lower()
    return str(item) if isinstance(item, int | float) else item


Seconds = Annotated[float, BeforeValidator(_seconds)]
Bytes = Annotated[int, BeforeValidator(_bytes)]
Records = Annotated[int, BeforeValidator(_records)]
Count = Annotated[int, BeforeValidator(_count)]
Config = Annotated[Mapping[str, str], BeforeValidator(_config)]

_LENGTHS = frozenset({"records", "duration"})
_DEFAULT_DURATION_S = 5.0
_MAX_CLIENTS = 1000
_MAX_RATE = 1e9
"""One record a nanosecond: the clock's step."""


class Scenario(MarkerFields):
    """One workload. Quantities are base units here: seconds, bytes, records."""

    records: Annotated[Records, Field(ge=1, le=10**12)] | None = None
    """Records of a round; excludes `duration`."""
    duration: Annotated[Seconds, Field(gt=0, le=86_400)] | None = None
    """Seconds in which records are due; 5 s where neither is given."""
    rate: Annotated[float, BeforeValidator(_rate)] | None = None
    """Records a second over all producers (open loop); None: as fast as they are acknowledged (closed loop)."""
    record_size: Annotated[Bytes, Field(ge=1, le=1 << 30)] = 100
    """Bytes of a value."""
    producers: Count = Field(default=1, ge=1, le=_MAX_CLIENTS)
    acks: Annotated[Literal[0, 1, "all"], BeforeValidator(_acks)] = "all"
    batch_size: Annotated[Bytes, Field(ge=1, le=1 << 30)] = 16 * 1024
    """Upper bound of a batch in bytes; a record that is larger travels alone."""
    linger: Annotated[Seconds, Field(le=60)] = 0.005
    """Seconds that a batch waits for more records."""
    compression: Annotated[Literal["gzip", "snappy", "lz4", "zstd"] | None, BeforeValidator(_compression)] = None
    consumers: Count = Field(default=0, ge=0, le=_MAX_CLIENTS)
    """Consumers of one group that read while the producers write."""
    partitions: Count = Field(default=6, ge=1, le=10_000)
    replication_factor: Count = Field(default=1, ge=1, le=100)
    topic_config: Config = Field(default_factory=dict)
    warmup: Annotated[Seconds, Field(le=3600)] = 2.0
    """Seconds of the same load before each window opens."""
    rounds: Count = Field(default=5, ge=1, le=1000)

    @model_validator(mode="before")
    @classmethod
    def _rate_in_records(cls, fields: Any) -> Any:
        """A rate in bytes becomes one in records; what cannot be read is left for its own field to refuse."""
        if not isinstance(fields, Mapping) or not _is_byte_rate(fields.get("rate")):
            return fields
        try:
            size = _bytes(fields.get("record_size", cls.model_fields["record_size"].default))
            in_records = parse(fields["rate"], Unit.BYTE_RATE) / max(size, 1)
        except UnitError:
            return fields
        return {**fields, "rate": in_records}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.records is not None and self.duration is not None:
            raise ValueError("give 'records' or 'duration', not both")
        if self.consumers and self.record_size < TAG_BYTES:
            raise ValueError(
                f"record_size {self.record_size} B is too small with consumers: end-to-end timing writes "
                f"{TAG_BYTES} B into each value; use at least {TAG_BYTES} B, or consumers=0"
            )
        if self.consumers and self.acks == 0:
            raise ValueError(
                "acks=0 with consumers: what was lost cannot be told from what is late; use acks=1 or 'all'"
            )
        if self.records is None and self.duration is None:
            object.__setattr__(self, "duration", _DEFAULT_DURATION_S)
        return self

    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that a round of this scenario gives, in the catalogue's order."""
        return tuple(name for name in CATALOGUE if self._measures(name))

    def _measures(self, name: str) -> bool:
        family = name.split(".", maxsplit=1)[0]
        if family in ("consume", "e2e", "lag"):
            return self.consumers > 0
        if name.startswith("produce.delay"):
            return self.rate is not None
        return not (name in ("lost", "duplicated") and self.acks == 0)

    def describe(self) -> str:
        """One line for people: the fields that are not the default."""
        default = Scenario()
        fields = {name: value for name, value in self if value != getattr(default, name)}
        if self.records is not None:
            del fields["duration"]  # None, as it must be
        return ", ".join(f"{name}={format_field(name, value)}" for name, value in fields.items()) or "defaults"


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


def format_field(name: str, value: Any) -> str:
    """A field's value for people, with its unit."""
    unit = _FIELD_UNITS.get(name)
    if unit is None or isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return format_quantity(value, unit, digits=6)


_FIELD_UNITS = {
    "records": Unit.RECORDS,
    "duration": Unit.SECONDS,
    "rate": Unit.RECORD_RATE,
    "record_size": Unit.BYTES,
    "batch_size": Unit.BYTES,
    "linger": Unit.SECONDS,
    "warmup": Unit.SECONDS,
}
