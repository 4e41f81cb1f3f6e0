"""Applications under test in containers: how they start, fail, end and are removed. No Kafka is needed for that."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import NotFound

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.brokers import distribution
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.docker.daemon import connection, image_of
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ApplicationError, ClusterError
from tests.support.client_files import KEY, MADE
from tests.support.ground import labelled
from tests.support.orphans import becomes

pytestmark = pytest.mark.docker

WAIT = "echo ready; trap 'echo ended; exit 7' TERM; sleep 3600 & wait"
Launch = Callable[..., Application]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own, in force: its sweep leaves the containers of other tests alone."""
    monkeypatch.setenv(distribution.CACHE_VARIABLE, str(tmp_path))
    return tmp_path


@pytest.fixture
def run(cache: Path) -> Iterator[Launch]:
    """Start a shell script in a container as an application."""
    started: list[Application] = []

    def start(script: str, access: Access | None = None, **options: Any) -> Application:
        fields = {"image": image_of(ClusterSpec()), "command": ["sh", "-c", script], "ready": "line:ready", **options}
        cluster = Cluster(bootstrap_servers="127.0.0.1:1", access=access or Access())
        started.append(Application(Recipe.of(fields), cluster))
        return started[-1].open()

    yield start
    for application in started:
        application.close()
    assert labelled(cache) == []


def test_it_gets_the_servers_the_side_and_what_is_given_and_nothing_of_this_machine(
    run: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A path of this machine means nothing in there."""
    monkeypatch.setenv("SHOP_OF_THIS_MACHINE", "1")
    script = 'env | grep -E "^(KAFKA|SHOP)" | sort; echo "$0"; ' + WAIT
    application = run(script, command=["sh", "-c", script, "{bootstrap_servers}"], env={"SHOP": "{side}.db"})
    lines = application.output.splitlines()
    assert lines[:2] == ["KAFKAPERF_INSTANCE=0", "KAFKAPERF_SIDE=test"]
    assert {"KAFKA_BOOTSTRAP_SERVERS=127.0.0.1:1", "KAFKA_SECURITY_PROTOCOL=PLAINTEXT", "SHOP=test.db"} <= {*lines}
    assert not any("SHOP_OF" in line for line in lines)
    assert lines[-2:] == ["127.0.0.1:1", "ready"]
    assert str(application) == "kafka"


def test_it_reads_its_certificates_and_does_not_show_its_password(run: Launch) -> None:
    """Its user is another one than that of this process."""
    access = Access(protocol="SSL", trusted=MADE.authority, certificate=MADE.certificate, key=MADE.key)
    application = run(f'cat "$KAFKA_SSL_CA_FILE" "$KAFKA_SSL_KEY_FILE" | wc -c; {WAIT}', access)
    assert application.output.splitlines()[0] == str(len(MADE.authority) + len(KEY))


def test_an_error_does_not_show_the_options_of_its_jvm(run: Launch) -> None:
    """Each JVM prints what it took from the environment, and companies pass the password of a truststore there."""
    with pytest.raises(ClusterError) as raised:
        run('echo "Picked up JAVA_TOOL_OPTIONS: -Dx=hunter2"; printf "\\tat Main.java:1\\n"; echo "no disk"; exit 3')
    assert "no disk" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_it_is_stopped_in_order_and_started_again(run: Launch) -> None:
    """Each start is that of a new container, as after a deployment; its processor time and memory are read."""
    application = run(WAIT, name="shop")
    pid = application.pid
    (probe,) = application.probes()["shop"]
    assert becomes(lambda: {"cpu_s", "memory_bytes"} <= {*probe.read()})
    application.stop()
    assert (application.pid, application.probes()) == (None, {"shop": []})
    application.check()  # stopped on purpose
    assert application.output == "ready\nended"
    application.start()
    assert application.output == "ready"
    assert application.pid not in (None, pid)
    application.stop(kill=True)
    assert [str(event) for event in application.events] == [
        "shop stopped (exited with status 7)",
        *("shop started", "shop ready"),
        "shop killed (exited with status 137)",
    ]
    application.close()
    with pytest.raises(ClusterError, match="cannot start application shop: it was removed"):
        application.start()


def test_the_end_of_a_running_one_is_an_error_with_its_last_lines(run: Launch) -> None:
    """Its exit status and its words, and not those of Docker."""
    application = run("echo ready; sleep 2; echo no such table; exit 3", name="shop")

    def has_ended() -> bool:
        try:
            application.check()
        except ApplicationError as error:
            text = str(error)
            return text.startswith("application shop (container ") and text.endswith(
                ") exited with status 3; the end of its log:\nready\nno such table"
            )
        return False

    assert becomes(has_ended)
    assert application.sections() == {"application shop": ("shop (exited with status 3)", "ready\nno such table")}


def test_one_that_ends_before_it_is_ready_or_has_no_program_leaves_nothing(run: Launch) -> None:
    """The text is that of the daemon, or of the application."""
    with pytest.raises(ApplicationError, match=r"exited with status 3; the end of its log:\nno such table"):
        run("echo no such table; exit 3", timeout="1 h")
    with pytest.raises(ClusterError, match=r"application kafka could not be started: .*no-such-program"):
        run("", command=["no-such-program"])


def test_an_image_that_does_not_exist_is_named(run: Launch) -> None:
    """The fixes are those of an image, too."""
    with pytest.raises(ClusterError, match=r"the image localhost/shop/orders:1\.2 is missing and cannot be pulled: "):
        run("", image="localhost/shop/orders:1.2")


PROGRAM = """
import sys
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.cluster import Cluster

recipe = Recipe.of({"image": sys.argv[1], "command": ["sh", "-c", sys.argv[2]], "ready": "line:ready"})
application = Application(recipe, Cluster(bootstrap_servers="127.0.0.1:1")).open()
print("ready", flush=True)
sys.stdin.read()
"""


def test_what_a_killed_run_left_is_removed_by_the_next_one(run: Launch, cache: Path) -> None:
    """SIGKILL leaves no chance to clean up, and the reaper's image may not be there."""
    command = [sys.executable, "-c", PROGRAM, image_of(ClusterSpec()), WAIT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        (left,) = labelled(cache)
        process.kill()
        process.wait(20)
    run(WAIT)
    assert len(labelled(cache)) == 1
    with connection() as docker, pytest.raises(NotFound):
        docker.client.containers.get(left.id)
