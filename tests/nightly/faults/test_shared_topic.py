"""Runs at once on one topic that exists: each counts its own records."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support.ground import Ground
from tests.support.strangers import drop_topic, make_topic

from .cells import ONE_TOPIC, PASSED, ROUND
from .conftest import Table
from .project import LIMITS, PACED, verdict_in, write_project
from .terminal import Run

_RUNS = ("one", "two", "three", "four")
_END_TIMEOUT_S = 90


def test_four_runs_on_one_topic_count_their_own_records(
    broker: Cluster, ground: Ground, tmp_path: Path, table: Table
) -> None:
    """They have the same scenario; tests/broker/load/test_shared_topic.py makes one of four lose records."""
    make_topic(broker, "orders")
    fields = {name: value for name, value in PACED.items() if name != "partitions"} | {"topic": "orders"}
    with ExitStack() as stack:
        stack.callback(drop_topic, broker, "orders")
        runs = []
        for name in _RUNS:
            write_project(tmp_path / name, fields, (*LIMITS, "duplicated == 0", "reordered == 0"))
            cluster = f"--kafka-cluster={broker.bootstrap_servers}"
            runs.append(stack.enter_context(Run(tmp_path / name, ground, cluster, holds={"load"})))
        for run in runs:
            run.await_gate("load")
        began_s = time.monotonic()
        for run in runs:
            run.open_gate("load")
        statuses = [run.end(within_s=_END_TIMEOUT_S) for run in runs]
        seconds = time.monotonic() - began_s
        assert statuses == [PASSED] * len(runs), "\n".join(run.shown for run in runs)

    assert {verdict_in(run.report) for run in runs} == {"PASSED"}
    assert ground.settled() == []
    table.add(ROUND, ONE_TOPIC, "foreign", "PASSED: all four, with exact counts", seconds)
