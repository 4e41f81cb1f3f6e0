"""Worker processes on the machines of a Dask cluster.

A share of the load is a Dask task, pinned to one Dask worker and never run again. On that machine it runs in a process
of its own, as it does here; the task's thread meanwhile keeps shared counters there like those here (see `sync`).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.metadata
import ipaddress
import secrets
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any, Self

from distributed import Client

from pytest_kafkaperf.core.errors import ClusterError, LoadError
from pytest_kafkaperf.load.audit import AuditTask, audit
from pytest_kafkaperf.load.dask.clocks import Reading, by_clock, clock_name, host_name, reading, spread, tolerated_ns
from pytest_kafkaperf.load.dask.hosted import Task, TaskOutcome
from pytest_kafkaperf.load.dask.sync import ANSWER_S, CounterSync, SchedulerSync
from pytest_kafkaperf.load.dask.task import WorkerTask, exchanges, read_clock, run_worker_task, tell
from pytest_kafkaperf.load.messages import Assignment, Audit, Clock, WorkerReport
from pytest_kafkaperf.load.shared_counters import SharedCounters
from pytest_kafkaperf.load.worker import work
from pytest_kafkaperf.scenario.records import Samples

_CONNECT_S = 10
"""Bound of reaching the scheduler."""
_WORKER_S = 5
"""Bound of a worker's own answer."""
_MARGIN_NS = 500_000_000
_PLUGIN = "pytest-kafkaperf"
_VERSIONS: Mapping[str, tuple[Any, ...]] = {
    "Python": (sysconfig.get_python_version,),
    **{name: (importlib.metadata.version, name) for name in (_PLUGIN, "aiokafka")},
}
"""What must be the same wherever load runs, and what tells its version: the standard library, which is everywhere."""


class DaskWorkers:
    """A Dask cluster, from entry to exit."""

    margin_ns = _MARGIN_NS

    def __init__(self, scheduler: str) -> None:
        self._address = scheduler
        self._point = f"kafkaperf-{secrets.token_hex(8)}"
        self._stack = contextlib.ExitStack()
        self._connected: Client | None = None
        self._fit: set[str] = set()
        """Workers whose versions are ours."""
        self._silent: set[str] = set()
        """Workers that did not answer: nobody asks them again."""

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            ClusterError: no scheduler answers, it has no workers, or versions differ.

        """
        try:
            with contextlib.ExitStack() as stack:
                self._connected = stack.enter_context(self._client())
                self._check_scheduler()
                point = SchedulerSync(self._point, self._dask.id)
                stack.callback(self._leave)
                self._client_call(self._dask.register_plugin, point, name=self._point)
                if not self._addresses():
                    raise ClusterError(
                        f"the Dask scheduler {self._address} has no workers: start some, such as "
                        f"'dask worker {self._address}' on each machine that is to make load"
                    )
                self._stack = stack.pop_all()
        except LoadError as error:
            raise ClusterError(str(error)) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._connected = None

    def count(self) -> int:
        """How many Dask workers there are now."""
        return len(self._addresses())

    @contextlib.contextmanager
    def place(self, workers: int, folder: str) -> Iterator[Self]:
        """Nothing is to be opened for a test."""
        del workers, folder
        yield self

    @contextlib.contextmanager
    def load(
        self, assignments: Sequence[Assignment], counters: SharedCounters
    ) -> Iterator[Sequence[Future[WorkerReport]]]:
        """Hand the assignments out, read clocks before and after, and keep the counters alike meanwhile.

        Raises:
            LoadError: there is nobody to hand them to.
            ClusterError: workers have come whose versions differ.

        """
        common, readings = self.read_clocks()
        addresses = spread(readings, len(assignments))
        refuse_loopback(assignments[0].bootstrap_servers, [readings[address] for address in addresses])
        best = by_clock([common, *readings.values()])
        clocks = [best[readings[address].name].clock(best[common.name]) for address in addresses]
        tasks = [
            Task(
                function=work,
                argument=assignment,
                offset_ns=clock.offset_ns,
                uncertainty_ns=tolerated_ns(clock, clocks),
            )
            for assignment, clock in zip(assignments, clocks, strict=True)
        ]
        names = [f"{address} on {clock.host}" for address, clock in zip(addresses, clocks, strict=True)]
        with self._met(addresses, names, tasks, groups=counters.groups) as (meeting, futures):
            with CounterSync(self._ask, meeting, counters, futures, names):
                yield futures
            self._tell_clocks(futures, clocks, best)

    def audit(self, task: AuditTask) -> Future[Audit]:
        """Let a worker look into the log.

        Raises:
            LoadError: there is none.

        """
        _, readings = self.read_clocks()
        (address,) = spread(readings, 1)
        name = f"{address} on {readings[address].host}"
        result: Future[Audit] = Future()
        threading.Thread(target=self._audit, args=(address, name, task, result), daemon=True).start()
        return result

    def _audit(self, address: str, name: str, task: AuditTask, result: Future[Audit]) -> None:
        """In a thread of its own, for whoever waits may give up."""
        try:
            with (
                self._met([address], [name], [Task(function=audit, argument=task)], groups=None) as (meeting, futures),
                CounterSync(self._ask, meeting, None, futures, [name]),
            ):
                found: Any = futures[0].result()
            result.set_result(found)
        except Exception as error:  # noqa: BLE001 - whatever it is, somebody waits for the reason
            result.set_exception(LoadError(str(error) or type(error).__name__))

    @contextlib.contextmanager
    def _met(
        self, addresses: Sequence[str], names: Sequence[str], tasks: Sequence[Task], *, groups: int | None
    ) -> Iterator[tuple[str, list[Future[Any]]]]:
        """The meeting of tasks under way at those addresses, and what comes of each; they end with the block."""
        meeting = secrets.token_hex(8)
        self._ask(do="open", meeting=meeting, addresses=[*addresses])
        running: list[Future[TaskOutcome]] = []
        try:
            samples = self._samples(tasks, addresses)
            for worker, (address, task) in enumerate(zip(addresses, tasks, strict=True)):
                executor = self._dask.get_executor(workers=[address], allow_other_workers=False, retries=0, pure=False)
                worker_task = WorkerTask(
                    point=self._point, meeting=meeting, worker=worker, task=task, groups=groups, workers=len(tasks)
                )
                running.append(executor.submit(run_worker_task, worker_task, samples))
            yield meeting, [_followed(theirs, name) for theirs, name in zip(running, names, strict=True)]
        finally:
            with contextlib.suppress(LoadError):
                self._ask(do="end", meeting=meeting)
            for theirs in running:
                theirs.cancel()

    def _samples(self, tasks: Sequence[Task], addresses: Sequence[str]) -> Any:
        """The file of samples that producers need, on its way to their machines; None without one."""
        payload = tasks[0].argument.scenario.payload
        if not isinstance(payload, Samples) or payload.path is None:
            return None
        content = Path(payload.path).read_bytes()
        return self._dask.scatter(content, workers=sorted(set(addresses)), broadcast=True)

    def _tell_clocks(
        self, futures: Sequence[Future[WorkerReport]], clocks: Sequence[Clock], before: Mapping[str, Reading]
    ) -> None:
        """Let reports say by which clock they go, and how well it is known after all."""
        if any(not future.done() or future.exception() is not None for future in futures):
            return  # the round does not count
        after: Mapping[str, Reading] = {}
        with contextlib.suppress(LoadError, ClusterError):
            common, readings = self.read_clocks()
            after = by_clock([common, *readings.values()])
        for future, clock in zip(futures, clocks, strict=True):
            kept = before[clock.name].until(after.get(clock.name))
            future.result().clock = dataclasses.replace(clock, uncertainty_ns=kept.uncertainty_ns)

    def read_clocks(self) -> tuple[Reading, dict[str, Reading]]:
        """The clock of this machine and those of all Dask workers, read now.

        Raises:
            LoadError: no scheduler or no workers answer.
            ClusterError: workers have come whose versions differ.

        """
        addresses = self._addresses()
        found = self._on_workers(read_clock, self._point, workers=addresses)
        readings = {address: one for address, one in found.items() if isinstance(one, Reading)}
        if not readings:
            raise LoadError(f"no worker of the Dask scheduler {self._address} is left")
        asked, common = self._client_call(exchanges, self._dask.scheduler, self._point)
        return reading(asked, name=clock_name(), host=host_name(), common=common), readings

    def _addresses(self) -> list[str]:
        """Of all workers, whose versions are ours.

        Raises:
            LoadError: the scheduler does not answer.
            ClusterError: versions differ.

        """
        addresses = sorted({*self._client_call(self._dask.nthreads)} - self._silent)
        new = [address for address in addresses if address not in self._fit]
        if new:
            problems = [
                version_problem(f"the Dask worker {address}", name, version)
                for name, asked in _VERSIONS.items()
                for address, version in self._on_workers(*asked, workers=new).items()
            ]
            if any(problems):
                raise ClusterError("\n".join(filter(None, problems)))
            self._fit.update(new)
        return addresses

    def _check_scheduler(self) -> None:
        for name in ("Python", _PLUGIN):
            try:
                version = self._client_call(self._dask.run_on_scheduler, *_VERSIONS[name])
            except importlib.metadata.PackageNotFoundError:
                version = None
            if problem := version_problem(f"the Dask scheduler {self._address}", name, version):
                raise ClusterError(problem)

    def _on_workers(self, function: Callable[..., Any], *arguments: object, workers: Sequence[str]) -> dict[str, Any]:
        """What it gives on each worker; what is not installed there is None, and who has left is left out.

        Raises:
            LoadError: the scheduler does not answer.
            ClusterError: it failed on a worker.

        """
        if not workers:
            return {}
        answers = self._client_call(_run_on_each, self._dask, function, arguments, workers)
        values: dict[str, Any] = {}
        for address, value in zip(workers, answers, strict=True):
            match value:
                case OSError() | TimeoutError():
                    self._silent.add(address)
                case importlib.metadata.PackageNotFoundError():
                    values[address] = None
                case Exception():
                    raise ClusterError(f"the Dask worker {address} failed: {type(value).__name__}: {value}")
                case _:
                    values[address] = value
        return values

    def _ask(self, **message: Any) -> dict[str, Any]:
        """Tell the meeting point something.

        Raises:
            LoadError: no answer.

        """
        answer: dict[str, Any] = self._client_call(tell, self._dask.scheduler, self._point, **message)
        return answer

    def _client_call(self, function: Callable[..., Any], *arguments: object, **named: object) -> Any:
        """Do something with the scheduler, within a bound.

        Raises:
            LoadError: no answer.

        """
        if self._dask.scheduler is None:  # so it is after the client has tried in vain to reach it again
            raise LoadError(f"the Dask scheduler {self._address} is gone")
        try:
            return self._dask.sync(function, *arguments, callback_timeout=ANSWER_S, **named)
        except (OSError, TimeoutError) as error:
            reason = f": {error}" if str(error) else f" within {ANSWER_S} s"
            raise LoadError(f"the Dask scheduler {self._address} does not answer{reason}") from None
        except RuntimeError:
            if self._dask.status == "running":
                raise
            # The client closed itself meanwhile: it had tried in vain to reach the scheduler again.
            raise LoadError(f"the Dask scheduler {self._address} is gone") from None

    def _client(self) -> Client:
        try:
            return Client(self._address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"--kafka-workers=dask://{self._address}: no Dask scheduler answers there within {_CONNECT_S} s "
                f"({type(error).__name__}); start one with 'dask scheduler', or name the address that it prints"
            ) from None

    def _leave(self) -> None:
        with contextlib.suppress(LoadError):
            self._ask(do="leave")

    @property
    def _dask(self) -> Client:
        if self._connected is None:
            raise RuntimeError("the Dask cluster is used outside its `with` block")
        return self._connected


async def _run_on_each(
    client: Client, function: Callable[..., Any], arguments: Sequence[object], workers: Sequence[str]
) -> list[Any]:
    """What a function gives on each worker, or what went wrong: one that does not answer holds up no other."""

    async def run(address: str) -> Any:
        async with asyncio.timeout(_WORKER_S):
            (given,) = (await client.run(function, *arguments, workers=[address], on_error="return")).values()
            return given

    return await asyncio.gather(*map(run, workers), return_exceptions=True)


def version_problem(place: str, name: str, version: str | None) -> str | None:
    """Give an error if the version there (None: not installed) is not the one here."""
    function, *arguments = _VERSIONS[name]
    here = function(*arguments)
    if version is None:
        plugin = importlib.metadata.version(_PLUGIN)
        return f"{place} has no {name}: install it there, with 'pip install pytest-kafkaperf[dask]=={plugin}'"
    return None if version == here else f"{place} has {name} {version}, here it is {here}: install the same on both"


def refuse_loopback(servers: str, readings: Sequence[Reading]) -> None:
    """Brokers that only this machine reaches are no use to others.

    Raises:
        LoadError: names both, and what to do.

    """
    away = [one.host for one in readings if one.host != host_name()]
    if away and all(_is_loopback(server.rpartition(":")[0]) for server in servers.split(",")):
        raise LoadError(
            f"the brokers at {servers} are reached from this machine alone, and load is to run on {away[0]}, too: name "
            "brokers that all machines reach by --kafka-cluster=HOST:PORT, or leave --kafka-workers out"
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _followed(theirs: Future[TaskOutcome], name: str) -> Future[Any]:
    """What comes of a task: its value, or a LoadError that names where it was."""
    ours: Future[Any] = Future()

    def conclude(done: Future[TaskOutcome]) -> None:
        with contextlib.suppress(InvalidStateError):  # it was lost, and that is known
            if done.cancelled():
                ours.set_exception(LoadError(f"the Dask scheduler gave up what the Dask worker {name} had to do"))
            elif (error := done.exception()) is not None:
                ours.set_exception(LoadError(f"the Dask worker {name} failed: {type(error).__name__}: {error}"))
            elif (problem := done.result().problem) is not None:
                ours.set_exception(LoadError(f"{problem} (on the Dask worker {name})"))
            else:
                ours.set_result(done.result().value)

    theirs.add_done_callback(conclude)
    return ours
