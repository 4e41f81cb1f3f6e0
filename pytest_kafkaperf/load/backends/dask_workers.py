"""Worker processes on the machines in a Dask cluster.

Each share of the load is a Dask task, pinned to one Dask worker and never repeated. On that worker's machine, the share
runs in a separate process, as it would on the controller's machine. Meanwhile, the task's thread synchronizes the
shared counters (see `dask_sync`).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import secrets
import socket
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from pathlib import Path
from typing import Any, Self

from distributed import Client

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.target import is_loopback
from pytest_kafkaperf.core.errors import ClusterError, LoadError
from pytest_kafkaperf.load.audit import AuditTask
from pytest_kafkaperf.load.backends.dask_sync import (
    ANSWER_S,
    SchedulerSync,
    by_clock,
    new_key,
    relative_to,
    seal,
    spread,
    synchronized,
    tolerated_ns,
)
from pytest_kafkaperf.load.backends.dask_task import Share, read_clock, read_clock_by, run_share, send
from pytest_kafkaperf.load.backends.processes import Processes
from pytest_kafkaperf.load.messages import Assignment, Audit, Clock, WorkerReport
from pytest_kafkaperf.load.pushed_tokens import read_pushed
from pytest_kafkaperf.load.schedule import longest_s
from pytest_kafkaperf.load.shared_counters import SharedCounters
from pytest_kafkaperf.scenarios.payloads import Samples
from pytest_kafkaperf.scenarios.scenario import Scenario

_CONNECT_S = 10
"""Time limit for connecting to the scheduler."""
_UPLOAD_S = 300
"""Time limit for sending a sample file to all workers."""
_WORKER_S = 5
"""Time limit for one worker's response."""
_MARGIN_NS = 500_000_000
_ENCRYPTED = ("tls://", "wss://")
"""Address prefixes of Dask's encrypted connections."""
_PLUGIN = "pytest-kafkaperf"
_VERSIONS: Mapping[str, tuple[Any, ...]] = {
    "Python": (sysconfig.get_python_version,),
    **{name: (importlib.metadata.version, name) for name in (_PLUGIN, "aiokafka")},
}
"""Software that must have the same version everywhere, each with a standard library call that returns the version."""


class DaskWorkers:
    """Connection to a Dask cluster, open inside the `with` block."""

    margin_ns = _MARGIN_NS

    def __init__(self, scheduler: str, dask: Client, *, insecure: bool = False) -> None:
        self._address = scheduler
        self._dask = dask
        self._insecure = insecure
        """True if credentials may be sent without TLS."""
        self._handler = f"kafkaperf-{secrets.token_hex(8)}"
        self._fit: set[str] = set()
        """Addresses of workers with matching versions."""
        self._silent: set[str] = set()
        """Addresses of workers that did not respond and are not used again."""

    @classmethod
    @contextlib.contextmanager
    def connected(cls, scheduler: str, *, insecure: bool = False) -> Iterator[Self]:
        """Connect to a scheduler until the block ends. With `insecure`, credentials may be sent without TLS.

        Raises:
            ClusterError: no scheduler responds, the scheduler has no workers, or versions differ.

        """
        try:
            client = Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"--kafka-workers=dask://{scheduler}: no Dask scheduler answers there within {_CONNECT_S} s "
                f"({type(error).__name__}); start one with 'dask scheduler', or use the address that it prints"
            ) from None
        with client:
            workers = cls(scheduler, client, insecure=insecure)
            workers._prepare()
            yield workers

    def _prepare(self) -> None:
        try:
            self._check_scheduler()
            self._client_call(self._dask.register_plugin, SchedulerSync(self._handler, self._dask.id), self._handler)
            if not self._addresses():
                raise ClusterError(
                    f"the Dask scheduler {self._address} has no workers: start one with "
                    f"'dask worker {self._address}' on each machine that should generate load"
                )
        except LoadError as error:
            raise ClusterError(str(error)) from None

    def count(self) -> int:
        """Return the current number of Dask workers."""
        return len(self._addresses())

    @contextlib.contextmanager
    def load(
        self, assignments: Sequence[Assignment], counters: SharedCounters
    ) -> Iterator[Sequence[Future[WorkerReport]]]:
        """Read the clocks, hand the assignments to Dask workers, and synchronize the counters.

        Raises:
            LoadError: no worker can accept the assignments.
            ClusterError: new workers have different versions, or credentials would be sent without TLS.

        """
        common, readings = self.read_clocks()
        addresses = spread(readings, len(assignments))
        if not self._insecure:
            scheduler = str(getattr(self._dask.scheduler, "address", ""))
            refuse_plain_text(assignments[0].access, [scheduler, *addresses])
        refuse_loopback(assignments[0].bootstrap_servers, [readings[address] for address in addresses])
        best = by_clock([common, *readings.values()])
        clocks = [relative_to(best[common.name], best[readings[address].name]) for address in addresses]
        sync_id, key = secrets.token_hex(8), new_key()
        shares = [
            Share(
                handler=self._handler,
                sync_id=sync_id,
                workers=len(assignments),
                assignment=assignment,
                clock=clock,
                before=best[clock.name],
                tolerated_ns=tolerated_ns(clock, clocks, lasts_s=longest_s(assignment.scenario)),
                key=key,
            )
            for assignment, clock in zip(assignments, clocks, strict=True)
        ]
        names = [f"{address} on {clock.host}" for address, clock in zip(addresses, clocks, strict=True)]
        with self._run(sync_id, addresses, shares) as tasks:
            futures = [_result_of(task, name) for task, name in zip(tasks, names, strict=True)]
            with synchronized(
                functools.partial(self._ask, sync_id=sync_id), counters, list(zip(futures, names, strict=True)), key
            ):
                yield futures

    def audit(self, task: AuditTask) -> Audit:
        """Audit the log in a process on this machine; raises the same errors as `controller.WorkerBackend.audit`."""
        with Processes(1) as process:
            return process.audit(task)

    @contextlib.contextmanager
    def _run(
        self, sync_id: str, addresses: Sequence[str], shares: Sequence[Share]
    ) -> Iterator[Sequence[Future[WorkerReport]]]:
        """Run a Dask task for each share until the block ends."""
        token = read_pushed(shares[0].assignment.counters)
        sealed = None if token is None else seal(token, shares[0].key)
        samples = self._samples(shares[0].assignment.scenario, addresses)  # the workers' time limits begin with "open"
        self._ask(do="open", sync_id=sync_id, addresses=[*addresses], token=sealed)
        tasks: list[Future[WorkerReport]] = []
        try:
            for address, share in zip(addresses, shares, strict=True):
                executor = self._dask.get_executor(workers=[address], allow_other_workers=False, retries=0, pure=False)
                tasks.append(executor.submit(run_share, share, samples))
            yield tasks
        finally:
            with contextlib.suppress(LoadError):
                self._ask(do="end", sync_id=sync_id)
            for task in tasks:
                task.cancel()

    def _samples(self, scenario: Scenario, addresses: Sequence[str]) -> Any:
        """Send the sample file to the producers' machines; return None if there is no file.

        Raises:
            LoadError: the file cannot be read or sent.

        """
        payload = scenario.payload
        if not isinstance(payload, Samples) or payload.path is None:
            return None
        workers = sorted(set(addresses))
        try:
            content = Path(payload.path).read_bytes()
            send = functools.partial(self._dask.scatter, content, workers=workers, broadcast=True, asynchronous=True)
            return self._dask.sync(send, callback_timeout=_UPLOAD_S)
        except (OSError, TimeoutError, KeyError) as error:  # KeyError: a worker has left
            raise LoadError(
                f"the sample file {payload.path} could not be sent to the Dask workers: {error!r}"
            ) from None

    def read_clocks(self) -> tuple[Clock, dict[str, Clock]]:
        """Read this machine's clock and all Dask workers' clocks.

        Raises:
            LoadError: the scheduler does not respond, or no worker does.
            ClusterError: new workers have different versions.

        """
        addresses = self._addresses()
        values = self._on_workers(read_clock, self._handler, workers=addresses)
        readings = {address: value for address, value in values.items() if isinstance(value, Clock)}
        if not readings:
            raise LoadError(f"the Dask scheduler {self._address} has no workers left")
        return self._client_call(read_clock_by, self._dask.scheduler, self._handler), readings

    def _addresses(self) -> list[str]:
        """Check the versions of all workers and return their addresses.

        Raises:
            LoadError: the scheduler does not answer.
            ClusterError: versions differ.

        """
        addresses = sorted({*self._client_call(self._dask.nthreads)} - self._silent)
        new = [address for address in addresses if address not in self._fit]
        for name, call in _VERSIONS.items() if new else ():
            for address, version in self._on_workers(*call, workers=new).items():
                check_version(f"the Dask worker {address}", name, version)
        self._fit.update(new)
        return addresses

    def _check_scheduler(self) -> None:
        for name in ("Python", _PLUGIN):
            try:
                version = self._client_call(self._dask.run_on_scheduler, *_VERSIONS[name])
            except importlib.metadata.PackageNotFoundError:
                version = None
            check_version(f"the Dask scheduler {self._address}", name, version)

    def _on_workers(self, function: Callable[..., Any], *arguments: object, workers: Sequence[str]) -> dict[str, Any]:
        """Call a function on each worker; return the results (None for missing packages), ignoring workers that left.

        Raises:
            LoadError: the scheduler does not answer.
            ClusterError: the function failed on a worker.

        """
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
        """Send a message to the scheduler's message handler.

        Raises:
            LoadError: there is no answer.

        """
        answer: dict[str, Any] = self._client_call(send, self._dask.scheduler, self._handler, **message)
        return answer

    def _client_call(self, function: Callable[..., Any], *arguments: object, **named: object) -> Any:
        """Call a Dask client function with a time limit.

        Raises:
            LoadError: there is no answer.

        """
        if self._dask.scheduler is None:  # the client could not reconnect
            raise LoadError(f"the connection to the Dask scheduler {self._address} is lost")
        try:
            return self._dask.sync(function, *arguments, callback_timeout=ANSWER_S, **named)
        except (OSError, TimeoutError) as error:
            reason = f": {error}" if str(error) else f" within {ANSWER_S} s"
            raise LoadError(f"the Dask scheduler {self._address} does not answer{reason}") from None
        except RuntimeError:
            if self._dask.status == "running":
                raise
            # The client could not reconnect and closed itself.
            raise LoadError(f"the connection to the Dask scheduler {self._address} is lost") from None


async def _run_on_each(
    client: Client, function: Callable[..., Any], arguments: Sequence[object], workers: Sequence[str]
) -> list[Any]:
    """Call a function on each worker concurrently; return the results. Exceptions are returned instead of raised."""

    async def run(address: str) -> Any:
        async with asyncio.timeout(_WORKER_S):
            (given,) = (await client.run(function, *arguments, workers=[address], on_error="return")).values()
            return given

    return await asyncio.gather(*map(run, workers), return_exceptions=True)


def check_version(place: str, name: str, version: str | None) -> None:
    """Check the version of a package at `place`; the version is None if the package is not installed there.

    Raises:
        ClusterError: the version differs from the version on this machine.

    """
    function, *arguments = _VERSIONS[name]
    here = function(*arguments)
    if version is None:
        plugin = importlib.metadata.version(_PLUGIN)
        raise ClusterError(
            f"{place} has no {name}: install it there with 'pip install pytest-kafkaperf[dask]=={plugin}'"
        )
    if version != here:
        raise ClusterError(
            f"{place} has {name} {version}, but this machine has {here}: install the same version on both"
        )


def refuse_loopback(servers: str, readings: Sequence[Clock]) -> None:
    """Check that other machines can reach the brokers.

    Raises:
        LoadError: the brokers use loopback addresses, and a worker runs on another machine.

    """
    away = [one.host for one in readings if one.host != socket.gethostname()]
    if away and all(map(is_loopback, servers.split(","))):
        raise LoadError(
            f"the brokers at {servers} are reachable from this machine only, but {away[0]} would generate load as "
            "well; use --kafka-cluster=HOST:PORT with brokers that all machines can reach, or omit --kafka-workers"
        )


def refuse_plain_text(access: Access, addresses: Sequence[str]) -> None:
    """Check that credentials are sent only over TLS.

    Raises:
        ClusterError: there are credentials, and a scheduler or worker with one of these addresses does not use TLS.

    """
    plain = [address for address in addresses if not address.startswith(_ENCRYPTED)]
    if access.secrets() and plain:
        raise ClusterError(
            f"the cluster's credentials would be sent to Dask workers unencrypted ({plain[0]}): configure TLS for Dask "
            "(https://distributed.dask.org/en/stable/tls.html), or, on a trusted network, add --kafka-insecure-workers"
        )


def _result_of(task: Future[WorkerReport], name: str) -> Future[WorkerReport]:
    """Return a future for a task's report. Its LoadError contains the Dask worker's name."""
    result: Future[WorkerReport] = Future()

    def conclude(done: Future[WorkerReport]) -> None:
        with contextlib.suppress(InvalidStateError):  # the worker was lost, and the future already has that error
            if done.cancelled():
                result.set_exception(LoadError(f"the Dask scheduler cancelled the task of the Dask worker {name}"))
            elif isinstance(error := done.exception(), LoadError):
                result.set_exception(LoadError(f"{error} (on the Dask worker {name})"))
            elif error is not None:
                result.set_exception(LoadError(f"the Dask worker {name} failed: {type(error).__name__}: {error}"))
            else:
                result.set_result(done.result())

    task.add_done_callback(conclude)
    return result
