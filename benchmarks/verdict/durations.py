"""Durations of whole runs, in the situations of users: `python benchmarks/verdict/durations.py quickstart revision`.

- `quickstart`: the test of the README, with limits only.
- `revision`, `revision10`: one and ten unchanged tests, compared with the commit before.
- `version`: one test on Kafka 4.4.0, compared with 4.2.0.
- `screened`: one unchanged test against its stored baseline. (`runs.py many` has thirty.)
- `suspected`: the same against a baseline that is twice as fast, so that the test is measured again. As nothing has
  changed, it passes.

With `+neighbour` after a situation, another program burns one core all the time, but not while baselines are made.

A run takes 20 s to 5 minutes, and one of `revision10` 8 minutes. Each run is appended to `durations.jsonl` at once.
Without a situation, only the tables are printed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from starts import boot, neighbour
from whole_runs import append, git, pytest_report, recorded

RUNS = Path(__file__).resolve().with_name("durations.jsonl")
VERSION, OTHER_VERSION = "4.4.0", "4.2.0"
_FASTER = 2
_TEST = """
import pytest


@pytest.mark.parametrize("size", {sizes})
@pytest.mark.kafka_scenario(rate="{rate}k records/s", acks="all", consumers=1)
@pytest.mark.kafka_threshold({thresholds})
def test_load(kafka_perf, size):
    kafka_perf(record_size=size)
"""
_ONE, _TEN = [1024], [100 * number for number in range(1, 11)]
_LIMITS = '"produce.latency.p99 <= 250 ms", "e2e.latency.p99 <= 500 ms"'
_GATE = '"e2e.latency.p50 <= baseline + 10%", "e2e.latency.p99 <= 250 ms"'
_GATE_KAFKA = '"produce.latency.p50 <= baseline + 10%"'
_STORED = '"produce.latency.p50 <= baseline + 20%"'
_TESTS = {
    "quickstart": _TEST.format(sizes=_ONE, rate=5, thresholds=_LIMITS),
    "revision": _TEST.format(sizes=_ONE, rate=5, thresholds=_GATE),
    "revision10": _TEST.format(sizes=_TEN, rate=5, thresholds=_GATE),
    "version": _TEST.format(sizes=_ONE, rate=10, thresholds=_GATE_KAFKA),
    "screened": _TEST.format(sizes=_ONE, rate=10, thresholds=_STORED),
    "suspected": _TEST.format(sizes=_ONE, rate=10, thresholds=_STORED),
}
_ARGUMENTS = {
    "revision": ["--kafka-compare=git:HEAD~1"],
    "revision10": ["--kafka-compare=git:HEAD~1"],
    "version": [f"--kafka-cluster=local:{VERSION}", f"--kafka-compare=local:{OTHER_VERSION}"],
}


def main() -> None:
    """Run the situations, and print the tables of all runs."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("situations", nargs="*", metavar="SITUATION", help=f"of {', '.join(_TESTS)}")
    options.add_argument("--runs", type=int, default=1, help="of each situation (default: 1)")
    given = options.parse_args()
    for situation in given.situations:
        if situation.partition("+")[0] not in _TESTS or situation.partition("+")[2] not in ("", "neighbour"):
            options.error(f"{situation!r} is not one of {', '.join(_TESTS)}, perhaps with +neighbour")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.runs):
            for situation in given.situations:
                line = _run(situation, Path(folder))
                append(RUNS, line)
                print(situation, f"{line['seconds']} s", *line["verdicts"], line["trials"], flush=True)
    print(_durations(), _spans(), sep="\n\n")


def _run(situation: str, folder: Path) -> dict[str, Any]:
    name, _, with_neighbour = situation.partition("+")
    project = folder / name
    if not project.exists():
        _prepare(name, project)
    began_s = time.monotonic()
    with neighbour() if with_neighbour else contextlib.nullcontext():
        report = pytest_report(project, *_ARGUMENTS.get(name, ()))
    tests = report["tests"]
    spans = Counter[str]()
    for test in tests:
        spans.update(test["spans_s"])
    return {
        "situation": situation,
        "boot": boot(),
        "at": report["created"],
        "seconds": round(time.monotonic() - began_s, 1),
        "verdicts": [test["verdict"] for test in tests],
        "trials": [len(test["trials"]) for test in tests],
        "spans": {span: round(seconds, 1) for span, seconds in spans.items()},
    }


def _prepare(name: str, project: Path) -> None:
    """Write the project, with two commits or with a baseline, and fetch what the runs need."""
    (project / "tests").mkdir(parents=True)
    (project / "tests/test_load.py").write_text(_TESTS[name], encoding="utf-8")
    (project / "pytest.ini").write_text("[pytest]\nkafka_cluster = local\n", encoding="utf-8")
    if name.startswith("revision"):
        git(project, "init", "--quiet")
        for number in (1, 2):
            (project / "NOTES").write_text(f"{number}\n", encoding="utf-8")
            git(project, "add", "--all")
            git(project, "commit", "--quiet", f"--message=Change number {number}")
    if name in ("screened", "suspected"):
        pytest_report(project, "--kafka-update-baselines", "--kafka-calibrate=3")
    if name == "suspected":
        for file in (project / "kafka-baselines").rglob("*.json"):
            baseline = json.loads(file.read_text(encoding="utf-8"))
            for trial in baseline["trials"]:
                for one in trial["rounds"]:
                    one["produce.latency.p50"] /= _FASTER
            file.write_text(json.dumps(baseline), encoding="utf-8")


def _by_situation() -> dict[str, list[dict[str, Any]]]:
    runs: dict[str, list[dict[str, Any]]] = {}
    for line in recorded(RUNS):
        runs.setdefault(line["situation"], []).append(line)
    return runs


def _durations() -> str:
    lines = [
        "| situation | runs | median | lowest to highest | verdicts | trials per test |",
        "|---|--:|--:|--:|---|---|",
    ]
    for situation, runs in _by_situation().items():
        seconds = [run["seconds"] for run in runs]
        verdicts = Counter(verdict for run in runs for verdict in run["verdicts"])
        trials = Counter(number for run in runs for number in run["trials"])
        cells = (
            situation,
            len(runs),
            f"{statistics.median(seconds):.0f} s",
            f"{min(seconds):.0f} to {max(seconds):.0f} s",
            ", ".join(f"{verdict} {count}" for verdict, count in verdicts.items()),
            ", ".join(f"{number} ({trials[number]})" for number in sorted(trials)),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _spans() -> str:
    """Return the median seconds of each span in a run, without spans that take no second."""
    medians = {
        situation: {span: statistics.median(run["spans"][span] for run in runs) for span in runs[0]["spans"]}
        for situation, runs in _by_situation().items()
    }
    shown = [span for span in next(iter(medians.values()), {}) if any(each[span] >= 1 for each in medians.values())]
    lines = [f"| seconds of a run (median) | {' | '.join(shown)} |", f"|---|{'--:|' * len(shown)}"]
    for situation, spans in medians.items():
        lines.append(f"| {situation} | {' | '.join(f'{spans[span]:.1f}' for span in shown)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
