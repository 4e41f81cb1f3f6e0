"""A cluster of others that gets faster from round to round: the user is warned."""

from __future__ import annotations

from pathlib import Path

from tests.support.drift import FALL, drifts
from tests.support.proxy import ProxiedBroker


def test_a_cluster_that_gets_faster_during_the_rounds_is_a_warning_of_the_test(
    behind: ProxiedBroker, tmp_path: Path
) -> None:
    """Nothing is known of its brokers, and a baseline of cold ones would let regressions pass."""
    assert drifts(behind, (), tmp_path) == [FALL]
