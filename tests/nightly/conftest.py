"""Tests in this folder are repeated when the load generator was too slow."""

from tests.support.repeats import pytest_itemcollected, pytest_pyfunc_call

__all__ = ["pytest_itemcollected", "pytest_pyfunc_call"]
