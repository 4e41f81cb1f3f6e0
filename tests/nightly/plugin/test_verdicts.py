"""Verdicts of runs whose live baseline does not answer."""

from __future__ import annotations

import pytest

from tests.support.project import Project, guard


def test_a_live_baseline_that_is_not_there_is_named(project: Project, on_broker: str) -> None:
    """Of two clusters, the reader must know which."""
    run = project.test(guard()).run(on_broker, "--kafka-compare=127.0.0.1:1")
    assert run.status == pytest.ExitCode.TESTS_FAILED
    assert "the baseline, --kafka-compare=127.0.0.1:1: " in run.out
