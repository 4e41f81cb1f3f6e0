"""One measurement for `scaling.py` in a separate process: `python benchmarks/controller.py PART SIZE REPEATS`.

Prints JSON: seconds (the median of the repeats) and bytes, by name. A separate process contains nothing of another
size.
"""

from __future__ import annotations

import concurrent.futures
import gc
import json
import math
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.messages import Consumed, LoadReport, Produced, WorkerReport
from pytest_kafkaperf.load.recorder import Histogram, Series
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.perf_run import PerfRun
from pytest_kafkaperf.runner.perftest import PerfTest, read_perftest
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.observations import LogComparison, Observations
from pytest_kafkaperf.runner.settings import Settings
from pytest_kafkaperf.runner.time_budget import PerfTestBudget, RunBudget
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.baseline_file import BaselineRecord
from pytest_kafkaperf.verdict.baseline_store import BaselineStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from pytest_kafkaperf.runner.result import Result

ROUND_S = 60
WARMUP_S = 2
RATE = 2000
"""Records a second of one client."""
CLIENTS = 2
"""Clients of each worker: the first has producers, the next has consumers."""
_VARIANTS = 8
"""The number of different reports in each process of the pool; it returns them in turn, since workers differ."""
_TRIALS = 5
"""Trials of each baseline, of five rounds each."""
_TESTS_BY_FILE = 20
_GONE_RATIO = 0.1
"""The share of the baselines whose tests are gone."""

_made: list[WorkerReport] = []
"""The reports of this process of the pool."""


def merge(size: int, repeats: int) -> dict[str, Any]:
    """Fetch the reports of `size` workers from a pool of processes, unpickle them, and fold them into one round.

    The pool has as many processes as there are cores, and each returns the reports of many workers, one after the
    other: 200 processes do not fit on the machine. Memory is the growth of this process's resident memory at its peak.
    """
    scenario = Scenario.of(
        {"rate": RATE * CLIENTS * math.ceil(size / 2), "duration": f"{ROUND_S} s", "consumers": 1, "producers": 1}
    )
    cores = os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    whole_s, here_s, fold_s = [], [], []
    with concurrent.futures.ProcessPoolExecutor(cores, mp_context=context, initializer=_make) as pool:
        list(pool.map(time.sleep, [0.5] * cores))  # now all processes have made their reports
        first = pool.submit(_report, 0).result()
        fold(Observations(load=LoadReport(workers=[first], start_ns=0)), scenario)
        gc.collect()
        before = _peak_bytes()
        for _ in range(repeats):
            began_s, cpu_s = time.perf_counter(), time.process_time()
            futures = [pool.submit(_report, worker) for worker in range(size)]
            load = LoadReport(workers=[future.result() for future in futures], start_ns=0)
            seen = Observations(load=load, log=LogComparison(growth={}))
            received_s = time.perf_counter()
            done = fold(seen, scenario)
            fold_s.append(time.perf_counter() - received_s)
            whole_s.append(time.perf_counter() - began_s)
            here_s.append(time.process_time() - cpu_s)
            if "produce.latency.p99" not in done.metrics:
                raise SystemExit(f"the round has no latency: {done.problems}")
            del futures, load, seen, done
    return {
        "seconds": {
            "merge": statistics.median(whole_s),
            "controller's CPU": statistics.median(here_s),
            "folding alone": statistics.median(fold_s),
        },
        "bytes": {"merge": _peak_bytes() - before},
    }


def baselines(size: int, repeats: int) -> dict[str, Any]:
    """Write, read and compare `size` baselines in one folder, and search all of them for orphans."""
    with tempfile.TemporaryDirectory() as name:
        settings = _settings(Path(name))
        store, records = BaselineStore(settings.baselines), _records(size)
        for record in records:
            store.save(record)
            test = settings.root / file_of(record.nodeid)
            test.parent.mkdir(parents=True, exist_ok=True)
            test.touch()
        collected = {record.nodeid for record in records[math.ceil(size * _GONE_RATIO) :]}
        files = {file_of(nodeid) for nodeid in collected}
        perf = PerfRun(settings, began_s=0)

        def save() -> None:
            for record in records:
                store.save(record)

        def load() -> None:
            for record in records:
                store.load(record.environment, record.nodeid)

        def compare() -> None:
            for record in records:
                store.comparable(record.environment, record.nodeid, record.scenario)

        def look_for_orphans() -> None:
            perf.prune(collected=collected, files=files, whole=False)

        works = {"save all": save, "load all": load, "compare all": compare, "look for orphans": look_for_orphans}
        return _measured(works, repeats)


def tests(size: int, repeats: int) -> dict[str, Any]:
    """Plan each of `size` perf tests with the time budget, and write the reports at the end."""
    from pytest_kafkaperf.core.files import write_report  # noqa: PLC0415
    from pytest_kafkaperf.reports.columns import Paper  # noqa: PLC0415
    from pytest_kafkaperf.reports.html.html_report import html_page  # noqa: PLC0415 - the other parts need no jinja2
    from pytest_kafkaperf.reports.json_report import json_text  # noqa: PLC0415
    from pytest_kafkaperf.reports.markdown import markdown as summary  # noqa: PLC0415
    from pytest_kafkaperf.reports.terminal import summary_lines  # noqa: PLC0415
    from tests.support import results as simulated  # noqa: PLC0415

    found: list[Result] = simulated.many(size)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = _settings(folder)
        run = simulated.run_of(found, settings=settings)
        perftests = list(_perftests(size, settings))

        def plan() -> None:
            budget = RunBudget(perftests, left_s=1e6)
            for number, perftest in enumerate(perftests, start=1):
                PerfTestBudget(budget, perftest, perftests[number:])

        def table() -> None:
            summary_lines(run, Paper(width=120, colour=True), verbose=False)

        def markdown() -> None:
            write_report(folder / "report.md", summary(run), kind="markdown")

        def document() -> None:
            write_report(folder / "report.json", json_text(run, exit_status=0), kind="json")

        def page() -> None:
            write_report(folder / "report.html", html_page(run), kind="html")

        page()  # loads the modules that draw
        works = {"terminal": table, "Markdown": markdown, "JSON": document, "HTML": page, "plan all": plan}
        return _measured(works, repeats)


def _make() -> None:
    _made.extend(_made_report(seed) for seed in range(_VARIANTS))


def _report(worker: int) -> WorkerReport:
    """Return the report of a worker: even numbers have produced, odd ones have consumed."""
    return _made[worker % _VARIANTS]


def _made_report(seed: int) -> WorkerReport:
    """Make a report with log-normal latencies of some ms, one in a hundred ten times as long; seeds differ slightly."""
    source = np.random.default_rng(seed)
    produces = seed % 2 == 0
    series = Series(0)
    parts = [_part(source, series, produces=produces, client=client) for client in range(CLIENTS)]
    return WorkerReport(
        produced=[part for part in parts if isinstance(part, Produced)],
        consumed=[part for part in parts if isinstance(part, Consumed)],
        produce_series=series if produces else Series(0),
        consume_series=Series(0) if produces else series,
        cpu_s=3.0,
        busy_ratio=0.2,
    )


def _part(source: np.random.Generator, series: Series, *, produces: bool, client: int) -> Produced | Consumed:
    latency, delay = Histogram(), Histogram()
    level_ns = (2e6 if produces else 3e6) * float(source.uniform(0.8, 1.25))
    for second in range(-WARMUP_S, ROUND_S):
        due_ns = second * NS_PER_S + np.arange(RATE, dtype=np.int64) * (NS_PER_S // RATE)
        values_ns = _latencies_ns(source, level_ns)
        series.count(due_ns + values_ns)
        series.record(due_ns, values_ns)
        if second >= 0:
            latency.record(values_ns)
            delay.record(_latencies_ns(source, 1e5))
    records = RATE * ROUND_S
    if not produces:
        return Consumed(
            received=records, total=records + WARMUP_S * RATE, bytes=100 * records, last_ns=ROUND_S * NS_PER_S,
            latency=latency,
        )  # fmt: skip
    return Produced(
        producer=client,
        sent=records,
        acknowledged=records,
        bytes=100 * records,
        first_due_ns=0,
        last_ack_ns=ROUND_S * NS_PER_S,
        latency=latency,
        delay=delay,
        acknowledged_by_partition=dict.fromkeys(range(6), (records + WARMUP_S * RATE) // 6),
    )


def _latencies_ns(source: np.random.Generator, level_ns: float) -> npt.NDArray[np.int64]:
    values_ns = level_ns * np.exp(source.normal(0, 0.4, RATE))
    values_ns[source.random(RATE) < 0.01] *= 10  # noqa: PLR2004 - as the docstring of a report says
    return values_ns.astype(np.int64)


def _records(size: int) -> list[BaselineRecord]:
    from tests.support.results import CREATED, Behaviour, drawn_trial  # noqa: PLC0415 - the path is set by then

    scenario = Scenario.of({"rate": 5000, "duration": "10 s", "consumers": 1})
    measured = [drawn_trial(Behaviour(jmx=True), scenario, number) for number in range(_TRIALS)]
    one = {
        "schema": 1,
        "nodeid": "",
        "environment": "ci",
        "scenario": scenario.model_dump(mode="json"),
        "trials": [
            {
                "created": CREATED,
                "commit": "3c806ae92d5b7ff5a6ed03c1f0ed2bd0cbf1a0f7",
                "fingerprint": {"kafka": "4.3.1", "java": "openjdk 21.0.8", "cores": "2", "memory": "16 GiB"},
                "rounds": [dict(each.metrics) for each in rounds],
            }
            for rounds in measured
        ],
    }
    return [BaselineRecord.model_validate({**one, "nodeid": _nodeid(number)}) for number in range(size)]


def _perftests(size: int, settings: Settings) -> Iterator[PerfTest]:
    for number in range(size):
        fields = {"rate": f"{number + 1}k records/s", "duration": "10 s", "consumers": 1}
        limits = ("produce.latency.p99 <= baseline + 20%", "produce.throughput >= baseline - 10%", "errors == 0")
        marks = [
            pytest.mark.kafka_scenario(**fields).mark,
            pytest.mark.kafka_threshold(*limits).mark,
        ]
        yield read_perftest(_nodeid(number), marks, {}, settings, folder=settings.root)


def _nodeid(number: int) -> str:
    return f"tests/perf/test_{number // _TESTS_BY_FILE}.py::test_{number}"


def _settings(root: Path) -> Settings:
    return read_settings({}, {"cluster": "local"}, invocation_folder=root, root=root)


def _measured(works: dict[str, Callable[[], None]], repeats: int) -> dict[str, Any]:
    """Return the seconds without tracing, and then the peak memory of Python with its allocations traced."""
    seconds = {name: _seconds(work, repeats) for name, work in works.items()}
    return {"seconds": seconds, "bytes": {name: _traced_bytes(work) for name, work in works.items()}}


def _seconds(work: Callable[[], None], repeats: int) -> float:
    taken_s = []
    for _ in range(repeats):
        gc.collect()
        began_s = time.perf_counter()
        work()
        taken_s.append(time.perf_counter() - began_s)
    return statistics.median(taken_s)


def _traced_bytes(work: Callable[[], None]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _peak_bytes() -> int:
    """Return the peak resident memory so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main(arguments: Sequence[str]) -> None:
    """Measure one point."""
    part, size, repeats = arguments
    print(json.dumps({"merge": merge, "baselines": baselines, "tests": tests}[part](int(size), int(repeats))))


if __name__ == "__main__":
    main(sys.argv[1:])
