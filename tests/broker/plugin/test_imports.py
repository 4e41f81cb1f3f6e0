"""What a run with perf tests imports."""

from __future__ import annotations

from tests.support.login_libraries import login_libraries
from tests.support.project import Project, guard, modules


def test_a_load_without_logins_imports_none_of_their_libraries(project: Project, on_broker: str) -> None:
    """Most clusters need no tokens or tickets: those runs must not pay for them, even if all extras are installed."""
    loaded = modules(project.test(guard()), on_broker, "--kafka-rounds=1")
    assert {"aiokafka", "pytest_kafkaperf.load.controller"} <= loaded
    assert login_libraries(loaded) == set()
