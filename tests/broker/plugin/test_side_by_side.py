"""Suspected regressions that are measured again, on brokers that are those of the baseline or next to them."""

from __future__ import annotations

import pytest

from tests.support.project import Project, Run
from tests.support.stored_baselines import AFTER, FACTOR, faster, paced_guard

CONFIG = {"num.io.threads": "7"}
"""A setting that does not change how fast this load is."""


BEFORE = """
@pytest.mark.kafka_cluster(config={})
def test_before(kafka_cluster):
    pass
"""
"""It may have left a quota on the brokers, which the guard uses as well."""


def run_after_a_faster_baseline(project: Project, measured: str, tests: str) -> Run:
    """Run `tests` against the baseline of `measured`, made faster: the guard passes."""
    project.test(measured)
    project.run_steadily("--kafka-update-baselines")
    faster(project, FACTOR)
    project.test(tests)
    run = project.run_steadily()
    assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_guard": "PASSED"}), run.out
    return run


@pytest.mark.parametrize(
    ("config", "before"), [(CONFIG, ""), ({}, BEFORE)], ids=["another setting", "brokers that a test has taken"]
)
def test_a_slower_machine_passes_side_by_side(project: Project, config: dict[str, str], before: str) -> None:
    """The stored values alone would fail the test, but both sides are equally slow today.

    `tests/nightly` has a slower broker as well, at a load that depends on the machine's speed.
    """
    run = run_after_a_faster_baseline(
        project, paced_guard("kafka_perf", config), before + paced_guard("kafka_perf") + AFTER
    )
    out = " ".join(run.out.split())
    assert "compared with the stored baseline, on both sides; Kafka is not the cause" in out, run.out
    assert "re-tested side by side with freshly started baseline brokers (Kafka 4." in out
    (test,) = run.report["tests"]
    assert len(test["trials"]) >= 2
    assert all(len(trial["baseline_rounds"]) == len(trial["rounds"]) >= 4 for trial in test["trials"][1:])


def test_a_slower_machine_passes_on_unchanged_brokers(project: Project) -> None:
    """Brokers for the other side would be the same as the test's own, so they do not start."""
    run = run_after_a_faster_baseline(project, paced_guard("kafka_perf"), paced_guard("kafka_perf"))
    out = " ".join(run.out.split())
    assert "compared with the stored baseline, with unchanged brokers; Kafka is not the cause" in out, run.out
    assert "re-tested in fresh trials: neither Kafka (4." in out
    (test,) = run.report["tests"]
    assert [trial["baseline_rounds"] for trial in test["trials"]] == [None, None]
