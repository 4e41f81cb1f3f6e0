"""Somebody else's cluster: what crashed runs have left there goes, and nothing else comes or goes."""

from __future__ import annotations

import contextlib
import datetime
import time
from typing import TYPE_CHECKING

import pytest
from aiokafka.errors import KafkaError

from pytest_kafkaperf.clusters.admin.admin import Admin, TopicGoneError
from pytest_kafkaperf.clusters.admin.connection import connected, run
from pytest_kafkaperf.clusters.admin.run_names import run_name
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.watchers import GroupWatcher
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import run_scenario
from tests.support.strangers import commit_as, groups, left_behind, make_topic, topics, topics_soon

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = bytes.fromhex("00ff12ab34cd")
OLD = run_name(datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=25), SUFFIX)
LONG_AGO = run_name(datetime.datetime(2020, 2, 29, tzinfo=datetime.UTC), SUFFIX)
THEIRS = {"kafkaperf-results", "kafkaperf-00ff12ab34cd", f"{OLD}.copy", "orders"}


@pytest.fixture(scope="module")
def young() -> str:
    """Not yet a day past its time, as seen when the test runs: the suite may have begun long ago."""
    return run_name(datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=23), SUFFIX)


@pytest.fixture(scope="module")
def foreign(young: str) -> Iterator[Cluster]:
    """Things are in it; two brokers, each of which keeps some groups, create any topic that somebody asks about."""
    spec = ClusterSpec(brokers=2, config={"auto.create.topics.enable": "true"})
    with provision(spec, target="local") as cluster:
        make_topic(cluster, f"{young}-3", f"{OLD}-1", LONG_AGO, *THEIRS, partitions=1)
        ours = [f"{OLD}-1-0", f"{OLD}-1-1", f"{OLD}-2-0", f"{young}-1-0"]
        commit_as(cluster, *ours, f"{OLD}-app", "kafkaperf-readers", topic="orders")
        yield cluster


def test_what_crashed_runs_left_goes_in_a_sweep(foreign: Cluster, young: str) -> None:
    """Only what is named exactly as a run names it, and whose time is over by more than a day."""
    removed = Admin(foreign.bootstrap_servers, foreign.access).sweep()

    assert {*removed} == {f"{OLD}-1", LONG_AGO, f"{OLD}-1-0", f"{OLD}-1-1", f"{OLD}-2-0"}
    remaining = {f"{young}-3", *THEIRS}
    assert topics_soon(foreign, remaining) == remaining
    assert groups(foreign) == {f"{young}-1-0", f"{OLD}-app", "kafkaperf-readers"}
    assert Admin(foreign.bootstrap_servers, foreign.access).sweep() == []


def test_a_machine_whose_clock_is_fast_sweeps_nothing_of_today(foreign: Cluster, young: str) -> None:
    """By that clock, runs that are going on ended long ago; the brokers know better."""
    admin = Admin(foreign.bootstrap_servers, foreign.access)
    remaining = {f"{young}-3", *THEIRS}
    admin.sweep()  # another process may run the test above
    assert topics_soon(foreign, remaining) == remaining
    make_topic(foreign, LONG_AGO, partitions=1)
    now = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3)
    removed = admin.sweep(now=now)

    assert removed == [LONG_AGO]
    assert topics_soon(foreign, remaining) == remaining
    assert groups(foreign) >= {f"{young}-1-0"}


def test_whoever_looks_for_a_topic_does_not_create_it(foreign: Cluster) -> None:
    """Otherwise a topic that its owner deletes while it is measured would come back, empty."""
    before = topics(foreign)
    admin = Admin(foreign.bootstrap_servers, foreign.access)
    assert admin.is_gone("deleted")
    with pytest.raises(TopicGoneError, match="topic 'deleted' was deleted"):
        admin.end_offsets("deleted", 1)
    with pytest.raises(KafkaError):
        run(watch(foreign, "deleted"))
    assert topics(foreign) == before


async def watch(cluster: Cluster, topic: str) -> None:
    """Read the end offsets of a topic twice, as the watcher of a group does; it looks for leaders after an error."""
    watcher = GroupWatcher(cluster, topic, 1, [])
    async with connected(cluster.bootstrap_servers, cluster.access) as client:
        with contextlib.suppress(KafkaError):
            await watcher._read(client)  # noqa: SLF001
        await watcher._read(client)  # noqa: SLF001


def test_groups_are_deleted_by_whichever_broker_keeps_them(foreign: Cluster) -> None:
    """Those that are not there are fine; of what goes wrong the first is told."""
    names = [f"{LONG_AGO}-{number}-0" for number in range(1, 6)]
    commit_as(foreign, *names[:4], topic="orders")
    admin = Admin(foreign.bootstrap_servers, foreign.access)

    admin.delete_groups(names)
    assert not groups(foreign) & {*names}
    admin.delete_groups(names)


def test_looking_for_a_topic_does_not_create_it(foreign: Cluster) -> None:
    """A misspelt name must leave nothing behind, even where brokers create topics by themselves."""
    before = topics(foreign)
    with pytest.raises(ClusterError) as raised:
        run_scenario(Scenario.of({"topic": "ordrs"}), foreign)

    assert str(raised.value) == (
        "topic 'ordrs' does not exist, did you mean 'orders'? create it, or leave out topic so that the run creates "
        f"one (on {foreign.bootstrap_servers})"
    )
    assert topics(foreign) == before


def test_a_run_leaves_nothing_where_brokers_create_topics_by_themselves(foreign: Cluster) -> None:
    """A client that asks about a topic after its removal would bring it back."""
    before = topics(foreign), groups(foreign)
    (one,) = run_scenario(Scenario.of({"records": 1000, "warmup": 0, "rounds": 1, "consumers": 1}), foreign)

    assert (one.problems, left_behind(one)) == ((), [])
    time.sleep(0.3)
    assert topics_soon(foreign, before[0]) == before[0]  # brokers hear of a removal later
    assert groups(foreign) == before[1]
