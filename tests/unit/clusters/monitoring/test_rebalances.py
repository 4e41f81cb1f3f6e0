"""Rebalances, from descriptions of a group."""

from __future__ import annotations

from pytest_kafkaperf.clusters.admin.groups import Group, Member, Protocol
from pytest_kafkaperf.clusters.monitoring.rebalances import RebalanceLog


def member(*partitions: int) -> Member:
    return Member(client_id="c", host="127.0.0.1", assignment=frozenset(("orders", number) for number in partitions))


def classic(state: str, **members: Member) -> Group:
    return Group(protocol=Protocol.CLASSIC, state=state, members=members)


def seen(*groups: Group) -> list[int]:
    """Describe a group once in a nanosecond; return the instants of its rebalances."""
    log = RebalanceLog()
    for at_ns, group in enumerate(groups):
        log.see(group, at_ns)
    return log.instants_ns


ONE = classic("Stable", a=member(0, 1))
TWO = classic("Stable", a=member(0), b=member(1))


def test_each_new_epoch_is_a_rebalance() -> None:
    """Between two descriptions, there may be several; their number is known."""
    epochs = [Group(protocol=Protocol.CONSUMER, state="Stable", epoch=epoch) for epoch in (4, 4, 5, 5, 8)]
    assert seen(*epochs) == [2, 4, 4, 4]


def test_a_classic_rebalance_counts_once_however_often_it_is_seen() -> None:
    """It takes seconds with an idle member, in which the group is described dozens of times."""
    assert seen(ONE, classic("PreparingRebalance"), classic("CompletingRebalance"), TWO, TWO) == [1]


def test_a_rebalance_in_progress_is_noted_each_time_it_is_seen() -> None:
    """Members may stop working at any of these instants."""
    log = RebalanceLog()
    for at_ns, group in enumerate((ONE, classic("PreparingRebalance"), classic("CompletingRebalance"), TWO)):
        log.see(group, at_ns)
    assert (log.instants_ns, log.unsettled_ns) == ([1], [1, 2])


def test_a_classic_rebalance_between_two_descriptions_shows_in_the_members() -> None:
    """It takes less than the time between two descriptions if all members poll."""
    assert seen(ONE, TWO, TWO, ONE) == [1, 3]


def test_a_classic_group_whose_members_leave_and_come_back_is_rebalanced_twice() -> None:
    """Each of both changes its generation."""
    assert seen(ONE, classic("Empty"), classic("Empty"), ONE) == [1, 3]


def test_a_group_that_does_not_change_is_not_rebalanced() -> None:
    """The state before the first description is unknown, so it is no rebalance either."""
    assert seen(TWO, TWO, TWO) == []
    assert seen(classic("PreparingRebalance"), TWO) == []


def test_the_protocol_of_a_group_that_is_gone_remains() -> None:
    """It is what is asked for first, and a group may be gone between two starts of its application."""
    log = RebalanceLog()
    log.see(Group(protocol=Protocol.SHARE, state="Stable", epoch=1), 0)
    log.see(Group(), 1)
    assert log.protocol is Protocol.SHARE
