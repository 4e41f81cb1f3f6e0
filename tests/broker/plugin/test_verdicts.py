"""How a verdict comes about, from end to end on real brokers: trials, live baselines, calibration, budgets."""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support.external_cluster import HERE, LIKE_ELSEWHERE
from tests.support.project import Project, Run, guard


def trials_of(project: Project) -> list[int]:
    files = sorted(project.folder.rglob("kafka-baselines/**/*.json"))
    return [len(json.loads(file.read_text(encoding="utf-8"))["trials"]) for file in files]


def test_trials_are_collected_added_and_left_alone(project: Project, on_broker: str) -> None:
    """`--kafka-calibrate` makes a baseline of several trials at once, and tells what it is worth."""
    project.test(guard())
    first = project.run_steadily(on_broker, "--kafka-calibrate=3", "--kafka-update-baselines")
    assert (first.status, trials_of(project)) == (pytest.ExitCode.OK, [3]), first.out
    (test,) = first.report["tests"]
    found = test["calibration"]["produce.throughput"]
    assert (found["trial_count"], found["tolerance"]) == (3, pytest.approx(-0.3))
    trials = [[math.log(one["metrics"]["produce.throughput"]) for one in trial["rounds"]] for trial in test["trials"]]
    pooled = statistics.fmean(map(statistics.variance, trials))  # the trials have the same number of rounds
    assert found["noise_within"] == pytest.approx(math.sqrt(pooled), rel=0.01)
    assert -1 < found["detectable_change"] <= -0.3
    assert "kafkaperf: calibration: 1 test, 3 trials each, about " in first.out
    lines = re.findall(r"^test_guard: trial (\d of 3), produce\.throughput .*/s", first.out, re.MULTILINE)
    assert lines == ["1 of 3", "2 of 3", "3 of 3"], first.out
    properties = {each.attrib["name"]: each.attrib["value"] for each in first.junit.iter("property")}
    assert (test["verdict"], test["checks"][0]["verdict"]) == ("MEASURED", "MEASURED")
    assert (properties["kafka_verdict"], properties["kafka_check_1_verdict"]) == ("MEASURED", "MEASURED")
    assert sum(not trial["problems"] for trial in test["trials"][1:]) == 2
    head = next(line.split() for line in first.out.splitlines() if line.startswith("metric"))
    assert head == ["metric", "within", "between", "tolerance", "suspected", "can", "detect"]

    again = project.run_steadily(on_broker, "--kafka-update-baselines=add")
    assert (again.status, trials_of(project)) == (pytest.ExitCode.OK, [4]), again.out
    assert again.report["tests"][0]["baseline_trial_count"] == 3
    assert "weak baselines (fewer than 3 days" in again.out
    check = again.report["tests"][0]["checks"][0]
    assert -1 < check["detectable_change"] <= -0.3
    (titles,) = [" ".join(line.split()) for line in again.out.splitlines() if line.startswith("  threshold")]
    assert titles.startswith("threshold measured")
    assert titles.endswith("baseline change range")

    project.run_steadily(on_broker, "--kafka-update-baselines=new", "--kafka-rounds=1")
    assert trials_of(project) == [4]
    project.run_steadily(on_broker, "--kafka-update-baselines=replace", "--kafka-rounds=1")
    assert trials_of(project) == [1]


def test_each_trial_keeps_when_where_and_of_what_code_it_is(project: Project, on_broker: str) -> None:
    """What a reviewer, and whoever looks for the cause of a change, needs."""
    run = project.test(guard(rounds=1)).run_steadily(on_broker, "--kafka-update-baselines")
    (text,) = run.baselines.values()
    (trial,) = json.loads(text)["trials"]
    assert trial["created"].endswith("+00:00")
    assert "commit" not in trial  # this project is in no repository
    assert {"kafka", "brokers", "aiokafka", "kernel", "cpu", "memory", "provider"} <= {*trial["fingerprint"]}


GIVEN = "import os, pytest\n\n@pytest.fixture\ndef kafka_cluster():\n    return os.environ['SERVERS']\n"


@pytest.mark.parametrize("fixture", [False, True], ids=["option", "fixture"])
def test_a_baseline_of_another_cluster_judges_nothing(project: Project, broker: Cluster, fixture: Any) -> None:
    """Staging and production have one environment, and a slower cluster would hide each regression."""
    if fixture:
        project.write("conftest.py", GIVEN)

    def run_on(cluster: Cluster, *arguments: str) -> Run:
        servers = cluster.bootstrap_servers
        if not fixture:
            return project.run_steadily(f"--kafka-cluster={servers}", *arguments)
        return project.run_steadily(*arguments, SERVERS=servers.replace(HERE, LIKE_ELSEWHERE))

    project.test(guard(rounds=1))
    run_on(broker, "--kafka-update-baselines")
    with provision(ClusterSpec(heap="256m"), target="local") as other:
        run = run_on(other)
        assert run.verdicts == {"test_guard": "INCONCLUSIVE"}, run.out
        assert "the baseline was measured on another cluster (cluster id: " in " ".join(run.out.split())
        run_on(other, "--kafka-update-baselines")
        again = run_on(other)
        assert again.report["tests"][0]["baseline_trial_count"] == 1, again.out


def test_a_gain_makes_the_baseline_stale_until_it_is_accepted(
    project: Project, broker: Cluster, on_broker: str, quota: Callable[..., AbstractContextManager[None]]
) -> None:
    """A fall back to the old level would pass; nothing but the user's command replaces what was measured."""
    project.test(guard())
    with quota(broker, producer_byte_rate=250_000):
        project.run_steadily(on_broker, "--kafka-update-baselines")
    fast = project.run_steadily(on_broker, "--kafka-rounds=4")
    assert (fast.verdicts, trials_of(project)) == ({"test_guard": "IMPROVED"}, [1]), fast.out
    assert "the baseline is stale" in " ".join(fast.out.split())
    project.run_steadily(on_broker, "--kafka-update-baselines", "--kafka-rounds=4")
    same = project.run_steadily(on_broker, "--kafka-rounds=3")
    assert same.verdicts == {"test_guard": "PASSED"}, same.out


FLUSHED = """
@pytest.mark.kafka_scenario(duration="1 s", warmup="100 ms", partitions=1, acks=1)
@pytest.mark.kafka_threshold("produce.throughput >= 1 record/s", "errors == 0")
def test_flushed(kafka_perf):
    kafka_perf()
"""
SHORT = "--kafka-rounds=2", "--kafka-workers=1"


def test_the_same_twice_is_the_same(project: Project, on_broker: str) -> None:
    """One cluster as its own live baseline."""
    compare = on_broker.replace("cluster", "compare", 1)
    run = project.test(guard()).run_steadily(on_broker, compare, *SHORT)
    assert run.verdicts == {"test_guard": "PASSED"}, run.out
    assert " side-by-side trials" in run.report["tests"][0]["checks"][0]["reason"]


@pytest.mark.story
def test_brokers_of_both_sides_are_started_with_their_properties(project: Project) -> None:
    """What differs between the sides is named, and both sides are paired in each trial."""
    run = project.test(FLUSHED).run(
        "--kafka-cluster=local",
        "--kafka-compare=local",
        "--kafka-compare-config=log.flush.interval.messages=1",
        *("-o", "kafka_broker_warmup=0 s"),
        *SHORT,
    )
    (test,) = run.report["tests"]
    assert (run.status, test["verdict"]) == (pytest.ExitCode.OK, "PASSED"), run.out
    assert "kafkaperf: compared with local (log.flush.interval.messages=1)" in run.out
    assert "changed: broker setting log.flush.interval.messages " in run.out
    assert "log.flush.interval.messages" in "".join(test["changed"])
    assert len(test["trials"][0]["baseline_rounds"]) == len(test["trials"][0]["rounds"]) == 2


def test_a_test_that_is_far_from_its_threshold_runs_three_of_five_rounds(project: Project, on_broker: str) -> None:
    """Screening takes seconds, and nobody takes it for a run that was cut."""
    project.test(
        '@pytest.mark.kafka_threshold("produce.throughput >= 100 records/s")\n'
        "def test_fast(kafka_perf):\n    kafka_perf()\n"
    )
    run = project.run_steadily(on_broker)
    (test,) = run.report["tests"]
    assert (test["verdict"], len(test["trials"][0]["rounds"])) == ("PASSED", 3), run.out
    assert "stopped after 3 of 5 rounds, because the remaining rounds could not change the result" in run.out
    assert "kafkaperf: 1 perf test, about 20 s\n" in run.out


LONG = """
@pytest.mark.kafka_scenario(records=500, warmup="100 ms", partitions=1, rounds=30)
@pytest.mark.kafka_threshold("errors == 0")
def test_{name}(kafka_perf):
    kafka_perf()
"""


def test_a_budget_cuts_rounds_and_leaves_out_what_does_not_fit(project: Project, on_broker: str) -> None:
    """What was not decided says so; the run ends in time.

    The budget assumes several seconds for each round, which is enough on any machine.
    """
    project.test(LONG.format(name="first") + LONG.format(name="second"))
    run = project.run(on_broker, "--kafka-allow-unlimited", "--kafka-time-budget=60 s")
    first, second = ([one["window_s"] for one in test["trials"][0]["rounds"]] for test in run.report["tests"])
    assert 3 <= len(first) == len(second) < 30, run.out
    assert f"  the time budget allowed only {len(first)} of 30 rounds" in run.out
    assert second[-1][1] - first[0][0] < 60
    run = project.run(on_broker, "--kafka-time-budget=3 s")
    assert run.verdicts == {"test_first": "INCONCLUSIVE", "test_second": "INCONCLUSIVE"}, run.out
    assert "of the time budget is left; increase --kafka-time-budget" in run.out
    assert run.status == pytest.ExitCode.OK
    strict = project.run(on_broker, "--kafka-time-budget=3 s", "--kafka-strict")
    assert strict.status == NOT_JUDGED


def test_baselines_of_tests_that_are_gone_are_told_and_deleted_when_asked(project: Project, on_broker: str) -> None:
    """A renamed test would leave a file that nobody reads; a test that was only left out keeps its own."""
    project.test(guard("old", rounds=1) + guard("kept", rounds=1))
    project.run_steadily(on_broker, "--kafka-update-baselines")
    assert len(trials_of(project)) == 2
    project.test(guard("kept", rounds=1))
    told = project.run(on_broker)
    assert (
        "baselines of tests that no longer exist: test_perf.py::test_old; delete them with --kafka-prune-baselines"
        in told.out
    )
    filtered = project.run(on_broker, "--kafka-prune-baselines", "test_perf.py::test_kept")
    assert (len(trials_of(project)), "tests that no longer exist" in filtered.out) == (2, False)
    pruned = project.run(on_broker, "--kafka-prune-baselines", "--dist=loadfile")  # which distributes nothing by itself
    assert "deleted baselines of tests that no longer exist: test_perf.py::test_old (commit the deletion)" in pruned.out
    assert [Path(name).name for name in pruned.baselines] == ["test_kept.json"]
    project.test(guard("kept", rounds=1) + guard("other", rounds=1))
    left = project.run(on_broker, "--kafka-prune-baselines", "-k", "other")
    assert (len(trials_of(project)), "tests that no longer exist" in left.out) == (1, False)
    project.test("def test_failing():\n    assert not 'yet'\n\n" + guard("kept", rounds=1))
    project.run("-k", "failing", "-p", "cacheprovider")
    failed = project.run(on_broker, "--kafka-prune-baselines", "--lf", "-p", "cacheprovider")
    assert (len(trials_of(project)), "tests that no longer exist" in failed.out) == (1, False), failed.out
    (project.folder / "test_perf.py").unlink()
    project.run("--kafka-prune-baselines")
    assert trials_of(project) == []


def test_the_history_gains_a_line_a_test_and_trial(project: Project, on_broker: str) -> None:
    """For tools that look at weeks of them."""
    project.test(guard(rounds=1))
    for _ in range(2):
        project.run_steadily(on_broker, "--kafka-report=history:past/history.jsonl")
    text = (project.folder / "past/history.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(lines) >= 2
    assert {line["nodeid"] for line in lines} == {"test_perf.py::test_guard"}
    assert all(line["metrics"]["produce.throughput"] > 0 for line in lines)
