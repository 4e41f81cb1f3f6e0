"""The brokers of a stored baseline, started again: the live baseline that confirms a suspected regression side by side.

Stored values and today's values differ by what the machine did on the two days. Brokers of the baseline's software
that run side by side with the test's own see the same machine, so that only a difference of the software remains.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_kafkaperf.clusters.spec import CONFIG, OWN_PROPERTIES, Cluster, ClusterSpec
from pytest_kafkaperf.clusters.target import decides_version
from pytest_kafkaperf.core.environment import code_change, differences
from pytest_kafkaperf.core.text import may_be_secret
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.verdict.baselines.record import BaselineRounds


def obstacle(
    test: PerfTest, cluster: Cluster, baseline: BaselineRounds, *, has_actions: bool, has_app: bool = False
) -> str | None:
    """Return the reason why the baseline's brokers cannot stand in for those of the test; None if they can."""
    before = baseline.fingerprint.get("provider", cluster.provider)
    reasons = {
        f"the plugin did not start the brokers at {cluster.bootstrap_servers}": cluster.fleet is None,
        f"the baseline was imported from {baseline.imported}": baseline.imported is not None,
        f"the baseline was measured with {before}, not with {cluster.provider}": before != cluster.provider,
        f"{test.taken_by}, and may have changed it": test.taken_by is not None,
        "the test has actions (kafka_perf.at, kafka_perf.add_metric)": has_actions,
        "each round is a search for the capacity": test.plan is not None,
        # Rebuilt brokers would run with today's application as well: if it is slower, the machine seems to be.
        "the test has an application (kafka_app)": has_app,
        "the test has an application (output_topic)": test.scenario.output_topic is not None,
        "the test has an application (watch_group)": bool(test.scenario.watch_group),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def rebuilt_spec(own: ClusterSpec, fingerprint: Mapping[str, str]) -> ClusterSpec:
    """Return the spec of the baseline's brokers.

    What the fingerprint does not tell, such as properties that may be secret, is as in the test's own spec.

    Raises:
        ScenarioError: the fingerprint has values that no cluster can have.

    """
    config = {name: value for name, value in own.config.items() if may_be_secret(name)}
    for fact, value in fingerprint.items():
        name = fact.removeprefix(CONFIG)
        if name != fact and not any(fnmatchcase(name, pattern) for pattern in OWN_PROPERTIES):
            config[name] = value
    version, image = fingerprint.get("kafka"), fingerprint.get("image")
    if image is not None and decides_version(image):
        version = None
    elif version in (None, "unknown"):
        version = own.version
    fields = {
        **{name: getattr(own, name) for name in own.model_fields_set},
        "brokers": fingerprint.get("brokers", own.brokers),
        "heap": fingerprint.get("heap", own.heap),
        "security": fingerprint.get("security"),
        "jmx": "jmx" in fingerprint,
        "low_noise": "low noise" in fingerprint,
        "config": config,
        "version": version,
        "image": image,
    }
    return ClusterSpec.of(fields, where="the baseline's fingerprint: ")


def common_changes(baseline: BaselineRounds, live_baseline: Cluster, root: Path, commit: str | None) -> tuple[str, ...]:
    """Return the differences from the baseline on both sides: a comparison of the two cannot show their effect.

    Here a commit matters only by the code of the test: such a test has no application (see `obstacle`).
    If the baseline's trials differ from each other, the newest one is rebuilt, and the level is that of all.
    """
    changes = differences(baseline.fingerprint, live_baseline.fingerprint)
    mixed = (f"{one} (between trials of the baseline)" for one in baseline.mixed)
    return (*changes, *code_change(root, baseline.commit, commit), *mixed)
