"""One load on a cluster: its topic, its names, its workers' assignments, and its cleanup."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.admin import TIMEOUT_S, Admin, transaction_timeout_ms
from pytest_kafkaperf.clusters.admin.preflight import Preflight
from pytest_kafkaperf.clusters.admin.run_names import round_name
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.errors import ClusterError, warn
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.text import listed
from pytest_kafkaperf.load.allocation import WorkerShares
from pytest_kafkaperf.load.identity import Nonce
from pytest_kafkaperf.load.messages import Assignment
from pytest_kafkaperf.load.shared_counters import SharedCounters
from pytest_kafkaperf.scenarios.scenario import Scenario

_HASTY_TIMEOUT_S = 5
"""Time limit for each cleanup step after an aborted load, when the cluster may be gone or a user may be waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Warnings about anything that a cleanup could not remove; None for each successful step."""

    transactions: Notice | None = None
    topic: Notice | None = None

    def warn(self, *, with_topic: bool) -> None:
        """Show the warnings when there is no round to add them to."""
        for notice in (self.transactions, self.topic if with_topic else None):
            if notice is not None:
                warn(notice.text)


@dataclass(slots=True, kw_only=True)
class LoadRun:
    """One load; a round consists of a single load or, in a capacity search, several."""

    cluster: Cluster
    admin: Admin
    scenario: Scenario
    run: str
    """Name of the run, used as the prefix of its topics, consumer groups and transactional ids."""
    number: int
    """Number of the load within its run, starting at 1."""
    seed: int
    """Seed of the load's records."""
    read_partitions: int
    """Number of partitions in the topic that the consumers read."""
    dead_letter_partitions: int = 0
    """Number of partitions in the dead-letter topic; 0 if there is none."""
    _dead_letters_before: int | None = None
    began: bool = False
    """True once workers may have written records, other than the backlog, that must be aborted."""
    nonce: Nonce = field(default_factory=lambda: (secrets.randbits(63), secrets.randbits(63)))
    """Nonce in the record tags, for topics that other clients also write to."""

    @property
    def name(self) -> str:
        """Prefix of this load's consumer groups and transactional ids; also the name of its own topic."""
        return round_name(self.run, self.number)

    @property
    def topic(self) -> str:
        """The scenario's existing topic, or a topic only for this load."""
        return self.scenario.topic or self.name

    def create_topic(self) -> None:
        """Create the load's own topic, unless the scenario has an existing topic.

        Raises:
            ClusterError: the topic could not be created.

        """
        if self.scenario.topic is None:
            self.admin.create_topic(self.topic, self.scenario)

    def begin_dead_letters(self) -> None:
        """Remember the end of the dead-letter topic before the load."""
        self._dead_letters_before = self._dead_letters()

    def new_dead_letters(self) -> int | None:
        """Return the number of records added to the dead-letter topic since `begin_dead_letters`; None if unknown."""
        after = self._dead_letters()
        if after is None or self._dead_letters_before is None or after < self._dead_letters_before:
            return None  # for example, because the topic was created again
        return after - self._dead_letters_before

    def _dead_letters(self) -> int | None:
        topic = self.scenario.dead_letter_topic
        if topic is None or not self.dead_letter_partitions:
            return None
        try:
            return sum(self.admin.end_offsets(topic, self.dead_letter_partitions).values())
        except ClusterError:
            return None

    def clean_up(self, *, hasty: bool) -> Leftovers:
        """Abort open transactions if the load has started, and delete its own topic."""
        transactions = self._abort_transactions(hasty=hasty) if self.began else None
        return Leftovers(transactions=transactions, topic=self._delete_topic(hasty=hasty))

    def _abort_transactions(self, *, hasty: bool) -> Notice | None:
        """Abort transactions that the producers left open on an existing topic; return a warning if that fails.

        Otherwise, read_committed consumers would not receive any records that follow an open transaction.
        """
        scenario = self.scenario
        if scenario.topic is None or scenario.transaction_size is None:
            return None
        ids = [f"{self.name}-{number}" for number in range(scenario.producers)]
        try:
            self.admin.abort_transactions(ids, scenario, timeout_s=_HASTY_TIMEOUT_S if hasty else TIMEOUT_S)
        except ClusterError as error:
            timeout_s = transaction_timeout_ms(scenario) / 1000
            values = {"topic": scenario.topic, "timeout_s": timeout_s, "ids": listed(ids), "reason": str(error)}
            return Notice(Remark.TRANSACTIONS_LEFT, values)
        return None

    def _delete_topic(self, *, hasty: bool) -> Notice | None:
        """Delete the load's own topic; return a warning if that fails."""
        if self.scenario.topic is not None:
            return None
        try:
            self.admin.delete_topic(self.topic, timeout_s=_HASTY_TIMEOUT_S if hasty else TIMEOUT_S)
        except ClusterError as error:
            return Notice(Remark.TOPIC_LEFT, {"topic": self.topic, "reason": str(error)})
        return None

    def preflight(self) -> None:
        """Check that the cluster accepts this load before any record is sent.

        Raises:
            ClusterError: the load would fail, for example because a permission is missing.

        """
        cluster = self.cluster
        guarded = self.scenario.topic is not None or cluster.provider == "external" or cluster.access != Access()
        preflight = Preflight(cluster.bootstrap_servers, cluster.access)
        preflight.check(self.scenario, self.topic, f"{self.name}-0", guarded=guarded)

    def assignments(self, shares: WorkerShares, counters: SharedCounters) -> Sequence[Assignment]:
        """Return each worker's assignment, in the order of `shares`."""
        return [
            Assignment(
                worker=worker,
                counters=counters.path,
                bootstrap_servers=self.cluster.bootstrap_servers,
                access=self.cluster.access,
                topic=self.topic,
                group=self.name,
                scenario=self.scenario,
                read_partitions=self.read_partitions,
                producers=producers,
                consumers=consumers,
                seed=self.seed,
                nonce=self.nonce,
            )
            for worker, (producers, consumers) in enumerate(shares)
        ]
