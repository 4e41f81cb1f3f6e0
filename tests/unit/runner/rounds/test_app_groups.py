"""The measurements of consumer groups, from offsets whose arithmetic is known."""

from __future__ import annotations

import array
import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.clusters.monitoring.watchers import GroupOffsets
from pytest_kafkaperf.core.notices import Notice, NoticeKind, Remark
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.messages import Produced, WorkerReport
from pytest_kafkaperf.runner.rounds.app_groups import commit_interval_s, slope, watched
from pytest_kafkaperf.runner.rounds.fold import fold
from pytest_kafkaperf.runner.rounds.observations import Observations
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.observations import observed
from tests.support.problems import problem_told

START_NS = 50 * NS_PER_S
MS = 1_000_000
STEP_S = 0.1
SCENARIO = Scenario.of({"topic": "orders", "watch_group": ["billing", "audit"], "rate": 100, "duration": "10 s"})


def offsets(committed: Any, ends: Any) -> GroupOffsets:
    """Readings of one partition, ten a second, from the start of the window on."""
    columns = [np.asarray(each, dtype=np.int64).reshape(-1, 1) for each in (committed, ends)]
    at_ns = START_NS + np.arange(len(columns[0])) * 100 * MS
    return GroupOffsets(at_ns=at_ns, committed=columns[0], ends=columns[1])


def simulated(
    *, rate: float = 100, capacity: float, commit_s: float, load_s: float = 10, total_s: float = 40
) -> GroupOffsets:
    """A group that takes so many records a second, and commits what it has done at an interval."""
    at_s = np.arange(0, total_s, STEP_S) + 1e-6
    ends = np.minimum(at_s, load_s) * rate
    committed_s = np.floor(at_s / commit_s) * commit_s
    return offsets(np.minimum(committed_s * capacity, np.minimum(committed_s, load_s) * rate), ends)


def report(*rows: tuple[int, ...], last_ack_s: float = 10, **groups: GroupOffsets) -> Observations:
    """One producer, whose records have these places."""
    places = rows or tuple(
        (0, 10 * n, 10, START_NS + 100 * MS * n, START_NS + 100 * MS * n + 90 * MS) for n in range(100)
    )
    produced = Produced(
        sent=1000,
        acknowledged=1000,
        first_due_ns=START_NS,
        last_ack_ns=START_NS + round(last_ack_s * NS_PER_S),
        places=array.array("q", [value for row in places for value in row]),
    )
    return observed(workers=[WorkerReport(produced=[produced])], start_ns=START_NS, growth={}, groups=groups)


def test_a_group_that_is_too_slow_is_known_by_arithmetic() -> None:
    """100 records/s for 10 s, of which it takes 50: the last one waits for 10 s."""
    found = watched(report(billing=simulated(capacity=50, commit_s=0.2)), SCENARIO)
    assert (found.problems, found.warnings) == ([], [])
    assert found.commit_interval_s == pytest.approx(0.2)
    assert found.metrics == pytest.approx(
        {
            "app.lag.max": 500,
            "app.lag.end": 500,
            "app.lag.slope": 50,
            "app.throughput": 50,
            "app.drain": 10,
            "app.rebalances": 0,
            "app.rebalance.pause": 0,
        },
        rel=0.02,
        abs=0.2,
    )
    (delay,) = found.delay
    assert delay.total == 1000
    assert [delay.quantile_s(0.5), delay.max_s] == pytest.approx([5, 10], rel=0.02, abs=0.2)


def test_a_group_that_keeps_up_has_no_slope_however_rarely_it_commits() -> None:
    """Its lag falls with each commit and grows until the next: as a line through all of it, that would be a growth."""
    for commit_s in (0.1, 0.7, 1.0, 3.0):
        found = watched(report(billing=simulated(capacity=1000, commit_s=commit_s)), SCENARIO)
        assert found.metrics["app.lag.slope"] == pytest.approx(0, abs=2)
        assert found.commit_interval_s == pytest.approx(commit_s, abs=STEP_S)
        assert found.metrics["app.lag.max"] == pytest.approx(100 * commit_s, abs=11)


def test_where_commits_are_too_rare_the_slope_is_unknown() -> None:
    """A window of two commits shows no trend."""
    found = watched(report(billing=simulated(capacity=1000, commit_s=5)), SCENARIO)
    assert "app.lag.slope" not in found.metrics
    (notice,) = found.warnings
    assert (notice.remark, notice.values["group"]) == (Remark.RARE_COMMITS, "billing")
    assert str(notice.values["interval"]) == "5 s"


@pytest.mark.parametrize(("capacity", "commit_s"), [(30, 4), (30, 5), (30, 7), (30, 9), (50, 4), (50, 5), (70, 4)])
def test_a_slow_group_that_commits_rarely_shows_its_slope_after_the_load(capacity: float, commit_s: float) -> None:
    """A sink that commits after each batch commits the more rarely the slower it is; it must not pass for that."""
    found = watched(report(billing=simulated(capacity=capacity, commit_s=commit_s, total_s=60)), SCENARIO)
    assert found.metrics["app.lag.slope"] == pytest.approx(100 - capacity, rel=0.1)


@pytest.mark.parametrize("load_s", [10.0, 10.3, 11.9])
@pytest.mark.parametrize("commit_s", [3.4, 4.0, 5.0, 6.0])
def test_a_group_that_keeps_up_never_shows_a_slope_by_its_last_commit(commit_s: float, load_s: float) -> None:
    """It is idle before that one, so that this tells nothing about its capacity."""
    found = watched(report(billing=simulated(capacity=1000, commit_s=commit_s, load_s=load_s)), SCENARIO)
    assert found.metrics.get("app.lag.slope", 0) == pytest.approx(0, abs=2)


@pytest.mark.parametrize("growth", [0.5, 20, 1000])
@pytest.mark.parametrize("commit_s", [0.1, 0.23, 0.5, 1.1])
def test_the_slope_is_that_of_the_lag_behind_commits(growth: float, commit_s: float) -> None:
    """Teeth of commits and a few outliers make no difference."""
    at_s = np.arange(0, 10, STEP_S)
    lag = 1500 * (at_s % commit_s) + growth * at_s
    lag[30:34] += 5000
    found = slope(at_s, lag.astype(np.int64), commit_s)
    assert found == pytest.approx(growth, rel=0.05, abs=12)


def test_idle_time_is_no_commit_interval() -> None:
    """One record in five seconds, done at once: a commit that nobody could have made earlier."""
    seconds = np.arange(0, 30, STEP_S)
    ends = np.floor(seconds / 5) + 1
    committed = np.floor((seconds - 0.25) / 5) + 1
    assert commit_interval_s(offsets(committed, ends)) == pytest.approx(0.4)


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 5), st.integers(0, 3000), st.integers(0, 90)), min_size=1),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=3, max_size=60),
)
def test_delays_are_those_of_the_slow_and_obvious_way(
    batches: list[tuple[int, int, int, int]], commits: list[tuple[int, int]]
) -> None:
    """Record by record, reading by reading."""
    following = [0, 0]
    rows, records = [], []
    for partition, count, due_ms, step_ms in batches:
        dues = [START_NS + (due_ms + place * step_ms) * MS for place in range(count)]
        rows.append((partition, following[partition], count, dues[0], dues[-1]))
        records += [(partition, following[partition] + place, due) for place, due in enumerate(dues)]
        following[partition] += count
    committed = np.cumsum(np.array([(0, 0), (1, 1), *commits]), axis=0)
    last_ms = max(row[4] - START_NS for row in rows) // MS  # readings go on until then
    at_ns = START_NS + np.arange(len(committed)) * max(100, last_ms // (len(committed) - 1) + 1) * MS
    read = GroupOffsets(at_ns=at_ns, committed=committed, ends=committed + 1)

    found = watched(report(*rows, billing=read), SCENARIO)

    times: npt.NDArray[np.int64] = at_ns
    delays = [
        max(
            0,
            next((int(at) for at, done in zip(times, committed, strict=True) if done[part] > offset), int(times[-1]))
            - due,
        )
        for part, offset, due in records
    ]
    assert (found.delay[0].sum_ns, found.delay[0].max_ns, found.delay[0].total) == (
        sum(delays),
        max(delays),
        len(delays),
    )


def test_of_several_groups_the_slowest_counts() -> None:
    """Whoever promises a time promises it for all."""
    slow, fast = simulated(capacity=50, commit_s=0.2), simulated(capacity=1000, commit_s=0.5)
    both = fold(report(billing=fast, audit=slow), SCENARIO).metrics
    alone = fold(report(audit=slow), SCENARIO).metrics
    assert {name: value for name, value in both.items() if name.startswith("app.")} == {
        name: value for name, value in alone.items() if name.startswith("app.")
    }
    assert fold(report(billing=fast, audit=slow), SCENARIO).commit_interval_s == pytest.approx(0.5)
    assert both["app.delay.p50"] == pytest.approx(5, abs=0.3)


@pytest.mark.parametrize("slow_s", [0.2, 3.0])
def test_a_pause_that_nobody_saw_is_no_pause_of_zero(slow_s: float) -> None:
    """One group is not rebalanced. The other one is, and it may have paused for as long as its commit interval."""
    rebalanced = dataclasses.replace(
        simulated(capacity=1000, commit_s=slow_s), rebalances_ns=(START_NS + 4 * NS_PER_S,)
    )
    found = watched(report(billing=rebalanced, audit=simulated(capacity=1000, commit_s=0.2)), SCENARIO)
    assert "app.rebalance.pause" not in found.metrics
    assert found.at_most == {"app.rebalance.pause": pytest.approx(slow_s + STEP_S)}
    assert [each.kind for each in found.warnings if each.kind is NoticeKind.PAUSE_UNKNOWN] != []


def test_records_that_no_commit_covers_count_with_the_time_that_they_waited() -> None:
    """The slowest of all must not be left out."""
    found = watched(report(billing=simulated(capacity=50, commit_s=0.2, total_s=15)), SCENARIO)
    assert found.problems == []
    (notice,) = found.warnings
    values = {"group": "billing", "late": 260, "records": 1000, "waited": notice.values["waited"]}
    assert (notice, str(values["waited"])) == (Notice(Remark.NOT_COMMITTED, values), "4.9 s")
    assert found.metrics["app.drain"] == pytest.approx(4.9)
    parts = ("mean", "p90", "p95", "p99", "p99.9", "p99.99", "max")  # of more than a quarter only a bound is known
    assert found.at_least == ("app.drain", *(f"app.delay.{part}" for part in parts))
    assert found.delay[0].total == 1000


def test_a_group_that_commits_nothing_is_a_problem() -> None:
    """It would look as if it were infinitely slow."""
    silent = offsets([7] * 200, np.arange(200) * 10)
    done = fold(report(billing=silent), SCENARIO)
    assert done.problems == (
        problem_told(
            ProblemKind.NO_COMMIT,
            "group 'billing' has committed nothing on topic 'orders' since the load started: check that the "
            "application is running, reads this topic and commits its offsets",
        ),
    )
    assert not [name for name in done.metrics if name.startswith("app.")]


def test_a_group_that_could_not_be_read_is_a_problem() -> None:
    """Silence is no measurement."""
    done = fold(report(billing=GroupOffsets.of([], 1)), SCENARIO)
    assert [problem.kind for problem in done.problems] == [ProblemKind.NO_COMMIT]


def test_a_group_that_nobody_could_read_until_the_end_is_a_problem() -> None:
    """What it did in the first half of the load would pass for the whole."""
    whole = simulated(capacity=1000, commit_s=0.2)
    half = GroupOffsets(at_ns=whole.at_ns[:50], committed=whole.committed[:50], ends=whole.ends[:50])
    done = fold(report(billing=half), SCENARIO)
    assert done.problems == (
        problem_told(
            ProblemKind.CLUSTER_ERROR,
            "could not read the offsets of group 'billing' during the last 5.09 s of the load: its coordinator or a "
            "partition leader of topic 'orders' did not answer",
        ),
    )
    assert not [name for name in done.metrics if name.startswith("app.")]


def test_where_a_group_has_committed_nothing_it_begins_at_the_end() -> None:
    """What was there before is not the round's."""
    read = GroupOffsets.of([(1, [-1, 5], [9, 9]), (2, [-1, 6], [12, 10]), (3, [11, 7], [12, 11])], 2)
    assert read.at_ns.tolist() == [1, 2, 3]
    assert read.committed.tolist() == [[9, 5], [9, 6], [11, 7]]
    assert read.ends.tolist() == [[9, 9], [12, 10], [12, 11]]
