"""Brokers of a baseline that start again: when they can, with which properties, and what they cannot show."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.environment import Part, differences
from pytest_kafkaperf.core.errors import ClusterError, ScenarioError
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.decision import RetestFailedError
from pytest_kafkaperf.runner.perftest import PerfTest, read_perftest
from pytest_kafkaperf.runner.retest import (
    Suspected,
    common_changes,
    is_unchanged,
    obstacle,
    rebuilt_spec,
    side_by_side_with_stored,
)
from pytest_kafkaperf.runner.rounds.actions import Action
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds

FACTS = {"provider": "local", "kafka": "4.1.0", "brokers": "3", "heap": "1g", "config.num.io.threads": "4"}
FLEET: Any = SimpleNamespace(servers={}, events=[], taken=False)
"""Stands for brokers that the plugin has started."""
OURS = Cluster(bootstrap_servers="127.0.0.1:1", brokers=3, provider="local", version="4.1.0", fleet=FLEET)


def perftest(**scenario: Any) -> PerfTest:
    settings = read_settings({}, {}, invocation_folder=Path(), root=Path())
    marks = [pytest.mark.kafka_scenario(**scenario).mark]
    return read_perftest("a.py::test", marks, {}, settings, folder=Path())


def baseline(facts: Mapping[str, str] = FACTS, **fields: Any) -> BaselineRounds:
    return BaselineRounds(fingerprint=facts, **fields)


def test_what_the_plugin_started_can_be_compared() -> None:
    assert obstacle(perftest(), Side.of(OURS), baseline()) is None


@pytest.mark.parametrize(
    ("tested", "cluster", "known", "reason"),
    [
        (perftest(), dataclasses.replace(OURS, fleet=None), baseline(), "did not start the brokers at 127.0.0.1:1"),
        (perftest(), OURS, baseline(imported="perf-test"), "the baseline was imported from perf-test"),
        (perftest(), OURS, baseline({**FACTS, "provider": "docker"}), "measured with docker, not with local"),
        (
            dataclasses.replace(perftest(), taken_by="the fixture quota takes the cluster"),
            OURS,
            baseline(),
            "the fixture quota takes the cluster, and may have changed it",
        ),
        (perftest(topic="orders", output_topic="billed", consumers=1), OURS, baseline(), "the test has an application"),
        (
            perftest(topic="orders", watch_group="billing"),
            OURS,
            baseline(),
            "the test has an application (watch_group)",
        ),
    ],
)
def test_what_may_have_another_reason_is_not_compared(
    tested: PerfTest, cluster: Cluster, known: BaselineRounds, reason: str
) -> None:
    """A fixture or an application can be the regression, and the rebuilt brokers would not have it."""
    assert reason in str(obstacle(tested, Side.of(cluster), known))


def test_actions_are_not_repeated() -> None:
    assert "actions" in str(obstacle(perftest(), Side.of(OURS, actions=[Action(1.0, print)]), baseline()))


def test_an_application_of_today_says_nothing_about_that_of_the_baseline() -> None:
    """Rebuilt brokers would run today's application too: a slower one would look like a slower machine."""
    app = Application(Recipe(command=("orders",), ready="port:1"), OURS)
    reason = obstacle(perftest(), Side.of(OURS, apps=[app]), baseline())
    assert reason == "the test has an application (kafka_app)"


def test_the_spec_is_the_baselines() -> None:
    own = ClusterSpec.of({"version": "4.3.1", "config": {"num.io.threads": 8, "quota.window.num": 5}})
    spec = rebuilt_spec(own, FACTS)
    assert (spec.version, spec.brokers, spec.heap, dict(spec.config)) == ("4.1.0", 3, "1g", {"num.io.threads": "4"})


def test_what_a_fingerprint_leaves_out_is_as_in_the_test() -> None:
    """Values that may be secret are in no baseline; a version that is not known is not guessed."""
    own = ClusterSpec.of({"version": "4.3.1", "config": {"my.plugin.password": "s3cret"}})
    spec = rebuilt_spec(own, {"provider": "local", "kafka": "unknown"})
    assert (spec.version, dict(spec.config), spec.brokers) == ("4.3.1", {"my.plugin.password": "s3cret"}, 1)


def test_an_image_comes_back() -> None:
    spec = rebuilt_spec(
        ClusterSpec(), {"provider": "docker", "kafka": "unknown", "image": "confluentinc/cp-kafka:8.0.0"}
    )
    assert (spec.image, spec.version) == ("confluentinc/cp-kafka:8.0.0", None)


def test_a_fingerprint_that_no_cluster_can_have_is_an_error() -> None:
    """Baselines are files, and files are edited."""
    with pytest.raises(ScenarioError, match="the baseline's fingerprint: "):
        rebuilt_spec(ClusterSpec(), {"heap": "a lot"})
    with pytest.raises(ScenarioError, match="the baseline's fingerprint: brokers"):
        rebuilt_spec(ClusterSpec(), {"brokers": "three"})


def test_brokers_with_the_same_software_and_settings_are_unchanged() -> None:
    """Whatever else differs, brokers of the baseline would run with it as well."""
    before = {**OURS.fingerprint, "aiokafka": "0.13", "kernel": "6.8", "java": "21", "cores": "4"}
    assert is_unchanged(ClusterSpec.of({"heap": "1g"}), before, OURS)


def test_brokers_that_another_test_may_have_changed_are_not_unchanged() -> None:
    """A quota that it left behind would pass for a slower machine."""
    taken: Any = SimpleNamespace(servers={}, events=[], taken=True)
    assert not is_unchanged(ClusterSpec(), OURS.fingerprint, dataclasses.replace(OURS, fleet=taken))


@pytest.mark.parametrize(
    "changed",
    [
        {"kafka": "4.2.0"},
        {"brokers": "1"},
        {"heap": "2g"},
        {"config.num.io.threads": "8"},
        {"config.num.network.threads": "2"},
        {"image": "apache/kafka:4.2.0"},
        {"security": "tls"},
        {"compiler": "quick"},
        {"logs": "in memory"},
        {"jmx": "on"},
    ],
    ids="".join,
)
def test_brokers_with_another_setting_are_not_unchanged(changed: Mapping[str, str]) -> None:
    assert not is_unchanged(ClusterSpec(), {**OURS.fingerprint, **changed}, OURS)


def test_brokers_that_cannot_be_rebuilt_are_not_unchanged() -> None:
    assert not is_unchanged(ClusterSpec(), {**OURS.fingerprint, "heap": "a lot"}, OURS)


@pytest.mark.parametrize("fails_in", ["rebuilt", "twin"])
def test_brokers_of_the_baseline_that_fail_do_not_fail_the_test(fails_in: str) -> None:
    """The user did not ask for them: another way to re-test follows, and they are stopped."""
    stopped: list[bool] = []

    def answer(name: str, found: Any) -> Any:
        if name == fails_in:
            raise ClusterError("no answer within 20 s")
        return found

    clusters = SimpleNamespace(
        rebuilt=lambda _: answer("rebuilt", SimpleNamespace(version="4.1.0")),
        stop_rebuilt=lambda: stopped.append(True),
    )
    run: Any = SimpleNamespace(
        clusters=clusters,
        shift=SimpleNamespace(is_common=False),
        twin=lambda *_: answer("twin", None),
    )
    bench: Any = SimpleNamespace(
        test=perftest(topic="orders"),
        judging=SimpleNamespace(baseline=baseline(), alone=None),
        budget=SimpleNamespace(confirm=lambda **_: None),
    )
    suspected = Suspected(bench=bench, own=Side.of(OURS), cluster=OURS, run=run, on_progress=lambda *_: None)
    with pytest.raises(RetestFailedError, match="no answer within 20 s"), side_by_side_with_stored(suspected, []):
        pass
    assert bool(stopped) is (fails_in == "twin")


def test_what_differs_on_both_sides_is_told(tmp_path: Path) -> None:
    known = baseline({**OURS.fingerprint, "aiokafka": "0.1"}, commit="a" * 40)
    package, commit = common_changes(known, OURS, tmp_path, "b" * 40)
    assert (package.fact, package.before, package.of) == ("aiokafka", "0.1", Part.CLIENT)
    assert str(commit) == f"commit: {'a' * 7} -> {'b' * 7} (this clone does not contain the earlier one)"
    assert common_changes(baseline(OURS.fingerprint), OURS, tmp_path, None) == ()


def test_what_differs_between_trials_of_the_baseline_is_told(tmp_path: Path) -> None:
    """The brokers are those of its newest trial, and its level is that of all."""
    mixed = differences({"kafka": "4.0.0", "aiokafka": "0.12"}, {"kafka": "4.1.0", "aiokafka": "0.13"})
    found = common_changes(baseline(OURS.fingerprint, mixed=mixed), OURS, tmp_path, None)
    assert list(map(str, found)) == [
        "kafka: 4.0.0 -> 4.1.0 (between trials of the baseline)",
        "aiokafka: 0.12 -> 0.13 (between trials of the baseline)",
    ]
