"""Baseline files, changed as if another machine had measured them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

from tests.support.project import Project

PACED_GUARD = """
@pytest.mark.kafka_cluster(config={config})
@pytest.mark.kafka_scenario(
    rate="1k records/s", duration="500 ms", warmup="200 ms", record_size=100, partitions=1, rounds=2
)
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 50%")
def test_guard({arguments}):
    kafka_perf()
"""
AFTER = """
@pytest.mark.kafka_cluster(config={})
def test_after(kafka_cluster):
    import psutil

    assert len([one for one in psutil.Process().children() if "kafka.Kafka" in one.cmdline()]) == 1
"""
"""The baseline's brokers have stopped: they would take memory and cores from this test."""
FACTOR = 20
"""By which a baseline is faster: far more than this machine's speed changes while other tests run."""


def faster(project: Project, factor: float) -> None:
    """Make each baseline that of a faster machine."""
    scale(project, {"produce.throughput": factor})


def scale(project: Project, factors: Mapping[str, float]) -> None:
    """Multiply these metrics of each baseline."""
    for file in (project.folder / "kafka-baselines").rglob("*.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        for trial in record["trials"]:
            for one in trial["rounds"]:
                one.update({name: one[name] * factor for name, factor in factors.items()})
        file.write_text(json.dumps(record), encoding="utf-8")


def paced_guard(arguments: str, config: Mapping[str, str] = MappingProxyType({})) -> str:
    """A test with these arguments that compares throughput with its baseline, on brokers that the plugin starts."""
    return PACED_GUARD.format(arguments=arguments, config={**config})
