"""Updates a test's baseline: chooses which trials to write and explains why others are left out."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from pytest_kafkaperf.core.environment import CLUSTER_ID
from pytest_kafkaperf.core.files import lock_folder
from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.runner.result import Result, Trial, judged
from pytest_kafkaperf.runner.rounds.capacity import workload_of
from pytest_kafkaperf.runner.settings import Settings
from pytest_kafkaperf.scenarios.threshold import Threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRecord, grown, scenario_changes
from pytest_kafkaperf.verdict.baseline_store import BaselineStore
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.scale import flaw_of


def update_baseline(
    store: BaselineStore,
    settings: Settings,
    result: Result,
    *,
    environment: str,
    thresholds: Sequence[Threshold],
    commit: str | None,
) -> tuple[BaselineRecord | None, list[Notice]]:
    """Write a result's acceptable trials if the settings request it.

    Returns the written record (None if nothing was written) and notes.

    Raises:
        BaselineError: the file is damaged, has a newer format, or cannot be written.

    """
    mode = settings.update
    if mode is None:
        return None, []
    calibrated = settings.calibrate is not None
    with lock_folder(store.folder):  # another run may have changed the file since this run started
        old = store.load(environment, result.nodeid)
        chosen, notes = accepted(mode, result, thresholds=thresholds, exists=old is not None, calibrated=calibrated)
        scenario = workload_of(result.scenario, result.plan)
        record = old if mode == "add" and chosen else None
        if record is not None and _lost_identity(record, result):
            return None, [*notes, Notice(Remark.NOT_WRITTEN, {"reason": _UNIDENTIFIED})]
        dropped = [] if record is None else scenario_changes(record.scenario, scenario)
        for trial in chosen:
            one = BaselineRecord.of_trial(
                nodeid=result.nodeid,
                environment=environment,
                scenario=scenario,
                fingerprint=result.cluster.fingerprint,
                created=trial.created,
                rounds=[dict(one.metrics) for one in trial.rounds],
                commit=commit,
            )
            record = grown(record, one)
        if record is None:
            return None, notes
        store.save(record)
    again = [Notice(Remark.STARTS_AGAIN, {"changes": "; ".join(dropped)})] if dropped else []
    return record, [*notes, *again]


_UNIDENTIFIED = (
    "the cluster's ID is unknown, but the baseline is that of a cluster with an ID; run the test again, or replace the "
    "baseline with --kafka-update-baselines"
)


def _lost_identity(record: BaselineRecord, result: Result) -> bool:
    """Return True if the id of the baseline's cluster is known, and that of this run's cluster is not."""
    return CLUSTER_ID in record.trials[-1].fingerprint and CLUSTER_ID not in result.cluster.fingerprint


def accepted(
    mode: str, result: Result, *, thresholds: Sequence[Threshold], exists: bool, calibrated: bool
) -> tuple[list[Trial], list[Notice]]:
    """Choose which trials to write, based on the `--kafka-update-baselines` mode and the test's verdict.

    Returns the trials (none if the baseline must not change), and the reasons for leaving out trials that the mode
    requested.

    Args:
        mode: `replace`, `new` or `add`.
        result: the test's result; failed tests are never written.
        thresholds: the test's thresholds.
        exists: True if the test has a baseline file, comparable or not.
        calibrated: True if `--kafka-calibrate` ran all trials.

    """
    verdict = result.verdict
    if verdict.fails or (mode == "new" and exists):
        return [], []
    if verdict is Verdict.INCONCLUSIVE:  # with --kafka-strict, the test fails
        return [], [Notice(Remark.NOT_WRITTEN, {"reason": "the test is INCONCLUSIVE"})]
    chosen = _alone(result)
    # Trials that cleared a suspected regression are as valid as the first trial, and they show how much trials vary.
    if mode != "add" and not calibrated:
        chosen = chosen[:1]
    flaws = [_flaw(thresholds, trial) for trial in chosen]
    kept = [trial for trial, flaw in zip(chosen, flaws, strict=True) if flaw is None and trial.rounds]
    return kept, [Notice(Remark.NOT_WRITTEN, {"reason": flaw}) for flaw in dict.fromkeys(filter(None, flaws))]


def _alone(result: Result) -> list[Trial]:
    """Return the trials that count, excluding side-by-side trials because their rounds are shorter."""
    return [trial for trial in judged(result.trials) if trial.other_side is None]


def _flaw(thresholds: Sequence[Threshold], trial: Trial) -> str | None:
    """Return the reason why this trial cannot serve as a baseline for the thresholds; None if it can."""
    gated = [threshold.metric for threshold in thresholds if threshold.relative is not None]
    for metric in gated:
        flaw = flaw_of(metric, trial.measured.rounds, ratio=True) or _bound(metric, trial)
        if flaw is not None:
            return flaw
    return None


def _bound(metric: Metric, trial: Trial) -> str | None:
    """Return why a metric is only a lower bound, which makes far worse values look unchanged; None if it is exact."""
    for number, one in enumerate(trial.rounds, 1):
        if metric.name in one.at_least:
            return f"{metric.name} is only a lower bound in round {number} of {len(trial.rounds)}"
    return None


def orphans_of(
    store: BaselineStore, settings: Settings, *, collected: Collection[str], files: Collection[str]
) -> dict[Path, str]:
    """Return the baselines whose tests no longer exist, by path.

    `collected` contains this run's nodeids; `files` contains the test files that were collected completely.

    Raises:
        BaselineError: the folder cannot be read.

    """
    stored = store.stored()
    known = {file_of(nodeid) for nodeid in stored.values()}
    # Another project may share a folder outside this project; leave its baselines alone.
    ours = settings.baselines.resolve().is_relative_to(settings.root.resolve())
    # A name in a baseline may be too long for a file name, in which case Path.exists would raise an error.
    missing = {file for file in known if ours and not os.path.exists(settings.root / file)}  # noqa: PTH110
    complete = {*files, *missing}
    return {path: one for path, one in stored.items() if file_of(one) in complete and one not in collected}
