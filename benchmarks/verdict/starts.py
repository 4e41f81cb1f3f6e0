"""Trials of two brokers side by side, as raw data for the replay: `python benchmarks/verdict/starts.py ARM [ARM...]`.

An arm is `LOAD-NOISE-EFFECT`, for example `closed-low-none`: the load (`closed` or `paced`), the brokers (`disk`: as
usual, `memory`: logs in memory, `quick`: only the JVM's quick compiler, `low`: both), and what
makes the candidate slower (`none`; `burn10`: 10 microseconds of CPU time for each produce request; `wait10`: such a
delay without CPU time; `heap`, `flush`, `threads`, or a Kafka version). `+neighbour` after an arm burns one core
during every other trial.

Each trial is a start of both brokers, a warm-up and rounds side by side, by the code that `pytest` runs. It is appended
to `starts.jsonl` at once, with the id of this machine's boot, so that results grow over runs. `replay.py` reads them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
from whole_runs import append

from pytest_kafkaperf.clusters.brokers import distribution, java
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.units import format_ratio
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds
from pytest_kafkaperf.runner.trial import TrialRunner
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.scale import Difference, Measured, difference

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
STARTS = HERE / "starts.jsonl"
METRICS = (
    "produce.throughput",
    "produce.latency.p50",
    "produce.latency.p99",
    "e2e.latency.p50",
    "e2e.latency.p99",
    "broker.cpu_per_record",
    "client.cpu_per_record",
)
_LOADS: dict[str, dict[str, Any]] = {
    "closed": {"record_size": 100, "partitions": 6, "acks": 1},
    "paced": {"record_size": 100, "partitions": 6, "acks": 1, "rate": 50_000, "consumers": 1},
}
_NEIGHBOUR = """
import sys, time
while True:
    if time.time() % 60 >= float(sys.argv[1]):
        time.sleep(0.1)
"""
_PAIRS, _ROUND_S, _WARMUP_S = 4, 1.0, 0.3
_MOST_WARM_UP_S = 60.0
_NOISES: dict[str, dict[str, Any]] = {
    "disk": {},
    "memory": {"log_dirs": "/dev/shm"},  # noqa: S108 - a memory file system
    "quick": {"quick_compiler": True},
    "low": {"quick_compiler": True, "logs_in_memory": True},
}
_EFFECTS: dict[str, dict[str, Any]] = {
    "none": {},
    "heap": {"heap": "256m"},
    "flush": {"config": {"log.flush.interval.messages": "100000"}},
    "threads": {"config": {"num.io.threads": "1", "num.network.threads": "1"}},
}


def main() -> None:
    """Run the trials."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("arms", nargs="+", metavar="ARM")
    options.add_argument("--trials", type=int, default=10, help="of each arm (default: 10)")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        agent = f"-javaagent:{burn_jar(Path(folder))}"
        for arm in given.arms:
            os.environ["JDK_JAVA_OPTIONS"] = agent
            _run(arm, given.trials)


def _run(arm: str, trials: int) -> None:
    name, _, with_neighbour = arm.partition("+")
    load, noise, effect = name.split("-", 2)
    common: dict[str, Any] = {**_NOISES[noise], "heap": "1g"}
    fields = {"rounds": _PAIRS, "duration": f"{_ROUND_S} s", "warmup": f"{_WARMUP_S} s", **_LOADS[load]}
    scenario = Scenario.of(fields)
    with contextlib.ExitStack() as stack:
        specs = [ClusterSpec(**{**common, **_changes(effect)}), ClusterSpec(**common)]
        with ThreadPoolExecutor(len(specs)) as threads:
            starting = [provision(spec, target="local") for spec in specs]
            clusters = list(threads.map(lambda one: one.__enter__(), starting))
        for one in starting:
            stack.push(one.__exit__)
        runner = TrialRunner(
            [SideRounds(Side.of(cluster), scenario) for cluster in clusters],
            warm_up_s=_MOST_WARM_UP_S,
            allocation=WorkerAllocation(producing=1, consuming=1),
        )
        for number in range(trials):
            # Not always with the same side first.
            with neighbour() if with_neighbour and number % 4 in (1, 2) else contextlib.nullcontext():
                _keep(arm, number, runner)


def _keep(arm: str, number: int, runner: TrialRunner) -> None:
    before, began_s = psutil.cpu_times(), time.monotonic()
    trial = runner.measure_fresh() if number else runner.measure()
    after = psutil.cpu_times()
    took_s = time.monotonic() - began_s
    line = {
        "arm": arm,
        "boot": boot(),
        "at": trial.created,
        "first": number % 2,
        "seconds": round(took_s, 1),
        "load": round(os.getloadavg()[0], 1),
        "steal": round(after.steal - before.steal, 2),
        "problems": [str(problem) for problem in trial.problems],
        "rounds": [values(one.metrics) for one in trial.rounds],
        "other_side": [values(one.metrics) for one in trial.other_side or ()],
    }
    append(STARTS, line)
    measured = Measured(rounds=line["rounds"], other_side=line["other_side"])
    shown = {name: difference(CATALOGUE[name], measured) for name in METRICS}
    changes = [f"{name} {format_ratio(one.value)}" for name, one in shown.items() if isinstance(one, Difference)]
    print(f"{arm} {number}: {took_s:.1f} s, worse by:", ", ".join(changes), *line["problems"], flush=True)


def boot() -> str:
    """Return the start of this boot's id."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:8]


def values(metrics: Any) -> dict[str, float]:
    """Return the metrics of a round that are kept."""
    return {name: float(f"{metrics[name]:.5g}") for name in METRICS if name in metrics}


def _changes(effect: str) -> dict[str, Any]:
    for way in ("burn", "wait"):
        if effect.startswith(way):
            return {"config": {"authorizer.class.name": "Burn", f"{way}.us": effect.removeprefix(way)}}
    return _EFFECTS.get(effect) or ({} if effect == "none" else {"version": effect})


@contextlib.contextmanager
def neighbour(*, half_minutes: bool = False) -> Iterator[None]:
    """Burn one core, all the time or half a minute in each minute."""
    busy_s = "30" if half_minutes else "60"
    with subprocess.Popen([sys.executable, "-c", _NEIGHBOUR, busy_s]) as process:  # noqa: S603 - the program above
        try:
            yield
        finally:
            process.kill()


def burn_jar(folder: Path) -> Path:
    """Compile `Burn.java` against Kafka's classes."""
    runtime = java.find()
    kafka = distribution.installed(DEFAULT_VERSION, java=runtime, cache=distribution.cache_folder())
    classpath = os.pathsep.join(map(str, kafka.classpath))
    javac = ["javac", "--release", "17", "-cp", classpath, "-d", str(folder), str(HERE / "Burn.java")]
    subprocess.run(javac, check=True, timeout=60)  # noqa: S603 - the benchmark's own source
    jar = folder / "burn.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nPremain-Class: Burn$Agent\n")
        for compiled in folder.glob("*.class"):
            archive.write(compiled, compiled.name)
    return jar


if __name__ == "__main__":
    main()
