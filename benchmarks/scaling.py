"""Growth of the controller's cost with workers, baselines and tests: `python benchmarks/scaling.py [PART ...]`.

The parts are `merge`, `baselines`, `tests` and `collection`. Each size of each part is measured in a new process
(`controller.py`), so that nothing of a smaller size remains in it. Collection is measured in pairs of pytest runs, of
perf tests and of empty tests in alternation. Prints Markdown: a table for each part, and below it the size from which a
column grows faster than its size. Exits with 1 if merging the reports of 200 workers takes a second, or if collecting
500 perf tests takes more than twice as long as 500 empty ones.

The exponent of a column is its slope on logarithmic scales from a size to ten times that size, so that the noise of one
measurement does not look like a bend. Up to 1.2 it counts as linear. A column that starts with a large constant
approaches 1 slowly, from below.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

WORKERS = (1, 2, 5, 10, 20, 50, 100, 200)
BASELINES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
TESTS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
SIZES = {"merge": WORKERS, "baselines": BASELINES, "tests": TESTS, "collection": TESTS}
OF = {"merge": "workers", "baselines": "baselines", "tests": "tests", "collection": "tests"}
LINEAR = 1.2
"""The largest exponent that counts as linear."""
MERGE_LIMIT_S = 1.0
COLLECTION_LIMIT = 2.0

_TIMEOUT_S = 600
_STEPS = (("s", 1.0), ("ms", 1e-3))
_SIZES = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))

_PERF = """
@pytest.mark.kafka_scenario(
    rate="{few}k records/s", record_size="1 KiB", duration="10 s", producers=2, consumers=1, partitions=6
)
@pytest.mark.kafka_threshold(
    "produce.latency.p99 <= {few} ms", "e2e.latency.p99 <= max(baseline + 20%, 5 ms)",
    "produce.throughput >= baseline - 10%", "errors == 0", "lost == 0",
)
def test_{number}(kafka_perf):
    kafka_perf()
"""
_EMPTY = """
def test_{number}():
    pass
"""
_INI = "[pytest]\nkafka_cluster = local\n"
_PYTEST = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-p", "kafkaperf", "-p", "benchmark")
"""Options that load the plugins that this plugin requires, and no others, whose cost would hide that of this plugin."""

Columns = dict[str, list[float]]
"""Values by name, one for each size."""


def controller(part: str, sizes: Sequence[int], repeats: int) -> tuple[Columns, Columns]:
    """Measure seconds and bytes of a part by size."""
    seconds: Columns = {}
    sizes_bytes: Columns = {}
    for size in sizes:
        command = [sys.executable, str(Path(__file__).with_name("controller.py")), part, str(size), str(repeats)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)  # noqa: S603 - our own script
        if done.returncode:
            sys.exit(f"{part} of {size}: {done.stderr}")
        found = json.loads(done.stdout)
        for columns, values in ((seconds, found["seconds"]), (sizes_bytes, found["bytes"])):
            for name, value in values.items():
                columns.setdefault(name, []).append(value)
    return seconds, sizes_bytes


def collection(sizes: Sequence[int], pairs: int) -> tuple[Columns, Columns]:
    """Measure seconds of whole runs, seconds of CPU, and peak resident memory: medians of pairs."""
    kinds = {"perf tests": _PERF, "empty tests": _EMPTY}
    seconds: Columns = {f"{kind}{what}": [] for what in ("", ", CPU") for kind in kinds}
    sizes_bytes: Columns = {kind: [] for kind in kinds}
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            projects = {kind: _project(Path(name, kind), text, size) for kind, text in kinds.items()}
            for folder in projects.values():
                _collected(folder)  # compiles the modules that are not compiled yet
            runs = [{kind: _collected(folder) for kind, folder in projects.items()} for _ in range(pairs)]
        for kind in kinds:
            whole_s, cpu_s, size_bytes = (
                statistics.median(each) for each in zip(*(run[kind] for run in runs), strict=True)
            )
            seconds[kind].append(whole_s)
            seconds[f"{kind}, CPU"].append(cpu_s)
            sizes_bytes[kind].append(size_bytes)
    return seconds, sizes_bytes


def exponents(sizes: Sequence[int], values: Sequence[float]) -> dict[int, float]:
    """Return the slope on logarithmic scales from each size to ten times as much, by the smaller one; 1 is linear.

    Sizes whose value is zero are left out, such as reports that fit into memory that was already allocated.
    """
    known = {size: value for size, value in zip(sizes, values, strict=True) if value > 0}
    return {size: math.log10(known[10 * size] / known[size]) for size in known if 10 * size in known}


def steep_from(sizes: Sequence[int], values: Sequence[float]) -> int | None:
    """Return the size from which a column grows faster than its size; None if it never does."""
    found = None
    for size, exponent in reversed(exponents(sizes, values).items()):
        if exponent <= LINEAR:
            break
        found = size
    return found


def _project(folder: Path, text: str, size: int) -> Path:
    folder.mkdir()
    (folder / "pytest.ini").write_text(_INI, encoding="utf-8")
    tests = "\n".join(text.format(number=number, few=number % 50 + 1) for number in range(size))
    (folder / "test_many.py").write_text(f"import pytest\n\n{tests}", encoding="utf-8")
    return folder


def _collected(folder: Path) -> tuple[float, float, int]:
    """Return the seconds from start to exit, the seconds of CPU, and the peak resident memory."""
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    began_s = time.perf_counter()
    process = subprocess.Popen(  # noqa: S603 - pytest itself
        [sys.executable, *_PYTEST],
        cwd=folder,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    bound = threading.Timer(_TIMEOUT_S, process.kill)
    bound.start()
    _, status, usage = os.wait4(process.pid, 0)  # `wait` would not return the resource use of the process
    bound.cancel()
    taken_s = time.perf_counter() - began_s
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"pytest ended with status {process.returncode} in {folder}")
    memory_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return taken_s, usage.ru_utime + usage.ru_stime, memory_bytes


def _print_table(part: str, sizes: Sequence[int], seconds: Columns, sizes_bytes: Columns) -> None:
    print(f"\n| {' | '.join([OF[part], *seconds])} |\n|{' --: |' * (1 + len(seconds))}")
    for place, size in enumerate(sizes):
        cells = []
        for name, column in seconds.items():
            memory = [_scaled(sizes_bytes[name][place], _SIZES)] if name in sizes_bytes else []
            cells.append(", ".join([_scaled(column[place], _STEPS), *memory]))
        print(f"| {size} | {' | '.join(cells)} |")
    last = [
        ", ".join(_last(sizes, columns[name]) for columns in (seconds, sizes_bytes) if name in columns)
        for name in seconds
    ]
    print(f"| exponent | {' | '.join(last)} |\n")
    told = [
        f"{what} of {name} from {size} on"
        for what, columns in (("time", seconds), ("memory", sizes_bytes))
        for name, column in columns.items()
        if (size := steep_from(sizes, column)) is not None
    ]
    print(f"Faster than linear: {'; '.join(told) or 'nothing'}.")


def _last(sizes: Sequence[int], values: Sequence[float]) -> str:
    """Format the exponent up to the largest size."""
    return f"{[*exponents(sizes, values).values()][-1]:.2f}"


def _scaled(value: float, steps: Sequence[tuple[str, float]]) -> str:
    unit, scale = next((step for step in steps if value >= step[1]), steps[-1])
    return f"{value / scale:.3g} {unit}"


def main() -> int:
    """Measure and print. Return 1 if a requirement is not met."""
    options = _options()
    met = True
    for part in options.parts:
        sizes = SIZES[part]
        seconds, sizes_bytes = (
            collection(sizes, options.repeats) if part == "collection" else controller(part, sizes, options.repeats)
        )
        _print_table(part, sizes, seconds, sizes_bytes)
        if part == "merge":
            met &= _told(f"{sizes[-1]} workers merged in s", seconds["merge"][-1], MERGE_LIMIT_S)
        if part == "collection":
            ratio = seconds["perf tests"][-1] / seconds["empty tests"][-1]
            met &= _told(f"collecting {sizes[-1]} perf tests, of what empty ones take", ratio, COLLECTION_LIMIT)
    return int(not met)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    names = list(SIZES)
    parser.add_argument("parts", nargs="*", default=names, metavar="PART", help=f"of {', '.join(names)}; default: all")
    parser.add_argument(
        "--repeats", type=int, default=7, help="repeats of each size; the table shows medians; default: 7"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.parts) - set(names))
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; choose from {', '.join(names)}")
    return options


def _told(what: str, value: float, limit: float) -> bool:
    print(f"\n{what}: {value:.2f}, the limit is {limit:g}: {'kept' if value <= limit else 'NOT kept'}")
    return value <= limit


if __name__ == "__main__":
    sys.exit(main())
