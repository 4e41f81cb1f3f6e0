"""The next step after a test: a command that either runs the test again to reach a verdict or accepts its result."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.text import shown_value
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.runner.settings import Revision
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NextStep:
    """Advice after a test that did not pass."""

    label: str
    """Text before the command, such as `measure a new baseline:`."""
    command: str = ""
    """Shell command or option; empty if the label is sufficient."""

    def __str__(self) -> str:
        """Return the label and the command."""
        return " ".join(filter(None, (self.label, self.command)))


def reasons_undecided(result: Result) -> tuple[str, ...]:
    """Return the reasons why a test is INCONCLUSIVE, without duplicates."""
    checks = result.checks if result.rounds else ()
    reasons = [reason_before_command(check) for check in checks if check.outcome is Verdict.INCONCLUSIVE]
    reasons = reasons if reasons and not _is_incomparable(result) else [*map(str, result.notes)]
    return tuple(dict.fromkeys(reasons)) or ("nothing was measured",)


def reason_before_command(check: Check) -> str:
    """Return a threshold's reason; omit the advice to create a baseline if the command for this follows."""
    return "; ".join(filter(None, (each.before_command for each in check.reasons)))


def is_compared(result: Result) -> bool:
    """Return True if the baseline counts because it belongs to this environment and workload."""
    return result.live_baseline is not None or result.baseline.obstacle is None


def obstacle_of(result: Result) -> Obstacle | None:
    """Return the reason why no baseline counts if that leaves a threshold undecided; None otherwise."""
    undecided_change = any(check.is_relative and check.outcome is Verdict.INCONCLUSIVE for check in result.checks)
    return result.baseline.obstacle if result.live_baseline is None and undecided_change else None


def _is_incomparable(result: Result) -> bool:
    """Return True if the other revision cannot run the test."""
    return result.revision is not None and result.live_baseline is None


def remedy_of(result: Result) -> NextStep:
    """Return the next step for resolving an INCONCLUSIVE test."""
    label, *options = _remedy(result)
    return NextStep(label=f"{label}:", command=command_for(result, *options))


def acceptance_of(result: Result) -> NextStep:
    """Return how to accept an intended regression. A live baseline does not have a file to update."""
    if result.live_baseline is not None:
        return NextStep(
            label="intended? add the label accept-slower, or pass",
            command="--kafka-accept=regressed",
        )
    calibrate = f"--kafka-calibrate={max(2, result.baseline_trials or 2)}"  # this avoids a weaker baseline
    command = command_for(result, calibrate, "--kafka-update-baselines")
    return NextStep(label="intended? accept it with:", command=command)


_COMPARE_INSTEAD = "compare with this branch's base (--kafka-compare=git:merge-base)"


def _remedy(result: Result) -> tuple[str, ...]:
    """Return the advice, and the options of the suggested command."""
    if result.revision is not None and _is_incomparable(result):
        return _remedy_of_incomparable(result.revision)
    missing = obstacle_of(result)
    if missing is not None and result.rounds:
        has_none = missing.kind is ObstacleKind.NO_BASELINE
        label = f"{_COMPARE_INSTEAD}, or measure one" if has_none else "measure a new baseline"
        return label, "--kafka-update-baselines"
    if result.partial or not result.rounds:
        return "give it more time", "--kafka-time-budget=1h"
    return _remedy_of_noise(result)


def _remedy_of_incomparable(revision: Revision) -> tuple[str, ...]:
    if revision.folder is not None:
        return ("repair it there, then",)
    if revision.tests == "ref":
        return "run this side's test there, with", f"--kafka-compare=git:{revision.ref},tests=head"
    return "make the test file work at both revisions, then", f"--kafka-compare={revision.text}"


def _remedy_of_noise(result: Result) -> tuple[str, ...]:
    quiet = () if "compiler" in result.cluster.fingerprint else ("--kafka-quick-compiler",)
    if result.live_baseline is not None:
        if quiet and result.cluster.provider != "external":
            return "reduce the noise", *quiet
        return "space the trials out", "-o", "kafka_trial_gap=1m"
    version = result.baseline.fingerprint.get("kafka")
    side_by_side = any(check.trials for check in result.checks)
    if result.cluster.provider == "local" and version is not None and (quiet or not side_by_side):
        return "compare side by side", f"--kafka-compare=local:{version}", *(quiet if side_by_side else ())
    return "measure the baseline on another day", "--kafka-update-baselines=add"


_OPTIONS = """
    allow-unlimited workers insecure-workers client-config brokers quick-compiler rounds duration warmup
    baselines environment strict calibrate compare compare-config compare-setup
"""
"""Options that influence measurements; all others are omitted from the command that runs a test again."""


def command_for(result: Result, *more: str) -> str:
    """Return a shell command that runs a test again in the same folder, with its original options and `more`.

    `auto` is replaced with the chosen provider, and potential secrets and shell commands are replaced with `LOGIN` and
    `***`.
    """
    replaced = {option.partition("=")[0] for option in more}
    given: list[str] = []
    for name in _OPTIONS.split():
        if f"--kafka-{name}" not in replaced:
            given += _given(name, result.options.get(name, "").splitlines())
    target = result.options.get("cluster", "auto")
    if result.cluster.provider != "external":
        _, colon, version = target.partition(":")
        target = f"{result.cluster.provider}{colon}{version}"
    cluster = [f"--kafka-cluster={target}"] if target != "auto" else []
    selection = result.selection or (result.nodeid,)
    return shlex.join(["pytest", *selection, *cluster, *given, *more])


def _given(name: str, values: Sequence[str]) -> Iterator[str]:
    for value in values:
        is_switch = value == "true"
        yield f"--kafka-{name}" if is_switch else f"--kafka-{name}={shown_value(name, value, login='LOGIN@')}"
