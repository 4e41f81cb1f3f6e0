"""An application between two topics, and loads that go through it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.problems import ProblemKind
from tests.support import relay as application
from tests.support.patience import PATIENCE_S
from tests.support.rounds import Load
from tests.support.sink import running_when_ready
from tests.support.strangers import drop_topic, make_topic

WARM, DUE = 100, 600
MIDDLE = WARM + DUE // 2
"""A measured record, also where the application stalls: it then reads its partitions one after the other."""
PACED: dict[str, Any] = {"rate": 300, "duration": "2 s", "warmup": f"{WARM / 300} s", "consumers": 1}
IN, OUT, DEAD = "relay-in", "relay-out", "relay-dead"
THROUGH: dict[str, Any] = {"topic": IN, "output_topic": OUT, **PACED}

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def relay(broker: Cluster) -> Iterator[Start]:
    """Start the application with some arguments, between two topics that are new."""
    make_topic(broker, IN, partitions=3)
    make_topic(broker, OUT, partitions=2)
    make_topic(broker, DEAD, partitions=2)
    with ExitStack() as stack:
        stack.callback(drop_topic, broker, DEAD)
        stack.callback(drop_topic, broker, OUT)
        stack.callback(drop_topic, broker, IN)
        yield lambda *arguments: stack.enter_context(running_relay(broker, *arguments))


@contextmanager
def running_relay(broker: Cluster, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(application.__file__), "--source", IN, "--target", OUT]
    command += ["--bootstrap-servers", broker.bootstrap_servers, *arguments]
    with running_when_ready(command, PATIENCE_S) as process:
        yield process


def find_no_output(broker: Cluster, load: Load, told: str) -> dict[str, float]:
    """Run a load of which nothing comes out: it is invalid; gives its metrics."""
    ran = load(broker, **THROUGH | {"warmup": 0})
    assert [(problem.kind, problem.text.startswith(told)) for problem in ran.faults] == [
        (ProblemKind.NO_OUTPUT, True)
    ], ran.faults
    return ran.metrics
