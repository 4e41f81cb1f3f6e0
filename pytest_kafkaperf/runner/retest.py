"""Re-tests of suspected regressions: side by side with a stored baseline's brokers, and a cause common to many tests.

Stored values and today's values differ by what the machine did on the two days. Brokers of the baseline's software
that run side by side with the test's own see the same machine, so that only a difference of the software remains.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.spec import CONFIG, OWN_PROPERTIES, ClusterSpec
from pytest_kafkaperf.clusters.target import decides_version
from pytest_kafkaperf.core.environment import code_change, differences
from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.text import file_of, may_be_secret
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from pytest_kafkaperf.verdict.scale import sign_of


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


_FEWEST = 6
"""Tests compared with a baseline before which nothing is said."""
_SHARE = 1 / 3
"""Share of suspected regressions among them beyond which they have a common cause, the machine or Kafka; a comparison
will show which.
Of independent false suspicions of a tenth each, 6 tests exceed it by chance in 2 of 100 runs."""


class CommonShift:
    """Counts the suspected regressions of a run, and knows what comparisons side by side have shown about them."""

    def __init__(self) -> None:
        self._tests = self._suspected = 0
        self._machine: str | None = None
        """The last suspected regression that was equal side by side, while both sides were slower than the baseline."""

    def add(self, result: Result, *, both_slower: bool) -> None:
        """Count a test that has ended; `both_slower`: side by side, both sides were slower than the baseline."""
        checks = [check for check in result.checks if check.is_relative and check.change is not None]
        if result.baseline_trials is None or not checks or result.verdict is Verdict.INVALID:
            return
        self._tests += 1
        suspected = [check for check in checks if check.rerun or check.outcome is Verdict.REGRESSED or _open(check)]
        if not suspected:
            return
        self._suspected += 1
        side_by_side = [check for check in suspected if check.trials]
        if any(check.outcome is Verdict.REGRESSED for check in side_by_side):
            self._machine = None  # maybe all of Kafka is slower: each suspected regression must be confirmed
        elif both_slower:
            self._machine = result.nodeid

    @property
    def is_common(self) -> bool:
        """True if the suspected regressions of this run have a common cause."""
        return self._tests >= _FEWEST and self._suspected > _SHARE * self._tests

    @property
    def slower_machine(self) -> str | None:
        """The test that has shown, side by side, that both sides are slower; None if none has."""
        return self._machine if self.is_common else None

    def __str__(self) -> str:
        """Describe the shift."""
        share = f"{self._suspected} of {self._tests} tests have suspected regressions"
        found = f"{share}: the machine or all of Kafka is slower"
        if self._machine is None:
            return found
        name = self._machine.removeprefix(f"{file_of(self._machine)}::")
        return f"{found}; side by side, {name} has shown that both sides are slower"


def _open(check: Check) -> bool:
    """Return True if the check was worse than its limit and could not be confirmed."""
    if check.outcome is not Verdict.INCONCLUSIVE or check.observed is None or check.limit_value is None:
        return False
    return sign_of(CATALOGUE[check.metric]) * (check.observed - check.limit_value) > 0
