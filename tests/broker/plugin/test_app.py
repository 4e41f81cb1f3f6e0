"""Applications under test that `kafka_app` starts: a service on aiokafka between two topics, on real brokers."""

from __future__ import annotations

import time

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from tests.support import service
from tests.support.orphans import ended
from tests.support.patience import PATIENCE_S
from tests.support.project import Project, measured_again, problem_kinds, texts
from tests.support.serviced import drop_most_records, starts, through
from tests.support.strangers import topics


@pytest.mark.story
def test_a_service_runs_between_its_topics_and_leaves_nothing(
    serviced: Project, broker: Cluster, on_broker: str
) -> None:
    """The fixture makes the topics, waits for the group, and takes everything away again."""
    limits = ', "app.cpu <= 2 cores", "app.memory <= 1 GiB"'
    body = "def test_moved(service, kafka_perf):\n    kafka_perf()"
    run = serviced.test(through(body, limits=limits)).run(on_broker)
    assert run.verdicts == {"test_moved": "PASSED"}, run.out
    (test,) = run.report["tests"]
    assert 0.01 < test["metrics"]["app.cpu"]["value"] < 1.5
    assert 10e6 < test["metrics"]["app.memory"]["value"] < 500e6
    assert {"cpu", "memory"} == {*test["trials"][0]["rounds"][0]["series"]["brokers"]["brokers"]["application mover"]}
    *earlier, (pid, side, servers) = starts(serviced)
    assert (len(earlier), side, servers) == (measured_again(test), "test", broker.bootstrap_servers)
    assert ended(int(pid))
    assert not {service.SOURCE, service.TARGET} & {*topics(broker)}


def test_a_secured_cluster_is_used_by_the_environment_alone(serviced: Project) -> None:
    """A login and the certificate of an authority that was made for this run."""
    marked = through(
        "def test_moved(service, kafka_perf):\n    kafka_perf()",
        cluster='pytest.mark.kafka_cluster(security="sasl_scram+tls"),',
    )
    assert serviced.test(marked).run().verdicts == {"test_moved": "PASSED"}


def test_a_service_that_ends_under_load_makes_the_round_invalid_at_once(serviced: Project, on_broker: str) -> None:
    """Its exit status and last words are the reason, not that no record came out for ten seconds."""
    began_s = time.monotonic()
    marked = through("def test_moved(service, kafka_perf):\n    kafka_perf()", arguments=', "--most", "200"', rounds=3)
    run = serviced.test(marked.replace('"1 s"', '"1 h"')).run(on_broker)
    (test,) = run.report["tests"]
    assert (test["verdict"], problem_kinds(test)) == ("INVALID", ["application_ended"]), run.out
    lines = [line.removeprefix("E").strip() for line in run.out.splitlines()]
    said = lines.index("cannot go on: 200 records")
    pid = starts(serviced)[0][0]
    reason = f"application mover (pid {pid}) exited with status 3 the end of its log:"
    assert reason in " ".join(lines[said - 2 : said])
    assert run.out.count("cannot go on: 200 records") == 1
    assert time.monotonic() - began_s < PATIENCE_S


def test_a_failed_test_shows_how_its_application_ended(serviced: Project, on_broker: str) -> None:
    """Here after the load, which explains why the test's own code failed."""
    body = """
def test_moved(service, kafka_perf):
    kafka_perf()
    process = psutil.Process(service.pid)
    process.kill()
    for _ in range(1000):
        if process.status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.01)
    assert False, "no answer"
"""
    run = serviced.test(through(body).replace("pytestmark =", "import time\n\nimport psutil\n\npytestmark =")).run(
        on_broker
    )
    assert run.verdicts == {"test_moved": "PASSED"}, run.out
    assert "Captured mover (ended by SIGKILL) teardown" in run.out


def test_a_service_is_restarted_under_load(serviced: Project, on_broker: str) -> None:
    """As a rolling upgrade does; the report shows when."""
    body = 'def test_moved(service, kafka_perf):\n    kafka_perf.at("500 ms", service.restart)\n    kafka_perf()'
    run = serviced.test(through(body).replace('"1 s"', '"6 s"')).run(on_broker)
    (test,) = run.report["tests"]
    assert test["problems"] == [], run.out
    assert len(starts(serviced)) == 2 * (1 + measured_again(test))
    for event in ("mover stopped", "mover started", "mover ready"):
        assert any(event in warning for warning in texts(test["warnings"])), texts(test["warnings"])


FACTORY = """
@pytest.fixture(scope="module")
def kafka_cluster(kafka_cluster_factory):
    return kafka_cluster_factory()


@pytest.fixture(scope="module")
def service(kafka_app_factory, kafka_cluster):
    topics = {"moved-in": 2, "moved-out": 2}
    command = ["python", "service.py"]
    with kafka_app_factory(command, ready="group:mover", topics=topics, cluster=kafka_cluster) as app:
        yield app
    assert app.pid is None


def test_it_stops(service):
    service.stop()


def test_one(service, kafka_perf):
    kafka_perf()


def test_two(service, kafka_perf):
    kafka_perf()
"""


def test_a_service_of_a_module_serves_all_its_tests(serviced: Project) -> None:
    """It is started once, again with its brokers, whose addresses stay, and where a test has left it stopped."""
    run = serviced.test(through(FACTORY)).run()
    assert run.verdicts == {"test_one": "PASSED", "test_two": "PASSED"}, run.out
    assert len(starts(serviced)) == 2 + sum(measured_again(test) for test in run.report["tests"]), run.out


def test_the_factory_needs_a_cluster(serviced: Project, on_broker: str) -> None:
    """It belongs to no test, so it cannot know which one is meant."""
    body = 'def test_one(kafka_app_factory):\n    kafka_app_factory(["python"], ready="line:x")'
    run = serviced.test(body).run(on_broker, reports=False)
    assert "kafka_app_factory needs a cluster; pass cluster=kafka_cluster_factory()" in run.out
    assert "Traceback" not in run.out


@pytest.mark.parametrize(
    ("declared", "verdict"),
    [
        pytest.param('"e2e.latency.p50 <= 10 s"', "VIOLATED", marks=pytest.mark.story),
        ('"app.output_ratio >= 5%"', "PASSED"),
    ],
)
def test_a_service_that_drops_most_of_its_input_fails_unless_the_test_allows_it(
    serviced: Project, on_broker: str, declared: str, verdict: str
) -> None:
    """It has less to do, so it looks faster."""
    drop_most_records(serviced, on_broker, declared, verdict)


def test_one_that_ends_after_the_load_is_not_waited_for(serviced: Project, on_broker: str) -> None:
    """Its group will never commit the last record, and a minute later nobody would know why."""
    marked = through(
        "def test_moved(service, kafka_perf):\n    kafka_perf()", arguments=', "--delay-ms=20", "--most=100"'
    )
    marked = marked.replace('output_topic="moved-out"', 'watch_group="mover"').replace(", consumers=1", "")
    run = serviced.test(marked).run(on_broker)
    (test,) = run.report["tests"]
    assert (test["verdict"], problem_kinds(test)) == ("INVALID", ["application_ended"]), run.out
    assert "exited with status 3 the end of its log:" in " ".join(run.out.split())
    assert test["spans_s"]["drain"] < 30  # the wait would take a minute
