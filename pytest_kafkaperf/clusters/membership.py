"""The members that an application under test has in its consumer group, and those of other programs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Sequence

from pytest_kafkaperf.clusters.admin.admin import groups_with_members
from pytest_kafkaperf.clusters.admin.groups import Group, Member, read_group, unsupported_protocols
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.text import listed
from pytest_kafkaperf.core.units import counted

_SESSION_TIMEOUT_S = 60
"""Maximum time for Kafka to remove a member that did not leave its group; `session.timeout.ms` is 45 s by default."""
_MEMBER_POLL_S = 0.5
_MOST_GROUPS = 10
"""Maximum number of consumer groups that an error message lists."""


class Membership:
    """One application's members in a consumer group. Kafka assigns a new id to each process that joins."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self.group = group
        self._cluster = cluster
        self._others: frozenset[str] = frozenset()
        """Ids of the members that the group had before any instance of the application started."""
        self._own: set[str] = set()
        """Ids of the application's members."""
        self._dead: frozenset[str] = frozenset()
        """Ids of its members from before it was stopped, which Kafka may still count."""

    def begin(self, *, first: bool) -> frozenset[str]:
        """Return the ids of the group's members before a start; with `first`, none of them is the application's.

        Raises:
            ClusterError: the cluster did not answer in time, or this client is not permitted to see the group.

        """
        before = frozenset(self._look().members)
        if first:
            self._dead |= self._own
            self._others = before - self._dead
        return before

    def missing(self, before: frozenset[str], started: int) -> tuple[str | None, Sequence[Member], int]:
        """Compare the group with its members before the start of a number of instances.

        Returns:
            The reason why the application is not ready, None if it is ready; the members of other programs that have
            partitions; and the number of partitions that the group has assigned.

        Raises:
            ClusterError: for the same reasons as `begin`.

        """
        group = self._look()
        members = group.members
        new = members.keys() - before
        # Other members may belong to a process whose exit Kafka has not detected yet.
        own = members.keys() - self._others - self._dead
        self._own = {name for name in own if members[name].partitions or started > 1}
        is_working = any(members[name].partitions for name in self._own)
        if group.state != "Stable" or len(new) < started or not is_working:
            lacking = f"its consumer group {self.group!r} {_lacking(group.state, len(new), started)}"
            return "; ".join(filter(None, (lacking, unsupported_protocols(group)))), (), 0
        foreign = [member for name, member in members.items() if name in self._others and member.partitions]
        return None, foreign, sum(member.partitions for member in members.values())

    def other_groups(self) -> str:
        """Return text that lists any other groups with members, one of which may be the application's."""
        found: list[str] = []
        with contextlib.suppress(OSError, ClusterError):
            found = groups_with_members(self._cluster.bootstrap_servers, self._cluster.access)
        others = [group for group in found if group != self.group]
        return f"groups with members: {listed(others, _MOST_GROUPS)}; check ready=" if others else ""

    def forget(self) -> None:
        """Remove members that have not left the group, or wait until Kafka has removed them.

        Another application may have joined the group while this one was starting. Because that application's member
        looks like one of ours, members are removed only on the plugin's own brokers.
        """
        own, self._own, self._dead = self._own | self._dead, set(), frozenset()
        if not own:
            return
        with contextlib.suppress(ClusterError):  # Kafka removes them later
            if self._cluster.fleet is not None:
                self._look(without=own)
                return
            deadline = time.monotonic() + _SESSION_TIMEOUT_S
            while own & self._look().members.keys() and time.monotonic() < deadline:
                time.sleep(_MEMBER_POLL_S)

    def _look(self, *, without: Collection[str] = ()) -> Group:
        """Describe the group after removing some members; see `read_group`."""
        return read_group(self._cluster.bootstrap_servers, self._cluster.access, self.group, without=without)


def _lacking(state: str, new: int, started: int) -> str:
    """Return what the group lacks before all started instances are ready."""
    if state == "Dead":
        return "does not exist"
    if started == 1:
        return f"is {state} and has no new member with partitions"
    return f"is {state} and has {counted(new, 'new member')}, but {started} instances were started"
