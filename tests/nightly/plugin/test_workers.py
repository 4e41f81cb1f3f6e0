"""A Dask scheduler that does not answer, as reports show it."""

from __future__ import annotations

from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support.project import Project

TEST = """
@pytest.mark.kafka_scenario(rate="200 records/s", duration="1 s", warmup="300 ms", rounds=1)
@pytest.mark.kafka_threshold("errors == 0")
def test_orders(kafka_perf):
    kafka_perf()
"""


def test_a_scheduler_that_is_not_there_makes_the_test_invalid(project: Project, on_broker: str) -> None:
    """The option could be read; that nobody answers is found when the test begins."""
    run = project.test(TEST).run(on_broker, "--kafka-workers=dask://127.0.0.1:9")
    assert run.status == NOT_JUDGED
    assert run.verdicts == {"test_orders": "INVALID"}
    (problem,) = run.report["tests"][0]["problems"]
    assert problem["text"].startswith("--kafka-workers=dask://127.0.0.1:9: no Dask scheduler answers there within 10 s")
    assert "no Dask scheduler answers there" in " ".join(run.out.split())
