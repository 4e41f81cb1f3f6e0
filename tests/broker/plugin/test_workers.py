"""Who makes the load, as users ask for it and as reports tell it."""

from __future__ import annotations

import os

import pytest

from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support.dask_workers import can_be_elsewhere, dask
from tests.support.project import Project, texts

TEST = """
@pytest.mark.kafka_scenario(
    rate="200 records/s", duration="1 s", warmup="300 ms", rounds=1, producers=2, consumers=1, record_size=100
)
@pytest.mark.kafka_threshold("errors == 0", "e2e.latency.p99 <= 20 s")
def test_orders(kafka_perf):
    kafka_perf()
"""


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has nothing to divide")
def test_a_trial_says_how_many_workers_there_are(project: Project, on_broker: str) -> None:
    """So few records need one; whoever asks is told why."""
    run = project.test(TEST).run(on_broker, "-v")

    (test,) = run.report["tests"]
    (one,) = test["trials"][0]["rounds"]  # the trial is none
    workers = test["allocation"]
    assert workers["scheduler"] is None, run.out
    assert workers["reason"].startswith("one of each kind would need ")
    assert f"1 producing and 1 consuming worker processes: {workers['reason']}" in " ".join(run.out.split())
    assert [(share["producers"], share["consumers"]) for share in one["workers"]] == [(2, 0), (0, 1)]


def test_as_many_workers_as_are_asked_for(project: Project, on_broker: str) -> None:
    """Of each kind, and no more than clients; nothing is tried."""
    run = project.test(TEST).run(on_broker, "--kafka-workers=3")
    (test,) = run.report["tests"]
    assert test["allocation"] == {"scheduler": None, "reason": "--kafka-workers=3"}
    assert [bool(share["producers"]) for share in test["trials"][0]["rounds"][0]["workers"]] == [True, True, False]


@pytest.mark.skipif(not can_be_elsewhere(), reason="no right to give a process a clock of its own")
def test_a_limit_finer_than_the_clocks_makes_the_test_invalid(project: Project, on_broker: str) -> None:
    """The same limit, made coarser, is judged: with one warning a test, however many rounds."""
    coarse = TEST.replace("rounds=1", "rounds=2")
    fine = coarse.replace("20 s", "1 us").replace("test_orders", "test_fine")
    with dask(project.folder.parent) as workers:
        workers.add()
        workers.add(elsewhere=True)
        run = project.test(coarse + fine).run(on_broker, f"--kafka-workers=dask://{workers.address}")

    assert (run.status, run.verdicts) == (NOT_JUDGED, {"test_orders": "PASSED", "test_fine": "INVALID"}), run.out
    _, test = run.report["tests"]
    (problem,) = test["problems"]
    assert (problem["kind"], problem["values"]["limit"]) == ("clock_uncertain", 1e-06)
    assert problem["text"].startswith("threshold 'e2e.latency.p99 <= 1 us' cannot be judged, because the clock offset ")
    warnings = texts(test["warnings"])
    assert [text for text in warnings if "clock offset is known only to ±" in text] == warnings[:1]
    assert all(0 < one["e2e_uncertainty_s"] < 20 for one in test["trials"][0]["rounds"])
    assert test["allocation"]["scheduler"] == workers.address
    assert {share["host"] for share in test["trials"][0]["rounds"][0]["workers"]} == {os.uname().nodename}
