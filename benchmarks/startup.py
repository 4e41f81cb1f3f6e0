"""Time that the plugin adds to a pytest run without perf tests: `python benchmarks/startup.py`.

Runs `pytest --collect-only` in an empty project with the plugin and with `-p no:kafkaperf`, in alternation, and prints
the medians. Both are whole processes, from start to exit.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PAIRS = 20
RUN_TIMEOUT_S = 60


def run_s(folder: Path, *arguments: str) -> float:
    """Return the seconds of one run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", *arguments]
    started_s = time.perf_counter()
    subprocess.run(command, cwd=folder, capture_output=True, timeout=RUN_TIMEOUT_S, check=True)  # noqa: S603 - pytest itself
    return time.perf_counter() - started_s


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        (folder / "test_other.py").write_text("def test_other(): ...\n", encoding="utf-8")
        run_s(folder)  # compiles the modules that are not compiled yet
        pairs = [(run_s(folder), run_s(folder, "-p", "no:kafkaperf")) for _ in range(PAIRS)]
    loaded_ms, bare_ms = (statistics.median(side) * 1000 for side in zip(*pairs, strict=True))
    print(f"with the plugin      {loaded_ms:7.1f} ms, median of {PAIRS}")
    print(f"with -p no:kafkaperf {bare_ms:7.1f} ms")
    print(f"added                {loaded_ms - bare_ms:7.1f} ms")


if __name__ == "__main__":
    main()
