"""Accuracy of the application metrics: `python benchmarks/applications.py`.

Services of a known time for each record, and so of a known capacity, commit at a known interval. What the plugin finds
must agree with arithmetic within one commit interval, as far as readings of offsets show it, and 2%:

- `delay`: a service that keeps up, with 20 ms for each record
- `overload`: 100 records/s for 5 s, of which it takes 50: the lag grows by 50 records/s, and the rest takes 5 s
- `outage`: down for 4 s; it takes 300 records/s, and 100 records/s come in
- `missed`: a backlog of 30 s; it takes 400 records/s, and 100 records/s come in

Each is an application on aiokafka and on confluent-kafka. Kafka's console consumer, on Java, has no known capacity; it
keeps up, so it has no `overload` and no `missed`, all other times are those of its commits, and its recovery ends with
its first commit. The applications run at the same time, on one broker.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.kafka_tools import installed_tools
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, running
from pytest_kafkaperf.scenarios.scenario import Scenario

COMMIT_S, READING_S = 0.25, 0.1
RATE = 100
TOLERATED_RATIO = 0.02
FOLDER = Path(__file__).resolve().parents[1]
SINKS = {"aiokafka": FOLDER / "tests/support/sink.py", "confluent-kafka": FOLDER / "benchmarks/confluent_sink.py"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One load on one service."""

    delay_s: float
    duration_s: float
    rate: int = RATE
    backlog: int = 0
    down_s: tuple[float, float] | None = None
    """When it is stopped, and when it is started."""


CASES = {
    "delay": Case(delay_s=0.02, duration_s=4, rate=20),
    "overload": Case(delay_s=0.02, duration_s=5),
    "outage": Case(delay_s=1 / 300, duration_s=13, down_s=(2, 6)),
    "missed": Case(delay_s=1 / 400, duration_s=14, backlog=30 * RATE),
}


def main() -> int:
    """Measure and print. Return 1 if a metric is outside its tolerance."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=10)
    runs = options.parse_args().runs
    within: Counter[tuple[str, str, str]] = Counter()
    found: dict[tuple[str, str, str], list[float]] = {}
    with provision(ClusterSpec(), target="local") as cluster:
        classpath = installed_tools(DEFAULT_VERSION).classpath
        with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as processes:
            for number in range(1, runs + 1):
                each = [
                    processes.submit(_values, cluster.bootstrap_servers, client, number, classpath)
                    for client in (*SINKS, "Java")
                ]
                for key, off, tolerated, shown in itertools.chain.from_iterable(one.result() for one in each):
                    within[key] += abs(off) <= tolerated
                    found.setdefault(key, []).append(off)
                    verdict = "ok" if abs(off) <= tolerated else "NO"
                    print(f"{number:3} {' '.join(key):45} {shown:45} {verdict}", flush=True)
    print("\n| client | load | metric | off by (lowest to highest) | within |\n| --- | --- | --- | --- | --- |")
    for key, offs in found.items():
        print(f"| {' | '.join(key)} | {min(offs):+.3f} to {max(offs):+.3f} | {within[key]} of {runs} |")
    return int(any(within[key] < runs for key in found))


def _values(
    servers: str, client: str, number: int, classpath: str
) -> list[tuple[tuple[str, str, str], float, float, str]]:
    """Return for each metric of a client its name, the difference from arithmetic, what is tolerated, and a text."""
    found = []
    for name, case in CASES.items():
        if client == "Java" and name in ("overload", "missed"):
            continue
        one = _measured(Cluster(bootstrap_servers=servers), client, case, f"{client}-{name}-{number}", classpath)
        if one.problems:
            found.append(((client, name, "valid"), 1.0, 0.0, "; ".join(map(str, one.problems))))
        for metric, expected, tolerated in _expected(name, one, 0.0 if client == "Java" else case.delay_s):
            value = one.metrics.get(metric, float("nan"))
            shown = f"{value:.3f}, expected {expected:.3f} ± {tolerated:.3f}"
            found.append(((client, name, metric), value - expected, tolerated, shown))
    return found


def _measured(cluster: Cluster, client: str, case: Case, topic: str, classpath: str) -> Round:
    group = f"group-{topic}"
    if client == "Java":
        command = ["java", "-Xmx128m", "-cp", classpath, "org.apache.kafka.tools.consumer.ConsoleConsumer"]
        interval = f"--command-property=auto.commit.interval.ms={COMMIT_S * 1000:.0f}"
        command += ["--bootstrap-server={bootstrap_servers}", interval]
        command += [f"--topic={topic}", f"--group={group}", "--from-beginning"]
    else:
        times = [f"--delay-ms={case.delay_s * 1000}", f"--commit-ms={COMMIT_S * 1000}"]
        names = ["--bootstrap-servers={bootstrap_servers}", f"--topic={topic}", f"--group={group}"]
        command = ["python", str(SINKS[client]), *names, *times]
    fields: dict[str, Any] = {
        "topic": topic,
        "watch_group": group,
        "rate": case.rate,
        "duration": f"{case.duration_s} s",
    }
    scenario = Scenario.of(fields | {"warmup": 0, "rounds": 1, "backlog": case.backlog})
    recipe = Recipe.of({"command": command, "ready": f"group:{group}", "topics": {topic: 1}, "timeout": "1 min"})
    with Application(recipe, cluster).open() as application:
        actions = []
        if case.down_s is not None:
            actions = [Action(case.down_s[0], application.stop), Action(case.down_s[1], application.start)]
        side = SideRounds(Side.of(cluster, actions=actions, apps=[application]), scenario)
        with running([side], WorkerAllocation(producing=1)) as workers:
            return side.measure(workers)


def _expected(name: str, one: Round, delay_s: float) -> list[tuple[str, float, float]]:
    """Return the metrics of a load, each with what arithmetic says and what is tolerated."""

    def time(metric: str, expected_s: float) -> tuple[str, float, float]:
        return metric, expected_s, COMMIT_S + READING_S + TOLERATED_RATIO * expected_s

    at_s = {event.action.kind: event.at_s for event in one.events if event.action is not None}
    capacity = 1 / delay_s if delay_s else float("inf")
    load_s, rate = CASES[name].duration_s, CASES[name].rate
    growth = max(0.0, rate - capacity)
    slope = ("app.lag.slope", growth, rate * (COMMIT_S / load_s + TOLERATED_RATIO))
    match name:
        case "delay":
            return [time("app.delay.p50", delay_s), time("app.drain", delay_s), slope]
        case "overload":
            return [slope, time("app.drain", load_s * rate / capacity - load_s)]
        case "outage":
            if delay_s == 0:  # its first commit covers all that it missed
                return [time("app.recovery", at_s["started"] - at_s["stopped"] + one.metrics.get("app.start", 0.0))]
            return [time("app.recovery", (at_s["ready"] - at_s["stopped"]) * capacity / (capacity - RATE))]
    waiting = CASES[name].backlog + capacity * at_s["ready"]
    return [time("app.recovery", waiting / (capacity - RATE))]


if __name__ == "__main__":
    os.chdir(FOLDER)
    sys.exit(main())
