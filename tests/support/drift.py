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
from tests.support.proxy import ProxiedBroker
from tests.support.repeats import note_rounds

DELAYS_S = tuple(0.32 * 0.25 ** (number / 6) for number in range(7))
"""Delay in each round. It falls by the same factor to a quarter of the first one. With seven rounds, the test detects
this despite 10 ms a round that a busy machine may add at random."""


def drifts(behind: ProxiedBroker, actions: Sequence[Action], folder: Path) -> list[str]:
    """Run a test on such a cluster; gives the beginning of each warning about a drift."""
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
    found = [notice for notice in result.warnings if notice.kind is NoticeKind.DRIFT]
    return [str(notice).partition(" by ")[0] for notice in found]
