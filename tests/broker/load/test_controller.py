"""The controller's side: how workers are started, and how long they may take."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kafkaperf.clusters.cluster import Cluster


_SCRIPT = """
import sys
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, running
from pytest_kafkaperf.scenarios.scenario import Scenario

print("main")
cluster = Cluster(bootstrap_servers=sys.argv[1], brokers=1, provider="external", version="unknown")
side = SideRounds(Side.of(cluster), Scenario.of({"records": 100, "rounds": 1, "warmup": 0}))
with running([side], WorkerAllocation()) as workers:
    print(side.measure(workers).problems)
"""


def test_a_script_without_a_guard_is_not_started_again_in_workers(broker: Cluster, tmp_path: Path) -> None:
    """`multiprocessing` would import it, and it would start workers, which would import it..."""
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    command = [sys.executable, str(script), broker.bootstrap_servers]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    assert (ended.stdout, ended.stderr, ended.returncode) == ("main\n()\n", "", 0)
