"""Memory of workers for growing numbers of records: `python benchmarks/memory.py`.

Runs 1 M, 10 M and 50 M records of 100 B in a closed loop (acks=1), without a consumer, with one, through an
application (`relay.py`) to an output topic, and with records from a payload function instead, each in new worker
processes, and samples their resident memory (RSS) from outside. Prints the peak of the largest worker, and its ratio to
the one with 1 M records.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich.box
from children import ChildError, run_together
from resident import WORKER, Sampler
from rich.console import Console
from rich.table import Table
from workloads import ACKS, BATCH_BYTES, LINGER_MS, PARTITIONS

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.brokers import distribution
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.units import Unit, format_quantity
from pytest_kafkaperf.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTS = (1_000_000, 10_000_000, 50_000_000)
WAYS = ("no consumer", "one consumer", "an application", "a payload function")
RECORD_BYTES = 100
FLAT_RATIO = 1.1
"""The ratio to the smallest count above which memory counts as growing."""

_SAMPLE_S = 0.05
_RECORDS_BY_SECOND = 50_000
"""The rate below which a run counts as stuck."""
_GENERATED_BY_SECOND = 20_000
"""The same with a payload function, which takes most of the time."""
_PAYLOAD = "tests.support.generated:order"
_START_TIMEOUT_S = 120
_BROKER_CONFIG = {"log.segment.delete.delay.ms": "1000", "log.retention.check.interval.ms": "2000"}
_KEEP_LITTLE = {"retention.bytes": str(64 << 20), "segment.bytes": str(32 << 20)}
"""Retention of each partition, used only without consumers: records that a slow consumer has not read must stay."""
_TOPICS = 2
"""The topics on the way through an application."""
_DISK_RATIO = 1.5
"""Allowance on top of the records themselves, for headers and for the topic that is being deleted."""


def peak_bytes(servers: str, *, records: int, way: str) -> int:
    """Return the peak resident memory of the largest worker in one of `WAYS`.

    Raises:
        ChildError: the load failed.

    """
    is_generated = way == "a payload function"
    consumers = int(way in ("one consumer", "an application"))
    scenario = {
        "records": records,
        **({"payload": _PAYLOAD} if is_generated else {"record_size": RECORD_BYTES}),
        "consumers": consumers,
        "partitions": PARTITIONS,
        "acks": ACKS,
        "batch_size": BATCH_BYTES,
        "linger": f"{LINGER_MS} ms",
        "topic_config": {} if consumers else _KEEP_LITTLE,
        "warmup": 0,
        "rounds": 1,
    }
    script = str(Path(__file__).parent / "run_ours.py")
    timeout_s = _START_TIMEOUT_S + records / (_GENERATED_BY_SECOND if is_generated else _RECORDS_BY_SECOND)
    running = _application(servers, scenario) if way == "an application" else nullcontext()
    with running, Sampler(WORKER, _SAMPLE_S) as sampler:
        run_together([[sys.executable, script, servers, json.dumps(scenario)]], timeout_s=timeout_s)
    return max(map(max, sampler.samples.values()))


@contextmanager
def _application(servers: str, scenario: dict[str, Any]) -> Iterator[None]:
    """Run an application between two topics, and send the scenario's records through it."""
    names = [f"memory-{time.time_ns()}-{end}" for end in ("in", "out")]
    admin, shape = Admin(servers, Access()), Scenario.of({"partitions": scenario.pop("partitions")})
    del scenario["topic_config"]
    scenario |= dict(zip(("topic", "output_topic"), names, strict=True))
    for name in names:
        admin.create_topic(name, shape)
    script = str(Path(__file__).parent / "relay.py")
    with subprocess.Popen(  # noqa: S603 - the benchmark's own application
        [sys.executable, script, servers, *names], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise ChildError("the application ended before it was ready")
            yield
        finally:
            process.terminate()
            process.wait(_START_TIMEOUT_S)
            for name in names:
                admin.delete_topic(name)


def main() -> int:
    """Measure and print. Return 1 if memory grows, or a load failed."""
    options = _options()
    counts = options.records
    _refuse_full_disk(max(counts))
    shown = Table(box=rich.box.SIMPLE_HEAD)
    for column in ("records", "way", "peak of a worker", f"to {_text(counts[0])}"):
        shown.add_column(column, justify="right")
    flat = True
    with provision(ClusterSpec(config=_BROKER_CONFIG), target="local") as cluster:
        for way in WAYS if options.way is None else [options.way]:
            first: int | None = None
            for records in counts:
                try:
                    peak = peak_bytes(cluster.bootstrap_servers, records=records, way=way)
                except ChildError as error:
                    print(f"{_text(records)}, {way}: {error}")
                    shown.add_row(_text(records), way, "-", "-")
                    flat = False
                    continue
                first = first or peak
                flat = flat and peak <= FLAT_RATIO * first
                shown.add_row(_text(records), way, format_quantity(peak, Unit.BYTES), f"{peak / first:.2f}x")
    Console().print(shown)
    return int(not flat)


def _text(records: int) -> str:
    return format_quantity(records, Unit.RECORDS)


def _refuse_full_disk(records: int) -> None:
    needed = round(_TOPICS * _DISK_RATIO * records * RECORD_BYTES)
    cache = distribution.cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(cache).free
    if free < needed:
        sys.exit(
            f"{cache} has {format_quantity(free, Unit.BYTES)} of room, and {records} records take up to "
            f"{format_quantity(needed, Unit.BYTES)}; make room, or name fewer records by --records"
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--records", type=int, nargs="+", default=COUNTS, help="counts to run, the smallest first")
    parser.add_argument("--way", choices=WAYS, help="run only this one")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
