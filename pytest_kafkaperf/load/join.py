"""Join of an application's input and output by the identities of their records, after the load.

While the load runs, workers only keep each record's hash and time: 16 bytes for each input record, and 16 bytes for
each output record.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.load.identity import Int64s
from pytest_kafkaperf.load.messages import Audit, Consumed, Joined, LoadReport, WorkerReport
from pytest_kafkaperf.scenarios.identify import Expected
from pytest_kafkaperf.scenarios.scenario import Scenario

MAX_RECORDS = 10**7
"""Maximum number of records in a round, because the join needs about 100 B of memory for each of them."""


Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """One group's output for each input record; all arrays have shape `(inputs,)`, in the order of the input."""

    counts: Int64s
    """Number of output records."""
    last_ns: Int64s
    """Arrival of the last expected output record; undefined for records that are not complete."""
    complete: Bools
    """True if all expected output has arrived or, if a range is expected, any output."""
    unmatched: int
    """Number of output records that match no input record."""


def join(report: LoadReport, scenario: Scenario) -> LoadReport:
    """Return the report with the end-to-end latencies and the missing and surplus records of the output.

    The report stays unchanged if records carry tags, or if the window never opened. If identities repeat or there are
    too many records, the report has a problem instead.
    """
    if not scenario.joins_identities or report.start_ns is None:
        return report
    inputs = _rows(row for part in report.produced for row in part.identities)
    unknown = np.concatenate(
        [np.empty(0, np.int64), *(one for part in report.produced for one in part.unknown_identities)]
    )
    if len(inputs) > MAX_RECORDS:
        limits = {"records": len(inputs), "most": MAX_RECORDS}
        return _with_problem(report, Problem(Cause.TOO_MANY_IDENTITIES, limits))
    hashes = np.concatenate([inputs[:, 0], unknown])
    if repeats := hashes.size - np.unique(hashes).size:
        values: dict[str, object] = {
            "repeats": repeats,
            "records": hashes.size,
            "identify": str(scenario.identify.input),
        }
        return _with_problem(report, Problem(Cause.IDENTITIES_REPEATED, values))
    dues_ns = np.concatenate([inputs[:, 1], np.zeros(unknown.size, np.int64)])
    is_known = np.arange(hashes.size) < len(inputs)
    measured = is_known & (dues_ns >= report.start_ns)
    workers, found = [*report.workers], []
    for group in sorted({part.group for part in report.consumed}):
        members = [part for part in report.consumed if part.group == group]
        arrivals = _rows(row for part in members for row in part.arrivals)
        possible = _possible(hashes, dues_ns - _uncertainty_ns(report), arrivals)
        outputs = outputs_of(hashes, arrivals[possible], scenario.expect)
        outputs = dataclasses.replace(outputs, unmatched=outputs.unmatched + int((~possible).sum()))
        found.append(_joined(outputs, measured, scenario.expect))
        waits = np.maximum(outputs.last_ns - dues_ns, 0)  # clocks of different machines may disagree
        shown = outputs.complete & is_known
        result = _result(members, outputs, measured)
        result.latency.record(waits[outputs.complete & measured])
        workers = _with_result(workers, result, (dues_ns[shown], waits[shown]))
    joined = max(found, key=lambda one: (one.audit.lost, one.audit.duplicated), default=None)
    return dataclasses.replace(report, workers=workers, joined=joined)


def outputs_of(inputs: Int64s, arrivals: Int64s, expected: Expected) -> Outputs:
    """Assign arrivals to the input.

    Args:
        inputs: the hash of each input record, shape `(inputs,)`; all are different.
        arrivals: the hash and the arrival time of each output record, shape `(outputs, 2)`, in any order.
        expected: the number of output records for each input record.

    """
    came = arrivals[np.lexsort((arrivals[:, 1], arrivals[:, 0]))]
    firsts, ends = (np.searchsorted(came[:, 0], inputs, side=side) for side in ("left", "right"))
    counts = ends - firsts
    last = firsts + np.clip(counts, 1, max(1, expected.most)) - 1
    times = np.append(came[:, 1], 0)
    return Outputs(
        counts=counts,
        last_ns=times[np.minimum(last, len(came))],
        complete=(counts >= max(1, expected.most if expected.is_exact else 1)) & (expected.most > 0),
        unmatched=len(came) - int(counts.sum()),
    )


def _possible(inputs: Int64s, earliest_ns: Int64s, arrivals: Int64s) -> Bools:
    """Return whether each arrival is not earlier than its input, in which case it belongs to an earlier load."""
    order = np.argsort(inputs)
    places = np.minimum(np.searchsorted(inputs, arrivals[:, 0], sorter=order), inputs.size - 1)
    if not inputs.size:
        return np.ones(len(arrivals), dtype=np.bool_)
    own = order[places]
    possible: Bools = (inputs[own] != arrivals[:, 0]) | (arrivals[:, 1] >= earliest_ns[own])
    return possible


def _uncertainty_ns(report: LoadReport) -> int:
    """Return the largest error of a time between two machines."""
    return 2 * max((worker.clock.uncertainty_ns for worker in report.workers if worker.clock is not None), default=0)


def _joined(outputs: Outputs, measured: Bools, expected: Expected) -> Joined:
    counts = outputs.counts[measured]
    surplus = int(np.maximum(counts - expected.most, 0).sum())
    if not expected.is_exact:
        ratio = float((counts > 0).mean()) if counts.size else None
        return Joined(audit=Audit(lost=0, duplicated=surplus, reordered=0), output_ratio=ratio)
    lost = int(np.maximum(expected.most - counts, 0).sum())
    due = counts.size * expected.most
    ratio = 1 - lost / due if due else None
    return Joined(audit=Audit(lost=lost, duplicated=surplus, reordered=0), output_ratio=ratio)


def _result(members: Sequence[Consumed], outputs: Outputs, measured: Bools) -> Consumed:
    """Return the results of a group as those of one consumer."""
    came = measured & (outputs.counts > 0)
    total, size_bytes = sum(part.total for part in members), sum(part.bytes for part in members)
    received = int(outputs.counts[measured].sum())
    return Consumed(
        group=members[0].group,
        received=int(came.sum()),
        bytes=round(size_bytes * received / total) if total else 0,
        last_ns=int(outputs.last_ns[came].max()) if came.any() else None,
        total=total,
        unmatched=outputs.unmatched + sum(part.unmatched for part in members),
        first_output=next((part.first_output for part in members if part.first_output), ""),
        reassigned=any(part.reassigned for part in members),
        pause_ns=max(part.pause_ns for part in members),
    )


def _with_result(
    workers: Sequence[WorkerReport], result: Consumed, latencies: tuple[Int64s, Int64s]
) -> list[WorkerReport]:
    """Return the workers with a group's result in the first worker that had a member of it.

    `latencies` are due times and latencies for that worker's series.
    """
    replaced, is_first = [], True
    for worker in workers:
        others = [part for part in worker.consumed if part.group != result.group]
        if is_first and len(others) < len(worker.consumed):
            worker.consume_series.record(*latencies)
            others, is_first = [*others, result], False
        replaced.append(dataclasses.replace(worker, consumed=others))
    return replaced


def _rows(parts: object) -> Int64s:
    rows: Int64s = np.concatenate([np.empty((0, 2), dtype=np.int64), *parts])  # type: ignore[misc]
    return rows


def _with_problem(report: LoadReport, problem: Problem) -> LoadReport:
    return dataclasses.replace(report, problems=(*report.problems, problem))
