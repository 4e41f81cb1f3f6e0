"""Errors of the rule on real brokers: `python benchmarks/verdict/measure.py`.

Every comparison is a run of pytest, as users start it, on fresh local brokers (`project/` has the tests):

- `aa`: nothing changed; against a baseline of 5 sessions, no threshold should fail.
- `slow`: one producer with a client quota; the baseline of 5 sessions was measured without a quota.
- `pairs`: a quota on the candidate only, with a load at a rate, and a reference without the quota in the same session.
- `equal`: a reference that is the same as the candidate.
- `flush`, `threads`: a candidate of the reference's version with another property, which makes it slower.

Each comparison is written to `results.jsonl` at once: an interrupted run continues, `--fresh` starts again, and
`--report` only prints the table. "25 % slower" is a quota that leaves 1/1.25 of the throughput: of the baseline's, or
in `pairs` of the rate; the table has the throughput that it really left.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_kafkaperf.core.units import format_ratio

HERE = Path(__file__).resolve().parent
PROJECT = HERE / "project"
RESULTS = HERE / "results.jsonl"
BASELINES = HERE / "baselines"
_TIMEOUT_S = 1800
_SESSIONS = 5
_STEPS = 4
"""Steps towards the quota that leaves a given throughput, which is not proportional to it."""
_BYTES_A_RECORD = 1100
"""The first estimate of the bytes that a quota counts for a record of 1 KiB."""
_PACED_BYTES_A_SECOND = 50 * 2**20
"""The rate of `test_paced`."""
_PACED_BYTES_A_BYTE = 1.0146
"""Bytes that a quota counts for each byte; measured: 45 and 49 MB/s leave 43,330 and 47,180 records/s of 1 KiB."""
_RUNS = {"aa": 40, "slow 25": 20, "slow 50": 10, "pairs 15": 20, "pairs 25": 10, "equal": 20, "flush": 3, "threads": 3}
_FLUSH = ("log.flush.interval.messages", "1", str(2**63 - 1))
_THREADS = ("num.io.threads", "1", "8")
"""A property, the candidate's value, and Kafka's default, which is the reference's value."""


def main() -> None:
    """Run the missing comparisons, and print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("phases", nargs="*", help=f"of {', '.join(_RUNS)}; default: all")
    options.add_argument("--runs", type=int, help="runs of each phase, instead of its own number")
    options.add_argument("--fresh", action="store_true", help="delete earlier results first")
    options.add_argument("--report", action="store_true", help="only print the table of earlier results")
    given = options.parse_args()
    if given.fresh:
        RESULTS.unlink(missing_ok=True)
        shutil.rmtree(BASELINES, ignore_errors=True)
    for phase in () if given.report else given.phases or _RUNS:
        for run in _missing(phase, given.runs or _RUNS[phase]):
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(run)}\n")
            print(phase, *(f"{test['name']}: {test['verdict']}" for test in run["tests"]), flush=True)
    print(_table())


def _missing(phase: str, runs: int) -> Iterator[dict[str, Any]]:
    done = sum(run["phase"] == phase for run in _results())
    if done >= runs:
        return
    arguments, environment = _way(phase)
    for _ in range(done, runs):
        yield {"phase": phase, "tests": [_kept(test) for test in _pytest(*arguments, **environment)["tests"]]}


def _way(phase: str) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment of each run of a phase."""
    match phase.split():
        case ["aa"]:
            return ["test_quickstart.py", _baselines("test_quickstart.py")], {}
        case ["slow", percent]:
            return ["test_guard.py::test_guard", _baselines("test_guard.py::test_guard")], _slower(int(percent))
        case ["pairs", percent]:
            left = _PACED_BYTES_A_SECOND / (1 + int(percent) / 100)
            return _pair("test_paced"), {"KAFKAPERF_BYTE_RATE": str(int(left * _PACED_BYTES_A_BYTE))}
        case ["equal"]:
            return _pair("test_guard"), {}
        case ["flush"]:
            return _configs("test_guard", *_FLUSH)
        case ["threads"]:
            return _configs("test_three_producers", *_THREADS)
    raise SystemExit(f"{phase!r} is not one of {', '.join(_RUNS)}")


def _configs(test: str, name: str, candidate: str, reference: str) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment for two brokers of one version that differ in a property."""
    return [*_pair(test), f"--kafka-reference-config={name}={reference}"], {"KAFKAPERF_PROPERTY": f"{name}={candidate}"}


def _pair(test: str) -> list[str]:
    return [f"test_guard.py::{test}", "--kafka-reference=local"]


def _baselines(tests: str) -> str:
    """Return the option that names a folder with a baseline of these tests; measure it if it is missing."""
    folder = BASELINES / tests.partition(".")[0]
    option = f"--kafka-baselines={folder}"
    if not folder.exists():
        _pytest(tests, option, f"--kafka-calibrate={_SESSIONS}", "--kafka-update-baselines")
    return option


def _slower(percent: int) -> dict[str, str]:
    """Return the environment with the quota that leaves 1/(1 + percent/100) of the baseline's throughput."""
    tests = "test_guard.py::test_guard"
    _baselines(tests)
    (file,) = (BASELINES / "test_guard").rglob("*.json")
    sessions = json.loads(file.read_text(encoding="utf-8"))["sessions"]
    known = statistics.median(one["produce.throughput"] for session in sessions for one in session["rounds"])
    wanted = known / (1 + percent / 100)
    rate, found = wanted * _BYTES_A_RECORD, []
    for _ in range(_STEPS):
        (test,) = _pytest(tests, KAFKAPERF_BYTE_RATE=str(int(rate)))["tests"]
        left = test["metrics"]["produce.throughput"]["median"]
        print(
            f"quota {rate / 1e6:.1f} MB/s leaves {left:.0f} of {known:.0f} records/s, wanted {wanted:.0f}", flush=True
        )
        # The mean of all steps, because single steps are noisy.
        found.append(rate / left)
        rate = wanted * statistics.mean(found)
    return {"KAFKAPERF_BYTE_RATE": str(int(rate))}


def _pytest(*arguments: str, **environment: str) -> dict[str, Any]:
    """Run pytest and return its JSON report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kafka-cluster=local"]
        done = subprocess.run(  # noqa: S603 - pytest, on this project's own tests
            [*command, f"--kafka-json={report}", *arguments],
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": str(HERE.parents[1]), **environment},
            timeout=_TIMEOUT_S,
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.exists():
            raise SystemExit(done.stdout + done.stderr)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return found


def _kept(test: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": test["nodeid"].rpartition("::")[2],
        "verdict": test["verdict"],
        "sessions": 1 + len(test["further_sessions"]),
        "problems": test["problems"],
        "checks": [
            {name: check[name] for name in ("metric", "outcome", "change", "detectable", "reason")}
            for check in test["checks"]
        ],
    }


def _results() -> list[dict[str, Any]]:
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def _table() -> str:
    """Return one row for each phase and metric, as Markdown."""
    rows = [
        "| runs of | metric | runs | suspect | regressed | invalid | change | finds |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    groups: dict[tuple[str, str, str], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for run in _results():
        for test in run["tests"]:
            for check in test["checks"]:
                groups.setdefault((run["phase"], test["name"], check["metric"]), []).append((test, check))
    for (phase, name, metric), found in groups.items():
        checks = [check for _, check in found]
        changes = [check["change"] for check in checks if check["change"] is not None]
        finds = [check["detectable"] for check in checks if check["detectable"] is not None]
        cells = (
            f"{phase}, {name}",
            metric,
            len(found),
            sum("suspect" in check["reason"] or "fresh session" in check["reason"] for check in checks),
            sum(check["outcome"] == "REGRESSED" for check in checks),
            sum(test["verdict"] == "INVALID" for test, _ in found),
            format_ratio(statistics.median(changes)) if changes else "-",
            format_ratio(statistics.median(finds)) if finds else "-",
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
