"""A Java application in a container under test, on brokers in Docker."""

from __future__ import annotations

import pytest

from tests.support.archive import measure_and_restart
from tests.support.project import Project

pytestmark = pytest.mark.docker


def test_a_service_in_a_container_is_measured_and_restarted(project: Project, archive: str) -> None:
    """It reaches the brokers, and leaves nothing."""
    measure_and_restart(project, archive, "docker")
