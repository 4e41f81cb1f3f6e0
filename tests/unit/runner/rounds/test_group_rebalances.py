"""Rebalances in a window, from offsets whose arithmetic is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pytest_kafkaperf.clusters.admin.groups import Protocol
from pytest_kafkaperf.clusters.monitoring.watchers import GroupOffsets
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.runner.rounds.group_rebalances import rebalances

STEP_NS = NS_PER_S // 10
COMMIT_S = 0.5


def offsets(
    *partitions: Any,
    at_s: tuple[float, ...] = (),
    unsettled_s: tuple[float, ...] = (),
    protocol: Protocol = Protocol.CLASSIC,
) -> GroupOffsets:
    """Ten readings a second. Each partition is (committed offsets, end offsets); rebalances were seen `at_s`."""
    committed, ends = (np.array(column, dtype=np.int64).T for column in zip(*partitions, strict=True))
    return GroupOffsets(
        at_ns=np.arange(len(ends), dtype=np.int64) * STEP_NS,
        committed=committed,
        ends=ends,
        rebalances_ns=tuple(round(each * NS_PER_S) for each in at_s),
        unsettled_ns=tuple(round(each * NS_PER_S) for each in unsettled_s),
        protocol=protocol,
    )


def paused(begin_s: float, end_s: float, *, rate: int = 100, length_s: float = 10) -> tuple[Any, Any]:
    """A partition whose group commits all records twice a second, except from one instant to another."""
    at_s = np.arange(0, length_s, 0.1) + 1e-6
    commit_s = np.floor(at_s / COMMIT_S) * COMMIT_S
    commit_s = np.where((commit_s > begin_s) & (commit_s < end_s), begin_s, commit_s)
    return commit_s * rate, at_s * rate


def metrics(read: GroupOffsets, **window: int) -> dict[str, float]:
    return rebalances(read, window.get("begun", 0), window.get("ended", len(read.at_ns)), COMMIT_S).metrics


def test_a_pause_is_the_time_between_the_commits_around_a_rebalance() -> None:
    """The group commits at 3 s, is rebalanced, and commits again at 6 s."""
    found = metrics(offsets(paused(3, 6), at_s=(3.2,)))
    assert found == {"app.rebalances": 1, "app.rebalance.pause": pytest.approx(3)}


def test_a_pause_may_begin_long_after_the_rebalance() -> None:
    """A member of a classic group works on until its next heartbeat, up to three seconds later by default."""
    found = metrics(offsets(paused(3, 6), at_s=(1.2,), unsettled_s=(1.2, 2.2, 3.2, 4.2)))
    assert found == {"app.rebalances": 1, "app.rebalance.pause": pytest.approx(3)}


def test_the_partition_that_stood_still_the_longest_counts() -> None:
    """A new member may take over some partitions late."""
    found = metrics(offsets(paused(3, 4), paused(3, 7), paused(0, 0), at_s=(3.2,)))
    assert found["app.rebalance.pause"] == pytest.approx(4)


def test_a_pause_without_a_rebalance_is_not_the_pause_of_one() -> None:
    """A database that hangs also stops the commits."""
    assert "app.rebalance.pause" not in metrics(offsets(paused(3, 6), at_s=(8.2,)))
    assert metrics(offsets(paused(3, 6))) == {"app.rebalances": 0, "app.rebalance.pause": 0}


def test_of_a_pause_that_is_as_short_as_the_commit_interval_only_an_upper_bound_is_known() -> None:
    """Between two commits, nobody outside of the group knows whether it works; a reading may be 0.1 s late."""
    read = offsets(paused(0, 0), at_s=(3.2,))
    found = rebalances(read, 0, len(read.at_ns), COMMIT_S)
    assert found.metrics == {"app.rebalances": 1}
    assert found.at_most == {"app.rebalance.pause": pytest.approx(COMMIT_S + 0.1)}


def test_a_partition_without_lag_does_not_wait() -> None:
    """All records came in the first second, and the group was done with them long before the rebalance."""
    at_s = np.arange(0, 10, 0.1)
    ends = np.minimum(at_s, 1) * 100
    found = metrics(offsets((ends, ends), at_s=(5.0,)))
    assert found == {"app.rebalances": 1}


def test_a_pause_that_has_not_ended_is_a_lower_bound() -> None:
    """The group has not come back when the watch ends."""
    found = rebalances(offsets(paused(3, 20), at_s=(3.2,)), 0, 100, COMMIT_S)
    assert found.is_bound
    assert found.metrics["app.rebalance.pause"] == pytest.approx(6.9)
    assert not rebalances(offsets(paused(3, 6), at_s=(3.2,)), 0, 100, COMMIT_S).is_bound


def test_rebalances_outside_of_the_window_do_not_count() -> None:
    """An application joins its group while it starts."""
    found = metrics(offsets(paused(3, 6), at_s=(0.5, 3.2, 9.5)), begun=10, ended=90)
    assert found["app.rebalances"] == 1


def test_members_of_a_share_group_do_not_wait_for_each_other() -> None:
    """They have no partitions of their own, so a rebalance stops none of them."""
    found = metrics(offsets(paused(3, 6), at_s=(3.2,), protocol=Protocol.SHARE))
    assert found == {"app.rebalances": 1}
