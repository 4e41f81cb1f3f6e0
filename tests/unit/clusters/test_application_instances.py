"""Applications with several instances: how they are counted, lost, replaced and scaled. No Kafka is needed for that."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.monitoring.probes import ProcessProbe
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.core.errors import ApplicationError, ClusterError, UsageError
from pytest_kafkaperf.core.notices import Event
from pytest_kafkaperf.core.units import NS_PER_S
from tests.support.orphans import becomes, ended
from tests.support.patience import ENDLESS_S, PATIENCE_S

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups need POSIX")

NOWHERE = Cluster(bootstrap_servers="127.0.0.1:1")
WAIT = f"""
import os, signal, sys, time
number = os.environ["KAFKAPERF_INSTANCE"]
signal.signal(signal.SIGTERM, lambda *_: (open(f"left-{{number}}", "w"), sys.exit()))
print(*sys.argv[1:])
print("ready", number, flush=True)
time.sleep({ENDLESS_S})
"""
RANGE = "must be an integer from 1 to 100; to stop all instances, use stop()"
Launch = Callable[..., Application]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Launch]:
    """Start an application with three instances, which are stopped afterwards."""
    started: list[Application] = []

    def start(program: str = WAIT, *arguments: str, **options: Any) -> Application:
        command = ["python", "-c", program, *arguments]
        fields = {"command": command, "instances": 3, "ready": "line:ready {instance}", "name": "shop", "cwd": tmp_path}
        recipe = Recipe.of({**fields, "timeout": f"{PATIENCE_S} s", **options})
        started.append(Application(recipe, NOWHERE))
        return started[-1].open()

    yield start
    for application in started:
        application.close()


def pids(application: Application) -> list[int | None]:
    return [each.pid for each in application.instances]


def told(application: Application) -> list[str]:
    return [str(event) for event in application.events]


def error_of(do: Callable[[], object]) -> str:
    with pytest.raises((ClusterError, UsageError)) as caught:
        do()
    return str(caught.value)


def test_each_instance_has_its_own_number_process_and_output(shop: Launch) -> None:
    """It is all that distinguishes them: a port, a folder or a client's name depends on it."""
    application = shop(WAIT, "--port=808{instance}", "{side}", env={"SHOP": "{instance}"})
    assert [each.output for each in application.instances] == [
        f"--port=808{number} test\nready {number}" for number in range(3)
    ]
    assert len({*pids(application)}) == 3
    assert application.pid == application.instances[0].pid
    assert application.output.splitlines()[:4] == ["shop-0:", "--port=8080 test", "ready 0", "shop-1:"]
    assert [title for title, _ in application.sections().values()] == [
        f"shop-{number} (running)" for number in range(3)
    ]


def test_its_resources_are_read_for_each_instance(shop: Launch) -> None:
    """The metrics are sums over all keys, and the report has a curve for each."""
    application = shop()
    application.kill(1)
    first, _, last = pids(application)
    assert first is not None
    assert last is not None
    assert application.probes() == {
        "shop-0": [ProcessProbe(first, with_children=True)],
        "shop-1": [],
        "shop-2": [ProcessProbe(last, with_children=True)],
    }


def test_it_is_ready_when_all_instances_are(shop: Launch) -> None:
    """The load would otherwise begin on a part of the fleet."""
    slow = "import os, time; print(os.getpid(), 'ready' if os.environ['KAFKAPERF_INSTANCE'] != '2' else '', flush=True)"
    with pytest.raises(ApplicationError) as caught:
        shop(f"{slow}; time.sleep({ENDLESS_S})", ready="line:ready", timeout="3 s")
    reason = "application shop was not ready within 3 s: shop-2: no line of its output contains 'ready'"
    assert caught.value.reason == reason
    written = (caught.value.log or "").split()
    assert written[::3][:1] == ["shop-0:"]
    assert all(ended(int(word)) for word in written if word.isdecimal())


def free_ports(count: int) -> int:
    """Return a number that becomes a free port with each of this many digits, outside of the range for clients."""
    for base in range(1100 + os.getpid() % 1000, 3200):  # tests that run at the same time begin elsewhere
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for number in range(count):
                stack.enter_context(socket.create_server(("127.0.0.1", int(f"{base}{number}"))))
            return base
    raise AssertionError("no ports are free")


def test_ports_of_all_instances_make_it_ready(shop: Launch) -> None:
    """Each has the port in which its number is."""
    base = free_ports(3)
    listen = "import socket, sys, time; server = socket.create_server(('127.0.0.1', int(sys.argv[1])));"
    application = shop(f"{listen} time.sleep({ENDLESS_S})", f"{base}{{instance}}", ready=f"port:{base}{{instance}}")
    assert None not in pids(application)
    application.kill(1)
    with socket.create_server(("127.0.0.1", int(f"{base}1"))):
        text = error_of(lambda: application.start(1))
    assert text.startswith(f"application shop-1 cannot be started: another program listens on its port {base}1; ")
    assert text.endswith("so choose the port depending on KAFKAPERF_INSTANCE and KAFKAPERF_SIDE")


def test_one_that_is_killed_counts_as_wanted_dead(shop: Launch, tmp_path: Path) -> None:
    """The others go on; nobody is asked to leave."""
    application = shop()
    before = pids(application)
    application.kill(1)
    assert pids(application) == [before[0], None, before[2]]
    assert ended(before[1] or 0)
    application.check()
    assert not application.is_whole
    assert list(tmp_path.glob("left-*")) == []
    assert told(application) == ["shop-1 killed (ended by SIGKILL)"]
    assert application.events[0].settled_ns is not None
    assert error_of(lambda: application.kill(1)) == (
        "instance 1 of application shop is already stopped; start it first: start(1)"
    )


def test_one_is_stopped_in_order_and_started_again(shop: Launch, tmp_path: Path) -> None:
    """As in a rolling update, one at a time."""
    application = shop()
    before = pids(application)
    application.restart(2)
    application.stop(0)
    application.restart(0)  # which is stopped already
    assert sorted(path.name for path in tmp_path.glob("left-*")) == ["left-0", "left-2"]
    assert pids(application)[1] == before[1]
    assert all(now not in (None, *before) for now in (pids(application)[0], pids(application)[2]))
    started = ["{} started", "shop ready"]
    assert told(application) == [
        "shop-2 stopped (exited with status 0)",
        *(each.format("shop-2") for each in started),
        "shop-0 stopped (exited with status 0)",
        *(each.format("shop-0") for each in started),
    ]
    assert error_of(lambda: application.start(1)) == (
        "instance 1 of application shop is already running; stop it first: stop(1)"
    )


def test_actions_on_all_instances_are_one_event(shop: Launch) -> None:
    """A line for each of ten would hide the others; they also stop at the same time."""
    application = shop()
    application.restart()
    application.stop(kill=True)
    assert told(application) == [
        "shop stopped (exited with status 0)",
        "shop started",
        "shop ready",
        "shop killed (ended by SIGKILL)",
    ]
    assert [event.settled_ns for event in application.events] == [None] * 4
    assert application.pid is None
    application.stop()  # does nothing


def test_the_last_one_that_is_lost_is_an_outage(shop: Launch) -> None:
    """Then nobody is left who commits."""
    application = shop()
    for number in range(3):
        application.kill(number)
    assert [event.settled_ns is None for event in application.events] == [False, False, True]
    application.start()
    assert told(application)[3:] == ["shop started", "shop ready"]
    assert application.events[-1].settled_ns is None


def test_the_end_of_one_that_nobody_asked_for_is_an_error(shop: Launch) -> None:
    """Two of three may be fast enough, so the test would be green."""
    program = f"import signal, sys; signal.signal(signal.SIGUSR1, lambda *_: sys.exit(3)); print('started'); {WAIT}"
    application = shop(program)
    pid = application.instances[2].pid
    assert pid is not None
    os.kill(pid, signal.SIGUSR1)
    assert becomes(lambda: ended(pid))
    for do in (application.check, lambda: application.kill(2), lambda: application.scale(2)):
        with pytest.raises(ApplicationError) as caught:
            do()
        assert caught.value.program == "application shop-2"
        assert str(caught.value) == (
            f"application shop-2 (pid {pid}) exited with status 3; the end of its log:\nstarted\n\nready 2"
        )
    assert application.sections()["application shop-2"][0] == "shop-2 (exited with status 3)"


def test_it_is_scaled_up_and_down(shop: Launch, tmp_path: Path) -> None:
    """The last ones go, after they have got time to commit."""
    application = shop()
    before = pids(application)
    application.scale(5)
    added = pids(application)[3:]
    assert pids(application)[:3] == before
    assert None not in added
    application.scale(2)
    assert pids(application) == before[:2]
    assert all(ended(pid or 0) for pid in (before[2], *added))
    assert sorted(path.name for path in tmp_path.glob("left-*")) == ["left-2", "left-3", "left-4"]
    application.check()
    assert told(application) == [
        "shop-3 started",
        "shop-4 started",
        "shop ready",
        *(f"shop-{number} stopped (exited with status 0)" for number in (2, 3, 4)),
    ]
    assert all(event.settled_ns is not None for event in application.events)
    application.scale(3)
    assert application.is_whole
    assert application.instances[2].output.endswith("ready 2")


def test_scaling_down_gives_only_so_much_time(shop: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """An instance that ignores SIGTERM is killed."""
    monkeypatch.setattr("pytest_kafkaperf.clusters.instance.STOP_TIMEOUT_S", 0.2)
    application = shop(WAIT.replace("lambda *_:", "lambda *_: None and"))
    application.scale(1)
    assert told(application) == [f"shop-{number} stopped (ended by SIGKILL)" for number in (1, 2)]


def test_an_application_with_one_instance_can_be_scaled(shop: Launch) -> None:
    """Its only one keeps the name that it has in the reports of other tests."""
    application = shop(instances=1, ready="line:ready")
    application.scale(2)
    assert told(application) == ["shop-1 started", "shop ready"]
    assert [*application.probes()] == ["shop", "shop-1"]


def test_a_fresh_start_is_that_of_the_declared_instances(shop: Launch) -> None:
    """Each trial has the same fleet, whatever the test's actions did in the trial before."""
    application = shop()
    application.scale(4)
    application.kill(0)
    application.end()
    application.launch()
    assert application.is_whole
    assert len(pids(application)) == 3
    assert len(told(application)) == 3  # no further action of the test


def test_nothing_is_left_and_nothing_starts_after_the_end(shop: Launch) -> None:
    """An action may be under way in another thread when the test is interrupted."""
    application = shop()
    application.scale(4)
    running = [*map(psutil.Process, filter(None, pids(application)))]
    application.close()
    assert all(ended(process.pid) for process in running)
    refused = "cannot start application shop-0: it was removed"
    assert error_of(application.start) == refused
    assert error_of(lambda: application.scale(5)) == "scale(5): application shop is stopped; start it first: start()"


def test_an_instance_that_is_killed_while_it_starts_ends_the_wait(shop: Launch, tmp_path: Path) -> None:
    """Else the wait would go on for all of its timeout, with the killed one missing."""
    late = (
        "import os, pathlib, time; mark = pathlib.Path('second'); print('' if mark.exists() else 'ready', flush=True);"
    )
    application = shop(f"{late} time.sleep({ENDLESS_S})", ready="line:ready", timeout="1 h")
    application.stop()
    (tmp_path / "second").touch()
    caught: list[str] = []
    starting = threading.Thread(target=lambda: caught.append(error_of(application.start)))
    starting.start()
    assert becomes(lambda: None not in pids(application))
    application.kill(1)
    starting.join(PATIENCE_S)
    assert caught == ["application shop was stopped before it was ready"]
    assert pids(application) == [None] * 3


@pytest.mark.parametrize(
    ("do", "text"),
    [
        (lambda shop: shop.kill(7), "no instance 7 of application shop; its instances are [0, 1, 2]"),
        (lambda shop: shop.kill(-1), "no instance -1 of application shop; its instances are [0, 1, 2]"),
        (lambda shop: shop.kill(True), "no instance True of application shop; its instances are [0, 1, 2]"),
        (lambda shop: shop.stop("shop-1"), "no instance 'shop-1' of application shop; its instances are [0, 1, 2]"),
        (lambda shop: shop.restart(3), "no instance 3 of application shop; its instances are [0, 1, 2]"),
        (lambda shop: shop.scale(0), f"scale(0): {RANGE}"),
        (
            lambda shop: shop.scale(101),
            f"scale(101): {RANGE}",
        ),
        (
            lambda shop: shop.scale("4"),
            f"scale('4'): {RANGE}",
        ),
        (lambda shop: shop.scale(3), "scale(3): application shop already has 3 instances"),
        (lambda shop: shop.start(), "application shop is already running; stop it first: stop()"),
    ],
)
def test_what_no_instance_can_do_is_an_error(shop: Launch, do: Callable[[Application], object], text: str) -> None:
    """The round is INVALID with these words, and the instances run on."""
    application = shop()
    before = pids(application)
    assert error_of(lambda: do(application)) == text
    assert pids(application) == before
    assert application.events == []


def test_an_event_tells_when_a_part_of_the_instances_was_gone(shop: Launch) -> None:
    """A graceful end takes a while, in which the instance may commit."""
    application = shop()
    application.stop(1)
    ((at_ns, *_, settled_ns),) = application.events
    assert isinstance(settled_ns, int)
    assert 0 <= settled_ns - at_ns < PATIENCE_S * NS_PER_S
    assert Event(1, application.events[0].kind, "shop").settled_ns is None
