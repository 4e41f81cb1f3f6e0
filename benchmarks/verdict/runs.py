"""Verdicts of whole runs of pytest on local brokers: `python benchmarks/verdict/runs.py`.

Each run has the two tests of `project/`, a closed loop and a load at a rate. The phases:

- `equal`, `slower`: against a live baseline, with quieter brokers and a tolerance of 3%. In
  `equal`, nothing differs.
- `unchanged`, `worse`: against stored baselines, with a tolerance of 10%. `baseline` makes one, of three
  trials, each time that it is given. Runs take turns with those of this kind of machine; their boots differ.

- `many`: the 30 tests of `many/` against baselines that `many-baseline` makes, with one trial each.

In `slower` and `worse`, each produce request of the closed loop takes CPU time, and each one of the other load waits
(`Burn.java`): about 10 and 25% of the throughput and of the median latency. With `+neighbour` after a phase, another
program burns one core: against a live baseline half of each minute, and against stored baselines all the time.

Each run is appended to `runs.jsonl` at once. Without a phase, only the table is printed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from starts import boot, burn_jar, neighbour, values
from whole_runs import append, pytest_report, recorded

from pytest_kafkaperf.core.environment import default_environment_key
from pytest_kafkaperf.core.units import format_ratio

HERE = Path(__file__).resolve().parent
PROJECT, BASELINES, RUNS = HERE / "project", HERE / "baselines", HERE / "runs.jsonl"
MANY = HERE / "many"
_BUILD = Path(tempfile.gettempdir(), "kafkaperf-burn")
"""Always the same: the options of Java are part of the fingerprint."""
_EQUAL = ["--kafka-compare-config=burn.us=0", "--kafka-compare-config=wait.us=0"]
_LIVE_BASELINE = ["--kafka-compare=local", *_EQUAL, "--kafka-quick-compiler", "-okafka_log_dirs=/dev/shm"]
_SLOWER = {
    "slower": {"KAFKAPERF_BURN_US": "50", "KAFKAPERF_WAIT_US": "100"},
    "slower+neighbour": {"KAFKAPERF_BURN_US": "50", "KAFKAPERF_WAIT_US": "130"},
    "worse": {"KAFKAPERF_BURN_US": "130", "KAFKAPERF_WAIT_US": "250"},
    "worse+neighbour": {"KAFKAPERF_BURN_US": "130", "KAFKAPERF_WAIT_US": "550"},  # a longer latency needs a longer wait
}
PHASES = ("equal", "slower", "unchanged", "worse", "baseline", "many", "many-baseline")


def main() -> None:
    """Run the phases, and print the table of all runs."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("phases", nargs="*", metavar="PHASE", help=f"of {', '.join(PHASES)}")
    options.add_argument("--runs", type=int, default=1, help="of each phase (default: 1)")
    given = options.parse_args()
    for number in range(given.runs):
        for phase in given.phases:
            _run(phase, number)
    print(_table())


def _run(phase: str, number: int) -> None:
    name, _, with_neighbour = phase.partition("+")
    if name not in PHASES:
        raise SystemExit(f"{phase!r} is not one of {', '.join(PHASES)}, perhaps with +neighbour")
    environment, half_minutes = dict(_SLOWER.get(phase, _SLOWER.get(name, {}))), name in ("equal", "slower")
    project = MANY if name.startswith("many") else PROJECT
    if project is MANY:
        arguments = ["--kafka-update-baselines"] if name == "many-baseline" else []
    elif name == "baseline":
        folder = BASELINES / f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M}-{boot()}"
        arguments = [f"--kafka-baselines={folder}", "--kafka-calibrate=3", "--kafka-update-baselines"]
    elif half_minutes:
        arguments, environment["KAFKAPERF_TOLERANCE"] = _LIVE_BASELINE, "3%"
    else:
        key = default_environment_key("local")
        known = [each for each in sorted(BASELINES.iterdir()) if (each / key).exists()]
        if not known:
            raise SystemExit(f"no baseline of {key} in {BASELINES}; make one: python {sys.argv[0]} baseline")
        arguments = [f"--kafka-baselines={known[number % len(known)]}"]
    began_s = time.monotonic()
    with neighbour(half_minutes=half_minutes) if with_neighbour else contextlib.nullcontext():
        report = _pytest(project, *arguments, **environment)
    seconds, tests = round(time.monotonic() - began_s), [_kept(test) for test in report["tests"]]
    line = {"phase": phase, "boot": boot(), "at": report["created"], "seconds": seconds, "tests": tests}
    if name in ("unchanged", "worse"):
        line["baseline"] = known[number % len(known)].name
    append(RUNS, line)
    print(phase, line["seconds"], "s", *(f"{test['name']}: {test['verdict']}" for test in tests), flush=True)


def _pytest(project: Path, *arguments: str, **environment: str) -> dict[str, Any]:
    """Run pytest on brokers that `Burn.java` can slow down, and return its JSON report."""
    _BUILD.mkdir(exist_ok=True)
    agent = f"-javaagent:{burn_jar(_BUILD)}"
    options = ("--kafka-cluster=local", f"--rootdir={project}", *arguments)
    return pytest_report(project, *options, **{"JDK_JAVA_OPTIONS": agent, **environment})


def _kept(test: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": test["nodeid"].rpartition("::")[2],
        "verdict": test["verdict"],
        "trials": len(test["trials"]),
        "seconds": round(sum(test["spans_s"].values())),
        "problems": [problem["text"] for problem in test["problems"]],
        "checks": [
            {"outcome": check["verdict"]}
            | {name: check[name] for name in ("metric", "change", "detectable_change", "reason")}
            for check in test["checks"]
        ],
        "measured": [_values(trial["rounds"], trial["baseline_rounds"] or []) for trial in test["trials"]],
    }


def _values(rounds: list[dict[str, Any]], other_side: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the metrics of a trial, in the form of `starts.jsonl`."""
    return {
        "rounds": [values(one["metrics"]) for one in rounds],
        "other_side": [values(one["metrics"]) for one in other_side],
    }


def _table() -> str:
    """Return one row for each phase and threshold, as Markdown."""
    outcomes = ("PASSED", "IMPROVED", "REGRESSED", "INCONCLUSIVE")
    groups: dict[tuple[str, str, str], list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]] = {}
    for run in recorded(RUNS):
        for test in run["tests"]:
            for check in test["checks"]:
                groups.setdefault((run["phase"], test["name"], check["metric"]), []).append((run, test, check))
    rows = [
        f"| runs of | metric | runs | {' | '.join(map(str.lower, outcomes))} | invalid | change | trials | run |",
        f"|---|---|{'--:|' * (5 + len(outcomes))}",
    ]
    for (phase, name, metric), found in sorted(groups.items()):
        counts = Counter("INVALID" if test["verdict"] == "INVALID" else check["outcome"] for _, test, check in found)
        changes = [check["change"] for *_, check in found if check["change"] is not None]
        cells = (
            f"{phase}, {name}",
            metric,
            len(found),
            *(counts[outcome] for outcome in (*outcomes, "INVALID")),
            format_ratio(statistics.median(changes)) if changes else "-",
            f"{statistics.median(test['trials'] for _, test, _ in found):.0f}",
            f"{statistics.median(run['seconds'] for run, *_ in found):.0f} s",
        )
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
