"""A cluster of others that gets faster from round to round, while the test acts on it."""

from __future__ import annotations

from pathlib import Path

from pytest_kafkaperf.runner.rounds.actions import Action
from tests.support.drift import drifts
from tests.support.proxy import ProxiedBroker


def test_actions_explain_rounds_that_differ(behind: ProxiedBroker, tmp_path: Path) -> None:
    """The user knows what the test does, so a warning would be wrong."""
    assert drifts(behind, (Action(0.1, list),), tmp_path) == []
