"""The other side of a comparison between two revisions: a second pytest process that does not measure anything.

The peer runs the same test in another revision, and keeps its cluster, fixtures and applications alive while this
process alternately measures both sides. The messages (see `peer_messages`) are:

- At first, the peer sends its package versions and the tests that it collected.
- `run` starts a test; the peer replies when the test calls `kafka_perf()` or ends without calling it.
- `check`, `renew`, `act` and `application` prepare the peer's side for a round; replies contain its new state.
- `stop` ends the test; the peer replies after fixture teardown.

The peer exits when the connection is closed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pytest_kafkaperf.clusters.child_process import ChildProcess, path_from
from pytest_kafkaperf.clusters.monitoring import probes
from pytest_kafkaperf.clusters.monitoring.readings import Key
from pytest_kafkaperf.core import errors, supervisor
from pytest_kafkaperf.core.environment import Change, commits, current_commit, package_changes
from pytest_kafkaperf.core.errors import ClusterError, ClusterLostError, UsageError
from pytest_kafkaperf.core.notices import Event, Notice, Remark
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.load.engines.engine import engines
from pytest_kafkaperf.runner import peer_messages
from pytest_kafkaperf.runner.baseline import LiveBaseline
from pytest_kafkaperf.runner.checkout import Checkout, checked_out, top_folder, without_origin, worktrees
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.settings import Revision, Settings

_HELLO_TIMEOUT_S = 120
_READY_TIMEOUT_S = 600
_CHECK_TIMEOUT_S = 30
_END_TIMEOUT_S = 60


class NewTestError(errors.KafkaPerfError):
    """The other revision does not contain the test, so there is nothing to compare it with."""


class IncomparableTestError(errors.KafkaPerfError):
    """The other revision cannot run the test, or it is unknown whether it has the test."""


class PeerBrokers:
    """The peer's brokers. The peer restarts them, and this process reads their CPU and memory usage."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.events: list[Event] = []
        self.warm_for: set[str] = set()
        self.quick: bool | None = None
        self.described: Sequence[tuple[str | int, Sequence[Mapping[str, Any]]]] = ()

    def probes(self) -> dict[Key, Sequence[probes.Probe]]:
        """Return the probes of the running brokers."""
        return {broker: peer_messages.probes_from_json(found) for broker, found in self.described}

    def check(self) -> None:
        """Raise `ClusterLostError` if the peer or one of its brokers or applications has exited."""
        self._peer.call("check", timeout_s=_CHECK_TIMEOUT_S)

    def renew(self, *, quick: bool | None = None) -> None:
        """Restart the brokers, with these compilers unless None, and wait until they are ready."""
        self.warm_for.clear()
        self._peer.call("renew", quick)


class PeerApp:
    """An application that the peer runs."""

    def __init__(self, peer: Peer, name: str) -> None:
        self._peer = peer
        self._name = name
        self.events: list[Event] = []
        self.described: Mapping[str, Sequence[Mapping[str, Any]]] = {}

    def __str__(self) -> str:
        """Return the application's name."""
        return self._name

    def probes(self) -> dict[str, Sequence[probes.Probe]]:
        """Return the probes of the application's processes, by instance."""
        return {name: peer_messages.probes_from_json(found) for name, found in self.described.items()}

    def check(self) -> None:
        """Raise an error if the application has exited on its own."""
        self._peer.call("check", timeout_s=_CHECK_TIMEOUT_S)

    def end(self) -> None:
        """Stop the process."""
        self._peer.call("application", self._name, "end")

    def launch(self) -> None:
        """Start the process and wait until it is ready."""
        self._peer.call("application", self._name, "launch")

    def start(self) -> None:
        """Start the process and add an event to the timeline."""
        self._peer.call("application", self._name, "start")


class Peer:
    """The second pytest process, as seen by this process."""

    def __init__(
        self, revision: Revision, checkout: Checkout, options: Sequence[str], *, files: Sequence[str], root: Path
    ) -> None:
        """Start it with these options and test files; `root` is this side's pytest root folder."""
        self.checkout = checkout
        self.revision = revision
        self._name = f"the baseline, --kafka-compare={revision}"
        self._folder = Path(tempfile.mkdtemp(prefix="kafkaperf-peer-"))
        supervisor.remove_later(self._folder)
        self._process = ChildProcess(self._name, self._folder / "output.log", stop_timeout_s=_END_TIMEOUT_S)
        ours, theirs = socket.socketpair()
        self._channel = peer_messages.Channel(ours)
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._hello: Future[dict[str, Any]] = Future()
        self._running: tuple[str, Future[dict[str, Any]]] | None = None
        self._stopping: Future[dict[str, Any]] | None = None
        self._test: LiveBaseline | None = None
        self._brokers: PeerBrokers | None = None
        self._apps: dict[str, PeerApp] = {}
        self._is_same = checkout.commit is not None and checkout.commit == current_commit(root)
        environment = {
            **without_origin(os.environ, top_folder(root), top_folder(checkout.root)),
            peer_messages.SOCKET: str(theirs.fileno()),
            peer_messages.ORIGIN: os.pathsep.join(map(str, worktrees(root))),
            peer_messages.INTERPRETER: sys.executable,
            "PATH": path_from(checkout.python),
            "KAFKAPERF_SIDE": "baseline",
            "PYTEST_ADDOPTS": "",  # may contain report options, which apply only to this side
            "COMPOSE_PROJECT_NAME": f"kafkaperf-revision-{secrets.token_hex(4)}",
        }
        # A cache folder is necessary because `addopts` may contain options such as `--ff`.
        options = [f"--rootdir={checkout.root}", f"-ocache_dir={self._folder}", *options]
        command = [checkout.python, "-m", "pytest", *options]
        command += files or [str(self._folder)]  # without a path, pytest would run all tests there
        try:
            with theirs:
                self._process.launch(command, folder=checkout.root, env=environment, pass_fds=[theirs.fileno()])
        except OSError as error:
            ours.close()
            raise UsageError(f"--kafka-compare={revision}: cannot run {checkout.python}: {error}") from None
        self._reader = threading.Thread(target=self._read, name="kafkaperf-peer", daemon=True)
        self._reader.start()

    def hello(self) -> dict[str, Any]:
        """Return the peer's first message.

        Raises:
            ClusterLostError: the peer has exited or does not answer.
            UsageError: the peer uses another protocol version, or imports this side's code.

        """
        said = self._result(self._hello, _HELLO_TIMEOUT_S, "did not start")
        if said["protocol"] != peer_messages.PROTOCOL:
            raise UsageError(
                f"{self._name} has pytest-kafkaperf {said['packages'].get('pytest-kafkaperf')}, which uses another "
                f"protocol ({said['protocol']}, here {peer_messages.PROTOCOL}); install the same version on both sides"
            )
        if said["refused"] is not None:
            raise UsageError(f"{self._name}: {said['refused']}")
        return said

    def begin(self, nodeid: str, later: Iterable[str]) -> None:
        """Make the peer start a test while this side sets up its fixtures; `later` are the tests after it."""
        self._await_stopped()
        self._test, collected = None, self.hello()["collected"]
        if nodeid in collected:
            following = next((each for each in later if each in collected), None)
            self._running = nodeid, self._send("run", nodeid, following)

    def test(self, nodeid: str, own: Side) -> LiveBaseline:
        """Return a test's other side once it is ready; `own` is this side.

        Raises:
            ClusterError: the test failed there before it called `kafka_perf()`.
            IncomparableTestError: the other revision could not collect the test, or lacks a fixture that it needs.
            NewTestError: the other revision collected the test's file without problems, but the test is not in it.
            UsageError: the test differs there, or both sides use the same cluster.

        """
        if self._running is None or self._running[0] != nodeid:
            problems = self.hello()["problems"].items()
            said = "\n".join(text for at, text in problems if _holds(at, nodeid))
            if said:
                raise IncomparableTestError(f"{self._name}, could not collect the test: {said}")
            raise NewTestError(f"the test is new: {self._name}, does not have it")
        if self._test is None:
            reply = self._result(self._running[1], _READY_TIMEOUT_S, "was not ready for the load")
            if "ended" in reply:
                if absent := reply.get("absent"):
                    raise IncomparableTestError(
                        f"{self._name}, does not have the fixture {absent!r} that the test needs"
                    )
                raise ClusterError(
                    f"{self._name}: the test ended there before it called kafka_perf(): {reply['ended']}"
                )
            self._test = self._made(reply, own)
            self._update(reply["state"])
        return self._test

    def stop(self) -> None:
        """Make the peer end its test while this side tears down its fixtures."""
        if self._running is not None:
            self._stopping, self._running = self._send("stop"), None

    def call(self, do: str, *arguments: object, timeout_s: float = _READY_TIMEOUT_S) -> Any:
        """Make the peer carry out a request, and return the result.

        Raises:
            KafkaPerfError: the peer raised the same error.
            ClusterLostError: the peer has exited or does not answer.

        """
        reply = self._result(self._send(do, *arguments), timeout_s, f"did not answer ({do})")
        self._update(reply["state"])
        if "error" in reply:
            kind = getattr(errors, reply["kind"], ClusterError)
            raise kind(f"{self._name}: {reply['error']}", **reply["facts"])
        return reply["value"]

    def close(self) -> None:
        """Stop the peer gracefully, or kill it if it does not exit."""
        try:
            with contextlib.suppress(ClusterError):
                self._await_stopped(_END_TIMEOUT_S)
            self._channel.close()
            self._process.wait(_END_TIMEOUT_S)
        finally:
            self._process.stop()
            self._reader.join(1)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _changes(self) -> tuple[Change, ...]:
        changed = package_changes(self.hello()["packages"], peer_messages.packages())
        return (*commits(self.checkout.subjects), *changed)

    def _note(self) -> Notice | None:
        if self._is_same and not self._changes():
            return Notice(Remark.NOTHING_DIFFERS)
        packages = self.hello()["packages"]
        for engine in engines():
            for name, here in engine.facts().items():
                if (there := packages.get(name, here)) != here:
                    return Notice(Remark.CLIENT_SHARED, {"package": name, "here": here, "there": there})
        return None

    def _made(self, reply: Mapping[str, Any], own: Side) -> LiveBaseline:
        actions = own.actions
        if reply["actions"] != list(map(str, actions)):
            there, here = (", ".join(each) or "none" for each in (reply["actions"], map(str, actions)))
            raise UsageError(
                f"{self._name}: the test has other actions there ({there}) than here ({here}); they must be the same"
            )
        cluster = peer_messages.cluster_from_json(reply["cluster"])
        servers = own.cluster.bootstrap_servers
        if set(cluster.bootstrap_servers.split(",")) & set(servers.split(",")):
            raise UsageError(
                f"{self._name}: both sides use the cluster at {servers}, so they would disturb each other; start "
                "a separate cluster for each side, as --kafka-cluster=local does"
            )
        self._brokers = PeerBrokers(self) if reply["owned"] else None
        self._apps = {name: PeerApp(self, name) for name in reply["state"]["applications"]}
        moved = [
            dataclasses.replace(action, do=functools.partial(self.call, "act", number))
            for number, action in enumerate(actions)
        ]
        return LiveBaseline(
            side=Side(
                cluster=cluster,
                brokers=self._brokers,
                apps=tuple(self._apps.values()),
                actions=tuple(moved),
                permission=own.permission,
            ),
            revision=dataclasses.replace(self.revision, commit=self.checkout.commit),
            changes=self._changes(),
            note=self._note(),
        )

    def _update(self, state: Mapping[str, Any] | None) -> None:
        """Store the other side's state, which consists of its processes and their events."""
        if self._test is None or state is None:
            return
        if self._brokers is not None:
            self._brokers.described = state["probes"]
            self._brokers.quick = state["quick"]
            self._brokers.events[:] = peer_messages.events_from_json(state["events"])
        for name, app in self._apps.items():
            found = state["applications"][name]
            app.described = found["probes"]
            app.events[:] = peer_messages.events_from_json(found["events"])

    def _send(self, do: str, *arguments: object) -> Future[dict[str, Any]]:
        number = next(self._numbers)
        reply: Future[dict[str, Any]] = Future()
        self._waiting[number] = reply
        try:
            self._channel.send(id=number, do=do, arguments=arguments)
        except OSError:
            reply.set_exception(EOFError())
        return reply

    def _await_stopped(self, timeout_s: float = _READY_TIMEOUT_S) -> None:
        """Wait until the last test's fixtures are torn down; warn if the teardown failed."""
        if self._stopping is not None:
            stopping, self._stopping = self._stopping, None
            reply = self._result(stopping, timeout_s, "did not end its test")
            if reply["ended"]:
                errors.warn(f"{self._name}: {reply['ended']}")

    def _result(self, reply: Future[dict[str, Any]], timeout_s: float, what: str) -> dict[str, Any]:
        try:
            return reply.result(timeout_s)
        except (EOFError, TimeoutError) as error:
            log = self._process.log_tail()
            how = "has exited" if isinstance(error, EOFError) else f"{what} within {timeout_s:.0f} s"
            if self._channel.skipped:
                how += f" (something there wrote {counted(self._channel.skipped, 'line')} into the connection)"
            if timeout_s >= _HELLO_TIMEOUT_S:
                self._channel.close()  # the peer hangs, so later tests should not wait for it
            raise ClusterLostError(f"{self._name} {how}", log=log) from None

    def _read(self) -> None:
        """Deliver replies to waiting requests until the connection is closed."""
        while (message := self._channel.receive()) is not None:
            waiting = self._hello if "protocol" in message else self._waiting.pop(_number_of(message), None)
            if waiting is None or waiting.done():
                self._channel.skipped += 1
            else:
                waiting.set_result(message)
        for waiting in (self._hello, *self._waiting.values()):
            if not waiting.done():
                waiting.set_exception(EOFError())


def _holds(collector: str, nodeid: str) -> bool:
    """Return True if this nodeid refers to the test or to a folder, file or class that contains the test."""
    is_root = collector in ("", ".")
    return is_root or nodeid == collector or nodeid.startswith((f"{collector}/", f"{collector}::"))


def _number_of(message: Mapping[str, Any]) -> int:
    """Return the number of the request that this message answers; 0 if it is not a reply."""
    number = message.get("id")
    return number if isinstance(number, int) else 0


@contextlib.contextmanager
def opened_peer(
    revision: Revision, settings: Settings, *, files: Sequence[str], options: Sequence[str]
) -> Iterator[Peer]:
    """Start the other side for the tests in `files` with these pytest options, and stop it afterwards.

    Raises:
        UsageError: the revision does not exist or is this side's own folder, or its setup failed.

    """
    root = settings.root
    with checked_out(revision, root, files=files, setup=settings.compare_setup) as checkout:
        there = [file for file in files if (checkout.root / file).is_file()]
        peer = Peer(revision, checkout, options, files=there, root=root)
        try:
            yield peer
        finally:
            peer.close()
