"""Other changes in many runs whose noise is known."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping

from pytest_kafkaperf.core.metrics import CATALOGUE, QUANTILES
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.other_changes import OtherChange, other_changes
from pytest_kafkaperf.verdict.scale import Measured

Trial = list[dict[str, float]]

_NOISE = {"broker.cpu": 0.065, "broker.cpu.max": 0.1, "broker.memory": 0.05, "client.cpu_per_record": 0.05}
"""Between trials, standard deviation of the log; of throughputs as of the CPU, of latencies 0.17."""


def _drawn(chance: random.Random, rounds: int, moved: Mapping[str, float]) -> Trial:
    """A trial as fresh brokers give it: what moves together shares its trial's error."""
    trial: Trial = [{} for _ in range(rounds)]
    for family in ("produce.latency", "produce.delay", "e2e.latency"):
        level = chance.gauss(0, 0.17)
        for one in trial:
            own = level + chance.gauss(0, 0.08)
            one.update({f"{family}.{part}": math.exp(own + chance.gauss(0, 0.05)) for part in ("mean", *QUANTILES)})
    for name, between in {**_NOISE, "produce.throughput": 0.065, "consume.throughput": 0.065}.items():
        level = chance.gauss(0, between) + math.log(moved.get(name, 1.0))
        for one in trial:
            one[name] = math.exp(level + chance.gauss(0, between))
    assert trial[0].keys() <= CATALOGUE.keys()
    return trial


def drawn_runs(number: int, *, rounds: int = 5, **moved: float) -> list[tuple[OtherChange, ...]]:
    """The other changes that each of `number` runs reports, against a baseline of five trials, one a day."""
    chance = random.Random(1945)
    named = {name.replace("_", "."): factor for name, factor in moved.items()}
    return [
        other_changes([Measured(rounds=_drawn(chance, rounds, named))], _baseline(chance, rounds), gated=())
        for _ in range(number)
    ]


def _baseline(chance: random.Random, rounds: int) -> BaselineRounds:
    days = tuple(f"2026-01-0{day}" for day in range(1, 6))
    return BaselineRounds(trials=tuple(tuple(_drawn(chance, rounds, {})) for _ in days), days=days)
