"""Live baselines: one that differs by a property at full load, and one that does not answer."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from tests.support.project import Project, guard

FLUSHED = """
@pytest.mark.kafka_scenario(duration="1 s", warmup="100 ms", partitions=1, acks=1)
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 30%", "errors == 0")
def test_flushed(kafka_perf):
    kafka_perf()
"""
SHORT = "--kafka-rounds=2", "--kafka-workers=1"


@pytest.mark.speed  # how much flushes cost depends on the processor and the disk
def test_a_slower_property_is_found_side_by_side(project: Project, on_broker: str) -> None:
    """A broker that flushes every batch, against one that leaves it to the system: no stored baseline is needed.

    As many records as it takes: at a few hundred records/s, the flushes of a fast disk are within the noise.
    """
    spec = ClusterSpec.of({"config": {"log.flush.interval.messages": 1}, "heap": "300m"})
    with provision(spec, target="local") as cluster:
        servers = cluster.bootstrap_servers
        compare = on_broker.replace("cluster", "compare", 1)
        run = project.test(FLUSHED).run_steadily(
            f"--kafka-cluster={servers}", compare, "--kafka-allow-unlimited", *SHORT
        )
    (test,) = run.report["tests"]
    assert (run.status, test["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "REGRESSED"), run.out
    counting = [each for each in test["trials"][1:] if not each["problems"]]  # others were measured again
    assert len(counting) >= 3
    assert f"{1 + len(counting)} side-by-side trials" in " ".join(run.out.split())
    assert len(test["trials"][0]["baseline_rounds"]) == len(test["trials"][0]["rounds"]) == 2
    assert {len(each["baseline_rounds"]) for each in counting} == {2}
    assert run.baselines == {}


def test_a_live_baseline_that_is_not_there_is_named(project: Project, on_broker: str) -> None:
    """Of two clusters, the reader must know which."""
    run = project.test(guard()).run(on_broker, "--kafka-compare=127.0.0.1:1")
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert "the baseline, --kafka-compare=127.0.0.1:1: " in run.out
