"""Results to render: not a stand-in for Kafka.

`bare_result` is of given trials. `result` and `one_of_each()` have a few values that are always the same, judged by the
rule, so that texts about them can be stated whole. `drawn_result` has values and curves that are drawn with a seed, as
real runs on two cores give them: 5k records/s paced at 2 ms, trials some per cent apart.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.readings import BrokerCurves
from pytest_kafkaperf.core.environment import Change, Part, differences
from pytest_kafkaperf.core.metrics import QUANTILES
from pytest_kafkaperf.core.notices import Notice, each_once
from pytest_kafkaperf.core.problems import Problem, ProblemKind
from pytest_kafkaperf.load.messages import WorkerShare
from pytest_kafkaperf.load.recorder import Curves
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.reports.columns import Paper
from pytest_kafkaperf.reports.terminal import render_table
from pytest_kafkaperf.reports.wording import block_of, names_of
from pytest_kafkaperf.runner.result import Ending, Result, RunResult, Trial
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan, find_capacity
from pytest_kafkaperf.runner.rounds.round import Round, RoundEvent
from pytest_kafkaperf.scenarios.rate import peak_rate
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.detectable import Calibrated, Noise
from pytest_kafkaperf.verdict.judge import Comparison, NotCompared, judge
from pytest_kafkaperf.verdict.other_changes import OtherChange
from pytest_kafkaperf.verdict.outcome import Ungated, Verdict
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind, Reason
from pytest_kafkaperf.verdict.regression import AgainstStored, FreshTrials
from pytest_kafkaperf.verdict.scale import Measured
from pytest_kafkaperf.verdict.side_by_side import SideBySide
from tests.support.problems import event_told, notice_told, problem_told

FILE = "tests/perf/test_orders.py"
_WOBBLE = (0.98, 0.99, 1.0, 1.01, 1.02)
_VALUES = {
    "produce.throughput": 52_300.0,
    "produce.latency.p50": 0.0021,
    "produce.latency.p99": 0.0121,
    "e2e.latency.p99": 0.0172,
    "errors": 0.0,
    "lost": 0.0,
}
NO_FAULTS = {"errors": 0.0, "unsent": 0.0, "lost": 0.0}
"""The metrics of every round that has to be 0, unless the test says otherwise."""
CREATED = "2026-08-15T09:41:00+00:00"
ENVIRONMENT = "linux-x86_64-amd-epyc-9454p-2c-local"
LIMITS = (
    "produce.throughput >= baseline - 10%",
    "produce.latency.p99 <= baseline + 20%",
    "e2e.latency.p99 <= max(baseline + 20%, 5 ms)",
    "errors == 0",
)
_NORMAL = statistics.NormalDist()


class KnownCluster(Cluster):
    """A cluster on a machine that is always the same."""

    @property
    def fingerprint(self) -> dict[str, str]:
        return {
            "provider": self.provider,
            "kafka": self.version,
            "brokers": str(self.brokers),
            "java": "openjdk 21.0.8",
            "heap": "512m",
            "aiokafka": "0.14.0",
            "python": "3.13.5",
            "system": "Linux",
            "kernel": "6.12.41",
            "cpu": "AMD EPYC 9454P",
            "cores": "2",
            "memory": "16 GiB",
        }


def bare_result(*trials: Trial, **fields: Any) -> Result:
    """A result of these trials that passed without thresholds, but for the fields that are given."""
    given = {
        "nodeid": f"{FILE}::test_ingest",
        "scenario": Scenario(),
        "sources": {},
        "cluster": KnownCluster(bootstrap_servers="127.0.0.1:9092", provider="local", version="4.1.1"),
        "live_baseline": None,
        "baseline_trials": None,
        "changed": (),
        "other_changes": (),
        "calibration": {},
        "verdict": Verdict.PASSED,
        "checks": (),
        "warnings": (),
        "problems": (),
        **fields,
    }
    return Result(trials=trials, **given)


def rounds(**changed: float) -> list[dict[str, float]]:
    """Five rounds that differ by 1%, with some values multiplied; names with two underscores for dots."""
    factors = {name.replace("__", "."): factor for name, factor in changed.items()}
    return [{name: value * wobble * factors.get(name, 1.0) for name, value in _VALUES.items()} for wobble in _WOBBLE]


def trial_at(hour: int, *rounds: Mapping[str, float]) -> Trial:
    """A trial of that hour, with these metrics of its rounds."""
    return Trial(created=f"2025-01-31T{hour}:00:00+00:00", rounds=tuple(Round(metrics=one) for one in rounds))


def result(
    name: str,
    *limits: str,
    measured: Sequence[Mapping[str, float]] | None = None,
    baseline: Sequence[Mapping[str, float]] | None = None,
    problems: Sequence[str] = (),
    ungated: Ungated | None = None,
    file: str = FILE,
    **fields: Any,
) -> Result:
    """What one trial found, against a baseline where there is one."""
    measured = rounds() if measured is None else measured
    why = tuple(problem_told(ProblemKind.CLUSTER_ERROR, text) for text in problems)
    known = BaselineRounds(obstacle=Obstacle(ObstacleKind.NO_BASELINE))
    if baseline is not None:
        # The same on ten days, so that little noise is assumed.
        days = tuple(f"2026-01-{day}" for day in range(20, 30))
        known = BaselineRounds(trials=(tuple(baseline),) * len(days), days=days)
    comparison: Comparison = AgainstStored(baseline=known)
    if ungated is not None:
        comparison = NotCompared(shown=comparison, reason=ungated)
    judgement = judge(
        [parse_threshold(limit) for limit in limits],
        [Measured(rounds=measured)],
        comparison,
        problems=why,
    )
    trial = Trial(
        created="2026-01-31T12:00:00+00:00",
        rounds=tuple(Round(metrics=one) for one in measured),
        problems=why,
    )
    given = {
        "nodeid": f"{file}::{name}",
        "baseline_trials": 1 if baseline else None,
        "baseline": known if any(one.is_relative for one in judgement.checks) else BaselineRounds(),
        **fields,
    }
    return bare_result(trial, verdict=judgement.verdict, checks=judgement.checks, problems=why, **given)


def ending(
    nodeid: str,
    outcome: Literal["passed", "failed", "error", "skipped", "xfailed", "xpassed"],
    reason: str | None = None,
    line: int | None = 7,
    *,
    by_verdict: bool = False,
) -> Ending:
    """How a test of that file ended."""
    file = nodeid.partition("::")[0]
    return Ending(nodeid=nodeid, outcome=outcome, reason=reason, file=file, line=line, by_verdict=by_verdict)


def endings(results: Sequence[Result]) -> dict[str, Ending]:
    """What the verdicts stand for."""
    return {
        each.nodeid: ending(each.nodeid, "failed" if each.verdict.fails else "passed", line=7 + place)
        for place, each in enumerate(results)
    }


def table(
    results: Sequence[Result],
    ends: Mapping[str, Ending],
    width: int = 80,
    *,
    colour: bool = False,
    verbose: bool = False,
) -> str:
    """The table of the terminal."""
    names = names_of(results)
    blocks = [block_of(each, names[each.nodeid], ends.get(each.nodeid), verbose=verbose) for each in results]
    return render_table(blocks, Paper(width=width, colour=colour))


def one_of_each() -> list[Result]:
    """One test of each kind."""
    relative, absolute = "produce.latency.p99 <= baseline + 20%", "e2e.latency.p99 <= max(baseline + 20%, 5 ms)"
    return [
        result("test_ingest", relative, "produce.throughput >= baseline - 10%", "errors == 0", baseline=rounds()),
        result(
            "test_slow[1 KiB-acks=all]",
            relative,
            absolute,
            "produce.throughput >= baseline - 10%",
            baseline=rounds(),
            measured=rounds(produce__latency__p99=1.5, e2e__latency__p99=1.1),
            changed=differences({"kafka": "4.0.0"}, {"kafka": "4.1.1", "config.num.io.threads": "16"}),
            other_changes=(
                OtherChange(
                    metric="produce.latency.p50",
                    observed=0.0028,
                    baseline=0.0021,
                    change=0.32,
                    better=False,
                ),
            ),
        ),
        result("test_sla", "produce.latency.p99 <= 10 ms", "produce.throughput >= 50k records/s"),
        result("test_new", "produce.throughput >= baseline - 10%"),
        result(
            "test_lost_broker",
            "lost == 0",
            measured=[],
            problems=["round 1: no record was acknowledged for 15 s while 300 were outstanding: the cluster is down"],
        ),
        result("test_counts", "errors == 0", "lost == 0", warnings=(notice_told("broker 2 left at 1.2 s"),)),
        result("test_bare"),
    ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """What a cluster does under some load."""

    rate: float = 5000.0
    p50_s: float = 0.0021
    spread: float = 0.38
    """Standard deviation of the log of a latency."""
    record_bytes: int = 1024
    brokers: int = 1
    consumers: int = 1
    jmx: bool = False
    stop_s: float | None = None
    """When a broker goes down in each round."""


def drawn_trial(behaviour: Behaviour, scenario: Scenario, seed: object, *, rounds: int = 5) -> tuple[Round, ...]:
    """The rounds of one trial: 4% between trials, 3% within."""
    source = random.Random(f"{seed}")
    level = math.exp(source.gauss(0, 0.04))
    return tuple(_round(behaviour, scenario, source, level * math.exp(source.gauss(0, 0.03))) for _ in range(rounds))


def drawn_result(
    nodeid: str,
    *,
    before: Behaviour | None,
    now: Behaviour,
    scenario: Mapping[str, Any] | None = None,
    sources: Mapping[str, str] | None = None,
    limits: Sequence[str] = LIMITS,
    fresh: int = 0,
    side_by_side: Behaviour | None = None,
    warnings: Sequence[Notice] = (),
    problems: Sequence[Problem] = (),
) -> Result:
    """A result as the plugin makes it: judged by the real rule against 5 simulated trials of `before`."""
    fields = {"rate": now.rate, "record_size": now.record_bytes, "duration": "10 s", "consumers": now.consumers}
    load = Scenario(**{**fields, **(scenario or {})})
    cluster = _cluster(now, "4.3.1")
    there = {"kafka": "4.2.1", "java": "openjdk 17.0.15"}
    baseline = BaselineRounds(obstacle=Obstacle(ObstacleKind.NO_BASELINE))
    if before is not None:
        earlier = [drawn_trial(before, load, f"{nodeid} before {number}") for number in range(5)]
        stored = tuple(tuple(one.metrics for one in rounds) for rounds in earlier)
        days = tuple(f"2026-01-{day}" for day in range(20, 25))
        baseline = BaselineRounds(trials=stored, days=days, fingerprint={**cluster.fingerprint, **there})
    trials = [
        Trial(
            created=CREATED,
            rounds=drawn_trial(now, load, f"{nodeid} now {number}"),
            other_side=None if side_by_side is None else drawn_trial(side_by_side, load, f"{nodeid} next to {number}"),
        )
        for number in range(1 + fresh)
    ]
    comparison: Comparison = SideBySide()
    if side_by_side is None:
        comparison = FreshTrials(first=AgainstStored(baseline=baseline, confirmation="fresh"))
    judgement = judge(
        [parse_threshold(limit) for limit in limits],
        [each.measured for each in trials],
        comparison,
        problems=problems,
    )
    return Result(
        nodeid=nodeid,
        scenario=load,
        sources=sources or {**dict.fromkeys(fields, "marker"), "duration": "command line"},
        cluster=cluster,
        trials=tuple(trials),
        live_baseline=None if side_by_side is None else _cluster(side_by_side, "4.0.0"),
        baseline_trials=len(baseline.trials) or None,
        baseline=baseline,
        changed=differences(baseline.fingerprint, cluster.fingerprint) if before else (),
        other_changes=(),
        calibration={},
        verdict=judgement.verdict,
        checks=judgement.checks,
        warnings=each_once([*warnings, *(notice for one in trials[0].rounds for notice in one.warnings)]),
        problems=tuple(problems),
        options={} if sources else {"duration": "10 s"},
    )


def regression() -> Result:
    """A p99 that went up by half, confirmed on three fresh trials."""
    slow = Behaviour(p50_s=0.0027, spread=0.5, jmx=True)
    return drawn_result("tests/perf/test_orders.py::test_orders_ingest", before=Behaviour(jmx=True), now=slow, fresh=3)


def failover() -> Result:
    """Three brokers, one of which goes down in each round."""
    down = Behaviour(brokers=3, stop_s=3.0, jmx=True)
    limits = ("produce.latency.p99 <= 5 s", "lost == 0")
    return drawn_result("tests/perf/test_orders.py::test_failover", before=None, now=down, limits=limits)


def side_by_side() -> Result:
    """Against a live baseline, nothing new."""
    nodeid = "tests/perf/test_orders.py::test_upgrade"
    equal = Behaviour(p50_s=0.00205)
    return drawn_result(nodeid, before=None, now=Behaviour(), side_by_side=equal, limits=LIMITS[:2], fresh=9)


def capacity(*, most: float = 180_000.0, searches: int = 3) -> Result:
    """Searches on a cluster that takes so many records a second, and whose latency rises towards that."""
    limits = tuple(map(parse_threshold, ("produce.latency.p99 <= 20 ms", "errors == 0")))
    plan = SearchPlan(limits=limits, low=1_000.0, high=2_000_000.0)
    source = random.Random(most)

    def measure(scenario: Scenario, _: str) -> Round:
        rate = peak_rate(scenario.rate or 0.0)
        load = rate / (most * math.exp(source.gauss(0, 0.005)))
        queue = 1 / (1 - load) if load < 1 else 400 * load
        behaviour = Behaviour(rate=min(rate, most), p50_s=0.0008 + 0.0002 * queue, consumers=0)
        return _round(behaviour, scenario, source, 1.0)

    rounds: list[Round] = []
    for _ in range(searches):
        rounds.append(find_capacity(plan, Scenario(duration="10 s"), measure, rounds))
    nodeid = "tests/perf/test_orders.py::test_how_much"
    base = drawn_result(nodeid, before=None, now=Behaviour(consumers=0), limits=("capacity >= 150k records/s",))
    judgement = judge(
        [parse_threshold("capacity >= 150k records/s")],
        [Trial(created=CREATED, rounds=tuple(rounds)).measured],
        AgainstStored(baseline=BaselineRounds()),
    )
    return dataclasses.replace(
        base,
        plan=plan,
        scenario=Scenario(duration="10 s", record_size=1024, rounds=searches),
        sources={"duration": "call", "record_size": "marker", "rounds": "marker"},
        trials=(Trial(created=CREATED, rounds=tuple(rounds)),),
        verdict=judgement.verdict,
        checks=judgement.checks,
        warnings=each_once(notice for one in rounds for notice in one.warnings),
    )


def sizes() -> list[Result]:
    """A sweep over one field, three decades wide."""
    rates = {100: 412_000.0, 1024: 128_000.0, 10_240: 13_900.0, 102_400: 1450.0}
    return [
        drawn_result(
            f"tests/perf/test_limits.py::test_sizes[{size}]",
            before=Behaviour(rate=rate, p50_s=0.004 + size / 2e6, record_bytes=size, consumers=0),
            now=Behaviour(rate=rate * 0.99, p50_s=0.004 + size / 2e6, record_bytes=size, consumers=0),
            scenario={"rate": None},
            sources={"record_size": "parameter", "duration": "marker"},
            limits=LIMITS[:1],
        )
        for size, rate in rates.items()
    ]


def codecs() -> list[Result]:
    """A sweep over two fields, one of them names."""
    gains = {None: 1.0, "lz4": 1.5, "zstd": 1.25, "gzip": 0.35}
    return [
        drawn_result(
            f"tests/perf/test_limits.py::test_codecs[{producers}-{codec}]",
            before=None,
            now=Behaviour(rate=90_000.0 * gain * producers**0.5, p50_s=0.006 / gain, consumers=0),
            scenario={"rate": None, "compression": codec, "producers": producers},
            sources={"compression": "parameter", "producers": "parameter"},
            limits=("produce.throughput >= 10k records/s",),
        )
        for producers in (1, 4)
        for codec, gain in gains.items()
    ]


def many(number: int) -> list[Result]:
    """So many tests, each its own; every tenth is a regression."""
    slow = Behaviour(p50_s=0.0027, spread=0.5, jmx=True)
    return [
        drawn_result(
            f"tests/perf/test_many.py::test_{place:03}",
            before=Behaviour(jmx=True),
            now=Behaviour(jmx=True) if place % 10 else slow,
            fresh=0 if place % 10 else 3,
        )
        for place in range(number)
    ]


def nothing(text: str) -> Result:
    """A test that could not run."""
    problem = problem_told(ProblemKind.CLUSTER_ERROR, text)
    whole = drawn_result("tests/perf/test_orders.py::test_gone", before=None, now=Behaviour(), problems=[problem])
    return dataclasses.replace(whole, trials=(Trial(created=CREATED, rounds=(), problems=(problem,)),), checks=())


def calibration() -> Result:
    """Five trials that were compared with each other."""
    whole = drawn_result(
        "tests/perf/test_orders.py::test_noise", before=None, now=Behaviour(), fresh=4, limits=("errors == 0",)
    )
    found = Calibrated(
        noise=Noise(within=0.032, between=0.041, assumed=False),
        tolerance=math.log(1.1),
        trials=5,
        suspected=1,
        detectable_change=0.15,
        detectable_over_days=0.13,
    )
    return dataclasses.replace(whole, calibration={"produce.latency.p99": found})


def external() -> Result:
    """On a cluster that ran already."""
    whole = drawn_result("tests/perf/test_orders.py::test_cluster", before=None, now=Behaviour())
    return dataclasses.replace(whole, cluster=dataclasses.replace(whole.cluster, provider="external"))


def hostile(markup: str) -> list[Result]:
    """Two tests of a sweep in which everything that a user can write is that text."""
    found = []
    for number, payload in enumerate((f"file:{markup}", "file:other.txt")):
        nodeid = f"tests/perf/test_x.py::test_y[{number}-{markup}]"
        sources = {"payload": "parameter", "topic": markup}
        scenario = {"payload": payload, "record_size": None}
        whole = drawn_result(
            nodeid, before=None, now=Behaviour(), scenario=scenario, sources=sources, limits=("errors == 0",)
        )
        trial = whole.trials[0]
        rounds = tuple(
            dataclasses.replace(one, events=(event_told(3.0, markup),), brokers=_renamed(one.brokers, markup))
            for one in trial.rounds
        )
        found.append(
            dataclasses.replace(
                whole,
                scenario=whole.scenario.model_copy(update={"topic": markup}),
                trials=(dataclasses.replace(trial, rounds=rounds),),
                checks=tuple(dataclasses.replace(check, reasons=(Reason(markup),)) for check in whole.checks),
                cluster=dataclasses.replace(whole.cluster, version=markup),
                changed=(Change(markup, None, None, Part.CLUSTER),),
                warnings=(notice_told(markup),),
                problems=(problem_told(ProblemKind.CLUSTER_ERROR, markup),),
                notes=(notice_told(markup),),
            )
        )
    return found


def run_of(results: Sequence[Result], *, root: Path = Path("/home/ci/project"), **changes: Any) -> RunResult:
    """A run of these tests in the root folder `root`, without reports to write."""
    settings = read_settings({"cluster": "local"}, {}, invocation_folder=root, root=root)
    given: dict[str, Any] = {
        "results": tuple(results),
        "endings": {},
        "errors": (),
        "settings": settings,
        "created": CREATED,
        "took_s": 161.0,
        "plugin": "0.1.0",
        "commit": "3c806ae92d5b7ff5a6ed03c1f0ed2bd0cbf1a0f7",
        "environment": {"key": ENVIRONMENT},
        "environment_keys": (ENVIRONMENT,),
        "orphans": (),
        "pruned": False,
        **changes,
    }
    return RunResult(**given)


def _renamed(curves: BrokerCurves | None, name: str) -> BrokerCurves | None:
    if curves is None:
        return None
    values = {value: curve for broker in curves["brokers"].values() for value, curve in broker.items()}
    return {**curves, "brokers": {name: values}}


def _cluster(behaviour: Behaviour, version: str) -> Cluster:
    return KnownCluster(
        bootstrap_servers="127.0.0.1:9092", brokers=behaviour.brokers, provider="local", version=version, facts={}
    )


def _round(behaviour: Behaviour, scenario: Scenario, source: random.Random, level: float) -> Round:
    p50_s, tail = behaviour.p50_s * level, behaviour.spread * math.exp(source.gauss(0, 0.05))
    held_s = 0.0 if behaviour.stop_s is None else 1.4
    rate = behaviour.rate * (math.exp(source.gauss(0, 0.0002)) if scenario.rate else 1 / level)
    metrics = {
        "produce.throughput": rate,
        "produce.bandwidth": rate * behaviour.record_bytes,
        **_latencies("produce.latency", p50_s, tail, held_s),
    }
    if behaviour.consumers:
        metrics |= {"consume.throughput": rate * 0.999}
        metrics |= _latencies("e2e.latency", p50_s * 1.25, tail, held_s)
        metrics |= {"lag.max": 120.0, "lag.end": 0.0}
    metrics |= {"errors": 0.0, "lost": 0.0, "client.cpu_per_record": 19.0 * level}
    metrics |= {"broker.cpu": 0.42 * level, "broker.cpu.max": 0.61 * level, "broker.memory": 648e6 * behaviour.brokers}
    metrics |= _request_times(p50_s) if behaviour.jmx else {}
    times = [*range(-2, 11)]
    series = {"produce": _curves(times, behaviour, source, rate=rate, p50_s=p50_s, tail=tail)}
    if behaviour.consumers:
        series["consume"] = _curves(times, behaviour, source, rate=rate * 0.999, p50_s=p50_s * 1.25, tail=tail)
    events: tuple[RoundEvent, ...] = ()
    if behaviour.stop_s is not None:
        moved_s = behaviour.stop_s + source.uniform(0.4, 0.9)
        texts = ("stop_broker(2)", "2 partitions (1, 4): leader moved from broker 2 to 1, 3")
        instants = (behaviour.stop_s, moved_s)
        events = tuple(map(event_told, instants, texts))
    return Round(
        metrics=metrics,
        series=series,
        brokers=_brokers(times, behaviour, level, source),
        warnings=tuple(event.notice for event in events),
        events=events,
        shares=_shares(scenario, round(rate * 10)),
    )


def worker_share(records: int, *, producers: int = 1) -> WorkerShare:
    """The share of one worker that sends all records."""
    return WorkerShare(host=None, producers=producers, consumers=0, cpu_s=0.9, busy_ratio=0.1, sent=records, received=0)


def _shares(scenario: Scenario, records: int) -> tuple[WorkerShare, ...]:
    """One worker of each kind."""
    share = worker_share(records, producers=scenario.producers)
    reading = dataclasses.replace(share, producers=0, consumers=scenario.consumers, sent=0, received=records)
    return (share, reading) if scenario.consumers else (share,)


def _latencies(family: str, p50_s: float, tail: float, held_s: float) -> dict[str, float]:
    parts = {part: p50_s * math.exp(tail * _NORMAL.inv_cdf(quantile)) for part, quantile in QUANTILES.items()}
    parts |= {"mean": p50_s * math.exp(tail**2 / 2), "max": p50_s * math.exp(tail * 3.9)}
    parts |= {part: parts[part] + held_s for part in ("p95", "p99", "p99.9", "max") if held_s}
    return {f"{family}.{part}": value for part, value in parts.items()}


def _request_times(p50_s: float) -> dict[str, float]:
    shares = {"queue": 0.06, "local": 0.31, "remote": 0.02, "send": 0.05}
    times = {f"broker.produce.{part}": p50_s * share for part, share in shares.items()}
    return {**times, "broker.produce.time": sum(times.values()), "broker.handlers.idle": 0.91}


def _curves(
    times: Sequence[int], behaviour: Behaviour, source: random.Random, *, rate: float, p50_s: float, tail: float
) -> Curves:
    def slow(at_s: int) -> float:
        warming = 1 + 2.5 * math.exp(-(at_s + 2) * 1.6)
        return warming * math.exp(source.gauss(0, 0.08))

    held = [0.0 if behaviour.stop_s is None or not 0 <= at_s - behaviour.stop_s < 2 else 1.4 for at_s in times]
    p50 = [p50_s * slow(at_s) + wait * 0.3 for at_s, wait in zip(times, held, strict=True)]
    p99 = [value * math.exp(tail * 2.33) + wait for value, wait in zip(p50, held, strict=True)]
    count = [rate * (0.62 if wait else 1.0) * math.exp(source.gauss(0, 0.006)) for wait in held]
    return Curves(
        interval_s=1,
        first_s=float(times[0]),
        count=[*count[:-1], rate * 0.003],
        p50=[*p50[:-1], None],
        p99=[*p99[:-1], None],
        max=[*(value * 1.6 for value in p99[:-1]), None],
    )


def _brokers(times: Sequence[int], behaviour: Behaviour, level: float, source: random.Random) -> BrokerCurves:
    def around(value: float, spread: float = 0.05) -> list[float | None]:
        return [value * math.exp(source.gauss(0, spread)) for _ in times]

    bytes_a_second = behaviour.rate * behaviour.record_bytes / behaviour.brokers
    own: dict[str, dict[str, list[float | None]]] = {
        str(number): {
            "cpu": around(0.42 * level / behaviour.brokers + 0.05 * number),
            "memory": around(640e6 + 12e6 * number, 0.002),
            "disk.write": around(bytes_a_second),
            "disk.read": [0.0] * len(times),
            "network.in": around(bytes_a_second * 2),
            "network.out": around(bytes_a_second * 2.4),
            **({"handlers.idle": around(0.9, 0.01)} if behaviour.jmx else {}),
        }
        for number in range(1, behaviour.brokers + 1)
    }
    return BrokerCurves(interval_s=1, first_s=float(times[0]), brokers=own)
