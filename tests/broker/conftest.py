"""Tests in this folder are repeated when the load generator was too slow; without a path, only stories run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.repeats import pytest_itemcollected, pytest_pyfunc_call

__all__ = ["pytest_collection_modifyitems", "pytest_itemcollected", "pytest_pyfunc_call"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the variants unless a path was given."""
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    variants = [item for item in items if _is_variant(item)]
    config.hook.pytest_deselected(items=variants)
    items[:] = [item for item in items if item not in variants]


def _is_variant(item: pytest.Item) -> bool:
    return item.path.is_relative_to(Path(__file__).parent) and item.get_closest_marker("story") is None
