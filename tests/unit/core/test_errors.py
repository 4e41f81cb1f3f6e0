"""The exception tree and the naming of valid choices."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.core import errors
from pytest_kafkaperf.core.errors import KafkaPerfError, nearest


def test_every_error_is_a_kafkaperf_error_under_the_parent_that_the_docstring_draws() -> None:
    """The plugin tells its own errors, which have a text for the user, from its bugs by this tree."""
    tree = {
        kind.__name__: kind.__base__.__name__
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, KafkaPerfError) and kind.__base__ is not None
    }
    assert tree == {
        "KafkaPerfError": "Exception",
        "UsageError": "KafkaPerfError",
        "UnitError": "UsageError",
        "ScenarioError": "UsageError",
        "BaselineError": "UsageError",
        "ClusterError": "KafkaPerfError",
        "ClusterLostError": "ClusterError",
        "ApplicationError": "ClusterLostError",
        "LoadError": "KafkaPerfError",
        "NotMeasuredError": "KafkaPerfError",
    }
    assert all(name in str(errors.__doc__) for name in tree)


def test_a_unit_error_is_a_value_error() -> None:
    """Pydantic names the field of a ValueError; any other exception would pass through it as a traceback."""
    assert issubclass(errors.UnitError, ValueError)


def test_one_near_choice_is_suggested() -> None:
    """A typo is the usual mistake."""
    assert nearest("acs", ["acks", "rate"]) == "did you mean 'acks'?"


def test_several_near_choices_are_suggested_together() -> None:
    """Which one was meant is the user's to know."""
    assert nearest("p9", ["p90", "p95", "max"]) == "did you mean 'p95' or 'p90'?"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("p99", "did you mean 'produce.p99' or 'e2e.p99'?"),
        ("E2E_P99", "did you mean 'e2e.p99'?"),
        ("target-rate", "did you mean 'rate'?"),
    ],
)
def test_the_last_words_of_a_name_find_it(given: str, told: str) -> None:
    """People remember the part that matters, and rarely the family or the separator."""
    assert nearest(given, ["rate", "produce.p99", "e2e.p99"]) == told


def test_without_a_near_choice_all_are_listed_in_order() -> None:
    """A wrong guess should end the guessing."""
    assert nearest("xyz", ["rate", "acks"]) == "expected one of 'acks', 'rate'"
