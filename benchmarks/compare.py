"""Comparison with Kafka's own tools and with confluent-kafka, on one local broker: `python benchmarks/compare.py`.

Contenders take turns (A B C, A B C, ...). The first turn of each warms up the broker and is discarded. README.md
shows what each result includes.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import results
from contenders import Arena, ContenderError, compete
from kafka_tools import installed_tools
from results import Outcome
from rich.console import Console
from workloads import WORKLOADS

from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec

if TYPE_CHECKING:
    from contenders import Values
    from workloads import Workload

README = Path(__file__).parent / "README.md"

_PAUSE_S = 2.0
"""Pause between runs, in which the broker deletes the files of the last topic."""
_BROKER_CONFIG = {"log.segment.delete.delay.ms": "1000"}
"""Without it, the files of a deleted topic stay for a minute and are written to disk during other runs."""


def main() -> int:
    """Measure, print, and write the table if asked to. Return 1 if a result is missing."""
    options = _options()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise Python compiles this project in each run
    console = Console()
    chosen = [_scaled(workload, options.scale) for workload in WORKLOADS if workload.name in options.parts]
    with provision(ClusterSpec(version=options.kafka_version, config=_BROKER_CONFIG), target="local") as cluster:
        arena = Arena(cluster=cluster, tools=installed_tools(cluster.version))
        outcomes = [_measure(workload, arena, options.repeats) for workload in chosen]
    console.print(results.tables(outcomes))
    if options.write:
        results.write(README, outcomes, cluster=cluster, command=_command(), repeats=options.repeats)
        console.print(f"written to {README}")
    return int(any(outcome.failures for outcome in outcomes))


def _measure(workload: Workload, arena: Arena, repeats: int) -> Outcome:
    """Run all turns of one workload. A contender that fails once is left out, with the reason."""
    runs: dict[str, list[Values]] = {contender: [] for contender in workload.contenders}
    failures: dict[str, str] = {}
    with arena.backlog(workload) as backlog:
        for turn in range(repeats + 1):
            for contender in [name for name in workload.contenders if name not in failures]:
                time.sleep(_PAUSE_S)
                try:
                    values = compete(contender, arena, workload, backlog)
                except ContenderError as error:
                    failures[contender] = str(error)
                    print(f"{workload.name}: {error}", flush=True)
                    continue
                if turn > 0:
                    runs[contender].append(values)
                name = f"turn {turn} of {repeats}" if turn else "warm-up"
                print(f"{workload.name}, {name}, {contender}: {_told(values)}", flush=True)
    return Outcome(
        workload=workload, runs={name: runs[name] for name in runs if name not in failures}, failures=failures
    )


def _told(values: Values) -> str:
    return ", ".join(f"{results.number(value, name)} {name}" for name, value in values.items())


def _scaled(workload: Workload, scale: float) -> Workload:
    """Return the workload with another number of records, a whole number for each producer."""
    each = max(1, round(workload.records * scale / workload.producers))
    return dataclasses.replace(workload, records=each * workload.producers)


def _command() -> str:
    return shlex.join(["python", "benchmarks/compare.py", *sys.argv[1:]])


def _options() -> argparse.Namespace:
    names = [workload.name for workload in WORKLOADS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("parts", nargs="*", default=names, metavar="PART", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--repeats", type=_count, default=5, help="turns; the table shows medians; default: 5")
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the number of records; default: 1")
    parser.add_argument("--kafka-version", help="the broker's and the tools' version, such as 4.1.0")
    parser.add_argument("--write", action="store_true", help=f"replace the table in {README.name}")
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(names))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; choose from {', '.join(names)}")
    return options


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} is not a count; use at least 1")
    return count


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; nothing was written")
