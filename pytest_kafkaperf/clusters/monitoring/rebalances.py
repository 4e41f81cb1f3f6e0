"""Rebalances of a group, found by describing the group again and again."""

from __future__ import annotations

from pytest_kafkaperf.clusters.admin.groups import Group, Protocol


class RebalanceLog:
    """The instants at which a group's rebalances were seen.

    The newer protocols number their rebalances, so none is missed. Brokers do not report the generation of a classic
    group, so a rebalance counts there if members or their partitions have changed, or if it was seen in progress; one
    that takes less time than two descriptions are apart and changes nothing is missed.
    """

    def __init__(self) -> None:
        self.instants_ns: list[int] = []
        """One instant on the monotonic clock for each rebalance."""
        self.unsettled_ns: list[int] = []
        """All instants at which a rebalance was in progress. Members may work for seconds until they learn of it."""
        self.protocol = Protocol.CLASSIC
        """The group's protocol when it was last seen."""
        self._last: Group | None = None
        """The last description of the group; None before the first one."""

    def see(self, group: Group, at_ns: int) -> None:
        """Compare a description of the group with the one before."""
        self.protocol = group.protocol or self.protocol
        before, self._last = self._last, group
        if before is not None:
            self.instants_ns += [at_ns] * _rebalances(before, group)
        if group.state not in _SETTLED:
            self.unsettled_ns.append(at_ns)


_SETTLED = ("Stable", "Empty", "Dead")
"""States of a group without a rebalance in progress."""


def _rebalances(before: Group, after: Group) -> int:
    """Return the number of rebalances that began between two descriptions."""
    if before.epoch is not None and after.epoch is not None:
        return max(0, after.epoch - before.epoch)
    if before.state not in _SETTLED:  # already counted when it was first seen
        return 0
    return int(after.state not in _SETTLED or before.members != after.members)
