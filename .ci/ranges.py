"""Whether the ranges of pyproject.toml are true: its lowest and the newest versions, on every CPython from 3.11 on.

    python .ci/ranges.py            all combinations
    python .ci/ranges.py --ends     the lowest versions on the oldest CPython, and the newest ones on the newest

Each has an environment of its own, and runs the pure tests, those of the seam to aiokafka, and perf tests on a broker.
Lowest means what is asked for directly, with `EXTRAS` and the group `dev`, in the lowest version that has a wheel for
that CPython; what these need in turn is new. A CPython is one on the PATH, one of pyenv, or what `uv python install`
fetches; where there is none, or a package has no wheel for it, the table says so.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MINORS = range(11, 16)
"""Of Python 3."""
RESOLUTIONS = {"lowest": "lowest-direct", "newest": "highest"}
EXTRAS = ("dask", "html", "local")
"""All but `trend`: Otava allows one version of NumPy only."""
SHOWN = ("aiokafka", "pydantic", "pytest", "pytest-benchmark", "testcontainers")
_PURE = (
    *(f"tests/unit/{area}" for area in ("core", "scenarios", "verdict", "runner", "fuzz", "house", "reports")),
    *("tests/unit/docs/test_ci_examples.py", "tests/unit/clusters/admin/test_admin_unreachable.py"),
    *("tests/unit/load/engines/aiokafka/test_clients.py", "tests/unit/support/test_repeats.py"),
    *(f"tests/unit/plugin/test_{name}.py" for name in ("benchmarks", "cli", "console_progress")),
    *(f"tests/unit/plugin/test_{name}.py" for name in ("hooks_startup", "options_ini")),
)
_WITH_LOAD = (
    *("-m", ""),  # the default run leaves one of them out
    "tests/broker/plugin/test_benchmark.py::test_its_ops_are_the_records_a_second_of_the_rounds",
    "tests/broker/plugin/test_examples.py::test_the_last_lines_of_the_quickstart_lead_to_a_gate",
)
RUNS = (("-n", "2", "--dist", "worksteal", *_PURE), _WITH_LOAD)
"""What pytest is given, one run each."""
NO_WHEELS = "has no usable wheels"
"""uv, of a package that does not know this CPython yet."""
_INSTALL_S = 600
_FETCH_S = 60
_TEST_S = 900
_LAST_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One combination, and what came of it."""

    python: str
    versions: str
    outcome: str
    took_s: float = 0.0
    installed: dict[str, str]

    @property
    def failed(self) -> bool:
        """Whether it was tried in vain."""
        return self.outcome == "FAILED"


class FailedError(Exception):
    """A program failed; what it printed stands in it."""


def main() -> None:
    """Try the combinations, print the table, and fail with any of them."""
    parser = argparse.ArgumentParser(description="Try the lowest and the newest versions on every CPython.")
    parser.add_argument("--ends", action="store_true", help="the lowest on the oldest, the newest on the newest alone")
    ends = parser.parse_args().ends
    with tempfile.TemporaryDirectory(prefix="kafkaperf-ranges-") as folder:
        work = Path(folder)
        uv = find_uv(work)
        pythons = {minor: find_python(minor, uv) for minor in MINORS}
        found = [minor for minor, python in pythons.items() if python is not None]
        tried = [(minor, versions) for minor in found for versions in RESOLUTIONS]
        if ends:
            tried = [(found[0], "lowest"), (found[-1], "newest")]
        rows = [attempt(uv, pythons[minor] or "", versions, work / f"{minor}-{versions}") for minor, versions in tried]
        rows += [
            Row(python=f"3.{minor}", versions="", outcome="none here", installed={})
            for minor, python in pythons.items()
            if python is None
        ]
    print_table(rows)
    if any(row.failed for row in rows):
        sys.exit(1)


def find_uv(work: Path) -> str:
    """The uv of the PATH, or one that is fetched: pip cannot ask for the lowest versions."""
    known = shutil.which("uv")
    if known is not None:
        return known
    run([sys.executable, "-m", "venv", work / "tools"], timeout_s=_INSTALL_S)
    run([work / "tools/bin/python", "-m", "pip", "install", "--quiet", "uv"], timeout_s=_INSTALL_S)
    return str(work / "tools/bin/uv")


def find_python(minor: int, uv: str) -> str | None:
    """A CPython of that version: the first that starts, or one that uv fetches."""
    name = f"python3.{minor}"
    on_path = shutil.which(name)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [*([on_path] if on_path else []), *map(str, sorted(pyenv.glob(f"versions/3.{minor}.*/bin/{name}")))]
    for candidate in candidates:
        if is_python(candidate, minor):
            return candidate
    try:
        run([uv, "python", "install", "--quiet", f"3.{minor}"], timeout_s=_FETCH_S)
        return run([uv, "python", "find", f"3.{minor}"], timeout_s=_FETCH_S).strip()
    except FailedError:
        return None


def is_python(program: str, minor: int) -> bool:
    """Whether it is that CPython, and can make environments; a shim of pyenv may be there and start nothing."""
    question = "import ensurepip, sys; print(sys.implementation.name, *sys.version_info[:2])"
    try:
        return run([program, "-c", question], timeout_s=_FETCH_S).split() == ["cpython", "3", str(minor)]
    except FailedError:
        return False


def attempt(uv: str, python: str, versions: str, folder: Path) -> Row:
    """Make the environment of one combination, and run the tests in it."""
    release = run([python, "-c", "import platform; print(platform.python_version())"], timeout_s=_FETCH_S).strip()
    print(f"-- Python {release}, {versions} versions", flush=True)
    begun_s = time.monotonic()
    row = functools.partial(Row, python=release, versions=versions)
    own = folder / "bin/python"
    installed: dict[str, str] = {}
    try:
        run([uv, "venv", "--quiet", "--python", python, folder], timeout_s=_INSTALL_S)
        install = [uv, "pip", "install", "--quiet", "--python", own]
        wanted = ["--resolution", RESOLUTIONS[versions], "--only-binary", ":all:"]
        extras = [word for name in EXTRAS for word in ("--extra", name)]
        run([*install, *wanted, "-r", "pyproject.toml", *extras, "--group", "dev"], timeout_s=_INSTALL_S)
        run([*install, "--no-deps", "--editable", "."], timeout_s=_INSTALL_S)
        listed = run([uv, "pip", "list", "--quiet", "--python", own, "--format", "json"], timeout_s=_INSTALL_S)
        installed = {one["name"]: one["version"] for one in json.loads(listed)}
        print("   " + ", ".join(f"{name} {version}" for name, version in installed.items()), flush=True)
        for arguments in RUNS:
            done = run([own, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments], timeout_s=_TEST_S)
            print(f"   {done.strip().splitlines()[-1]}", flush=True)
    except FailedError as error:
        print(error, flush=True)
        if NO_WHEELS in str(error):
            return row(outcome="no wheels", installed={})
        return row(outcome="FAILED", took_s=time.monotonic() - begun_s, installed=installed)
    return row(outcome="passed", took_s=time.monotonic() - begun_s, installed=installed)


def run(command: Sequence[str | Path], *, timeout_s: float) -> str:
    """Run a program in the repository and give what it printed.

    Raises:
        FailedError: it failed, took too long, or is not there.

    """
    outside = {name: text for name, text in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTEST_ADDOPTS")}
    try:
        done = subprocess.run(
            [*map(str, command)],
            cwd=ROOT,
            env=outside,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FailedError(str(error)) from error
    if done.returncode != 0:
        raise FailedError("\n".join([f"{command}: exit status {done.returncode}", *tail(done.stdout)]))
    return done.stdout


def tail(text: str) -> list[str]:
    """The last lines."""
    return text.splitlines()[-_LAST_LINES:]


def print_table(rows: Iterable[Row]) -> None:
    """One line a combination."""
    cells = [("Python", "versions", "", "took", *SHOWN)]
    cells += [
        (
            *(row.python, row.versions, row.outcome, f"{row.took_s:.0f} s" if row.took_s else ""),
            *(row.installed.get(name, "") for name in SHOWN),
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
