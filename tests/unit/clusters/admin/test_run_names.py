"""Names of what a run creates, and what a later run removes of it: those names exactly, when they are old enough."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.clusters.admin.run_names import (
    group_names,
    prefix_of,
    retention,
    round_name,
    run_name,
    stale_groups,
    stale_topics,
)

OVER = datetime.datetime(2026, 11, 21, 14, 5, 9, tzinfo=datetime.UTC)
RUN = "kafkaperf-20261121T140509Z-00ff12ab34cd"
DAY = datetime.timedelta(days=1)
SECOND = datetime.timedelta(seconds=1)


def test_a_run_is_named_by_the_time_when_it_is_over() -> None:
    """In UTC, wherever it runs: another run, somewhere else, must know how old it is."""
    tokyo = datetime.timezone(datetime.timedelta(hours=9))

    assert run_name(OVER, bytes.fromhex("00ff12ab34cd")) == RUN
    assert run_name(OVER.astimezone(tokyo), bytes.fromhex("00ff12ab34cd")) == RUN
    assert group_names(RUN, rounds=2, groups=2) == [f"{RUN}-1-0", f"{RUN}-1-1", f"{RUN}-2-0", f"{RUN}-2-1"]


@pytest.mark.parametrize(("age", "stale"), [(-DAY, False), (DAY, False), (DAY + SECOND, True), (999 * DAY, True)])
def test_what_a_run_left_is_removed_a_day_after_it_is_over(age: datetime.timedelta, *, stale: bool) -> None:
    """A run that goes on is never swept from under somebody, even by a machine whose clock is in another time zone."""
    assert stale_topics([f"{RUN}-12"], OVER + age) == [f"{RUN}-12"] * stale
    assert stale_topics([RUN], OVER + age) == [RUN] * stale
    assert stale_groups([f"{RUN}-12-3"], OVER + age) == [f"{RUN}-12-3"] * stale


@pytest.mark.parametrize(
    "name",
    [
        "kafkaperf-results",
        "kafkaperf-00ff12ab34cd",
        "kafkaperf-benchmark-00ff12ab",
        "orders",
        "__consumer_offsets",
        f"{RUN}-",
        f"{RUN}e",
        f"{RUN}\n",
        f"my-{RUN}",
        f"{RUN}.DLQ",
        f"{RUN}-1-0-1",
        f"{RUN}-x-0",
        RUN.upper(),
        RUN.replace("00ff", "00FF"),
        RUN.replace("1121", "1399"),
        RUN.replace("140509", "246060"),
        RUN.replace("Z", ""),
        RUN.replace("2026", "२०२६"),
    ],
)
def test_a_name_that_is_not_a_runs_own_is_never_removed(name: str) -> None:
    """Somebody's topic may well begin as ours do."""
    assert stale_topics([name], OVER + 9999 * DAY) == []
    assert stale_groups([name], OVER + 9999 * DAY) == []


def test_topics_are_not_named_like_groups_nor_groups_like_topics() -> None:
    """Each is removed under its own full name."""
    assert stale_topics([f"{RUN}-1-0"], OVER + 2 * DAY) == []
    assert stale_groups([RUN, f"{RUN}-1"], OVER + 2 * DAY) == []


HOUR = datetime.timedelta(hours=1)


@pytest.mark.parametrize(("left", "kept_ms"), [(2 * HOUR + SECOND, 10_801_000), (HOUR, 7_200_000), (-HOUR, 3_600_000)])
def test_records_of_a_runs_topic_are_kept_until_an_hour_after_it_is_over(
    left: datetime.timedelta, kept_ms: int
) -> None:
    """Nobody may come back to sweep: the brokers then free the space themselves."""
    assert retention(f"{RUN}-12", OVER - left) == {"retention.ms": str(kept_ms)}
    assert retention("orders", OVER - left) == {}


@given(
    over=st.datetimes(timezones=st.just(datetime.UTC)).filter(lambda over: 1970 <= over.year < 9000),
    suffix=st.binary(min_size=6, max_size=6),
    rounds=st.integers(1, 3),
    groups=st.integers(1, 3),
)
def test_whatever_a_run_creates_is_removed_in_the_end(
    over: datetime.datetime, suffix: bytes, rounds: int, groups: int
) -> None:
    """Nothing of ours stays behind for good."""
    name = run_name(over, suffix)
    created = group_names(name, rounds=rounds, groups=groups)

    topics = [round_name(name, number) for number in range(1, rounds + 1)]
    assert stale_topics(topics, over + DAY + SECOND) == topics
    assert stale_groups(created, over + DAY + SECOND) == created
    assert stale_topics(topics, over) == stale_groups(created, over) == []


def test_a_run_removes_names_with_its_own_prefix_only() -> None:
    """Teams share a cluster, each with a prefix that its ACLs or its naming policy demand."""
    names = {prefix: f"{run_name(OVER, bytes(6), prefix)}-1" for prefix in ("a.perf-", "b.a.perf-", "kafkaperf-")}
    for prefix, name in names.items():
        assert stale_topics(names.values(), OVER + 2 * DAY, prefix) == [name]
        assert stale_groups([f"{each}-0" for each in names.values()], OVER + 2 * DAY, prefix) == [f"{name}-0"]
        assert (prefix_of(name), prefix_of(f"{name}-0")) == (prefix, prefix)
        assert retention(name, OVER)
    assert prefix_of("orders") == "orders"
