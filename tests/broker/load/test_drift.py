"""A cluster of others that gets faster from round to round: the user is warned."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_kafkaperf.core.remarks import NoticeKind
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.flow import Watch, run_test
from pytest_kafkaperf.runner.perf_run import PerfRun
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.rounds.actions import Action
from tests.support.proxy import ProxiedBroker
from tests.support.repeats import note_rounds

DELAYS_S = (0.16, 0.1131, 0.08, 0.0566, 0.04)
"""Of each round: it falls by the same factor, and is far above what the broker takes."""


@pytest.mark.parametrize(
    ("actions", "expected"),
    [((), ["produce.latency.p50 fell"]), ((Action(0.1, list),), [])],
    ids=["without actions", "with an action"],
)
def test_a_cluster_that_gets_faster_during_the_rounds_is_a_warning_of_the_test(
    behind: ProxiedBroker, actions: Sequence[Action], expected: list[str], tmp_path: Path
) -> None:
    """Nothing is known of its brokers, and a baseline of cold ones would let regressions pass."""
    settings = read_settings({}, {}, invocation_folder=tmp_path, root=tmp_path)
    fields = {"rate": 200, "duration": "500 ms", "warmup": "300 ms", "linger": 0, "rounds": len(DELAYS_S)}
    marks = [pytest.mark.kafka_scenario(**fields).mark]
    perftest = read_perftest("test_a.py::test_a", marks, {}, settings, folder=tmp_path)

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
    drifts = [notice for notice in result.warnings if notice.kind is NoticeKind.DRIFT]
    assert [str(notice).partition(" by ")[0] for notice in drifts] == expected, result["produce.latency.p50"].rounds
