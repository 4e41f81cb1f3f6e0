"""Start-up cost of the plugin in a pytest run without perf tests: `python benchmarks/startup.py`.

Runs `pytest --collect-only -q -p no:benchmark` in a folder with one test, with and without `-p no:kafkaperf` in turn,
and prints the medians of whole processes. It measures twice: with cached bytecode, as users run pytest, and with
`PYTHONDONTWRITEBYTECODE=1`, where pytest compiles the plugin in every run. On a busy machine, look at the CPU time.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = 25
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


def measure(name: str, folder: Path, environment: dict[str, str]) -> None:
    """Run with and without the plugin in turn, and print the medians and their difference."""
    for arguments in ((), ("-p", "no:kafkaperf")):
        run_ms(folder, environment, *arguments)  # fills the caches
    pairs = [(run_ms(folder, environment), run_ms(folder, environment, "-p", "no:kafkaperf")) for _ in range(PAIRS)]
    for kind, what in enumerate(("duration", "CPU time")):
        loaded_ms = statistics.median(loaded[kind] for loaded, _ in pairs)
        bare_ms = statistics.median(bare[kind] for _, bare in pairs)
        print(
            f"{name}, {what}: {loaded_ms:.1f} ms with the plugin, {bare_ms:.1f} ms without it, "
            f"{loaded_ms - bare_ms:.1f} ms added"
        )


def main() -> None:
    """Measure with and without cached bytecode."""
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name, "project"), Path(name, "cache")
        folder.mkdir()
        (folder / "test_a.py").write_text("def test_a(): pass\n", encoding="utf-8")
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        measure("cached bytecode", folder, {**inherited, "PYTHONPYCACHEPREFIX": str(cache)})
        measure("no bytecode written", folder, {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


if __name__ == "__main__":
    main()
