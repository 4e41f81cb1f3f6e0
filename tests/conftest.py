"""What tests need of the machine."""

from __future__ import annotations

import pytest

from pytest_kafkaperf import daemon


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need Docker where there is none, and say why."""
    in_need = [item for item in items if item.get_closest_marker("docker")]
    if not in_need:
        return
    found = daemon.look()
    if found.reason is not None:
        for item in in_need:
            item.add_marker(pytest.mark.skip(reason=f"no Docker daemon at {found.address}: {found.reason}"))
