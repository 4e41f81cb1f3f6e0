"""Records from a payload function, and identities of records.

A function receives an index and a random number generator. The generator is seeded for each block of records, so the
records do not depend on the number of workers, and any record can be generated again.
"""

from __future__ import annotations

import collections
import datetime
import hashlib
import json
import random
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from pytest_kafkaperf.core.errors import LoadError, shortened
from pytest_kafkaperf.core.text import repr_of
from pytest_kafkaperf.load.identity import Nonce
from pytest_kafkaperf.scenarios.identify import HEADER, Selector, name_of
from pytest_kafkaperf.scenarios.payloads import Generated, Record, TemplateFile, is_utf8

FIRST = 100
"""Number of records that show how large the records of a payload function are."""
BLOCK = 1000
"""Number of records that share a random number generator."""
INDEXES = 10**8
"""Distance between the first indexes of two loads. Each load has other indexes, because an application may ignore a
record that it has already seen."""
_SEPARATORS = (",", ":")

Headers = Sequence[tuple[str, bytes]]


class PlainRecord(NamedTuple):
    """Record with its parts as bytes."""

    key: bytes | None
    value: bytes
    headers: Headers = ()


def function_of(payload: Generated) -> Callable[[int, random.Random], Any]:
    """Return the payload function, or a function that fills in the template.

    Raises:
        LoadError: the template has an error, or Jinja2 is not installed.

    """
    template = payload.function
    if not isinstance(template, TemplateFile):
        return template
    try:
        import jinja2  # noqa: PLC0415 - an extra
    except ImportError:
        raise LoadError(f"payload: {template} requires Jinja2; run: pip install 'pytest-kafkaperf[template]'") from None
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701 - not a page
    try:
        text = Path(template.path or template.file).read_text("utf-8") if template.text is None else template.text
    except (OSError, ValueError) as error:
        raise LoadError(f"payload: cannot read {template}: {error}") from None
    try:
        compiled = environment.from_string(text.removesuffix("\n"))
    except jinja2.TemplateSyntaxError as error:
        raise LoadError(f"payload: {template}, line {error.lineno}: {error.message}") from None
    return lambda index, source: compiled.render(_variables(index, source))


def _variables(index: int, source: random.Random) -> dict[str, Any]:
    """Return what a template can use."""
    return {
        "index": index,
        "uuid": uuid.UUID(int=source.getrandbits(128), version=4),
        "now": datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        "choice": lambda *values: source.choice(values),
        "int": source.randint,
        "random": source.random,
    }


def record_of(name: str, function: Callable[[int, Any], Any], index: int, source: random.Random) -> PlainRecord:
    """Return the record that a payload function with this name makes.

    Raises:
        LoadError: the function failed or returned something else.

    """
    try:
        made = function(index, source)
        return _plain(made if isinstance(made, Record) else Record(value=made))
    except _WrongTypeError as error:
        reason = f"returned {error}"
    except Exception as error:  # noqa: BLE001 - the user's function can raise anything
        reason = f"failed: {type(error).__name__}: {error}"
    raise LoadError(f"payload: {name} {reason} (index {index})")


class _WrongTypeError(Exception):
    pass


def _plain(made: Record) -> PlainRecord:
    if not isinstance(made.headers, Mapping):
        raise _WrongTypeError(f"the headers {repr_of(made.headers)}; return a mapping of names to bytes or text")
    value = json.dumps(made.value, separators=_SEPARATORS) if isinstance(made.value, Mapping) else made.value
    return PlainRecord(
        key=None if made.key is None else _bytes(made.key, "key"),
        value=_bytes(value, "value"),
        headers=[(_header_name(name), _bytes(content, f"header {name!r}")) for name, content in made.headers.items()],
    )


def _header_name(name: Any) -> str:
    if not isinstance(name, str) or not is_utf8(name) or not name:
        raise _WrongTypeError(f"the header name {repr_of(name)}; return non-empty text")
    if name == HEADER:
        raise _WrongTypeError(f"the header {name!r}, which is reserved for the plugin; use another name")
    return name


def _bytes(content: Any, what: str) -> bytes:
    if isinstance(content, str):
        return content.encode()
    if not isinstance(content, bytes):
        raise _WrongTypeError(f"the {what} {repr_of(content)}; return bytes, text, a dict or a Record")
    return content


T = TypeVar("T")


class Generator(Generic[T]):
    """Generator of one producer's records, in order, ahead of the time at which they are due."""

    def __init__(
        self,
        payload: Generated,
        finish: Callable[[PlainRecord], T],
        *,
        load: int,
        producer: int = 0,
        producers: int = 1,
    ) -> None:
        """Create the generator for a producer of the given load; `finish` converts each record when it is made."""
        self.spent_ns = 0
        """Time spent in the function and in `finish`."""
        self.made = 0
        """Number of records made so far."""
        self._name, self._function, self._finish = payload.name, function_of(payload), finish
        self._first = load * INDEXES + producer
        self._step = producers
        self._seed = f"{load}:{producer}"
        self._ahead: collections.deque[tuple[T, int]] = collections.deque()
        """Waiting records, each with the size of its value in bytes."""
        self._ahead_bytes = 0
        self._source = random.Random()  # noqa: S311 - not for security

    @property
    def mean_ns(self) -> int:
        """Mean time that a record takes."""
        return self.spent_ns // max(1, self.made)

    @property
    def waiting(self) -> int:
        """Number of records that were made ahead and not taken yet."""
        return len(self._ahead)

    def take(self, count: int) -> list[T]:
        """Return the next records; those that were not made ahead are made now."""
        self.make_ahead(count)
        taken = [self._ahead.popleft() for _ in range(count)]
        self._ahead_bytes -= sum(size for _, size in taken)
        return [one for one, _ in taken]

    def make_ahead(self, count: int, *, most_ns: int | None = None) -> bool:
        """Make records until `count` are ready, for at most `most_ns`; return True if they are ready.

        The limit on the memory of waiting records is `MOST_AHEAD_BYTES`, but one record is always made.
        """
        began_ns = now_ns = time.perf_counter_ns()
        while len(self._ahead) < count:
            if most_ns is not None and (now_ns - began_ns > most_ns or self._ahead_bytes > MOST_AHEAD_BYTES):
                break
            if self.made % BLOCK == 0:
                self._source.seed(f"{self._seed}:{self.made // BLOCK}")
            one = record_of(self._name, self._function, self._first + self.made * self._step, self._source)
            self.made += 1
            self._ahead.append((self._finish(one), len(one.value)))
            self._ahead_bytes += len(one.value)
            now_ns = time.perf_counter_ns()
        self.spent_ns += now_ns - began_ns
        return len(self._ahead) >= count or self._ahead_bytes > MOST_AHEAD_BYTES


MOST_AHEAD_BYTES = 8 << 20
"""Memory limit for the values of records made ahead of their due time."""


def first_records(payload: Generated, count: int, *, load: int = 0) -> list[PlainRecord]:
    """Return the first records of a load."""
    return Generator(payload, unchanged, load=load).take(count)


def unchanged(record: PlainRecord) -> PlainRecord:
    """Return the record as the function made it."""
    return record


class Identifier:
    """Function that reduces what identifies a record to 64 bits, with a secret seed.

    With 10 million records, two different identities share a hash with a probability of 3 in a million.
    """

    def __init__(self, selector: Selector, nonce: Nonce) -> None:
        self._find = identity_function(selector)
        self._key = nonce[0].to_bytes(8, "big")

    def hash_of(self, record: Any) -> int | None:
        """Return a signed 64-bit hash; None if nothing identifies the record.

        Raises:
            LoadError: the user's function failed or returned something else.

        """
        found = self._find(record)
        if found is None:
            return None
        digest = hashlib.blake2b(found, digest_size=8, key=self._key).digest()
        return int.from_bytes(digest, "big", signed=True)


def identity_function(selector: Selector) -> Callable[[Any], bytes | None]:
    """Return the function that finds a record's identity.

    The record has the attributes `key`, `value` and `headers`.
    """
    match selector.kind:
        case "key":
            return lambda record: record.key
        case "json":
            return lambda record: _in_json(record.value, selector.path)
        case _:
            function = selector.function
            assert function is not None  # noqa: S101 - for the type checker
            return lambda record: _named(function, record)


def _in_json(value: bytes | None, path: Sequence[str]) -> bytes | None:
    """Return a field of a JSON document as text; None if it does not exist, or is null, an object or a list."""
    try:
        found = json.loads(value or b"")
        for name in path:
            found = found[int(name)] if isinstance(found, list) else found[name]
    except (ValueError, LookupError, TypeError, RecursionError):  # other programs' records can contain anything
        return None
    if isinstance(found, str):
        return found.encode(errors="surrogatepass")
    if isinstance(found, float) and found.is_integer():
        found = int(found)  # programs may write the same number in either form
    return None if found is None or isinstance(found, dict | list) else json.dumps(found).encode()


_MAX_NAME = 40
_MAX_FIELDS = 10
"""Maximum number of JSON fields in a description."""


def description_of(record: Any) -> str:
    """Describe a record by the size of its key and by the size or fields of its value.

    Its content is not shown, because the record may belong to another program.
    """
    key = "no key" if record.key is None else f"a key of {len(record.key)} B"
    try:
        found = json.loads(record.value or b"")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        value = "no value" if record.value is None else f"a value of {len(record.value)} B, which is not a JSON object"
        return f"{key} and {value}"
    names = [shortened(repr_of(name), _MAX_NAME) for name in found]
    more = f" and {len(names) - _MAX_FIELDS} more" if len(names) > _MAX_FIELDS else ""
    return f"{key} and the JSON fields {', '.join(names[:_MAX_FIELDS])}{more}" if names else f"{key} and the value {{}}"


def _named(function: Callable[[Any], Any], record: Any) -> bytes | None:
    """Call the user's function so that errors show its name."""
    try:
        found = function(record)
    except Exception as error:
        raise LoadError(f"identify: {name_of(function)} failed: {type(error).__name__}: {error}") from error
    if found is not None and not isinstance(found, str | bytes):
        raise LoadError(
            f"identify: {name_of(function)} returned {repr_of(found)}; return text or bytes, or None if nothing "
            "identifies the record"
        )
    return found.encode(errors="surrogatepass") if isinstance(found, str) else found
