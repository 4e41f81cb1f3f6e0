"""What a marker's keyword arguments are read with: pydantic, and its problems in our words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    ValidationInfo,
)

from pytest_kafkaperf.core.errors import ScenarioError, UnitError, nearest, shortened
from pytest_kafkaperf.core.text import printable, repr_of
from pytest_kafkaperf.core.units import Unit, format_quantity, parse, parse_exact
from pytest_kafkaperf.scenario.rate import Rate, dump_rate, format_rate, parse_rate
from pytest_kafkaperf.scenario.records import (
    Correlate,
    Keys,
    Samples,
    Sizes,
    described,
    dump_samples,
    dump_sizes,
    format_sizes,
    is_utf8,
    mean_size,
    parse_correlate,
    parse_keys,
    parse_samples,
    parse_size,
    parse_sizes,
)

OWN_NAMES: Mapping[str, str] = MappingProxyType({})
"""Every field is known by its own name."""

_MAX_SHOWN = 100
"""Characters of a refused value that are shown."""


class MarkerFields(BaseModel):
    """The fields of one marker: frozen, and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def of(cls, fields: Mapping[str, Any], *, where: str = "", names: Mapping[str, str] = OWN_NAMES) -> Self:
        """Validate the fields of a marker; `where` starts an error, `names` has fields that users know by other names.

        Raises:
            ScenarioError: an unknown field or a value that cannot be; every problem in one text.

        """
        unknown = [name for name in fields if name not in cls.model_fields]
        if unknown:
            told = "; ".join(f"unknown field {name!r}: {nearest(name, cls.model_fields)}" for name in unknown)
            raise ScenarioError(f"{where}{told}")
        try:
            return cls.model_validate(dict(fields))
        except ValidationError as error:
            raise ScenarioError(f"{where}{explain(error, names)}") from None


def explain(error: ValidationError, names: Mapping[str, str] = OWN_NAMES) -> str:
    """Pydantic's problems as one line: field, what was given, what is wrong; `names` as in `MarkerFields.of`."""
    return "; ".join(_problem(dict(item), names) for item in error.errors(include_url=False))


def _problem(item: dict[str, Any], names: Mapping[str, str]) -> str:
    message = str(item["msg"]).removeprefix("Value error, ")
    field = shortened(printable(".".join(names.get(str(part), str(part)) for part in item["loc"])), _MAX_SHOWN)
    if not field:
        return message
    given = repr_of(item["input"])
    if message.startswith(given) or (isinstance(item["input"], str) and given in message):
        return f"{field}: {message}"
    return f"{field}={shortened(given, _MAX_SHOWN)}: {message[:1].lower()}{message[1:]}"


DEFAULT_SIZE = 100
"""Bytes of a value where nothing is said of it."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""As Kafka's own class `Topic` has it."""

_MAX_HEADERS = 100


def _seconds(quantity: Any) -> float:
    return parse(quantity, Unit.SECONDS)


def _records(quantity: Any) -> int:
    exact = parse_exact(quantity, Unit.RECORDS)
    if exact.denominator != 1:
        raise UnitError(f"{quantity!r} is not a whole number of records")
    return int(exact)


def _dump_sizes(value: Any) -> Any:
    return dump_sizes(value) if isinstance(value, Mapping) else value


def _payload(value: Any) -> Any:
    return value if isinstance(value, str) and value in ("random", "zeros") else parse_samples(value)


def _dump_payload(value: Any) -> Any:
    return dump_samples(value) if isinstance(value, Samples) else value


def _rate(quantity: Any, info: ValidationInfo) -> Rate:
    """Records a second; the fields that say how large a record is have been read before."""
    if isinstance(info.data.get("payload"), Samples):
        return parse_rate(quantity, record_bytes=None)
    return parse_rate(quantity, record_bytes=mean_size(shares_of(info.data.get("record_size"))))


def shares_of(sizes: int | Sizes | None) -> Sizes:
    """Shares of the records by size, of one size, of many, or of none that is given."""
    if sizes is None:
        return {DEFAULT_SIZE: 1.0}
    return {sizes: 1.0} if isinstance(sizes, int) else sizes


def _key(value: Any) -> Keys | None:
    return None if value == "none" else parse_keys(value)


def _headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    if len(headers) > _MAX_HEADERS:
        raise ValueError(f"{len(headers)} headers; a record has at most {_MAX_HEADERS}")
    if "" in headers:
        raise ValueError("a header's name is empty; give it one")
    for name, text in headers.items():
        if not is_utf8(name + text):
            raise ValueError(f"header {name!r} has characters that UTF-8 does not; use others")
    return headers


def _correlate(value: Any) -> Correlate | None:
    return None if value is None else parse_correlate(value)


def _dump_correlate(value: Any) -> Any:
    return None if value is None else described(value)


def _count(value: Any) -> Any:
    """True is no count, although Python takes it for 1."""
    if isinstance(value, bool):
        raise ValueError("use a whole number")  # noqa: TRY004 - pydantic names the field of a ValueError
    return value


def _ratio(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("use a number from 0 to below 1")  # noqa: TRY004 - pydantic names the field of a ValueError
    return value


def _flag(value: Any) -> bool:
    """1 and 'yes' are no flags here: they are mistaken for another field's value more often than meant."""
    flag = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise ValueError("use True or False")  # noqa: TRY004 - pydantic names the field of a ValueError
    return flag


def _acks(value: Any) -> Any:
    """Kafka's own spellings; True is no number of acknowledgements, although Python takes it for 1."""
    if isinstance(value, bool):
        return str(value)
    return {"0": 0, "1": 1, "-1": "all", -1: "all"}.get(value, value) if isinstance(value, str | int) else value


def _compression(value: Any) -> Any:
    return None if value == "none" else value


def _topic(name: str) -> str:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError("a topic's name has 1 to 249 of the characters a-z A-Z 0-9 . _ - and is not '.' or '..'")
    if name.startswith("__"):
        raise ValueError("names that begin with '__' are those of internal topics; load on one would harm the cluster")
    return name


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

Bytes = Annotated[int, BeforeValidator(parse_size)]

Records = Annotated[int, BeforeValidator(_records)]

Count = Annotated[int, BeforeValidator(_count)]

Flag = Annotated[bool, BeforeValidator(_flag)]

Config = Annotated[Mapping[str, str], BeforeValidator(_config)]

RecordSize = Annotated[int | Sizes, PlainValidator(parse_sizes), PlainSerializer(_dump_sizes)]

Payload = Annotated[Literal["random", "zeros"] | Samples, PlainValidator(_payload), PlainSerializer(_dump_payload)]

Key = Annotated[Keys, PlainValidator(_key), PlainSerializer(str)]

Headers = Annotated[Mapping[str, str], AfterValidator(_headers)]

Topic = Annotated[str, AfterValidator(_topic)]

Correlation = Annotated[Any, PlainValidator(_correlate), PlainSerializer(_dump_correlate)]

Acks = Annotated[Literal[0, 1, "all"], BeforeValidator(_acks)]

Compression = Annotated[Literal["gzip", "snappy", "lz4", "zstd"] | None, BeforeValidator(_compression)]

Ratio = Annotated[float, BeforeValidator(_ratio)]

RecordRate = Annotated[Rate, PlainValidator(_rate), PlainSerializer(dump_rate)]

FIELD_UNITS = {
    "records": Unit.RECORDS,
    "duration": Unit.SECONDS,
    "rate": Unit.RECORD_RATE,
    "record_size": Unit.BYTES,
    "batch_size": Unit.BYTES,
    "linger": Unit.SECONDS,
    "transaction_size": Unit.RECORDS,
    "warmup": Unit.SECONDS,
}
"""The base unit of each field that is a quantity."""


def format_field(name: str, value: Any) -> str:
    """A field's value for people, with its unit: as a scenario has it, or as its dump in a baseline has it."""
    unit = FIELD_UNITS.get(name)
    try:
        if unit is not None and isinstance(value, int | float) and not isinstance(value, bool):
            return format_quantity(value, unit, digits=6)
        match name, value:
            case "rate", list() | tuple():
                return format_rate(parse_rate(value, record_bytes=None))
            case "record_size", dict():
                return format_sizes(parse_sizes(value))
            case "payload", dict():
                return str(parse_samples(value))
            case "correlate", _ if callable(value):
                return described(value)
    except (ValueError, OverflowError):
        pass  # a baseline can have been written by hand
    return str(value)
