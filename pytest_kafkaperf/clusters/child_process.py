"""A child process whose output goes to a log and that can be stopped gracefully within a time limit."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pytest_kafkaperf.clusters.brokers.fleet import Exit
from pytest_kafkaperf.clusters.monitoring.probes import Probe, ProcessProbe
from pytest_kafkaperf.core import supervisor
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.signals import without_interrupt
from pytest_kafkaperf.core.text import last_lines

_KILL_TIMEOUT_S = 10
_POLL_S = 0.02
_TAIL_BYTES = 16 * 1024
"""Number of bytes to search for the last lines at the end of the log."""
_MOST_BYTES = 64 * 1024**2
"""Maximum size of the log in bytes. A log that exceeds it starts over."""


def _private(path: str, flags: int) -> int:
    """Open a file; new files are readable only by this user, because programs may print secrets."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def path_from(python: str) -> str:
    """Return `PATH` with this interpreter's virtual environment first."""
    own = os.path.dirname(python)  # noqa: PTH120 - a link stays one, as in a virtual environment
    return os.pathsep.join((own, os.environ.get("PATH", os.defpath)))


class ChildProcess:
    """A child process in a separate process group.

    Ctrl-C in the terminal therefore reaches only pytest, which then stops the process gracefully.
    """

    def __init__(self, name: str, log: Path, *, stop_timeout_s: float, redact: Callable[[str], str] = str) -> None:
        self._name = name
        self._log = log
        self._stop_timeout_s = stop_timeout_s
        """Maximum time to exit after SIGTERM before the process group is killed."""
        self._redact = redact
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._retired = False
        self._starting = threading.Lock()

    @property
    def pid(self) -> int | None:
        """Process id; None before the first start and while the process is stopped."""
        return None if self._process is None or self._stopped else self._process.pid

    @property
    def ending(self) -> str | None:
        """Cause of the exit, such as `exited with status 1`; None until `stop` or `failure` determines it."""
        return None if self.status is None else _ending(self.status)

    @property
    def status(self) -> int | None:
        """Exit status, negative for a signal; None until `stop` or `failure` determines it."""
        return None if self._process is None else self._process.returncode

    def probes(self) -> Sequence[Probe]:
        """Return the probe for the process and its children; empty while the process is stopped."""
        return [] if self.pid is None else [ProcessProbe(self.pid, with_children=True)]

    def launch(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        env: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start the process; its output is appended to the log from earlier starts.

        Raises:
            ClusterError: the process was retired while a test was starting it in another thread.
            OSError: the command cannot be run.

        """
        with without_interrupt(), self._starting:
            if self._retired:
                raise ClusterError(f"cannot start {self._name}: it was removed")
            with open(self._log, "ab", opener=_private) as output:
                try:
                    self._process = subprocess.Popen(  # noqa: S603 - Kafka on the user's own Java, or the user's command
                        command,
                        cwd=folder,
                        env=env,
                        pass_fds=pass_fds,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                except ValueError as error:  # a null byte, or "=" in a variable's name
                    raise OSError(str(error)) from None
            self._stopped = False
            supervisor.kill_later(self._process.pid)

    def retire(self) -> None:
        """Refuse all further starts."""
        with self._starting:
            self._retired = True

    def stop(self, *, kill: bool = False) -> None:
        """Stop or kill the process group; do nothing if the process has exited.

        Raises:
            ClusterError: the process did not exit, even after SIGKILL.

        """
        process = self._process
        self._stopped = True
        if process is None or process.returncode is not None:
            return
        deadline = time.monotonic() + self._stop_timeout_s
        descendants = supervisor.family(process.pid)
        try:
            if not kill:
                _signal(process.pid, signal.SIGTERM)
                _signal(process.pid, signal.SIGCONT)  # a paused process handles SIGTERM only after it continues
                while (process.poll() is None or _lives(process.pid)) and time.monotonic() < deadline:
                    time.sleep(_POLL_S)
        finally:  # even after Ctrl-C during the wait
            _signal(process.pid, signal.SIGKILL)
            supervisor.kill(descendants)
            try:
                process.wait(_KILL_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                raise ClusterError(
                    f"{self._name} (pid {process.pid}) did not exit within {_KILL_TIMEOUT_S} s after SIGKILL: the "
                    "operating system still holds it, for example because a disk does not respond"
                ) from None
            supervisor.forget(process.pid)

    def failure(self) -> Exit | None:
        """Return how the process exited on its own, with its last log lines; None if it is running or was stopped."""
        process = self._process
        if process is None or self._stopped:  # during a stop, its children also get time to exit gracefully
            return None
        with contextlib.suppress(OSError):  # endless output would fill the disk
            if self._log.stat().st_size > _MOST_BYTES:
                os.truncate(self._log, 0)
        if process.returncode is None and process.poll() is not None:
            _signal(process.pid, signal.SIGKILL)  # a crashed process's children
            supervisor.forget(process.pid)
        if process.returncode is None or self._stopped:
            return None
        return Exit(f"{self._name} (pid {process.pid}) {_cause(process.returncode)}", self.log_tail())

    def wait(self, timeout_s: float) -> None:
        """Wait until the process has exited on its own or the time is up."""
        deadline = time.monotonic() + timeout_s
        while self.failure() is None and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def log(self) -> str:
        """Return the entire log; raises OSError before the first start."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def log_tail(self) -> str:
        """Return the last lines of the log, without secrets; empty if there are none."""
        try:
            with self._log.open("rb") as file:
                file.seek(max(0, self._log.stat().st_size - _TAIL_BYTES))
                text = file.read().decode("utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        return self._redact(last_lines(text))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process group; do nothing before the first start."""
        if self._process is not None:
            _signal(self._process.pid, number)


def _signal(group: int, number: int) -> bool:
    """Send a signal to a process group; return False if all of its processes have exited."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS rejects signals to zombies
        return False
    return True


def _lives(group: int) -> bool:
    """Return True if any process in the group has not exited; zombies still belong to the group."""
    if not _signal(group, 0):
        return False
    for one in supervisor.all_processes():
        with contextlib.suppress(ProcessLookupError):
            if os.getpgid(one.pid) == group and not supervisor.has_ended(one):
                return True
    return False


def _cause(status: int) -> str:
    return _ending(status) if status >= 0 else f"was ended by {_signal_name(-status)}"


def _ending(status: int) -> str:
    return f"exited with status {status}" if status >= 0 else f"ended by {_signal_name(-status)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
