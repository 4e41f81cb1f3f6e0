"""A cluster of others that gets faster from round to round."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_kafkaperf.core.notices import NoticeKind
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.flow import Watch, run_test
from pytest_kafkaperf.runner.perf_run import PerfRun
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.round import Round
from tests.support.proxy import ProxiedBroker
from tests.support.repeats import GeneratorTooSlowError, note_rounds

DELAYS_S = tuple(0.32 * 0.25 ** (number / 6) for number in range(7))
"""Delay in each round. It falls by the same factor to a quarter of the first one. With seven rounds, the test detects
this despite 10 ms a round that a busy machine may add at random."""
FALL = "produce.latency.p50 fell"
_STALL_S = 0.05
"""What a stall of the broker or the proxy adds to a round, at least: half of its records wait in vain."""


def drifts(behind: ProxiedBroker, actions: Sequence[Action], folder: Path) -> list[str]:
    """Run a test on such a cluster; gives the beginning of each warning about a drift.

    Raises:
        GeneratorTooSlowError: a stall has hidden the drift, so the test is to be repeated.

    """
    settings = read_settings({}, {}, invocation_folder=folder, root=folder)
    fields = {"rate": 200, "duration": "500 ms", "warmup": "300 ms", "linger": 0, "rounds": len(DELAYS_S)}
    marks = [pytest.mark.kafka_scenario(**fields).mark]
    perftest = read_perftest("test_a.py::test_a", marks, {}, settings, folder=folder)

    def set_delay(_: str, number: int, progress: Progress) -> None:
        if progress.phase == "connecting":
            behind.proxy.delay(DELAYS_S[number - 1])

    perf = PerfRun(settings, began_s=time.monotonic())
    try:
        result = run_test(perftest, perf.side(perftest, behind.proxied, actions), perf, watch=Watch(progress=set_delay))
    finally:
        perf.close()
        behind.proxy.delay(0)

    note_rounds(result.rounds)
    warnings = [notice for notice in result.warnings if notice.kind is NoticeKind.DRIFT]
    found = [str(notice).partition(" by ")[0] for notice in warnings]
    if not actions and found != [FALL]:
        _require_delays(result.rounds)
    return found


def _require_delays(rounds: Sequence[Round]) -> None:
    """Raise an error if a round was much slower than its delay."""
    for one, delay_s in zip(rounds, DELAYS_S, strict=False):
        if (more_s := one.metrics["produce.latency.p50"] - delay_s) > _STALL_S:
            raise GeneratorTooSlowError(f"a stall made a round {more_s:.2f} s slower than its delay")
