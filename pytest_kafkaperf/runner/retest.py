"""Re-tests of suspected regressions: side by side with the stored baseline's brokers, or in new trials.

The machine's state differs from day to day. Brokers that run the baseline's software side by side with the test's own
brokers share the same machine state, so only software differences remain. If these brokers would be the same as the
test's own, new trials only show whether the slowdown persists (see `verdict.unchanged_brokers`).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.spec import CONFIG, OWN_PROPERTIES, ClusterSpec
from pytest_kafkaperf.clusters.target import decides_version
from pytest_kafkaperf.core.environment import Change, code_change, differences
from pytest_kafkaperf.core.errors import ClusterError, UsageError
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.text import is_secret
from pytest_kafkaperf.runner.common_shift import FIRST_RESTARTED
from pytest_kafkaperf.runner.decision import Bench, Decision, FirstTrial, FurtherTrials, RetestFailedError, decide, end
from pytest_kafkaperf.runner.perf_run import PerfRun
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.rounds.side_rounds import OnProgress
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.slower_machine import BaselineBrokers


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspected:
    """A test whose first trial may show a regression, and everything needed to re-test it."""

    bench: Bench
    own: Side
    cluster: Cluster
    """The test's own cluster, with the brokers' properties when the test started."""
    run: PerfRun
    on_progress: OnProgress


Opening = Callable[[Suspected, Sequence[str]], AbstractContextManager[FurtherTrials]]
"""Opens a method for re-testing a suspected regression; takes the reasons for rejecting the previous methods."""


def retest(first: FirstTrial, suspected: Suspected, ways: Sequence[Opening] | None = None) -> Decision:
    """Re-test a suspected regression with the first of these methods that works; None to choose them."""
    against: list[str] = []
    for opened in _ways(suspected) if ways is None else ways:
        try:
            with opened(suspected, against) as way:
                return decide(suspected.bench, first, way)
        except RetestFailedError as failed:
            against.append(str(failed))
    decision = end(suspected.bench, first, [first.trial], FurtherTrials(runner=suspected.bench.runner))
    return dataclasses.replace(decision, notes=(*decision.notes, Notice(Remark.NOT_RETESTED, {"reason": against[-1]})))


def _ways(suspected: Suspected) -> tuple[Opening, ...]:
    """Return the methods to try, in this order."""
    judging, spec = suspected.bench.judging, suspected.bench.test.spec
    if judging.alone is None and is_unchanged(spec, judging.baseline.fingerprint, suspected.cluster):
        return (_on_unchanged_brokers,)
    return (side_by_side_with_stored, _fresh_trials)


def is_unchanged(spec: ClusterSpec, before: Mapping[str, str], own: Cluster) -> bool:
    """Return True if brokers started for the baseline's side would be the same as the test's own brokers.

    `before` is the baseline's fingerprint. Brokers that an earlier test may have changed count as changed.
    """
    if own.fleet is None or own.fleet.taken:
        return False
    try:
        return rebuilt_spec(spec, before) == rebuilt_spec(spec, own.fingerprint)
    except UsageError:  # the side-by-side re-test explains what is wrong
        return False


@contextlib.contextmanager
def _on_unchanged_brokers(suspected: Suspected, _against: Sequence[str]) -> Iterator[FurtherTrials]:
    """Run new trials on the test's own brokers, which are the same as the baseline's.

    The first of them only shows whether the slowdown lasts, which does not require a restart and another warm-up. If a
    second one is necessary, a restart shows whether the slowdown came from the brokers' last start.
    """
    suspected.bench.budget.confirm(side_by_side=False)
    yield FurtherTrials(
        runner=suspected.bench.runner,
        restart_before=FIRST_RESTARTED,
        label=_LABEL,
        brokers=_baseline_brokers(suspected, suspected.cluster, are_own=True),
        note=Notice(Remark.RETESTED_ON_UNCHANGED_BROKERS, {"version": suspected.cluster.version}),
    )


def _baseline_brokers(suspected: Suspected, cluster: Cluster, *, are_own: bool) -> BaselineBrokers:
    run = suspected.run
    return BaselineBrokers(
        are_own=are_own,
        common_changes=common_changes(suspected.bench.judging.baseline, cluster, run.settings.root, run.commit),
        slower_machine=run.shift.slower_machine,
    )


@contextlib.contextmanager
def side_by_side_with_stored(suspected: Suspected, _against: Sequence[str]) -> Iterator[FurtherTrials]:
    """Run the trials side by side with the stored baseline's brokers, so only software differences remain.

    Raises:
        RetestFailedError: these brokers would not be comparable or did not start.

    """
    run, test, baseline = suspected.run, suspected.bench.test, suspected.bench.judging.baseline
    if suspected.bench.judging.alone is not None:
        raise RetestFailedError(suspected.bench.judging.alone)
    with _refusing():
        brokers = run.clusters.rebuilt(rebuilt_spec(test.spec, baseline.fingerprint))
    shortened = "" if test.shortened is None else f"; in the re-test, {test.shortened}"
    remark = Remark.RETESTED_AFTER_SHIFT if run.shift.is_common else Remark.RETESTED_SIDE_BY_SIDE
    note = Notice(remark, {"version": brokers.version, "shortened": shortened, "shift": str(run.shift)})
    suspected.bench.budget.confirm(side_by_side=True)
    try:
        with _refusing():
            other = run.twin(test, suspected.own, brokers)
        runner = run.trial_runner(
            test.in_short_rounds(),
            [suspected.own, other],
            on_progress=suspected.on_progress,
            allocation=suspected.bench.runner.allocation,
        )
        runner.is_precise, runner.faults = suspected.bench.runner.is_precise, suspected.bench.runner.faults
        yield FurtherTrials(
            runner=runner,
            label=_LABEL,
            brokers=_baseline_brokers(suspected, brokers, are_own=False),
            note=note,
        )
    finally:  # otherwise they would disturb the next test
        run.clusters.stop_rebuilt()


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Raise RetestFailedError instead of an error of the stored baseline's brokers, which the user did not request."""
    try:
        yield
    except (ClusterError, UsageError) as error:
        raise RetestFailedError(str(error)) from None


@contextlib.contextmanager
def _fresh_trials(suspected: Suspected, against: Sequence[str]) -> Iterator[FurtherTrials]:
    """Run new trials on the test's own brokers; `against` are the reasons not to use the stored baseline's brokers.

    Raises:
        RetestFailedError: the machine is known to be slower, which such trials cannot distinguish from a regression.

    """
    shift = suspected.run.shift
    if shift.slower_machine is not None:
        raise RetestFailedError(f"{shift}; this test cannot be compared side by side, because {'; '.join(against)}")
    suspected.bench.budget.confirm(side_by_side=False)
    yield FurtherTrials(
        runner=suspected.bench.runner,
        label=_LABEL,
        note=Notice(Remark.RETESTED_IN_FRESH_TRIALS, {"reasons": "; ".join(against)}),
    )


_LABEL = "re-test, trial"


def obstacle(test: PerfTest, own: Side, baseline: BaselineRounds) -> str | None:
    """Return the reason why the stored baseline's brokers are not comparable with the test's own; None if they are."""
    cluster = own.cluster
    before = baseline.fingerprint.get("provider", cluster.provider)
    reasons = {
        f"the plugin did not start the brokers at {cluster.bootstrap_servers}": own.brokers is None,
        f"the baseline was imported from {baseline.imported}": baseline.imported is not None,
        f"the baseline was measured with {before}, not with {cluster.provider}": before != cluster.provider,
        f"{test.taken_by}, and may have changed it": test.taken_by is not None,
        "the test has actions (kafka_perf.at, kafka_perf.add_metric)": bool(own.actions),
        "each round is a search for the capacity": test.plan is not None,
        # The baseline's brokers would run with today's application, so a slower application would look like a slower
        # machine.
        "the test has an application (kafka_app)": bool(own.apps),
        "the test has an application (output_topic)": test.scenario.output_topic is not None,
        "the test has an application (watch_group)": bool(test.scenario.watch_group),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def rebuilt_spec(own: ClusterSpec, fingerprint: Mapping[str, str]) -> ClusterSpec:
    """Return the spec for the baseline's brokers.

    Anything missing from the fingerprint, such as properties that may be secret, comes from the test's own spec.

    Raises:
        ScenarioError: the fingerprint has invalid values.

    """
    config = {name: value for name, value in own.config.items() if is_secret(name, value)}
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
        "quick_compiler": "compiler" in fingerprint,
        "logs_in_memory": "logs" in fingerprint,
        "config": config,
        "version": version,
        "image": image,
    }
    return ClusterSpec.of(fields, where="the baseline's fingerprint: ")


def common_changes(
    baseline: BaselineRounds, live_baseline: Cluster, root: Path, commit: str | None
) -> tuple[Change, ...]:
    """Return the differences from the baseline that both sides share, which comparing the two sides cannot reveal.

    A commit matters here only for the test's own code, because tests with an application are not re-tested side by side
    (see `obstacle`). If the baseline's trials differ from each other, the brokers match the newest trial, whereas the
    baseline's level comes from all trials.
    """
    changes = differences(baseline.fingerprint, live_baseline.fingerprint)
    mixed = (one.with_remark("between trials of the baseline") for one in baseline.mixed)
    return (*changes, *code_change(root, baseline.commit, commit), *mixed)
