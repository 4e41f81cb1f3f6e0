"""The pytest of the other revision: it runs tests as `runner.peer.Peer` asks, up to their call of `kafka_perf()`."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import sysconfig
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from numbers import Real
from pathlib import Path
from typing import Any, Never

import psutil
import pytest

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.core.environment import current_commit
from pytest_kafkaperf.core.errors import KafkaPerfError, UsageError
from pytest_kafkaperf.plugin.items import PEER
from pytest_kafkaperf.runner import peer_messages
from pytest_kafkaperf.runner.checkout import (
    check_revision,
    installed_from_others,
    is_base,
    is_of_others,
    refusal_of_shared,
    top_folder,
)
from pytest_kafkaperf.runner.peer_messages import Channel, packages, probes_to_json
from pytest_kafkaperf.runner.rounds.side import Side
from pytest_kafkaperf.runner.settings import Revision, Settings

_OPTIONS = ("cluster", "brokers", "low-noise", "jmx", "topic-prefix", "log-dirs")
_MAX_TEXT = 3000
_METHODS = ("end", "launch", "start")


def peer_options(config: pytest.Config, settings: Settings) -> list[str]:
    """Return pytest's options for the other side of a run with this configuration; the cluster's are the same there."""
    given = settings.command_line
    options = [
        f"--kafka-{name}" + (f"={given[name]}" if given[name] != "true" else "") for name in _OPTIONS if name in given
    ]
    if config.option.inifilename:
        options += ["-c", os.path.relpath(config.option.inifilename, config.rootpath)]
    # Files that `addopts` may name are those of this side.
    if config.pluginmanager.has_plugin("junitxml"):
        options.append("--junitxml=")
    if config.option.basetemp:
        options.append(f"--basetemp={config.option.basetemp}-baseline")
    # The user's `addopts` may select other tests.
    return ["-p", __name__, "-m", "", "-k", "", *options]


def compares_with_itself(settings: Settings) -> bool:
    """Return True if `--kafka-compare` leads to this code itself; refuse a revision that cannot be compared.

    Raises:
        pytest.UsageError: it is not there, or would use this side's code: one error for all tests, before any starts.

    """
    revision, root = settings.compare, settings.root
    if not isinstance(revision, Revision):
        return False
    try:
        found = is_base(revision, root, current_commit(root, besides=settings.baselines))
        if not found:
            check_revision(revision, root, setup=settings.compare_setup)
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None
    return found


@pytest.hookimpl(wrapper=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, Any, Any]:
    """Run in this process, if pytest-xdist is installed here."""
    config.option.numprocesses = 0
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Serve the pytest that has started this one."""
    config.pluginmanager.register(PeerSide(), PEER)


class PeerSide:
    """Keeps the cluster, the fixtures and the applications of one test at a time alive for the other side."""

    def __init__(self) -> None:
        self._channel = Channel(socket.socket(fileno=int(os.environ.pop(peer_messages.SOCKET))))
        self._origins = [Path(each) for each in os.environ.pop(peer_messages.ORIGIN).split(os.pathsep)]
        self._interpreter = os.environ.pop(peer_messages.INTERPRETER)
        self._own = top_folder(Path.cwd())
        """Folder of this revision."""
        self._problems: dict[str, str] = {}
        """Reasons why tests were not collected, by nodeid of a folder, file, class or test."""
        self._texts: list[str] = []
        """Reasons of the running test's failures."""
        self._absent: str | None = None
        """Fixture that the running test needs, and that this revision lacks."""
        self._running = 0
        """Id of the message that began the test; 0 once the test is served."""
        self._stop = 0
        """Id of the message that ended it; 0 before that."""

    def relevant(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options that count here: those of the cluster. Everything else concerns the measurement."""
        return {name: value for name, value in options.items() if name in _OPTIONS}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the errors of the collection."""
        if report.failed:
            self._problems[report.nodeid] = report.longreprtext[-_MAX_TEXT:]

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Keep the tests that a plugin or `conftest.py` leaves out: this revision has them."""
        self._problems |= {item.nodeid: "a plugin or conftest.py deselects it there" for item in items}

    def pytest_runtest_makereport(self, call: pytest.CallInfo[object]) -> None:
        """Keep the name of a fixture that does not exist."""
        error = None if call.excinfo is None else call.excinfo.value
        if isinstance(error, pytest.FixtureLookupError) and error.msg is None:
            self._absent = error.argname

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the reason why a test ended."""
        if report.failed or (report.skipped and self._running):
            self._texts.append(report.longreprtext[-_MAX_TEXT:])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests that the other side asks for, until it ends the connection."""
        items = {item.nodeid: item for item in session.items}
        own = {"protocol": peer_messages.PROTOCOL, "packages": packages(), "refused": self._overlap()}
        self._channel.send(**own, collected=[*items], problems=self._problems)
        following = None
        while (message := self._channel.receive()) is not None:
            if message["do"] != "run":  # after the test has ended by itself
                ended = "\n".join(self._texts) if message["do"] != "stop" else ""
                error = f"the test has ended there: {ended}"
                self._channel.send(id=message["id"], ended=ended, state=None, error=error, kind="ClusterLostError")
                continue
            (nodeid, following), promised = message["arguments"], following
            self._running, self._stop = message["id"], 0
            self._texts.clear()
            self._absent = None
            item = items[nodeid]
            if promised not in (None, nodeid):  # the other side has skipped the test for which fixtures were kept
                session._setupstate.teardown_exact(item)  # noqa: SLF001
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=items.get(following))
            ended = "\n".join(self._texts)
            if self._running:
                ended = ended or "it did not call kafka_perf()"
                self._channel.send(id=self._running, ended=ended, absent=self._absent)
            elif self._stop:
                self._channel.send(id=self._stop, ended=ended)
        return True

    def serve(self, side: Side) -> Never:
        """Tell the other side that this one is ready, do what it asks, and end the test when it says so.

        Raises:
            UsageError: this side's code is the other one's.

        """
        if not self._running:  # another plugin repeats the test
            pytest.skip("the other side has measured it before")
        overlap = self._overlap([app for app in side.apps if isinstance(app, Application)])
        if overlap is not None:
            raise UsageError(overlap)
        number, self._running = self._running, 0
        self._channel.send(
            id=number,
            cluster=peer_messages.cluster_to_json(provision.with_config(side.cluster)),
            owned=side.brokers is not None,
            actions=[*map(str, side.actions)],
            state=_state(side),
        )
        with ThreadPoolExecutor(thread_name_prefix="kafkaperf-peer") as threads:
            while (message := self._channel.receive()) is not None and message["do"] != "stop":
                threads.submit(self._answer, side, message)
        if message is not None:
            self._stop = message["id"]
        pytest.skip("the other side has measured this test")

    def _answer(self, side: Side, message: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"value": None, "state": None}
        try:
            reply = {"value": _do(side, message["do"], message["arguments"]), "state": _state(side)}
        except BaseException as error:  # noqa: BLE001 - the other side shows it, also pytest.fail()
            kind = type(error).__name__
            text = str(error) if isinstance(error, KafkaPerfError) else f"{kind}: {error}"
            reply |= {"error": text, "kind": kind}
        self._channel.send(id=message["id"], **reply)

    def _overlap(self, applications: Sequence[Application] = ()) -> str | None:
        """Return why this side must not run, if it uses code of the other side's folder; None if it uses none."""
        theirs = self._modules() | installed_from_others(self._origins, self._own)
        for each in applications:
            theirs |= self._programs(each)
        others = {name: path for name, path in theirs.items() if name.partition(".")[0] != "pytest_kafkaperf"}
        return refusal_of_shared(others)

    def _modules(self) -> dict[str, Path]:
        """Return the other side's files of imported modules, by name."""
        files = {name: getattr(module, "__file__", None) for name, module in [*sys.modules.items()]}
        paths = {name: Path(file).resolve() for name, file in files.items() if file}
        return {name: path for name, path in paths.items() if self._is_theirs(path)}

    def _programs(self, application: Application) -> dict[str, Path]:
        """Return the other side's files in the command line of an application, by a description."""
        words: list[str] = []
        with contextlib.suppress(psutil.Error):  # it has ended, or is in a container
            words = psutil.Process(application.pid).cmdline() if application.pid else []
        paths = [Path(word) for word in words if Path(word).is_absolute() and not word.startswith(sys.prefix)]
        theirs = [path for path in paths if self._is_theirs(path) or self._is_their_interpreter(path)]
        return {f"the program of {application}": path for path in theirs}

    def _is_theirs(self, path: Path) -> bool:
        """Return True for a file of the other side's folder; that of installed packages is not looked at."""
        if "site-packages" in path.parts or path.is_relative_to(sysconfig.get_path("stdlib")):
            return False
        return is_of_others(path, self._origins, self._own)

    def _is_their_interpreter(self, path: Path) -> bool:
        """Return True for an interpreter of the other side's environment, of which the PATH has all programs."""
        there = Path(self._interpreter).parent
        is_elsewhere = there != Path(sys.executable).parent
        return is_elsewhere and path.parent == there and path.name.startswith("python")


def _state(side: Side) -> dict[str, Any]:
    """Return the processes that run now, and what was done to them."""
    alone = side.without_apps()
    return {
        "probes": [(broker, probes_to_json(found)) for broker, found in alone.probes().items()],
        "events": side.events,
        "applications": {str(app): {"probes": probes_to_json(app.probes()), "events": app.events} for app in side.apps},
    }


def _do(side: Side, what: str, arguments: Sequence[Any]) -> object:
    """Do what the other side asks for."""
    match what, arguments:
        case "check", []:
            side.check_brokers()
            side.check_apps()
        case "renew", [] if side.brokers is not None:
            side.brokers.renew()
        case "act", [number]:
            value = side.actions[number].do()
            if isinstance(value, Real):
                return float(value)
            return None if value is None else str(value)
        case "application", [name, method] if method in _METHODS:
            app = next(each for each in side.apps if str(each) == name)
            getattr(app, method)()
        case _:
            raise UsageError(f"unknown message {what} {arguments}")
    return None
