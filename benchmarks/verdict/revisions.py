"""Verdicts on commits of a service, each compared with its parent: `python benchmarks/verdict/revisions.py`.

The service in `service/` gets a history of eight commits, of which one adds 15% of work on each record and another one
a wait of 20 ms. The phases:

- `unchanged`: a commit that changes no code. `work` and `wait`: the two slower ones.
- `library`: the same code on another version of confluent-kafka, in a virtual environment of its own.
- `bisect`: `kafkaperf bisect` over all commits, for the one that waits.

Each run is appended to `revisions.jsonl` at once. Without a phase, only the table is printed.
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
import time
from collections import Counter
from pathlib import Path

from starts import boot
from whole_runs import append, git, recorded

HERE = Path(__file__).resolve().parent
RUNS = HERE / "revisions.jsonl"
WORK, WAIT = 3, 6
"""Numbers of the commits that are slower, from 0."""
COMMITS = 8
OLD, NEW = "confluent-kafka==2.6.1", "confluent-kafka"
_TIMEOUT_S = 1800
PHASES = ("unchanged", "work", "wait", "library", "bisect")


def main() -> None:
    """Run the phases, and print the table of all runs."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("phases", nargs="*", choices=[*PHASES, []], metavar="PHASE", help=f"of {', '.join(PHASES)}")
    options.add_argument("--runs", type=int, default=1, help="of each phase (default: 1)")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder, "repository")
        commits = _history(repository) if given.phases else []
        for _ in range(given.runs):
            for phase in given.phases:
                number = sum(run["phase"] == phase for run in recorded(RUNS))  # the unchanged commits in turns
                line = _run(phase, number, repository, commits)
                append(RUNS, line)
                print(line, flush=True)
    print(_table())


def _history(repository: Path) -> list[str]:
    """Make the commits, and return their hashes."""
    shutil.copytree(HERE / "service", repository, ignore=shutil.ignore_patterns("__pycache__"))
    git(repository, "init", "--quiet")
    work = repository / "orders/work.py"
    commits = []
    for number in range(COMMITS):
        text = work.read_text(encoding="utf-8")
        if number == WORK:
            work.write_text(text.replace("WORK = 4_000", "WORK = 4_600"), encoding="utf-8")
        elif number == WAIT:
            work.write_text(text.replace("DELAY_S = 0.0", "DELAY_S = 0.02"), encoding="utf-8")
        (repository / "NOTES").write_text(f"{number}\n", encoding="utf-8")
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", f"--message=Change number {number}")
        commits.append(git(repository, "rev-parse", "HEAD"))
    return commits


def _run(phase: str, number: int, repository: Path, commits: list[str]) -> dict[str, object]:
    unchanged = [each for each in range(1, COMMITS) if each not in (WORK, WAIT)]
    chosen = {"work": WORK, "wait": WAIT}.get(phase, unchanged[number % len(unchanged)])
    git(repository, "checkout", "--quiet", "--force", commits[COMMITS - 1 if phase == "bisect" else chosen])
    environment, began_s = dict(os.environ), time.monotonic()
    if phase == "bisect":
        command = [str(Path(sys.executable).with_name("kafkaperf")), "bisect", f"{commits[WORK]}..{commits[-1]}"]
        ran = _ran([*command, "tests/test_orders.py::test_orders", "--kafka-cluster=local"], repository, environment)
        named = ran.stdout.splitlines()[-1] if ran.stdout else ran.stderr
        found = "found" if f"Change number {WAIT} " in named else "missed"
        return {
            "phase": phase,
            "boot": boot(),
            "seconds": round(time.monotonic() - began_s),
            "verdict": found,
            "said": named,
        }
    base = f"git:{commits[chosen - 1]}"
    options = []
    if phase == "library":
        environment["ORDERS_CLIENT"] = "confluent-kafka"
        base, options = "git:HEAD", [f"--kafka-compare-setup=pip install -q {OLD}"]
    report = repository / "report.json"
    report.unlink(missing_ok=True)
    began_s = time.monotonic()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--kafka-compare={base}", *options]
    ran = _ran([*command, f"--kafka-report=json:{report}"], repository, environment)
    if not report.exists():
        raise SystemExit(ran.stdout)
    (test,) = json.loads(report.read_text(encoding="utf-8"))["tests"]
    checks = [
        {"outcome": check["verdict"]} | {name: check[name] for name in ("metric", "change", "interval")}
        for check in test["checks"]
    ]
    return {
        "phase": phase,
        "boot": boot(),
        "seconds": round(time.monotonic() - began_s),
        "verdict": test["verdict"],
        "problems": [problem["text"] for problem in test["problems"]],
        "trials": len(test["trials"]),
        "changed": test["changed"],
        "checks": checks,
    }


def _ran(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - pytest, and the command kafkaperf
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )


def _table() -> str:
    """Return the verdicts of all runs by phase, in Markdown."""
    runs = recorded(RUNS)
    lines = ["| phase | runs | verdicts | median time | median trials |", "|---|---|---|---|---|"]
    for phase in dict.fromkeys(run["phase"] for run in runs):
        those = [run for run in runs if run["phase"] == phase]
        verdicts = ", ".join(
            f"{verdict} {count}" for verdict, count in Counter(run["verdict"] for run in those).items()
        )
        trials = [run["trials"] for run in those if "trials" in run]
        took, needed = (
            statistics.median(run["seconds"] for run in those),
            statistics.median(trials) if trials else "-",
        )
        lines.append(f"| `{phase}` | {len(those)} | {verdicts} | {took:.0f} s | {needed} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
