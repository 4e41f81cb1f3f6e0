"""A user's pytest run in a terminal of its own: what it shows tells in which phase it is."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import psutil
import pytest

from tests.support.project import inherited
from tests.support.repeats import note_report

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tests.support.ground import Ground

PHASE_TIMEOUT_S = 90
"""Until a run is in the phase that is waited for."""
_POLL_S = 0.01
_JOIN_TIMEOUT_S = 10
_COLUMNS = "200"

GATES = """
import os
import socket

import pytest


def pass_through(name):
    if name not in os.environ["HELD"].split(","):
        return
    with socket.create_connection(("127.0.0.1", int(os.environ["GATES"]))) as there:
        there.sendall(name.encode())
        there.recv(1)


@pytest.fixture
def gate():
    return pass_through


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish():
    pass_through("reports")
"""
"""A project's conftest.py: it says where the run is, and waits there until somebody lets it go on."""


class Run:
    """One run, from its start until it has ended by itself: it gets no longer than `end_timeout_s` from `end` on."""

    def __init__(
        self,
        folder: Path,
        ground: Ground,
        *arguments: str,
        holds: Collection[str] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Start it; at gates that it `holds` it waits for `open_gate`."""
        self._folder = folder
        self._shown = ""
        self._changed = threading.Condition()
        self._held: dict[str, socket.socket] = {}
        self._gates = socket.create_server(("127.0.0.1", 0))
        self._controller, terminal = pty.openpty()
        port = self._gates.getsockname()[1]
        pytest_run = [
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:hypothesispytest",
            "-p",
            "no:unraisableexception",  # at its end it collects garbage, where a second Ctrl-C would end pytest itself
            "-p",
            "no:randomly",
            "-p",
            "no:asyncio",
            "--kafka-report=json:report.json",
            *arguments,
        ]
        gates = {"GATES": str(port), "HELD": ",".join(holds)}
        self.process = subprocess.Popen(
            ground.command(sys.executable, *pytest_run),
            cwd=folder,
            env={**inherited(), "COLUMNS": _COLUMNS, **ground.environment(), **gates, **variables},
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)
        self._readers = [threading.Thread(target=each, daemon=True) for each in (self._read, self._keep_gates)]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(_JOIN_TIMEOUT_S)
        self._gates.shutdown(socket.SHUT_RDWR)  # wakes who waits there
        self._gates.close()
        for held in self._held.values():
            held.close()

    @property
    def shown(self) -> str:
        """All that the terminal was told, without what moves its cursor."""
        with self._changed:
            return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._shown)

    @property
    def report(self) -> dict[str, Any] | None:
        """The JSON report; None where there is none."""
        try:
            document: dict[str, Any] = json.loads((self._folder / "report.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return document

    def await_shown(self, pattern: str) -> None:
        """Wait until the terminal shows it."""
        self._await(lambda: re.search(pattern, self._shown) is not None, f"the terminal shows no {pattern!r}")

    def await_gate(self, name: str) -> None:
        """Wait until the run is held there."""
        self._await(lambda: name in self._held, f"the run does not come to {name!r}")

    def open_gate(self, name: str) -> None:
        """Let it go on from there."""
        self._held.pop(name).close()

    def await_true(self, condition: Callable[[], object], what: str) -> None:
        """Wait for what nobody tells, as long as the run lives."""
        self.await_ended_or(condition)
        if not condition():
            self._fail(what)

    def await_ended_or(self, condition: Callable[[], object]) -> None:
        """Wait for it, or for the end of the run."""
        deadline = time.monotonic() + PHASE_TIMEOUT_S
        while self.lives() and not condition():
            if time.monotonic() > deadline:
                self._fail("the run goes on")
            time.sleep(_POLL_S)

    def interrupt(self) -> None:
        """Press Ctrl-C: it reaches the whole foreground process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)

    def lives(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    def end(self, *, within_s: float) -> int:
        """Wait until it ends by itself; its exit status."""
        try:
            status = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._fail(f"the run has not ended within {within_s:g} s")
        for reader in self._readers[:1]:
            reader.join(_JOIN_TIMEOUT_S)
        note_report(self._folder / "report.json")
        return status

    def children(self) -> list[psutil.Process]:
        """All that it has started, as long as it lives."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        with self._changed:
            met = self._changed.wait_for(lambda: condition() or not self.lives(), PHASE_TIMEOUT_S)
            if met and condition():
                return
        self._fail(what)

    def _fail(self, what: str) -> None:
        pytest.fail(f"{what}; exit status {self.process.poll()}; it has shown:\n{self.shown[-4000:]}")

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._controller, 4096)
            except OSError:  # Linux tells the end of a pseudo-terminal so
                piece = b""
            with self._changed:
                self._shown += piece.decode("utf-8", errors="replace")
                self._changed.notify_all()
            if not piece:
                os.close(self._controller)
                return

    def _keep_gates(self) -> None:
        while True:
            try:
                connection, _ = self._gates.accept()
            except OSError:  # the run is over
                return
            with self._changed:
                self._held[connection.recv(64).decode()] = connection
                self._changed.notify_all()
