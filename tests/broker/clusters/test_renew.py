"""A fresh trial on a cluster that the plugin started: its brokers start again, and keep what was set up."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from pytest_kafkaperf.clusters.admin.run_names import PREFIX
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.loads import Phase
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds
from pytest_kafkaperf.runner.trial import TrialRunner
from tests.support.cluster_life import SHORT, renew
from tests.support.orphans import becomes
from tests.support.rounds import run_scenario, time_budget_of


@pytest.mark.docker
def test_brokers_start_again_and_what_was_set_up_stays() -> None:
    """A quota that a fixture has set is part of the test: without, a regression would be cleared."""
    renew("docker")


def test_a_cluster_of_somebody_else_is_left_alone(broker: Cluster) -> None:
    """Only its topics and clients are new."""
    Side.of(Cluster(bootstrap_servers=broker.bootstrap_servers)).restart()
    broker.check()


def test_brokers_are_warmed_up_once_with_each_scenario_after_each_start(broker: Cluster) -> None:
    """What runs on a cold JVM says little of what it does later; those of others are as warm as they are."""

    def phases_of(cluster: Cluster, warm_up_s: float = 60.0, **changes: object) -> set[str]:
        scenario = SHORT.model_copy(update={"rounds": 1, "rate": 10.0, **changes})
        steps: list[str] = []
        side = SideRounds(Side.of(cluster), scenario, on_progress=lambda _, __, progress: steps.append(progress.step))
        allocation = WorkerAllocation(producing=1, consuming=1)
        runner = TrialRunner([side], warm_up_s=warm_up_s, allocation=allocation, on_progress=lambda *_: None)
        trial = runner.measure(time_budget_of(rounds=1))
        assert len(trial.rounds) == 1
        assert {one.kind for one in trial.problems} <= {ProblemKind.GENERATOR_TOO_SLOW}  # 1 of 10 records, if busy
        return {step.removeprefix("warm-up: ") for step in steps if step.startswith("warm-up: ")}

    with provision(ClusterSpec(logs_in_memory=True), target="local") as cluster:
        assert phases_of(cluster, warm_up_s=0.0) == set()
        Side.of(cluster).restart()
        assert phases_of(cluster) == {Phase.FULL, Phase.RATE}
        assert phases_of(cluster) == set()
        assert phases_of(cluster, rate=20.0) == {Phase.RATE}
        assert phases_of(cluster, record_size=1000) == {Phase.FULL, Phase.RATE}
        Side.of(cluster).restart()
        assert phases_of(cluster) == {Phase.FULL, Phase.RATE}
    assert phases_of(Cluster(bootstrap_servers=broker.bootstrap_servers)) == set()


def test_a_deleted_topic_is_gone_from_disk_at_once() -> None:
    """Kept for a minute, its pages would be written while the next test is measured."""
    with provision(ClusterSpec(), target="local") as cluster:
        run_scenario(SHORT, cluster)
        process = psutil.Process(cluster.pids[0])
        assert becomes(lambda: _open_logs(process) == [])


def _open_logs(process: psutil.Process) -> list[str]:
    """Segments of our topics that a broker has open, deleted ones included."""
    links = Path(f"/proc/{process.pid}/fd").iterdir()
    return [name for link in links if Path(name := _target(link)).parent.name.startswith(PREFIX) and ".log" in name]


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""  # closed meanwhile
