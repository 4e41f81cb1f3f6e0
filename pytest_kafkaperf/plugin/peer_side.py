"""The other revision's pytest process: runs tests up to their `kafka_perf()` call, as `runner.peer.Peer` requests."""

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
from pytest_kafkaperf.runner.rounds.side import App, Side
from pytest_kafkaperf.runner.settings import Revision, Settings

_OPTIONS = ("cluster", "brokers", "quick-compiler", "jmx", "topic-prefix", "log-dirs")
_MAX_TEXT = 3000
_METHODS = ("end", "launch", "start")


def peer_options(config: pytest.Config, settings: Settings) -> list[str]:
    """Return the pytest options for the other side of this run; both sides get the same cluster options."""
    given = settings.command_line
    options = [
        f"--kafka-{name}" + (f"={given[name]}" if given[name] != "true" else "") for name in _OPTIONS if name in given
    ]
    if config.option.inifilename:
        options += ["-c", os.path.relpath(config.option.inifilename, config.rootpath)]
    # Any output files in `addopts` belong to this side.
    if config.pluginmanager.has_plugin("junitxml"):
        options.append("--junitxml=")
    if config.option.basetemp:
        options.append(f"--basetemp={config.option.basetemp}-baseline")
    # With PYTEST_DISABLE_PLUGIN_AUTOLOAD, pytest loads only the plugins that it is given.
    plugins = ["-p", "kafkaperf"] if config.pluginmanager.has_plugin("kafkaperf") else []
    # The user's `addopts` may select other tests.
    return [*plugins, "-p", __name__, "-m", "", "-k", "", *options]


def compares_with_itself(settings: Settings) -> bool:
    """Return True if `--kafka-compare` refers to this code itself; reject a revision that cannot be compared.

    Raises:
        pytest.UsageError: the revision does not exist or would run this side's code; raised once, before any test
            starts.

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
    """Run tests in this process, even if pytest-xdist is installed here."""
    config.option.numprocesses = 0
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Serve the pytest process that started this one."""
    config.pluginmanager.register(PeerSide(), PEER)


class PeerSide:
    """Keeps one test's cluster, fixtures and applications alive at a time, for the other side."""

    def __init__(self) -> None:
        self._channel = Channel(socket.socket(fileno=int(os.environ.pop(peer_messages.SOCKET))))
        self._origins = [Path(each) for each in os.environ.pop(peer_messages.ORIGIN).split(os.pathsep)]
        self._interpreter = os.environ.pop(peer_messages.INTERPRETER)
        self._own = top_folder(Path.cwd())
        """This revision's folder."""
        self._problems: dict[str, str] = {}
        """Reasons why tests were not collected, by nodeid of a folder, file, class or test."""
        self._texts: list[str] = []
        """Reason why the running test failed or was skipped."""
        self._absent: str | None = None
        """Name of a fixture that the running test needs but this revision lacks; None if there is none."""
        self._running = 0
        """Id of the message that started the test; 0 once the test is served."""
        self._stop = 0
        """Id of the message that ended the test; 0 before that."""

    def relevant(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the cluster options, the only ones that apply here; all others concern the measurement."""
        return {name: value for name, value in options.items() if name in _OPTIONS}

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Record collection errors."""
        if report.failed:
            self._problems[report.nodeid] = report.longreprtext[-_MAX_TEXT:]

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Record the tests that a plugin or `conftest.py` deselects, although this revision contains them."""
        self._problems |= {item.nodeid: "a plugin or conftest.py deselects it in that revision" for item in items}

    def pytest_runtest_makereport(self, call: pytest.CallInfo[object]) -> None:
        """Record the name of a fixture that does not exist."""
        error = None if call.excinfo is None else call.excinfo.value
        if isinstance(error, pytest.FixtureLookupError) and error.msg is None:
            self._absent = error.argname

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record the reason why a test failed or was skipped."""
        if report.failed or (report.skipped and self._running):
            self._texts.append(report.longreprtext[-_MAX_TEXT:])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests that the other side requests, until it closes the connection."""
        items = {item.nodeid: item for item in session.items}
        own = {"protocol": peer_messages.PROTOCOL, "packages": packages(), "refused": self._overlap()}
        self._channel.send(**own, collected=[*items], problems=self._problems)
        following = None
        while (message := self._channel.receive()) is not None:
            if message["do"] != "run":  # the test has already ended on its own
                ended = "\n".join(self._texts) if message["do"] != "stop" else ""
                error = f"the test has already ended in that revision: {ended}"
                lost = {"error": error, "kind": "ClusterLostError", "facts": {}}
                self._channel.send(id=message["id"], ended=ended, state=None, **lost)
                continue
            (nodeid, following), promised = message["arguments"], following
            self._running, self._stop = message["id"], 0
            self._texts.clear()
            self._absent = None
            item = items[nodeid]
            if promised not in (None, nodeid):  # the other side skipped the test whose fixtures were kept
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
        """Tell the other side that this side is ready, handle its requests, and end the test on request.

        Raises:
            UsageError: this side would run the other side's code.

        """
        if not self._running:  # another plugin is repeating the test
            pytest.skip("the other side has already measured this test")
        overlap = self._overlap([app for app in side.apps if isinstance(app, Application)])
        if overlap is not None:
            raise UsageError(overlap)
        side.keep_stopped()
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
        except BaseException as error:  # noqa: BLE001 - the other side reports it, even pytest.fail()
            kind = type(error).__name__
            reply |= {"error": f"{kind}: {error}", "kind": kind, "facts": {}}
            if isinstance(error, KafkaPerfError):
                reply |= {"error": error.reason, "facts": error.facts}
        self._channel.send(id=message["id"], **reply)

    def _overlap(self, applications: Sequence[Application] = ()) -> str | None:
        """Return the reason why this side must not run if it uses code from the other side's folder; None otherwise."""
        theirs = self._modules() | installed_from_others(self._origins, self._own)
        for each in applications:
            theirs |= self._programs(each)
        others = {name: path for name, path in theirs.items() if name.partition(".")[0] != "pytest_kafkaperf"}
        return refusal_of_shared(others)

    def _modules(self) -> dict[str, Path]:
        """Return the files of modules imported from the other side's folder, by module name."""
        files = {name: getattr(module, "__file__", None) for name, module in [*sys.modules.items()]}
        paths = {name: Path(file).resolve() for name, file in files.items() if file}
        return {name: path for name, path in paths.items() if self._is_theirs(path)}

    def _programs(self, application: Application) -> dict[str, Path]:
        """Return the other side's paths in an application's command line, by description."""
        words: list[str] = []
        with contextlib.suppress(psutil.Error):  # the process has exited, or runs in a container
            words = psutil.Process(application.pid).cmdline() if application.pid else []
        paths = [Path(word) for word in words if Path(word).is_absolute() and not word.startswith(sys.prefix)]
        theirs = [path for path in paths if self._is_theirs(path) or self._is_their_interpreter(path)]
        return {f"the program of {application}": path for path in theirs}

    def _is_theirs(self, path: Path) -> bool:
        """Return True for a file in the other side's folder, except for installed packages."""
        if "site-packages" in path.parts or path.is_relative_to(sysconfig.get_path("stdlib")):
            return False
        return is_of_others(path, self._origins, self._own)

    def _is_their_interpreter(self, path: Path) -> bool:
        """Return True for an interpreter from the other side's virtual environment, whose programs are on the PATH."""
        there = Path(self._interpreter).parent
        is_elsewhere = there != Path(sys.executable).parent
        return is_elsewhere and path.parent == there and path.name.startswith("python")


def _state(side: Side) -> dict[str, Any]:
    """Return the running processes, and the events that affected them."""
    alone = side.without_apps()
    return {
        "quick": side.quick,
        "probes": [(broker, probes_to_json(found)) for broker, found in alone.probes().items()],
        "events": side.events,
        "applications": {str(app): _app_state(app) for app in side.apps},
    }


def _app_state(app: App) -> dict[str, Any]:
    return {"probes": {name: probes_to_json(found) for name, found in app.probes().items()}, "events": app.events}


def _do(side: Side, what: str, arguments: Sequence[Any]) -> object:
    """Handle a request from the other side."""
    match what, arguments:
        case "check", []:
            side.check_brokers()
            side.check_apps()
        case "renew", [quick] if side.brokers is not None:
            side.brokers.renew(quick=quick)
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
