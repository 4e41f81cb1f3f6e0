"""Suspected regressions that are measured again side by side with the baseline's brokers, on real brokers of both."""

from __future__ import annotations

import pytest

from tests.support.project import Project
from tests.support.stored_baselines import AFTER, FACTOR, faster, paced_guard


def test_a_slower_machine_passes(project: Project) -> None:
    """The stored values alone would fail the test, but both sides are equally slow today.

    `tests/nightly` has a slower broker as well, at a load that depends on the machine's speed.
    """
    project.test(paced_guard("kafka_perf") + AFTER)
    project.run_steadily("--kafka-update-baselines")
    faster(project, FACTOR)
    run = project.run_steadily()
    assert (run.status, run.verdicts) == (pytest.ExitCode.OK, {"test_guard": "PASSED"}), run.out
    out = " ".join(run.out.split())
    assert "compared with the stored baseline, on both sides; Kafka is unchanged" in out, run.out
    assert "re-tested side by side with freshly started baseline brokers (Kafka 4." in out
    (test,) = run.report["tests"]
    assert len(test["trials"][1:]) >= 2
    assert all(len(trial["baseline_rounds"]) == 2 for trial in test["trials"][1:])
