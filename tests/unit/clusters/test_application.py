"""Applications under test as processes: how they start, get ready, fail and end. No Kafka is needed for that."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from pytest_kafkaperf.clusters import child_process, instance
from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.core.errors import ApplicationError, ClusterError, UsageError
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.client_files import KEY, MADE
from tests.support.orphans import becomes, ended, with_word
from tests.support.patience import PATIENCE_S
from tests.support.rounds import within

pytestmark = pytest.mark.skipif(os.name != "posix", reason="process groups need POSIX")

NOWHERE = Cluster(bootstrap_servers="127.0.0.1:1")
WAIT = "import time; print('ready'); time.sleep(3600)"
ON_SIGNAL = "import os, signal, sys; signal.signal(signal.SIGUSR1, lambda *_: {do}); print('ready')"
READY = "must be 'group:NAME', 'line:TEXT', 'port:NUMBER', or a function that takes the application"
Launch = Callable[..., Application]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Launch]:
    """Start a Python program as an application."""
    started: list[Application] = []

    def start(program: str, *arguments: str, cluster: Cluster = NOWHERE, **options: Any) -> Application:
        command = ["python", "-c", program, *arguments]
        fields = {"command": command, "ready": "line:ready", "cwd": tmp_path, "timeout": f"{PATIENCE_S} s", **options}
        started.append(Application(Recipe.of(fields), cluster))
        return started[-1].open()

    yield start
    for application in started:
        application.close()


def test_a_topic_whose_leaders_do_not_come_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was created, and the next run would take it for the user's own."""
    deleted: list[str] = []

    class Slow(Admin):
        def create_topic(self, topic: str, scenario: Scenario, on_created: Callable[[], None] = lambda: None) -> None:
            del topic, scenario
            on_created()
            raise ClusterError("no leader within 20 s")

        def delete_topic(self, topic: str, *, timeout_s: float = 0.0) -> None:
            del timeout_s
            deleted.append(topic)

    monkeypatch.setattr("pytest_kafkaperf.clusters.application.Admin", Slow)
    recipe = Recipe.of({"command": ["python"], "ready": "line:ready", "cwd": tmp_path, "topics": ["orders"]})
    with pytest.raises(ClusterError, match="no leader within 20 s"):
        Application(recipe, NOWHERE).open()
    assert deleted == ["orders"]


def error_of(do: Callable[[], object]) -> str:
    try:
        do()
    except ClusterError as error:
        return str(error)
    return ""


def failure_of(application: Application) -> str:
    """Have a program end by itself; the text of the error."""
    process = psutil.Process(application.pid)
    process.send_signal(signal.SIGUSR1)
    assert becomes(lambda: ended(process.pid))
    with pytest.raises(ApplicationError) as caught:
        application.check()
    return str(caught.value)


def test_it_gets_the_servers_the_side_and_what_is_given(
    run: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A login of another cluster in the user's shell must not reach it."""
    monkeypatch.setenv("KAFKA_SASL_PASSWORD", "elsewhere")
    program = (
        "import os, sys; print(*sorted(f'{k}={v}' for k, v in os.environ.items() if k.startswith(('KAFKA', 'SHOP'))));"
        "print(sys.argv[1], os.getcwd()); print('ready')"
    )
    program += "; import time; time.sleep(3600)"
    own = {"SHOP": 7, "SHOP_DATA": "{side}.db", "SHOP_KAFKA": "{bootstrap_servers}"}
    application = run(program, "--at={bootstrap_servers}", env=own)
    assert application.output.splitlines()[:2] == [
        "KAFKAPERF_INSTANCE=0 KAFKAPERF_SIDE=test KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:1 "
        "KAFKA_SECURITY_PROTOCOL=PLAINTEXT SHOP=7 SHOP_DATA=test.db SHOP_KAFKA=127.0.0.1:1",
        f"--at=127.0.0.1:1 {tmp_path}",
    ]


def test_its_login_is_in_its_environment_and_not_in_its_output(run: Launch) -> None:
    """A service that logs its configuration must not put the password into a report."""
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": "shop",
        "sasl_plain_password": "open sesame",
    }
    secured = Cluster(bootstrap_servers="127.0.0.1:1", client_config=login)
    program = "import os; e = os.environ; print(e['KAFKA_SASL_MECHANISM'], e['KAFKA_SASL_USERNAME']);"
    program += f"print(len(e['KAFKA_SASL_PASSWORD']), e['KAFKA_SASL_PASSWORD']); {WAIT}"
    assert run(program, cluster=secured).output == "SCRAM-SHA-256 shop\n11 ***\nready"


def test_one_that_ends_before_it_is_ready_says_how_at_once(run: Launch) -> None:
    """A missing module is known after a tenth of a second, not after the timeout."""
    with pytest.raises(ApplicationError) as caught:
        run("import sys; print('no such table'); sys.exit(3)", name="billing", timeout="1 h")
    text = str(caught.value)
    assert text.startswith("application billing (pid ")
    assert text.endswith(") exited with status 3; the end of its log:\nno such table")


def test_one_that_is_not_ready_in_time_is_ended(run: Launch) -> None:
    """The test would otherwise measure a service that does nothing."""
    with pytest.raises(ApplicationError) as caught:
        run("import os, time; print(os.getpid()); time.sleep(3600)", ready="line:up", timeout="3 s", name="billing")
    *reason, pid = str(caught.value).splitlines()
    assert reason == [
        "application billing was not ready within 3 s: no line of its output contains 'up'; the end of its log:"
    ]
    assert ended(int(pid))


def test_one_that_cannot_listen_is_told_how_both_sides_can(run: Launch) -> None:
    """Two instances run at the same time; most programs end with these words of the system."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"import socket; socket.create_server({server.getsockname()})"
        with pytest.raises(ApplicationError, match="listens on its port; in a side-by-side comparison, it may"):
            run(program, ready="line:listening")


def test_a_port_makes_it_ready(run: Launch) -> None:
    """And one that is taken by another program before is an error, because that would look ready at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(ApplicationError, match=f"another program listens on its port {port}"):
            run(WAIT, ready=f"port:{port}")
    program = f"import socket, time; server = socket.create_server(('127.0.0.1', {port})); time.sleep(3600)"
    assert run(program, ready=f"port:{port}").pid is not None


def test_a_function_makes_it_ready(run: Launch, tmp_path: Path) -> None:
    """It may ask anything, and while that refuses connections the application is not ready."""

    def answers(application: Application) -> bool:
        assert application.side == "test"
        return (tmp_path / "up").read_text() == "1"  # raises FileNotFoundError at first

    assert (
        run("import pathlib, time; pathlib.Path('up').write_text('1'); time.sleep(3600)", ready=answers).pid is not None
    )
    with pytest.raises(ApplicationError, match="was not ready within 100 ms: .*No such file"):
        run(WAIT, ready=lambda _: (tmp_path / "down").read_text(), timeout="100 ms")


def test_a_function_that_never_returns_is_waited_for_until_the_timeout(run: Launch) -> None:
    """A request without a time limit, to a service that accepts connections and answers none."""
    released = threading.Event()
    try:
        with within(10), pytest.raises(ApplicationError, match="within 200 ms: its function `ready` has not returned"):
            run(WAIT, ready=lambda _: released.wait(60), timeout="200 ms")
    finally:
        released.set()


def test_an_outcome_of_a_function_is_the_tests_own(run: Launch) -> None:
    """It may skip or fail the test, in another thread, too."""
    with pytest.raises(pytest.fail.Exception, match="wrong schema"):
        run(WAIT, ready=lambda _: pytest.fail("wrong schema"))


def test_the_end_of_a_running_one_is_an_error_with_its_last_lines(run: Launch) -> None:
    """Its thousands of lines before that explain nothing, and must not fill the memory."""
    application = run(f"{ON_SIGNAL.format(do='sys.exit(2)')}; [print(n, 'x' * n) for n in range(5000)]; signal.pause()")
    text = failure_of(application)
    assert "exited with status 2; the end of its log:" in text
    assert len(text) < 40_000
    with pytest.raises(ApplicationError, match="exited with status 2"):
        application.check()  # every round of the run says so
    ((title, _),) = application.sections().values()
    assert title.endswith("(exited with status 2)")


def test_it_is_stopped_in_order_and_started_again(run: Launch, tmp_path: Path) -> None:
    """A service commits its offsets when it gets SIGTERM."""
    program = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (open('done', 'w'), sys.exit()))\n"
    application = run(program + WAIT, name="shop")
    pid = application.pid
    application.stop()
    assert (tmp_path / "done").exists()
    assert ended(pid or 0)
    application.check()  # stopped on purpose
    application.start()
    assert application.pid not in (None, pid)
    with pytest.raises(UsageError, match=r"application shop is already running; stop it first"):
        application.start()
    application.restart()
    texts = [str(event) for event in application.events]
    stopped = "shop stopped (exited with status 0)"
    assert texts == [stopped, "shop started", "shop ready", stopped, "shop started", "shop ready"]
    assert sorted(application.events) == application.events


def test_a_crash_leaves_it_no_time(run: Launch, tmp_path: Path) -> None:
    """It commits nothing then, and stays a member of its group."""
    program = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: (open('done', 'w'), sys.exit()))\n"
    application = run(program + WAIT, name="shop")
    pid = application.pid
    application.stop(kill=True)
    assert ended(pid or 0)
    assert not (tmp_path / "done").exists()
    assert [str(event) for event in application.events] == ["shop killed (ended by SIGKILL)"]


def test_one_that_ignores_sigterm_is_killed_with_its_children(run: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that is left behind would go on consuming in the next test."""
    monkeypatch.setattr(instance, "STOP_TIMEOUT_S", 0.2)
    program = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'], preexec_fn=lambda: "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)); print(child.pid); print('ready'); time.sleep(3600)"
    )
    application = run(program)
    pid, child = application.pid, int(application.output.splitlines()[0])
    application.stop()
    assert ended(pid or 0)
    assert becomes(lambda: ended(child))


def test_it_starts_again_only_when_it_has_ended(run: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two instances at once would hide the outage that the test is about."""
    monkeypatch.setattr(instance, "STOP_TIMEOUT_S", 1)
    slow = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); time.sleep(3600)"
    application = run(slow)
    before = application.pid or 0
    stopping = threading.Thread(target=application.stop)
    stopping.start()
    assert becomes(lambda: application.pid is None)
    application.start()
    stopping.join()
    assert ended(before)
    assert [str(event) for event in application.events] == [
        f"{application} stopped (ended by SIGKILL)",
        f"{application} started",
        f"{application} ready",
    ]


@pytest.mark.parametrize("action", ["start", "restart"])
def test_actions_at_the_same_time_leave_one_instance(run: Launch, action: str) -> None:
    """A second instance would share the load, and nobody would end it."""
    application = run(f"'instance'; {WAIT}")
    application.stop()
    together = threading.Barrier(8)
    refused: list[str] = []

    def act() -> None:
        together.wait()
        try:
            getattr(application, action)()
        except (ClusterError, UsageError) as error:
            refused.append(str(error))

    threads = [threading.Thread(target=act) for _ in range(together.parties)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    instances = [each.pid for each in with_word(psutil.Process().children(), "'instance'") if not ended(each.pid)]
    assert instances == [application.pid]
    if action == "start":
        running = f"application {application} is already running; stop it first: stop()"
        assert refused == [running] * (together.parties - 1)


def test_one_that_prints_without_end_does_not_fill_the_disk(run: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may print a line for each record, in a run of hours."""
    monkeypatch.setattr(child_process, "_MOST_BYTES", 10_000)
    application = run("import time; print('x' * 20_000); print('ready'); time.sleep(3600)", ready="line:ready")
    application.check()
    assert application.output == ""


def test_one_that_is_stopped_while_it_starts_is_told_at_once(run: Launch) -> None:
    """Else the wait for it would go on for all of its timeout."""
    program = (
        "import pathlib, time; mark = pathlib.Path('second'); is_second = mark.exists(); mark.touch();"
        "print('' if is_second else 'ready'); time.sleep(3600)"
    )
    application = run(program, timeout="1 h")
    application.stop()
    starting = threading.Thread(target=lambda: caught.append(error_of(application.start)))
    caught: list[str] = []
    starting.start()
    assert becomes(lambda: application.pid is not None)
    application.stop()
    starting.join(PATIENCE_S)
    assert caught == [f"application {application} was stopped before it was ready"]


@pytest.mark.skipif(sys.platform != "linux", reason="prctl")
def test_children_that_nothing_collects_do_not_hold_up_its_end(run: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container pytest may be the first process, and does not wait for the children of others."""
    monkeypatch.setattr(instance, "STOP_TIMEOUT_S", 2 * PATIENCE_S)
    program = (
        "import subprocess, sys, time; child = subprocess.Popen(['sleep', '3600']); print(child.pid); print('ready')"
    )
    adopt_orphans = functools.partial(ctypes.CDLL(None).prctl, 36)  # PR_SET_CHILD_SUBREAPER of prctl(2)
    adopt_orphans(1, 0, 0, 0)
    try:
        application = run(f"{program}; time.sleep(3600)")
        child = int(application.output.splitlines()[0])
        with within(PATIENCE_S):
            application.stop()
        assert psutil.Process(child).status() == psutil.STATUS_ZOMBIE
        os.waitpid(child, 0)
    finally:
        adopt_orphans(0, 0, 0, 0)


def test_its_children_end_with_it(run: Launch) -> None:
    """One that has crashed leaves none of them."""
    child = (
        "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)']).pid)"
    )
    application = run(f"{child}; {ON_SIGNAL.format(do='os.abort()')}; signal.pause()")
    assert all(title.endswith("(running)") for title, _ in application.sections().values())
    process = psutil.Process(application.pid)
    process.send_signal(signal.SIGUSR1)
    assert becomes(lambda: ended(process.pid))
    ((title, _),) = application.sections().values()
    assert title.endswith("(ended by SIGABRT)")  # which leaves no child, either
    assert becomes(lambda: ended(int(application.output.splitlines()[0])))


def test_a_new_start_forgets_what_it_wrote_before(run: Launch) -> None:
    """Lines about brokers that the plugin has restarted say nothing about a later failure."""
    application = run(f"import os; print(os.getpid()); {WAIT}")
    before = application.pid
    application.end()
    assert application.pid is None
    application.launch()
    assert application.output == f"{application.pid}\nready"
    assert application.pid != before
    assert application.events == []  # no action of the test


PROGRAM = """
import sys
import threading
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.cluster import Cluster

child = "import subprocess, sys, time; c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])"
program = f"{child}; print(c.pid); print('ready'); time.sleep(3600)"
recipe = Recipe.of({"command": ["python", "-c", program], "ready": "line:ready"})
application = Application(recipe, Cluster(bootstrap_servers="127.0.0.1:1")).open()
print(application.pid, application.output.split()[0], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_a_run_that_had_no_chance_to_stop_it(by: signal.Signals) -> None:
    """A CI system that cancels a job leaves nothing that consumes."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], **pipes) as process:  # type: ignore[call-overload]
        pids = [int(word) for word in process.stdout.readline().split()]
        assert all(psutil.pid_exists(pid) for pid in pids)
        process.send_signal(by)
        process.wait(PATIENCE_S)
        assert becomes(lambda: all(map(ended, pids)))


def test_certificates_are_in_files_of_the_user_alone(run: Launch) -> None:
    """Clients of other languages take paths; the files are gone when the application is closed."""
    access = Access(protocol="SSL", trusted=MADE.authority, certificate=MADE.certificate, key=MADE.key)
    names = ("KAFKA_SSL_CA_FILE", "KAFKA_SSL_CERTIFICATE_FILE", "KAFKA_SSL_KEY_FILE")
    program = f"import os; print(*(os.environ[name] for name in {names})); {WAIT}"
    application = run(program, cluster=Cluster(bootstrap_servers="127.0.0.1:1", access=access))
    files = [Path(word) for word in application.output.splitlines()[0].split()]
    assert [file.read_text() for file in files] == [MADE.authority, MADE.certificate, KEY]
    assert files[0].parent.stat().st_mode & 0o777 == 0o700
    application.close()
    assert not files[0].parent.exists()


def test_one_that_is_closed_stays_so(run: Launch) -> None:
    """An action of a test that was interrupted would otherwise leave a process behind."""
    application = run(WAIT, name="shop")
    application.close()
    with pytest.raises(ClusterError, match="cannot start application shop: it was removed"):
        application.start()
    assert application.pid is None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"command": "python -m orders"},
            "command='python -m orders': must be a list of words, for example ['python', '-m', 'orders'], unless",
        ),
        (
            {"command": []},
            "command=[]: must be a list of words, for example ['python', '-m', 'orders'], unless image",
        ),
        ({"command": "run", "image": "orders:1.2"}, "command='run': must be a list of words"),
        ({"ready": "up"}, f"ready='up': {READY}"),
        ({"ready": "group:"}, f"ready='group:': {READY}"),
        ({"ready": "port:http"}, f"ready='port:http': {READY}"),
        ({"ready": "port:99999"}, f"ready='port:99999': {READY}"),
        (
            {"topics": "orders"},
            "topics='orders': must be a list of names, or a mapping of names to numbers of partitions",
        ),
        ({"topics": {"orders": 0}}, "topics.orders=0: must be greater than or equal to 1"),
        ({"topics": ("__orders",)}, "topics.__orders"),
        ({"timeout": 30}, "timeout=30: "),
        ({"environment": {}}, "unknown field 'environment': "),
    ],
)
def test_what_cannot_be_run_is_refused(fields: dict[str, Any], problem: str) -> None:
    """Before anything is started, in the words of the markers."""
    with pytest.raises(UsageError) as caught:
        Recipe.of({"command": ["x"], "ready": "line:x", **fields}, where="kafka_app: ")
    assert str(caught.value).startswith(f"kafka_app: {problem}")


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """The error is that of the system, after the name of the application."""
    recipe = Recipe.of({"command": ["./ordrs"], "ready": "line:x", "cwd": tmp_path})
    with pytest.raises(UsageError, match=r"application ordrs cannot be started: .* directory: './ordrs'"):
        Application(recipe, NOWHERE).open()


def test_a_command_that_is_not_on_the_path_is_an_error_with_what_to_do(tmp_path: Path) -> None:
    """The service is often installed in another environment than pytest."""
    recipe = Recipe.of({"command": ["ordrs-service"], "ready": "line:x", "cwd": tmp_path})
    with pytest.raises(UsageError) as caught:
        Application(recipe, NOWHERE).open()
    assert str(caught.value) == (
        "application ordrs-service cannot be started: the command 'ordrs-service' was not found on the PATH; install "
        "it in this environment, or give the path of its file"
    )


@pytest.mark.parametrize("env", [{"A=B": "1"}, {"A": "\0"}])
def test_what_cannot_be_in_an_environment_is_told(env: dict[str, str], tmp_path: Path) -> None:
    """By the name of the application, as other reasons why it cannot be started."""
    recipe = Recipe.of({"command": ["python"], "ready": "line:x", "cwd": tmp_path, "env": env})
    with pytest.raises(UsageError, match=r"application python cannot be started: (illegal|embedded)"):
        Application(recipe, NOWHERE).open()


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("orders", "orders"),
        ("registry:5000/shop/orders:1.2", "orders"),
        ("registry/orders@sha256:0123", "orders"),
        ("localhost:5000/orders", "orders"),
    ],
)
def test_the_name_of_a_container_is_that_of_its_image(image: str, name: str) -> None:
    """Without the registry and the version, so that a new version has the same name; it needs no command."""
    assert str(Application(Recipe.of({"image": image, "ready": "line:x"}), NOWHERE)) == name


def test_a_process_needs_a_command() -> None:
    """The two ways are named."""
    with pytest.raises(UsageError, match=r"^command=\(\): must be a list of words, .*, unless image is set$"):
        Recipe.of({"ready": "line:x"})


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["python", "-m", "orders"], "orders"),
        (["python", "src/enricher.py", "--fast"], "enricher"),
        ([sys.executable, "-c", "pass"], "python"),
        (["-v"], "-v"),
        (["/opt/shop/bin/shopd", "run"], "shopd"),
        (["python"], "python"),
    ],
)
def test_its_name_is_that_of_its_program(command: list[str], name: str) -> None:
    """Reports show it."""
    assert str(Application(Recipe.of({"command": command, "ready": "line:x"}), NOWHERE)) == name
