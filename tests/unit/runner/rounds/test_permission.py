"""Loads on clusters that others may use: how fast they may be, and where they may write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.target import parse_servers
from pytest_kafkaperf.core.errors import UnitError, UsageError
from pytest_kafkaperf.core.spans import Stopwatch
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.plugin.options import OPTIONS
from pytest_kafkaperf.runner.measure import measure
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.runner.rounds.capacity import SearchPlan
from pytest_kafkaperf.runner.rounds.permission import MaxRate, Permission, parse_max_rate, permission_on
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.shared_clusters import SharedClusters
from pytest_kafkaperf.scenarios.scenario import Scenario

ELSEWHERE = Cluster(bootstrap_servers="broker1:9092")
HERE = Cluster(bootstrap_servers="127.0.0.1:1")
NAMED = parse_servers("127.0.0.1:1", where="")


def problems(permission: Permission, plan: SearchPlan | None = None, **fields: Any) -> list[str]:
    """Return the lines of the error, which say what is wrong and how to allow it."""
    try:
        permission.check(Scenario.of(fields), plan)
    except UsageError as error:
        return str(error).splitlines()
    return []


def keys(permission: Permission, plan: SearchPlan | None = None, **fields: Any) -> list[str]:
    """Return what the error offers to allow the load with."""
    return [line.rpartition("or allow it: ")[2] for line in problems(permission, plan, **fields)]


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"rate": "50k/s"}, None),
        ({"rate": "500k/s"}, "kafka_max_rate = 500k records/s, 50 MB/s in the ini file"),
        ({"rate": "1G/s"}, "kafka_max_rate = 1G records/s, 100000 MB/s in the ini file"),
        ({"rate": "1k -> 60k records/s over 30 s"}, "kafka_max_rate = 60k records/s, 50 MB/s in the ini file"),
        ({"rate": "50 MB/s", "record_size": "10 kB"}, None),
        ({"rate": "6k/s", "record_size": "10 kB"}, "kafka_max_rate = 50k records/s, 60 MB/s in the ini file"),
        (
            {"rate": "50k/s", "record_size": 1000, "key": "uniform:5", "headers": {"a": "b" * 90}},
            "kafka_max_rate = 50k records/s, 55.15 MB/s in the ini file",
        ),
        ({}, "--kafka-allow-unlimited, or kafka_allow_unlimited = true in the ini file"),
        ({"records": 1000}, "--kafka-allow-unlimited, or kafka_allow_unlimited = true in the ini file"),
    ],
)
def test_the_rate_on_a_shared_cluster_has_a_ceiling(fields: dict[str, Any], key: str | None) -> None:
    """A rate of a billion records a second is no limit, and large records take more than small ones."""
    assert keys(permission_on(ELSEWHERE), **fields) == ([] if key is None else [key])


def test_an_error_gives_what_was_asked_what_is_allowed_and_what_to_do() -> None:
    """The reader may not know the cluster."""
    permission = permission_on(ELSEWHERE, topics=["perf"])
    assert problems(permission, topic="orders", rate="100k/s") == [
        "the cluster at broker1:9092 may be used by others: this test writes to the existing topic 'orders', whose "
        "consumers may not understand the records; only perf may be written to; remove topic to use a new one, or "
        "allow it: kafka_writable_topics = perf, orders in the ini file",
        "the cluster at broker1:9092 may be used by others: this test has a rate of 100k records/s, 10 MB/s, but at "
        "most 50k records/s, 50 MB/s are allowed; declare a lower rate, or allow it: kafka_max_rate = 100k records/s, "
        "50 MB/s in the ini file",
    ]


@pytest.mark.parametrize("rate", ["33333.3333/s", "77777.77777/s", "123456.789/s"])
def test_the_limit_that_an_error_suggests_allows_the_load(rate: str) -> None:
    """It has six digits, and the rate may have more."""
    (key,) = keys(permission_on(ELSEWHERE), rate=rate, record_size="10 kB")
    suggested = key.removeprefix("kafka_max_rate = ").removesuffix(" in the ini file")
    permission = permission_on(ELSEWHERE, max_rate=parse_max_rate(suggested))
    assert problems(permission, rate=rate, record_size="10 kB") == []


@pytest.mark.parametrize(("high", "refused"), [(50_000.0, False), (2e6, True)])
def test_a_search_may_go_as_high_as_a_test(high: float, refused: bool) -> None:  # noqa: FBT001 - a parameter
    """It raises the rate up to `high`."""
    plan = SearchPlan(limits=(), low=1000.0, high=high)
    found = keys(permission_on(ELSEWHERE), plan, producers=1)
    assert found == (["kafka_max_rate = 2M records/s, 200 MB/s in the ini file"] if refused else [])


def test_samples_count_with_their_size(tmp_path: Path) -> None:
    """50k records/s of 3 kB are 150 MB/s, whatever the scenario knows of the file."""
    (tmp_path / "samples").write_text(f"{'a' * 5000}\n{'b' * 1000}\n", encoding="utf-8")
    (key,) = keys(permission_on(ELSEWHERE), rate="50k/s", payload=f"file:{tmp_path / 'samples'}")
    assert key == "kafka_max_rate = 50k records/s, 150 MB/s in the ini file"


@pytest.mark.parametrize(
    ("cluster", "named", "free"),
    [(HERE, [], True), (HERE, [NAMED], False), (ELSEWHERE, [], False), (ELSEWHERE, [NAMED], False)],
    ids=["fixture on this machine", "option on this machine", "fixture elsewhere", "both"],
)
@pytest.mark.parametrize("fields", [{}, {"rate": "1M/s"}, {"topic": "orders", "rate": 1}])
def test_a_broker_that_a_fixture_started_here_is_nobody_elses(
    cluster: Cluster,
    named: list[Any],
    free: bool,  # noqa: FBT001 - a parameter
    fields: dict[str, Any],
) -> None:
    """An option may name the local end of a tunnel."""
    assert (problems(permission_on(cluster, named=named), **fields) == []) is free


@pytest.mark.parametrize("fields", [{"topic": "orders", "producers": 0, "consumers": 1}, {"topic": "perf"}])
def test_reading_a_topic_and_writing_to_a_listed_one_need_no_further_consent(fields: dict[str, Any]) -> None:
    """Nobody else sees a record of the first, and the second was allowed."""
    permission = permission_on(ELSEWHERE, unlimited=True, topics=["perf"])
    assert problems(permission, **fields) == []


def test_consent_to_unlimited_load_is_no_consent_to_write_to_topics() -> None:
    """One is about the brokers, the other about consumers."""
    permission = permission_on(ELSEWHERE, unlimited=True)
    assert keys(permission, topic="orders") == ["kafka_writable_topics = orders in the ini file"]


def test_a_side_without_a_permission_has_the_strictest_one() -> None:
    """Who forgets it must not open a door."""
    assert Side.of(ELSEWHERE).permission == permission_on(ELSEWHERE)
    assert permission_on(ELSEWHERE).is_limited


@pytest.mark.parametrize(
    ("live_baseline", "topics"),
    [(None, ("perf", "orders")), (ELSEWHERE, ("perf",))],
    ids=["own cluster", "live baseline"],
)
def test_a_topic_needs_no_consent_where_the_plugin_has_created_it(
    live_baseline: Cluster | None, topics: tuple[str, ...]
) -> None:
    """On the other side, a topic of that name may exist, and have consumers."""
    given = {"cluster": "127.0.0.1:1", "compare": "broker1:9092", "writable-topics": "perf"}
    settings = read_settings(given, {}, invocation_folder=Path(), root=Path())
    perftest = read_perftest("a.py::test", [], {}, settings, folder=Path())
    clusters = SharedClusters(settings, Stopwatch())
    application = Application(Recipe.of({"command": ["serve"], "ready": "port:1"}), HERE)
    application.created = ["orders"]
    clusters._applications.append(application)  # noqa: SLF001 - as if it ran
    assert clusters.permission(perftest, HERE, live_baseline).topics == topics


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, "measure(..., allow_unlimited=True)"),
        ({"rate": "1M/s"}, "measure(..., max_rate='1M records/s, 100 MB/s')"),
        ({"rate": 1, "topic": "orders"}, "measure(..., writable_topics=['orders'])"),
    ],
)
@pytest.mark.parametrize("cluster", ["127.0.0.1:1", ELSEWHERE], ids=["text", "object"])
def test_a_script_asks_like_a_test(cluster: object, fields: dict[str, Any], key: str) -> None:
    """A notebook saturates production as well as a test does; the error comes before any connection."""
    with pytest.raises(UsageError) as raised:
        measure(fields, cluster)
    assert str(raised.value).endswith(f"or allow it: {key}")


def test_the_default_in_the_help_is_the_one_that_counts() -> None:
    """It is written twice."""
    assert parse_max_rate(OPTIONS["max-rate"].default) == MaxRate() == parse_max_rate(str(MaxRate()))


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("200k records/s", MaxRate(records_per_s=200_000)),
        ("1 MiB/s", MaxRate(bytes_per_s=2**20)),
        ("1 GB/s, 5/s", MaxRate(records_per_s=5, bytes_per_s=1e9)),
    ],
)
def test_a_limit_that_is_left_out_keeps_its_default(text: str, limit: MaxRate) -> None:
    """Who allows more records has not thought of their size."""
    assert parse_max_rate(text) == limit


@pytest.mark.parametrize("text", ["fast", "50 KB/s", "", "1k/s, 2k/s", "-1/s"])
def test_a_limit_that_is_not_a_rate_is_refused(text: str) -> None:
    """A typo must not remove the limit."""
    with pytest.raises(UnitError):
        parse_max_rate(text)
