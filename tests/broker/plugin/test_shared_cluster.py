"""A cluster for fixtures of the whole run: an application that is started once and serves all tests."""

from __future__ import annotations

import pytest

from tests.support.project import Project
from tests.support.shared_application import use_the_same_brokers


def test_invalid_fields_of_the_factory_are_refused_by_name(project: Project) -> None:
    """The error is the marker's, with the name of what was called."""
    project.test("def test_one(kafka_cluster_factory):\n    kafka_cluster_factory(broker=3)\n")
    run = project.run(reports=False)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert "kafka_cluster_factory: unknown field 'broker'" in run.out
    assert "Traceback" not in run.out


def test_an_application_of_the_run_and_all_tests_use_the_same_brokers(project: Project) -> None:
    """Its servers stay the same even after a test has stopped a broker: the application cannot learn others."""
    use_the_same_brokers(project)
