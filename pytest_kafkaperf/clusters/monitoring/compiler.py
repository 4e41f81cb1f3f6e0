"""CPU time of JVM compiler threads, to distinguish warm brokers and applications from cold ones.

HotSpot compiles hot code a second time with its optimizing compiler C2. Until C2 has worked through its queue, a broker
reaches only a third of its final throughput, and the compiler uses up to one core.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
import psutil

from pytest_kafkaperf.clusters.monitoring.probes import ContainerProbe, Probe, ProcessProbe
from pytest_kafkaperf.clusters.monitoring.readings import Key
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.units import NS_PER_S

ThreadCpu = Mapping[tuple[int, int], float]
"""CPU time (s) of each compiler thread, by id and start time in clock ticks. Ids alone are not unique over time."""

INTERVAL_S = 0.2
"""Time between two readings. HotSpot removes idle compiler threads, so longer gaps would miss their last work."""

_NAMES = ("C1 ", "C2 ", "JVMCI", "JIT Compilation")
"""Prefixes of compiler thread names in HotSpot, GraalVM and OpenJ9. Linux truncates names to 15 bytes."""
_TICKS_PER_S = 100
"""Clock ticks per second in `/proc/PID/stat`. On all common processors, Linux reports 100 to programs (USER_HZ)."""
_FAMILY_INTERVAL_S = 1.0
"""Time between two searches for a process's children."""
_ANSWER_TIMEOUT_S = 10
"""Time limit for `jcmd`; the Docker client has a separate limit for commands in containers."""
_EXIT_TIMEOUT_S = 2.0
_LEAST_COVERED = 0.5
"""Minimum share of a period that readings must cover to determine its compiler usage."""
_ALL_STATS = "cat /proc/[0-9]*/task/[0-9]*/stat 2>/dev/null"
_JCMD_LINE = re.compile(r'^"(?P<name>[^"]+)" #(?P<number>\d+).*? cpu=(?P<cpu_ms>[\d.]+)ms', re.MULTILINE)


class CompilerReader(Protocol):
    """Reader for one program's compiler threads. A program is a process with its children, or a container."""

    @property
    def is_costly(self) -> bool:
        """True if readings disturb the program, in which case they are taken only before and after a load."""

    def read(self) -> ThreadCpu:
        """Return the CPU time of each compiler thread; empty if none is known.

        Raises:
            OSError: the program has exited or cannot be read.

        """


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU time of a program's compiler threads at each reading."""

    at_ns: tuple[int, ...]
    """Times of the readings on the monotonic clock."""
    cpu_s: tuple[float, ...]
    """Total CPU time of all threads so far; a thread that has ended keeps its last value."""

    def share(self, start_ns: int, end_ns: int) -> float | None:
        """Return the mean number of cores used by the compiler in a period; None if readings cover too little of it."""
        first, last = max(start_ns, self.at_ns[0]), min(end_ns, self.at_ns[-1])
        if last <= first or last - first < _LEAST_COVERED * (end_ns - start_ns):
            return None
        return (self._at(last) - self._at(first)) / ((last - first) / NS_PER_S)

    def _at(self, instant_ns: int) -> float:
        return float(np.interp(instant_ns, self.at_ns, self.cpu_s))


class ThreadFiles:
    """Reader for the threads of a process and its children, using `/proc` on Linux."""

    is_costly = False

    def __init__(self, pid: int, *, with_children: bool) -> None:
        self._pid = pid
        self._with_children = with_children
        self._family: tuple[int, ...] = (pid,)
        self._searched_s = -_FAMILY_INTERVAL_S
        self._others: dict[tuple[int, int], int] = {}
        """Number of readings of each other thread, by process and thread. A thread gets its name only some time after
        its start."""

    def read(self) -> ThreadCpu:
        """Read a file for each compiler thread and for each new thread."""
        now_s = time.monotonic()
        if self._with_children and now_s - self._searched_s >= _FAMILY_INTERVAL_S:
            self._family = tuple(_family(self._pid))
            self._searched_s = now_s
        found: dict[tuple[int, int], float] = {}
        present = set()
        for pid in self._family:
            with contextlib.suppress(*([OSError] if pid != self._pid else [])):  # a child may have exited
                for path in Path(f"/proc/{pid}/task").iterdir():
                    place = pid, int(path.name)
                    present.add(place)
                    if self._others.get(place, 0) < 2:  # noqa: PLR2004 - once before and once after it got its name
                        found |= self._read_thread(place, path)
        self._others = {place: times for place, times in self._others.items() if place in present}
        return found

    def _read_thread(self, place: tuple[int, int], path: Path) -> dict[tuple[int, int], float]:
        with contextlib.suppress(OSError):  # the thread has ended
            thread = _thread_of((path / "stat").read_text(encoding="utf-8", errors="replace"))
            if not thread.is_compiler:
                self._others[place] = self._others.get(place, 0) + 1
                return {}
            cpu_s = thread.cpu_s
            with contextlib.suppress(OSError):  # a kernel without this file has only 10 ms ticks
                cpu_s = int((path / "schedstat").read_text(encoding="ascii").split()[0]) / NS_PER_S
            return {thread.key: cpu_s}
        return {}


class ContainerFiles:
    """Reader for a container's threads, using this machine's `/proc` if it shows them, otherwise the container's."""

    def __init__(self, container: Any) -> None:
        self._container = container
        self._files: ThreadFiles | None = None
        self._locate()

    @property
    def is_costly(self) -> bool:
        """True if each reading runs a command in the container."""
        return self._files is None

    def read(self) -> ThreadCpu:
        """Read the threads. After a container restart, they are different threads."""
        if self._files is not None:
            try:
                return self._files.read()
            except OSError:
                self._locate()
                if self._files is not None:
                    return self._files.read()
        try:
            output = self._container.exec_run(["sh", "-c", _ALL_STATS]).output.decode("utf-8", errors="replace")
        except Exception as error:  # errors from two libraries, for example because the container has exited
            raise OSError(f"{type(error).__name__}: {error}") from error
        threads = [_thread_of(line) for line in output.splitlines() if ")" in line]
        return {thread.key: thread.cpu_s for thread in threads if thread.is_compiler}

    def _locate(self) -> None:
        """Find the container's process on this machine; its id may belong to another machine or another namespace."""
        self._files = None
        with contextlib.suppress(Exception):
            self._container.reload()
            pid = self._container.attrs["State"]["Pid"]
            if self._container.id in Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"):
                self._files = ThreadFiles(pid, with_children=True)


class JcmdThreads:
    """Reader for systems without `/proc`. It queries a JVM with its JDK's `jcmd`, which briefly stops all threads."""

    is_costly = True

    def __init__(self, pid: int, *, with_children: bool) -> None:
        self._pid = pid
        self._with_children = with_children

    def read(self) -> ThreadCpu:
        """Query each JVM in the process family."""
        found: dict[tuple[int, int], float] = {}
        for pid in _family(self._pid) if self._with_children else [self._pid]:
            with contextlib.suppress(psutil.Error, OSError, subprocess.SubprocessError):
                jcmd = Path(psutil.Process(pid).exe()).with_name("jcmd")
                if jcmd.is_file():
                    command: list[str | Path] = [jcmd, str(pid), "Thread.print"]
                    ran = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_TIMEOUT_S, check=True)  # noqa: S603 - the JDK's own
                    found |= {(number, pid): cpu_s for number, cpu_s in jcmd_threads(ran.stdout)}
        return found


def reader_of(probes: Sequence[Probe]) -> CompilerReader | None:
    """Return the reader for the program that these probes read; None if they do not read a program."""
    for probe in probes:
        match probe:
            case ProcessProbe(pid, with_children):
                kind = ThreadFiles if sys.platform == "linux" else JcmdThreads
                return kind(pid, with_children=with_children)
            case ContainerProbe(container):
                return ContainerFiles(container)
    return None


def jcmd_threads(printed: str) -> Iterator[tuple[int, float]]:
    """Yield the id and the CPU time (s) of each compiler thread in the output of `jcmd PID Thread.print`."""
    for found in _JCMD_LINE.finditer(printed):
        if found["name"].startswith(_NAMES):
            yield int(found["number"]), float(found["cpu_ms"]) / 1e3


@dataclass(frozen=True, slots=True)
class _Thread:
    key: tuple[int, int]
    name: str
    cpu_s: float

    @property
    def is_compiler(self) -> bool:
        return self.name.startswith(_NAMES)


def _thread_of(stat: str) -> _Thread:
    """Parse a thread's line; see proc_pid_stat(5). The thread name can contain any character."""
    front, _, back = stat.rpartition(")")
    number, _, name = front.partition(" (")
    fields = back.split()
    cpu_ticks = int(fields[11]) + int(fields[12])  # user and system time
    started = int(fields[19])
    return _Thread(key=(int(number), started), name=name, cpu_s=cpu_ticks / _TICKS_PER_S)


def _family(pid: int) -> Iterable[int]:
    """Return a process and all its running children."""
    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return [pid]


@dataclass(slots=True)
class Log:
    """Readings of one program, which may be restarted."""

    last: dict[tuple[int, int], float] = field(default_factory=dict)
    """CPU time of each thread so far; a thread that has ended keeps its last value."""
    at_ns: list[int] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def add(self, threads: ThreadCpu) -> None:
        """Add a reading. It is ignored until the program has a compiler thread."""
        self.last.update(threads)
        if self.last:
            self.at_ns.append(time.monotonic_ns())
            self.cpu_s.append(sum(self.last.values()))

    def usage(self) -> Usage | None:
        """Return the CPU time at each reading; None if it is unknown."""
        return Usage(tuple(self.at_ns), tuple(self.cpu_s)) if len(self.at_ns) > 1 else None


class CompilerWatcher:
    """Watcher that reads all programs' compiler threads in a separate thread, from entry to exit."""

    def __init__(self, probes: Callable[[], Mapping[Key, Sequence[Probe]]]) -> None:
        """Watch the programs returned by `probes`, which is called for each reading because brokers may restart."""
        self._probes = probes
        self._readers: dict[Key, tuple[Sequence[Probe], CompilerReader]] = {}
        self._logs: dict[Key, Log] = {}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kafkaperf-compiler", daemon=True)

    def __enter__(self) -> Self:
        self._read(costly=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join(_EXIT_TIMEOUT_S)
        if not self._thread.is_alive():
            self._read(costly=True)

    def usage(self) -> dict[Key, Usage | None]:
        """Return the CPU time of each program's compiler; None for programs without known compiler threads."""
        return {key: log.usage() for key, log in self._logs.items()}

    def _run(self) -> None:
        while not self._closing.wait(INTERVAL_S):
            self._read(costly=False)

    def _read(self, *, costly: bool) -> None:
        try:
            current = self._probes()
        except (OSError, ClusterError):  # the cluster is changing
            return
        for key, probes in current.items():
            known = self._readers.get(key)
            if known is None or known[0] != probes:
                reader = reader_of(probes)
                if reader is None:
                    continue
                self._readers[key] = known = probes, reader
            log = self._logs.setdefault(key, Log())
            if costly or not known[1].is_costly:
                with contextlib.suppress(OSError):
                    log.add(known[1].read())
