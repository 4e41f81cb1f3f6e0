"""Starts and stops with failures injected at random moments: whatever happens, nothing is left.

`PYTEST_KAFKAPERF_CAMPAIGN=50` makes 50 of them, with a seed that is told; `PYTEST_KAFKAPERF_CAMPAIGN_SEED` names one.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import psutil
import pytest

from pytest_kafkaperf.clusters.brokers import distribution
from pytest_kafkaperf.clusters.docker.daemon import look
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
from tests.support.ground import SETTLE_TIMEOUT_S, Ground

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_FEW = 14
COUNT = int(os.environ.get("PYTEST_KAFKAPERF_CAMPAIGN", _FEW))
"""How many starts and stops."""
_SEED = os.environ.get("PYTEST_KAFKAPERF_CAMPAIGN_SEED")
SEED = int(_SEED) if _SEED else 922 if COUNT == _FEW else random.randrange(10**6)

_SAY_TIMEOUT_S = 60
"""Until a run says that it has come to the next stage of its life."""
_END_TIMEOUT_S = 60
"""Until a run that is to end has ended."""
_PAUSE_S = 0.05
_START_S = {"local": 4.0, "docker": 6.0}
"""About how long a start takes; a moment in it is picked at random."""
_LOAD_S = 5.0

_PROGRAM = """
import json, os, socket, sys, time
given = json.loads(sys.argv[1])
print("begun", flush=True)
from pytest_kafkaperf.clusters.brokers import local_brokers
from pytest_kafkaperf.clusters.brokers import fleet
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.spec import ClusterSpec
provider = local_brokers
if given["target"] == "docker":
    from pytest_kafkaperf.clusters.docker import docker_brokers as provider
fleet._READY_TIMEOUT_S = given["patience_s"]
taken = socket.socket()
if given["port_taken"]:
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    choose, turns = provider.free_ports, []
    def free_ports(count):
        turns.append(count)
        return choose(count) if turns[1:] else [taken.getsockname()[1], *choose(count)][:count]
    provider.free_ports = free_ports
with provision(ClusterSpec.of(given["spec"]), target=given["target"]) as cluster:
    print("ready", flush=True)
    if given["load"]:
        from pytest_kafkaperf.load.allocation import WorkerAllocation
        from pytest_kafkaperf.runner.rounds.side import Side
        from pytest_kafkaperf.runner.rounds.side_rounds import SideRounds, running
        from pytest_kafkaperf.scenarios.scenario import Scenario
        print("load", flush=True)
        began_s = time.monotonic()
        def look(*_):
            if given["raise_after_s"] is not None and time.monotonic() - began_s > given["raise_after_s"]:
                raise RuntimeError("injected")
        scenario = Scenario.of({"records": 2000, "rate": 500, "consumers": 1, "rounds": 1, "warmup": "1 s"})
        side = SideRounds(Side.of(cluster), scenario, on_progress=look)
        with running([side], WorkerAllocation()) as workers:
            side.measure(workers)
    elif given["raise_after_s"] is not None:
        raise RuntimeError("injected")
    else:
        sys.stdin.read()
"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One start and stop, and what goes wrong meanwhile."""

    provider: str
    """`local`, `docker`, or `external`: load on brokers that somebody else runs."""
    brokers: int
    failure: str
    stage: str
    """After which word of the run."""
    delay_s: float
    """After that."""
    again_s: float
    """Until the same is done once more, where it is done twice."""
    group: bool
    """Whether a signal reaches the whole process group, as it does in a terminal."""

    @property
    def in_order(self) -> bool:
        """Whether the run has a chance to clean up; otherwise the next one does it."""
        return self.failure not in ("SIGTERM", "SIGKILL")


FAILURES = (
    "exception",
    "SIGINT",
    "SIGINT twice",
    "SIGTERM",
    "SIGKILL",
    "broker killed",
    "broker stopped",
    "refused property",
    "port taken",
    "load: exception",
    "load: SIGINT",
    "load: SIGINT twice",
    "load: broker killed",
    "load: SIGTERM or SIGKILL",
)
"""Each comes once before any comes again."""


def cases(count: int, seed: int, *, docker: bool) -> Iterator[Case]:
    """The same ones for the same seed."""
    chance = random.Random(seed)
    deck: list[str] = []
    for _ in range(count):
        deck = deck or chance.sample(FAILURES, len(FAILURES))
        drawn = deck.pop()
        on_load, failure = drawn.startswith("load: "), drawn.removeprefix("load: ")
        provider, brokers = chance.choices([("local", 1), ("local", 3), ("docker", 1)], [6, 1, 2])[0]
        if provider == "docker" and not docker:
            provider = "local"
        if on_load and failure != "broker killed":
            provider, brokers = "external", 1
        if failure == "SIGTERM or SIGKILL":
            failure = chance.choice(["SIGTERM", "SIGKILL"])
        running = chance.random() < 0.4
        stage = "load" if on_load else "ready" if running or failure == "exception" else "begun"
        longest_s = _LOAD_S if on_load else 0.2 if stage == "ready" else _START_S[provider] * (1 + 0.3 * (brokers - 1))
        yield Case(
            provider=provider,
            brokers=brokers,
            failure=failure,
            stage=stage,
            delay_s=round(chance.uniform(0, longest_s), 3),
            again_s=round(chance.uniform(0, 1) ** 2, 3),
            group=chance.random() < 0.5,
        )


class PluginRun:
    """A run as a child process, that tells of each stage of its life."""

    def __init__(self, ground: Ground, **given: Any) -> None:
        target = {"external": ground.servers}.get(given["target"], given["target"])
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(given | {"target": target})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **ground.environment()},
        )
        self._words: queue.Queue[str] = queue.Queue()
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._listen, daemon=True),
            threading.Thread(target=self._collect, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def await_word(self, word: str) -> bool:
        """Whether it came so far; False where it ended before."""
        deadline = time.monotonic() + _SAY_TIMEOUT_S
        while (said := self._words.get(timeout=max(0.1, deadline - time.monotonic()))) != word:
            if not said:
                return False
        return True

    def lives_for(self, delay_s: float) -> bool:
        """Whether it lives still, so much later."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(delay_s)
        return self.process.poll() is None

    def signal(self, number: signal.Signals, *, group: bool) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number) if group else self.process.send_signal(number)

    def end(self) -> int:
        """Let it end in order, within a bound."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        status = self.process.wait(_END_TIMEOUT_S)
        for reader in self._readers:
            reader.join(SETTLE_TIMEOUT_S)
        return status

    def last_words(self) -> str:
        return "".join(self._errors[-12:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(SETTLE_TIMEOUT_S)

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self._words.put(line.strip())
        self._words.put("")

    def _collect(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            self._errors.extend(stream)


@pytest.fixture
def ground(kafka: distribution.Distribution, tmp_path: Path) -> Iterator[Ground]:
    """A cache with Kafka in it, an empty folder for temporary files, and somebody else's broker."""
    with provision(ClusterSpec(heap="300m"), target="local") as others:
        yield Ground.make(tmp_path, kafka, others.bootstrap_servers)


@pytest.mark.timeout(max(300, COUNT * 60))
def test_nothing_is_left_whatever_happens_whenever(ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    """Months of runs on one machine: what goes wrong in one must cost the next one nothing."""
    docker = look()[1] is None
    found: list[str] = []
    for number, case in enumerate(cases(COUNT, SEED, docker=docker), 1):
        began_s = time.monotonic()
        left = live_through(case, ground)
        told = f"seed {SEED}, {number} of {COUNT}, {time.monotonic() - began_s:.1f} s: {case}"
        with capsys.disabled() if COUNT != _FEW else contextlib.nullcontext():
            print("\n".join([told, *left]), flush=True)  # noqa: T201 - a campaign takes minutes
        found += [told, *left] if left else []
    assert found == [], "\n".join(found)


def live_through(case: Case, ground: Ground) -> list[str]:
    """What a case has left, although it must not."""
    before = ground.names()
    left, said = run(case, ground)
    if case.in_order:
        left += [*ground.settled(), *sorted(ground.names() - before)]
    if left or not case.in_order:
        sweep(case, ground)
        left += [f"after the next run: {each}" for each in ground.settled()]
    return [*left, said] if left else []


def run(case: Case, ground: Ground) -> tuple[list[str], str]:
    """Live through a case; gives what did not go as it must, and the run's last words."""
    with _plugin_run(case, ground) as plugin_run:
        injected = plugin_run.await_word(case.stage) and plugin_run.lives_for(case.delay_s)
        if injected:
            inject(case, plugin_run, ground)
        status = plugin_run.end()
        said = plugin_run.last_words()
    if case.failure == "port taken" and status != 0:
        return ["it did not come up on another port"], said
    if case.failure.startswith("SIGINT") and injected and case.stage != "load" and status == 0:
        return ["Ctrl-C was lost"], said  # a load can be at its end when it comes
    return [], said


def inject(case: Case, plugin_run: PluginRun, ground: Ground) -> None:
    match case.failure:
        case "SIGINT":
            plugin_run.signal(signal.SIGINT, group=case.group)
        case "SIGINT twice":
            plugin_run.signal(signal.SIGINT, group=case.group)
            if plugin_run.lives_for(case.again_s):
                plugin_run.signal(signal.SIGINT, group=case.group)
        case "SIGTERM" | "SIGKILL":
            plugin_run.signal(signal.Signals[case.failure], group=False)
        case "broker killed":
            _on_a_broker(ground, plugin_run, signal.SIGKILL, "kill")
        case "broker stopped":
            _on_a_broker(ground, plugin_run, signal.SIGSTOP, "pause")


def sweep(case: Case, ground: Ground) -> None:
    """One more run of the kind, that lives and ends in order."""
    provider = "local" if case.provider == "external" else case.provider
    with PluginRun(ground, **_given(provider)) as plugin_run:
        assert plugin_run.await_word("ready"), plugin_run.last_words()
        assert plugin_run.end() == 0, plugin_run.last_words()


def _plugin_run(case: Case, ground: Ground) -> PluginRun:
    config = {"num.io.threads": 0} if case.failure == "refused property" else {}
    given = _given(case.provider)
    given["spec"] |= {"brokers": case.brokers, "config": config}
    return PluginRun(
        ground,
        **given
        | {
            "patience_s": 8 if case.failure == "broker stopped" else 60,
            "port_taken": case.failure == "port taken",
            "load": case.stage == "load",
            "raise_after_s": case.delay_s if case.failure == "exception" else None,
        },
    )


def _given(provider: str) -> dict[str, Any]:
    return {
        "target": provider,
        "spec": {"heap": "300m"},
        "patience_s": 60,
        "port_taken": False,
        "load": False,
        "raise_after_s": None,
    }


def _on_a_broker(ground: Ground, plugin_run: PluginRun, number: signal.Signals, word: str) -> None:
    """Do it to one that there is, or to the first that comes."""
    deadline = time.monotonic() + _SAY_TIMEOUT_S
    while plugin_run.process.poll() is None and time.monotonic() < deadline:
        for broker in ground.brokers():
            with contextlib.suppress(psutil.NoSuchProcess):
                broker.send_signal(number)
                return
        for container in ground.containers():
            with contextlib.suppress(Exception):  # it does not run yet, or no longer
                getattr(container, word)()
                return
        plugin_run.lives_for(_PAUSE_S)
