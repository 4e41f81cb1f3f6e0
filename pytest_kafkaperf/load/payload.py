"""Record contents, generated in advance.

If values are long enough, each value starts with space for a tag (see `identity`). For records that pass through an
application, the tag is the value of the last header, and values are not modified.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.generation import FIRST, PlainRecord, first_records
from pytest_kafkaperf.load.identity import NO_NONCE, Nonce, tags_every_record
from pytest_kafkaperf.scenarios.payloads import Generated, Samples
from pytest_kafkaperf.scenarios.scenario import TAG_BYTES, Scenario

MAX_POOL_BYTES = 32 << 20
"""Memory limit for a worker's values, and for its templates. The worker keeps at least one of each."""
_OBJECT_BYTES = 48
"""Memory overhead per value: the Python object, and its entry in a list."""

_TEMPLATES = 64
"""Number of full batches for which a worker generates values if all values have the same size."""

_DECK = 10_000
"""Number of values for a size distribution. It limits the precision of the sizes' proportions."""

_MAX_SAMPLES_BYTES = 256 << 20


class Payload:
    """Record values for one worker, shared by its producers.

    Raises:
        LoadError: the sample file is unusable.

    """

    def __init__(self, scenario: Scenario, *, seed: int, nonce: Nonce = NO_NONCE) -> None:
        self.keyed = scenario.key is not None
        self.headers = scenario.all_headers
        self.tags_in_header = scenario.tags_in_header
        self.nonce = NO_NONCE if scenario.topic is None else nonce
        self.batch_size = scenario.batch_size
        self.records = _generated(scenario, seed)
        """Records from a payload function: the pool, or only the first ones without a pool; otherwise empty."""
        source = random.Random(f"{seed}")  # noqa: S311 - not for security
        self.values = [one.value for one in self.records] or _values(scenario, source)
        """Record values; never empty. Without a pool, a payload function makes further ones."""
        self.tags_all = tags_every_record(scenario)
        self.tags_first_header = bool(self.records) and self.tags_in_header and not self.tags_all
        """True if only the first record of each batch has a header with a tag, because all values are the user's."""
        sizes = {*map(len, self.values)}
        self.tagged = not scenario.joins_identities and (self.tags_in_header or min(sizes) >= TAG_BYTES)
        self.largest = max(sizes)
        """Size in bytes of the largest value."""
        self.mixed = len(sizes) > 1
        """True if the values differ in size."""
        if scenario.consumers and not self.tagged and not scenario.joins_identities:
            raise LoadError(
                f"the samples in {scenario.payload} include values smaller than {TAG_BYTES} B, but with consumers, "
                f"end-to-end timing writes {TAG_BYTES} B into each; use longer samples, or consumers=0"
            )


def _generated(scenario: Scenario, load: int) -> list[PlainRecord]:
    payload = scenario.payload
    if not isinstance(payload, Generated):
        return []
    return first_records(payload, payload.pool or FIRST, load=0 if payload.pool else load)


def mean_value_size(scenario: Scenario) -> float:
    """Return the mean value size in bytes, for a payload function with keys and headers.

    This reads the sample file, or calls the payload function.

    Raises:
        LoadError: the sample file is unusable, or the payload function fails.

    """
    if isinstance(scenario.payload, Generated):
        first = first_records(scenario.payload, FIRST)
        parts = (part for one in first for part in (one.key or b"", one.value, *(value for _, value in one.headers)))
        return sum(map(len, parts)) / len(first)
    if not isinstance(scenario.payload, Samples):
        return scenario.mean_record_size
    samples = _samples(Path(scenario.payload.path or scenario.payload.file), scenario.payload.delimiter.encode())
    return sum(map(len, samples)) / len(samples)


def _values(scenario: Scenario, source: random.Random) -> Sequence[bytes]:
    """Return at least one value. Random values repeat only at distances that codecs cannot exploit."""
    match scenario.payload:
        case Samples() as samples:
            values = _samples(Path(samples.path or samples.file), samples.delimiter.encode())
            source.shuffle(values)
            return values
        case "zeros":
            make: Callable[[int], bytes] = bytes
        case _:
            make = source.randbytes
    if len(scenario.record_sizes) == 1:
        (size,) = scenario.record_sizes
        most = min(_TEMPLATES * scenario.batch_size // size, MAX_POOL_BYTES // (size + _OBJECT_BYTES))
        return [make(size) for _ in range(max(1, most))]
    values, left_bytes = [], MAX_POOL_BYTES
    for size, share in scenario.record_sizes.items():  # large values are repeated if the memory limit requires it
        count = max(1, round(share * _DECK))
        pool = [make(size) for _ in range(max(1, min(count, left_bytes // size)))]
        left_bytes -= size * len(pool)
        values += itertools.islice(itertools.cycle(pool), count)
    source.shuffle(values)
    return values


def _samples(file: Path, delimiter: bytes) -> list[bytes]:
    try:
        if file.stat().st_size > _MAX_SAMPLES_BYTES:
            raise LoadError(f"the samples in {file} are too large; use at most {_MAX_SAMPLES_BYTES >> 20} MiB")
        samples = [sample for sample in file.read_bytes().split(delimiter) if sample]
    except OSError as error:
        raise LoadError(f"cannot read the samples in {file}: {error.strerror}") from None
    if not samples:
        raise LoadError(f"no samples in {file}: it contains only delimiters")
    return samples
