"""The update of a test's baseline: the sessions of a result that are written, and the reasons why others are not."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from pytest_kafkaperf.core.files import lock_folder
from pytest_kafkaperf.core.metrics import Metric
from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.core.units import format_ratio
from pytest_kafkaperf.runner.capacity import workload_of
from pytest_kafkaperf.runner.result import MeasuredSession, Result, judged
from pytest_kafkaperf.runner.settings import Settings
from pytest_kafkaperf.scenarios.threshold import Threshold, count_gated
from pytest_kafkaperf.verdict.baselines.record import BaselineRecord, BaselineRounds, grown, scenario_changes
from pytest_kafkaperf.verdict.baselines.store import BaselineStore
from pytest_kafkaperf.verdict.comparison import Measured, change_of, exceeds, flaw_of
from pytest_kafkaperf.verdict.dates import compare
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.regression import ALPHA, SESSIONS


def update_baseline(
    store: BaselineStore,
    mode: str,
    result: Result,
    *,
    environment: str,
    thresholds: Sequence[Threshold],
    calibrated: bool,
    commit: str | None,
) -> tuple[BaselineRecord | None, list[str]]:
    """Write the acceptable sessions of a result; return the record that was written, if any, and remarks.

    Raises:
        BaselineError: the file is damaged, has a newer schema, or cannot be written.

    """
    with lock_folder(store.folder):  # another run may have changed the file since this one began
        old = store.load(environment, result.nodeid)
        chosen, notes = accepted(mode, result, thresholds=thresholds, exists=old is not None, calibrated=calibrated)
        scenario = workload_of(result.scenario, result.plan)
        record = old if mode == "append" and chosen else None
        dropped = [] if record is None else scenario_changes(record.scenario, scenario)
        for session in chosen:
            one = BaselineRecord.of_session(
                nodeid=result.nodeid,
                environment=environment,
                scenario=scenario,
                fingerprint=result.cluster.fingerprint,
                created=session.created,
                rounds=[dict(one.metrics) for one in session.rounds],
                commit=commit,
            )
            record = grown(record, one)
        if mode == "improved":
            record, remarks = _ratcheted(old, record, result)
            notes += remarks
        if record is None:
            return None, notes
        store.save(record)
    anew = [f"the baseline starts again: the scenario changed ({'; '.join(dropped)})"] if dropped else []
    return record, [*notes, *anew]


def _ratcheted(
    old: BaselineRecord | None, new: BaselineRecord | None, result: Result
) -> tuple[BaselineRecord | None, list[str]]:
    """Return the record to write after a run that may have improved, if any, and remarks.

    An improvement replaces the baseline when runs on two dates in a row have shown it, because one date may be fast by
    chance. Until then, the record keeps the sessions of the first date apart.
    """
    waiting = () if old is None else old.improved
    if new is None:
        refuted = result.verdict is Verdict.IMPROVED and len(_alone(result)) > SESSIONS
        if old is None or not waiting or not (refuted or result.verdict in (Verdict.PASSED, Verdict.REGRESSED)):
            return None, []
        note = f"the improvement of {waiting[0].date} was not seen again, so the baseline stays as it is"
        return old.model_copy(update={"improved": ()}), [note]
    date = new.sessions[-1].date
    if waiting and waiting[-1].date != date:
        return new.model_copy(update={"sessions": (*waiting, *new.sessions)}), []
    if old is None:
        return None, []
    note = f"improved on {date}: the baseline changes when the next run on another date improves, too"
    return old.model_copy(update={"improved": new.sessions}), [note]


def accepted(
    mode: str, result: Result, *, thresholds: Sequence[Threshold], exists: bool, calibrated: bool
) -> tuple[list[MeasuredSession], list[str]]:
    """Choose the sessions to write by the mode of `--kafka-update-baselines` and the test's verdict.

    Returns no session if the baseline is not changed, and the reasons why sessions are left out that the mode asks for.

    Args:
        mode: `all`, `new`, `improved` or `append`.
        result: of the test; a failed test is never written.
        thresholds: of the test.
        exists: True if the test has a baseline file, comparable or not.
        calibrated: True if all sessions were run by `--kafka-calibrate`.

    """
    verdict = result.verdict
    if verdict.fails or (mode == "new" and exists) or (mode == "improved" and verdict is not Verdict.IMPROVED):
        return [], []
    if verdict is Verdict.INCONCLUSIVE:  # with --kafka-strict, the test fails
        return [], ["not written into the baseline: the test is INCONCLUSIVE"]
    counting = _alone(result)
    match mode:
        case "improved":
            fresh = counting[1:]
            obstacle = ratchet_obstacle(thresholds, [session.measured for session in fresh], result.baseline)
            if obstacle is not None:
                return [], [f"the baseline is not changed: {obstacle}"]
            chosen = fresh
        # Sessions that cleared a suspect are as good as the first one; without them, only its noise would count.
        case "append":
            chosen = counting
        case _:
            chosen = counting if calibrated else counting[:1]
    flaws = [_flaw(thresholds, session) for session in chosen]
    kept = [session for session, flaw in zip(chosen, flaws, strict=True) if flaw is None and session.rounds]
    return kept, [f"not written into the baseline: {flaw}" for flaw in dict.fromkeys(filter(None, flaws))]


def _alone(result: Result) -> list[MeasuredSession]:
    """Return the sessions that count, but for those beside the baseline's brokers, whose rounds are shorter."""
    return [session for session in judged(result.sessions) if session.reference is None]


def ratchet_obstacle(
    thresholds: Sequence[Threshold], fresh: Sequence[Measured], baseline: BaselineRounds
) -> str | None:
    """Return the reason why fresh sessions do not show an improvement; None if they do.

    The first session was selected for being fast, so fresh sessions alone confirm the improvement, as they confirm a
    regression. No other metric may have got worse by more than half its tolerance: otherwise, it could get worse
    without bound in small steps.
    """
    if len(fresh) < SESSIONS:
        return f"{SESSIONS} fresh sessions must confirm an improvement, and {len(fresh)} ran"
    improved, alpha = False, ALPHA / max(1, count_gated(thresholds))
    for threshold in thresholds:
        comparison = compare(threshold.metric, fresh, baseline)
        if threshold.relative is None or isinstance(comparison, str):
            continue
        shift, tolerance = comparison.shift, threshold.relative.log_tolerance
        if exceeds(shift, tolerance / 2):
            change = change_of(threshold.metric, shift)
            return f"{threshold.metric.name} got worse: {format_ratio(change)} against the baseline"
        improved = improved or (exceeds(-shift, tolerance) and -shift > comparison.most_by_noise(alpha))
    return None if improved else "fresh sessions confirm no improvement beyond tolerance and noise"


def _flaw(thresholds: Sequence[Threshold], session: MeasuredSession) -> str | None:
    """Return the reason why thresholds cannot be judged by this session as a baseline; None if they can."""
    gated = [threshold.metric for threshold in thresholds if threshold.relative is not None]
    for metric in gated:
        flaw = flaw_of(metric, session.measured.rounds, ratio=True) or _bound(metric, session)
        if flaw is not None:
            return flaw
    return None


def _bound(metric: Metric, session: MeasuredSession) -> str | None:
    """Return the reason if only a lower bound of a metric is known, so that much worse values would seem unchanged."""
    for number, one in enumerate(session.rounds, 1):
        if metric.name in one.at_least:
            return f"{metric.name} is only a lower bound in round {number} of {len(session.rounds)}"
    return None


def orphans_of(
    store: BaselineStore, settings: Settings, *, collected: Collection[str], files: Collection[str]
) -> dict[Path, str]:
    """Return the baselines whose tests no longer exist, by path.

    `collected` are the nodeids of this run, `files` the test files of which all tests were collected.

    Raises:
        BaselineError: the folder cannot be read.

    """
    stored = store.stored()
    known = {file_of(nodeid) for nodeid in stored.values()}
    # Another project may share a folder outside of this one: its baselines are left alone.
    ours = settings.baselines.resolve().is_relative_to(settings.root.resolve())
    # A baseline may hold a name that is too long for a file; Path.exists would raise.
    missing = {file for file in known if ours and not os.path.exists(settings.root / file)}  # noqa: PTH110
    complete = {*files, *missing}
    return {path: one for path, one in stored.items() if file_of(one) in complete and one not in collected}
