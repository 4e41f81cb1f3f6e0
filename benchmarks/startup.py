"""Start-up cost of the plugin in a pytest run without perf tests: `python benchmarks/startup.py [PAIRS]`.

Runs `pytest --collect-only -q -p no:benchmark` in a folder with one test, with and without `-p no:kafkaperf` in turn,
and prints the medians of whole processes. It measures twice: with cached bytecode, as developers run pytest, and
without any bytecode of the plugin, as in a fresh CI container, where pytest compiles the plugin in every run. In both
cases, all other packages have cached bytecode, because compiling them takes longer and would hide the difference.

On a busy machine, look at the CPU time. The result excludes the time in which pytest reads the list of the plugin's
installed files, because `-p no:kafkaperf` does not prevent that.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = 40
"""Default number of alternating pairs of runs."""
RUN_TIMEOUT_S = 60
COMMAND = (sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:benchmark")


def run_ms(folder: Path, environment: dict[str, str], *arguments: str) -> tuple[float, float]:
    """Return the duration of one run, from the start of the process to its exit, and its CPU time, in milliseconds."""
    started_s, started_cpu_s = time.perf_counter(), children_cpu_s()
    subprocess.run(  # noqa: S603 - pytest itself
        [*COMMAND, *arguments], cwd=folder, env=environment, capture_output=True, timeout=RUN_TIMEOUT_S, check=True
    )
    return (time.perf_counter() - started_s) * 1000, (children_cpu_s() - started_cpu_s) * 1000


def children_cpu_s() -> float:
    """Return the CPU time of all processes that have ended, in seconds."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(name: str, folder: Path, environment: dict[str, str], pairs: int) -> None:
    """Run with and without the plugin in turn, and print the medians and the quartiles of the differences."""
    runs = [(run_ms(folder, environment), run_ms(folder, environment, "-p", "no:kafkaperf")) for _ in range(pairs)]
    for kind, what in enumerate(("duration", "CPU time")):
        loaded_ms = statistics.median(loaded[kind] for loaded, _ in runs)
        bare_ms = statistics.median(bare[kind] for _, bare in runs)
        low_ms, added_ms, high_ms = statistics.quantiles(loaded[kind] - bare[kind] for loaded, bare in runs)
        print(
            f"{name}, {what}: {loaded_ms:.1f} ms with the plugin, {bare_ms:.1f} ms without it; {pairs} pairs differ by "
            f"{added_ms:.1f} ms (median; quartiles {low_ms:.1f} to {high_ms:.1f} ms)"
        )


def main() -> None:
    """Measure with and without the plugin's bytecode."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name, "project"), Path(name, "cache")
        folder.mkdir()
        (folder / "test_a.py").write_text("def test_a(): pass\n", encoding="utf-8")
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        writing = {**inherited, "PYTHONPYCACHEPREFIX": str(cache)}
        reading = {**writing, "PYTHONDONTWRITEBYTECODE": "1"}
        for arguments in ((), ("-p", "no:kafkaperf")):
            run_ms(folder, writing, *arguments)  # fills the cache
        measure("cached bytecode", folder, reading, pairs)
        for bytecode in list(cache.rglob("pytest_kafkaperf")):
            shutil.rmtree(bytecode)
        measure("no bytecode of the plugin", folder, reading, pairs)


if __name__ == "__main__":
    main()
