"""Field types for the markers, validated by pydantic, with the plugin's own error messages."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    StringConstraints,
    ValidationError,
    ValidationInfo,
)

from pytest_kafkaperf.core.errors import ScenarioError, nearest, shortened
from pytest_kafkaperf.core.text import (
    MAX_PROBLEM,
    is_secret,
    may_be_secret,
    parse_document,
    printable,
    repr_of,
    without_secrets,
)
from pytest_kafkaperf.core.units import Unit, format_quantity, parse, parse_time, parse_whole
from pytest_kafkaperf.scenarios.identify import Expected, Identify, parse_expect, parse_identify
from pytest_kafkaperf.scenarios.payloads import (
    Generated,
    Keys,
    Samples,
    Sizes,
    dump_payload,
    dump_sizes,
    format_dumped_payload,
    format_sizes,
    is_utf8,
    mean_size,
    parse_keys,
    parse_payload,
    parse_sizes,
)
from pytest_kafkaperf.scenarios.rate import Rate, dump_rate, format_rate, parse_rate

OWN_NAMES: Mapping[str, str] = MappingProxyType({})
"""Empty mapping for `names`, used if users know every field by its own name."""

_WORDS = {
    "throughput": "rate",
    "rps": "rate",
    "message": "record",
    "messages": "records",
    "msg": "record",
    "msgs": "records",
    "iterations": "rounds",
    "repetitions": "rounds",
}
"""Field names from other tools. Errors about unknown fields suggest this plugin's names instead."""

_MAX_SHOWN = 100
"""Number of characters to which an error truncates an invalid value."""
_MAX_VERSION = 20
"""Number of digits to which an error truncates a schema version."""

_Model = TypeVar("_Model", bound=BaseModel)

Further = Callable[[Any], Iterable[str]]
"""Function that takes a model during its validation and yields descriptions of further problems."""


class MarkerFields(BaseModel):
    """Base class for a marker's fields. It is immutable and rejects unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hints: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Advice for names that users may try although they do not resemble the correct field, by name."""

    @classmethod
    def refuse_unknown(cls, names: Iterable[str], *, where: str = "") -> None:
        """Check field names; an error starts with `where`.

        Raises:
            ScenarioError: a field is unknown; the message suggests what to write instead.

        """
        unknown: dict[str, list[str]] = {}
        for name in names:
            if name not in cls.model_fields:
                hint = cls.hints.get(name) or nearest(_in_our_words(name), cls.model_fields)
                unknown.setdefault(hint, []).append(repr(name))
        if unknown:
            problems = (
                f"unknown field{'s' * (len(given) > 1)} {', '.join(given)}: {hint}" for hint, given in unknown.items()
            )
            raise ScenarioError(f"{where}{'; '.join(problems)}")

    @classmethod
    def of(
        cls,
        fields: Mapping[str, Any],
        *,
        where: str = "",
        names: Mapping[str, str] = OWN_NAMES,
        further: Further | None = None,
    ) -> Self:
        """Validate a marker's fields.

        Args:
            fields: the values by field name.
            where: the start of an error message.
            names: the names by which users know the fields, if different.
            further: yields problems that only a higher layer can detect; called after every field is valid by itself.

        Raises:
            ScenarioError: a field is unknown or a value is invalid; the message lists all problems.

        """
        cls.refuse_unknown(fields, where=where)
        try:
            return cls.model_validate(dict(fields), context=further)
        except ValidationError as error:
            raise ScenarioError(f"{where}{explain(error, names)}") from None


class NotJsonError(ValueError):
    """Error for a document that is not JSON."""


class OtherSchemaError(ValueError):
    """Error for a document in another version of its format."""


def parse_model(content: bytes, model: type[_Model], *, schema_version: int) -> _Model:
    """Parse a JSON document in the given version of its format.

    Raises:
        NotJsonError: the content is not JSON.
        OtherSchemaError: the document has another version.
        ValueError: the content does not match the model.

    """
    try:
        data = parse_document(content)
    except ValueError as error:
        raise NotJsonError(f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise ValueError(f"must be a JSON object, not {type(data).__name__}")  # noqa: TRY004 - like other invalid content
    version = data.get("schema_version")
    if isinstance(version, int) and version != schema_version:
        shown = shortened(str(version), _MAX_VERSION)
        advice = "upgrade pytest-kafkaperf" if version > schema_version else "create it again with this version"
        raise OtherSchemaError(
            f"has schema_version {shown}, but this version of pytest-kafkaperf reads only {schema_version}; {advice}"
        )
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ValueError(shortened(explain(error), MAX_PROBLEM)) from None


def _in_our_words(name: str) -> str:
    return "_".join(_WORDS.get(word, word) for word in name.split("_"))


def explain(error: ValidationError, names: Mapping[str, str] = OWN_NAMES) -> str:
    """Format pydantic's errors in one line: field, given value, problem. `names` is described in `MarkerFields.of`."""
    return "; ".join(_problem(dict(item), names) for item in error.errors(include_url=False))


def _problem(item: dict[str, Any], names: Mapping[str, str]) -> str:
    message = str(item["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    field = shortened(printable(".".join(names.get(str(part), str(part)) for part in item["loc"])), _MAX_SHOWN)
    if not field:
        return message
    if item["type"] == "missing":  # its `input` contains all other arguments
        return f"{field} is missing"
    value = item["input"]
    given = repr_of(without_secrets(value) if isinstance(value, Mapping) else value)
    if len(item["loc"]) > 1 and may_be_secret(str(item["loc"][-1])):
        given = "***"
    if message.startswith((given, "invalid ")) or (isinstance(item["input"], str) and given in message):
        return f"{field}: {message}"
    return f"{field}={shortened(given, _MAX_SHOWN)}: {message[:1].lower()}{message[1:]}"


DEFAULT_SIZE = 100
"""Default size of a value in bytes."""

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
"""Valid topic names, as in Kafka's class `org.apache.kafka.common.internals.Topic`."""

_MAX_HEADERS = 100


def _rate(quantity: Any, info: ValidationInfo) -> Rate:
    """Parse a rate. Pydantic validates fields in order, so the fields that determine the record size come first."""
    if isinstance(info.data.get("payload"), Samples | Generated):
        return parse_rate(quantity, record_bytes=None)
    return parse_rate(quantity, record_bytes=mean_size(shares_of(info.data.get("record_size"))))


def shares_of(sizes: int | Sizes | None) -> Sizes:
    """Return the share of records of each size, given a single size, a distribution, or None (the default size)."""
    if sizes is None:
        return {DEFAULT_SIZE: 1.0}
    return {sizes: 1.0} if isinstance(sizes, int) else sizes


def _headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    if len(headers) > _MAX_HEADERS:
        raise ValueError(f"has {len(headers)} headers, must have at most {_MAX_HEADERS}")
    if "" in headers:
        raise ValueError("header names must not be empty")
    for name, text in headers.items():
        if not is_utf8(name + text):
            raise ValueError(f"header {name!r} contains characters that cannot be encoded in UTF-8; remove them")
    return headers


def dump_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Convert headers for reports and baselines. Short hashes replace possible secrets but still reveal changes."""
    return {name: _hashed(text) if is_secret(name, text) else text for name, text in headers.items()}


_HASHED = re.compile(r"\*\*\* \(SHA-256 [0-9a-f]{8}\)")


def _hashed(text: str) -> str:
    """Return 32 bits of the text's hash, which are too few to confirm one of many guesses."""
    if _HASHED.fullmatch(text):  # from a baseline file
        return text
    return f"*** (SHA-256 {hashlib.sha256(text.encode()).hexdigest()[:8]})"


def _number(value: Any) -> Any:
    """Reject True and False, which Python and pydantic treat like 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not True or False")  # noqa: TRY004 - pydantic adds the field's name to a ValueError
    return value


def _ratio(value: Any) -> Any:
    """Accept `"10 %"` and `"0.1"` as well as 0.1."""
    return parse(value, Unit.RATIO) if isinstance(value, str) else _number(value)


def _flag(value: Any) -> bool:
    """Accept True and False, even as text. Reject 1 and 'yes', which are usually mistakes."""
    flag = {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise ValueError("must be True or False")  # noqa: TRY004 - pydantic adds the field's name to a ValueError
    return flag


def _acks(value: Any) -> Any:
    """Accept Kafka's spellings. Reject True, which Python treats like 1."""
    if isinstance(value, bool):
        return str(value)
    return {"0": 0, "1": 1, "-1": "all", -1: "all"}.get(value, value) if isinstance(value, str | int) else value


def _topic(name: str) -> str:
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError("must have 1 to 249 of the characters a-z A-Z 0-9 . _ - and must not be '.' or '..'")
    if name.startswith("__"):
        raise ValueError("must not start with '__', like Kafka's internal topics, which load could harm")
    return name


def _config(value: Any) -> Any:
    """Convert numbers and booleans to text, as Kafka's configuration expects."""
    if not isinstance(value, Mapping):
        return value
    return {name: _config_text(item) for name, item in value.items()}


def _config_text(item: Any) -> Any:
    if isinstance(item, bool):
        return str(item).lower()
    return str(item) if isinstance(item, int | float) else item


Seconds = Annotated[float, BeforeValidator(parse_time)]

Bytes = Annotated[int, BeforeValidator(lambda quantity: parse_whole(quantity, Unit.BYTES))]

Records = Annotated[int, BeforeValidator(lambda quantity: parse_whole(quantity, Unit.RECORDS))]

Count = Annotated[int, BeforeValidator(_number)]

Flag = Annotated[bool, BeforeValidator(_flag)]

Config = Annotated[Mapping[str, str], BeforeValidator(_config)]

RecordSize = Annotated[int | Sizes, PlainValidator(parse_sizes), PlainSerializer(dump_sizes)]

Payload = Annotated[
    Literal["random", "zeros"] | Samples | Generated, PlainValidator(parse_payload), PlainSerializer(dump_payload)
]

Key = Annotated[Keys, PlainValidator(lambda key: None if key == "none" else parse_keys(key)), PlainSerializer(str)]

Headers = Annotated[Mapping[str, str], AfterValidator(_headers), PlainSerializer(dump_headers)]

Topic = Annotated[str, AfterValidator(_topic)]

_Group = Annotated[str, StringConstraints(min_length=1)]

Groups = Annotated[tuple[_Group, ...], BeforeValidator(lambda one: (one,) if isinstance(one, str) else one or ())]

Identification = Annotated[Identify, PlainValidator(parse_identify), PlainSerializer(Identify.dump)]

Expectation = Annotated[Expected, PlainValidator(parse_expect), PlainSerializer(str)]

Acks = Annotated[Literal[0, 1, "all"], BeforeValidator(_acks)]

Compression = Annotated[
    Literal["gzip", "snappy", "lz4", "zstd"] | None, BeforeValidator(lambda name: None if name == "none" else name)
]

Ratio = Annotated[float, BeforeValidator(_ratio)]

RecordRate = Annotated[Rate, PlainValidator(_rate), PlainSerializer(dump_rate)]

FIELD_UNITS = {
    "records": Unit.RECORDS,
    "duration": Unit.SECONDS,
    "backlog": Unit.RECORDS,
    "rate": Unit.RECORD_RATE,
    "record_size": Unit.BYTES,
    "batch_size": Unit.BYTES,
    "linger": Unit.SECONDS,
    "transaction_size": Unit.RECORDS,
    "warmup": Unit.SECONDS,
    "timeout": Unit.SECONDS,
}
"""Base unit of each field that is a quantity."""


def format_field(name: str, value: Any) -> str:
    """Format a scenario field's value with its unit. The value can be in the form that baseline files use."""
    unit, value = FIELD_UNITS.get(name), "none" if value is None else value
    try:
        if unit is not None and isinstance(value, int | float) and not isinstance(value, bool):
            return format_quantity(value, unit, digits=6)
        match name, value:
            case "rate", list() | tuple():
                return format_rate(parse_rate(value, record_bytes=None))
            case "record_size", dict():
                return format_sizes(parse_sizes(value))
            case "payload", dict():
                return format_dumped_payload(value)
            case "identify", {"input": before, "output": after}:
                value = f"input {before}, output {after}"
            case "headers", Mapping():
                value = dump_headers(value)
    except (ValueError, OverflowError):
        pass  # users can edit baseline files by hand
    return (
        ", ".join(map(str, value))
        if name == "watch_group" and isinstance(value, list | tuple) and value
        else str(value)
    )


def refuse_arguments(marker: str, positional: Sequence[object], named: Mapping[str, object]) -> None:
    """Check that the arguments of one of the plugin's markers are positional or named, as the marker requires.

    Raises:
        ScenarioError: fields are passed by position, or expressions by name.

    """
    if marker == "kafka_threshold":
        if named or not positional:
            raise ScenarioError(
                "kafka_threshold takes expressions, for example "
                "kafka_threshold('produce.latency.p99 <= 25 ms', 'errors == 0')"
            )
    elif positional:
        example = "rate='5k records/s'" if marker == "kafka_scenario" else "version='4.1.0'"
        raise ScenarioError(f"{marker} takes fields by name, for example {marker}({example})")
