"""Controller's side of a round: assigning work, starting the workers together and monitoring them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.wire import read_identity
from pytest_kafkaperf.clusters.monitoring.watchers import GroupOffsets
from pytest_kafkaperf.core import supervisor
from pytest_kafkaperf.core.detached import detached
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError, LoadError
from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.audit import AuditTask
from pytest_kafkaperf.load.clock import now_ns
from pytest_kafkaperf.load.messages import Assignment, Audit, LoadReport, Unaudited, WorkerReport
from pytest_kafkaperf.load.pushed_tokens import Pusher, checking, token_path
from pytest_kafkaperf.load.schedule import DRAIN_TIMEOUT_S, REQUEST_TIMEOUT_S, longest_s, settle_timeout_s, window_s
from pytest_kafkaperf.load.shared_counters import Counter, SharedCounters, WorkerState
from pytest_kafkaperf.scenarios.scenario import Scenario

DIED = "a worker process died: killed, out of memory, or crashed"

READY_TIMEOUT_S = 60
"""Time limit for starting processes, connecting clients and forming consumer groups."""
SILENCE_TIMEOUT_S = 15
"""Time after which the cluster is considered lost if records are outstanding but none is acknowledged or received."""
_LONGEST_SILENCE_S = REQUEST_TIMEOUT_S + 10
"""The same if a broker still answers. The clients wait for another one, which may be paused, until their timeout."""
_ANSWER_S = 8
"""Time limit for such an answer."""
_GIVE_UP_S = 5
"""Maximum time for workers to report after the controller stops them. Afterward, it kills them."""
_MARGIN_S = 10
"""Additional time that the controller waits after a worker's own time limit, which normally expires first."""
_POLL_S = 0.02
_CHECK_S = 0.25
"""Interval between cluster checks and between progress reports."""
_LAG_S = 0.1
"""Interval between lag samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """State of a round while it runs."""

    phase: str
    """`waiting`, `connecting`, `warm-up`, `measuring`, `draining` or `done`."""
    elapsed_s: float
    """Time since the window opened; negative before that."""
    window_ns: tuple[int, int | None] | None = None
    """Start and planned end of the window on the round's clock; the end is None if the last record ends the window."""
    acknowledged: int
    p99_s: float | None = None
    """Slowest worker's p99 produce latency in the window so far; None if unknown."""
    lag: int | None = None
    """Records that the slowest consumer group has yet to receive; None without live consumers."""
    step: str = ""
    """Step of a capacity search, for example `step 7, 64k records/s`; empty otherwise."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Metrics of a finished round (`done`)."""


class WorkerDiedError(LoadError):
    """Worker process that died. The backend cannot run any further load."""


class WorkerBackend(Protocol):
    """Place where worker processes run: this machine or other machines."""

    margin_ns: int
    """Time within which every worker receives an instant that the controller publishes."""

    def load(
        self, assignments: Sequence[Assignment], counters: SharedCounters
    ) -> contextlib.AbstractContextManager[Sequence[Future[WorkerReport]]]:
        """Hand the assignments to workers, and share the counters with them until the block ends.

        Raises:
            WorkerDiedError: a process has already died.
            LoadError: workers cannot accept the assignments for another reason.

        """

    def audit(self, task: AuditTask) -> Audit:
        """Audit the log in a process on this machine.

        Raises:
            LoadError: the audit failed, or a process had already died.
            BrokenProcessPool: the process died.
            TimeoutError: the audit did not finish in time.

        """


OpenBackend = Callable[[int], contextlib.AbstractContextManager[WorkerBackend]]
"""Function that opens a backend, given the number of workers."""


class WorkerPool:
    """Worker processes for all rounds of a test. `place` opens their backend."""

    def __init__(self, workers: int, place: OpenBackend) -> None:
        self._workers = workers
        self._open = place
        self._stack = contextlib.ExitStack()
        self._folder = ""
        self._backend: WorkerBackend
        """Exists only inside the `with` block."""
        self._rounds = 0

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._folder = str(Path(tempfile.gettempdir(), f"kafkaperf-counters-{secrets.token_hex(8)}"))
            supervisor.remove_later(self._folder)
            stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._backend = stack.enter_context(self._open(self._workers))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def counters(self, *, groups: int) -> SharedCounters:
        """Create the shared counters for one round.

        Raises:
            LoadError: the folder for temporary files is not writable.

        """
        self._rounds += 1
        try:
            Path(self._folder).mkdir(mode=0o700, exist_ok=True)
            return SharedCounters.create(Path(self._folder) / f"round-{self._rounds}", self._workers, groups=groups)
        except OSError as error:
            raise LoadError(f"cannot write {self._folder}: {error.strerror}; free disk space, or set TMPDIR") from None

    def run(
        self,
        assignments: Sequence[Assignment],
        counters: SharedCounters,
        *,
        check: Callable[[], None],
        progress: Callable[[Progress], None],
    ) -> LoadReport:
        """Run one round to completion. Every wait has a time limit.

        `check` raises `ClusterLostError` if the cluster is known to be lost.

        Raises:
            ClusterError: the workers cannot log in, because there is no access token.

        """
        with counters, contextlib.ExitStack() as stack:
            pusher = Pusher(assignments[0].access, token_path(counters.path))
            stack.enter_context(pusher.open())
            given = [dataclasses.replace(assignment, access=pusher.access) for assignment in assignments]
            try:
                futures = stack.enter_context(self._backend.load(given, counters))
            except WorkerDiedError as error:
                return LoadReport.failed(Cause.WORKER_LOST, error)
            except LoadError as error:
                return LoadReport.failed(Cause.WORKER_FAILED, error)
            scenario, read = assignments[0].scenario, assignments[0].read_partitions
            checked = checking(pusher, check)
            is_alive = functools.partial(_is_alive, assignments[0].bootstrap_servers, assignments[0].access)
            margin_ns = self._backend.margin_ns
            return _Round(futures, counters, scenario, read, checked, is_alive, progress, margin_ns).run()

    def audit(self, task: AuditTask) -> Audit | Unaudited:
        """Audit the log; if the audit fails, return the reason."""
        pusher = Pusher(task.access, token_path(f"{self._folder}/audit"))
        try:
            with pusher.open():
                return self._backend.audit(dataclasses.replace(task, access=pusher.access))
        except Exception as error:  # noqa: BLE001 - for example, out of memory; the round's metrics are complete
            return Unaudited(str(error) or f"the audit did not finish ({type(error).__name__})")


def _is_alive(servers: str, access: Access) -> bool:
    """Return True if a broker answers."""
    try:
        read_identity(servers, access, timeout_s=_ANSWER_S)
    except ClusterError:
        return False
    return True


class _WorkerEndedError(Exception):
    """Worker that exited too early; its future contains the reason."""


@dataclass(slots=True)
class _Round:
    """One round, from the first connection to the last report."""

    _futures: Sequence[Future[WorkerReport]]
    _counters: SharedCounters
    _scenario: Scenario
    _read_partitions: int
    _check: Callable[[], None]
    _is_alive: Callable[[], bool]
    _progress: Callable[[Progress], None]
    _margin_ns: int
    _checked_s: float = 0.0
    _phase_shown: str = ""
    _lag_s: float = 0.0
    _progressed: tuple[int, float] = (0, 0.0)
    _probe: Future[bool] | None = None
    """Result of `_is_alive`, which is called once the load makes no progress."""
    _start_ns: int | None = None
    _drain_ns: int | None = None
    _workers: list[WorkerReport] = field(default_factory=list)
    _problems: list[Problem] = field(default_factory=list)
    _broken: bool = False
    _lag_max: int | None = None
    _lag_end: int | None = None
    _readings: list[tuple[int, list[int], list[int]]] = field(default_factory=list)

    def run(self) -> LoadReport:
        try:
            self._start()
            self._await_production()
            if self._lag_end is None:  # the window was shorter than the sampling interval
                self._sample_lag()
            self._drain_ns = max(now_ns(), self._start_ns or 0) + self._margin_ns
            self._counters.all_produced(self._drain_ns)
            self._await_reports()
        except _WorkerEndedError:
            try:
                self._check()  # if the cluster is lost, the worker's own error is less helpful
            except ClusterLostError as error:
                self._add_loss(error)
            except LoadError as error:
                self._add_problem(Problem(Cause.WORKER_FAILED, {"reason": str(error)}))
            # Other causes are collected with the reports.
        except ClusterLostError as error:
            self._add_loss(error)
        except LoadError as error:
            self._add_problem(Problem(Cause.WORKER_FAILED, {"reason": str(error)}))
        finally:
            if not all(future.done() for future in self._futures):
                self._counters.stop()
                concurrent.futures.wait(self._futures, timeout=_GIVE_UP_S)
        self._collect()
        return LoadReport(
            workers=self._workers,
            start_ns=self._start_ns,
            drain_ns=self._drain_ns,
            problems=self._problems,
            lag_max=self._lag_max,
            lag_end=self._lag_end,
            catch_up=GroupOffsets.of(self._readings, 1) if self._readings else None,
            broken=self._broken or self._start_ns is None,
        )

    def _start(self) -> None:
        """Wait until all workers are ready and all partitions are assigned, then publish the start time."""
        scenario, counters = self._scenario, self._counters
        expected = self._read_partitions * scenario.consumer_groups if scenario.consumers else 0
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not (counters.all_reached(WorkerState.READY) and counters.total(Counter.ASSIGNED) == expected):
            self._tick("connecting")
            if any(future.done() for future in self._futures):
                raise _WorkerEndedError
            if time.monotonic() > deadline:
                raise LoadError(
                    f"the consumer groups held {counters.total(Counter.ASSIGNED)} instead of {expected} partitions "
                    f"after {READY_TIMEOUT_S} s"
                    if counters.all_reached(WorkerState.READY)
                    else f"the workers were not connected after {READY_TIMEOUT_S} s"
                )
        self._start_ns = now_ns() + round(scenario.warmup * NS_PER_S) + self._margin_ns
        counters.start_at(self._start_ns)
        self._progressed = (0, time.monotonic())

    def _await_production(self) -> None:
        start_ns = self._start_ns or 0
        bound_s = longest_s(self._scenario) + settle_timeout_s(self._scenario) + _MARGIN_S
        while not self._counters.all_reached(WorkerState.PRODUCED):
            elapsed_s = (now_ns() - start_ns) / NS_PER_S
            self._tick(self._phase(elapsed_s))
            settled = self._counters.total(Counter.SETTLED)
            self._require_progress(settled, self._counters.total(Counter.SENT) - settled, "acknowledged")
            if elapsed_s > bound_s:
                raise LoadError(f"producers did not finish within {bound_s:.0f} s")

    def _phase(self, elapsed_s: float) -> str:
        if elapsed_s < 0:
            return "warm-up"
        length_s = window_s(self._scenario)
        return "measuring" if length_s is None or elapsed_s <= length_s else "draining"

    def _await_reports(self) -> None:
        bound_s = 2 * DRAIN_TIMEOUT_S + _MARGIN_S
        most_others = self._scenario.backlog * self._scenario.consumer_groups
        progress, deadline = -1, 0.0
        while not all(future.done() for future in self._futures):
            self._tick("draining")
            received = sum(self._counters.received())
            if progress != (progress := received + min(self._counters.total(Counter.OTHERS), most_others)):
                deadline = time.monotonic() + bound_s  # reading a large backlog can take a long time
            if self._scenario.consumers and self._scenario.output_topic is None:  # others wait for the application
                pending = self._written() * self._scenario.consumer_groups - received
                self._require_progress(received, pending, "received")
            if time.monotonic() > deadline:
                raise LoadError(f"workers did not report within {bound_s:.0f} s after the last record")

    def _tick(self, phase: str) -> None:
        """Wait briefly, report progress, and check that the cluster and the workers are alive."""
        concurrent.futures.wait(self._futures, timeout=_POLL_S, return_when=concurrent.futures.FIRST_EXCEPTION)
        for future in self._futures:
            if future.done() and future.exception() is not None:
                raise _WorkerEndedError
        now_s = time.monotonic()
        if now_s - self._lag_s >= _LAG_S:
            self._lag_s = now_s
            if phase == "measuring":
                self._sample_lag()
        if now_s - self._checked_s >= _CHECK_S or phase != self._phase_shown:
            self._checked_s, self._phase_shown = now_s, phase
            self._check()
            p99_ns = self._counters.most(Counter.P99_NS)
            self._progress(
                Progress(
                    phase=phase,
                    elapsed_s=0.0 if self._start_ns is None else (now_ns() - self._start_ns) / NS_PER_S,
                    window_ns=self._window_ns(),
                    acknowledged=self._counters.total(Counter.VISIBLE),
                    p99_s=p99_ns / NS_PER_S if p99_ns else None,
                    lag=self._lag(),
                )
            )

    def _window_ns(self) -> tuple[int, int | None] | None:
        if self._start_ns is None:
            return None
        length_s = window_s(self._scenario)
        return self._start_ns, None if length_s is None else self._start_ns + round(length_s * NS_PER_S)

    def _sample_lag(self) -> None:
        """Add the current lag, if any, to the results."""
        lag = self._lag()
        if lag is None:
            return
        self._lag_end, self._lag_max = lag, max(self._lag_max or 0, lag)
        if self._scenario.catches_up:
            written = self._written()
            self._readings = self._readings or [(self._start_ns or 0, [0], [written])]
            self._readings.append((now_ns(), [written - lag], [written]))

    def _lag(self) -> int | None:
        """Return how many records the slowest consumer group has yet to receive; None without live consumers."""
        if not self._scenario.consumers or self._scenario.consume != "live":
            return None
        # Read the received counts first, so that acknowledgements between the two readings never make the lag negative.
        received = min(self._counters.received())
        return max(0, self._written() - received)

    def _written(self) -> int:
        """Return the number of records that each consumer group should receive."""
        backlog = self._scenario.backlog if self._scenario.catches_up else 0
        return backlog + self._counters.total(Counter.VISIBLE)

    def _require_progress(self, count: int, pending: int, verb: str) -> None:
        """Give up if the count remains unchanged for too long while records are outstanding."""
        now_s = time.monotonic()
        if count != self._progressed[0] or pending <= 0:
            self._progressed, self._probe = (count, now_s), None
            return
        silent_s = now_s - self._progressed[1]
        if silent_s <= SILENCE_TIMEOUT_S:
            return
        self._probe = self._probe or detached(self._is_alive)
        is_lost = self._probe.done() and not self._probe.result()
        limit_s = SILENCE_TIMEOUT_S if is_lost else _LONGEST_SILENCE_S
        if silent_s > limit_s:
            raise ClusterLostError(
                f"no record was {verb} for {limit_s} s while {pending} were outstanding: the cluster is down or much "
                "too slow for this load"
            )

    def _collect(self) -> None:
        for number, future in enumerate(self._futures):
            if not future.done():
                self._add_problem(Problem(Cause.WORKER_KILLED, {"worker": number, "timeout_s": _GIVE_UP_S}))
                self._broken = True
                continue
            try:
                self._workers.append(future.result(timeout=0))
            except LoadError as error:
                self._add_problem(Problem(Cause.WORKER_FAILED, {"reason": str(error)}))
            except BrokenProcessPool:
                self._add_problem(Problem(Cause.WORKER_LOST, {"reason": DIED}))
                self._broken = True
            except Exception as error:  # noqa: BLE001 - the report must include any cause
                # concurrent.futures keeps the worker's own traceback as the cause
                traceback = str(error.__cause__ or "").strip().strip('"').strip()
                values = {"worker": number, "error": f"{type(error).__name__}: {error}", "traceback": traceback}
                self._add_problem(Problem(Cause.WORKER_CRASHED, values))

    def _add_loss(self, error: ClusterLostError) -> None:
        self._problems.append(Problem.of(error))
        self._broken = True

    def _add_problem(self, problem: Problem) -> None:
        if problem not in self._problems:  # a cause that stops several workers is reported once
            self._problems.append(problem)
