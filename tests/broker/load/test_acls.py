"""A cluster that refuses what nobody has granted: what is missing is told so that an administrator can grant it."""

from __future__ import annotations

import argparse
import re
import secrets
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import javaproperties
import psutil
import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.admin import CreateAclsRequest

from pytest_kafkaperf.clusters.admin.acls import Operation, Resource, refusal
from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.admin.preflight import Preflight
from pytest_kafkaperf.clusters.application import Application
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.clusters.provision import provision
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import run_scenario
from tests.support.sink import running_sink
from tests.support.strangers import left_behind, make_topic, on_a_loop

if TYPE_CHECKING:
    from collections.abc import Iterator

ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}
RESOURCES = {"topic": 2, "group": 3, "transactional-id": 5}
"""Kafka's codes, by the option of its tool."""
OPERATIONS = {"Read": 3, "Write": 4, "Create": 5, "Delete": 6, "Describe": 8}
ALLOW = 3
COMMAND = re.compile(r"kafka-acls (--bootstrap-server .+)")
SHORT: dict[str, Any] = {"records": 200, "warmup": 0, "rounds": 1}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cluster]:
    """Clients log in as `kafkaperf`, who may do nothing; brokers among themselves may do anything."""
    with provision(ClusterSpec(security="sasl_plain", config=ACLS), target="local") as cluster:
        make_topic(inside(cluster), "orders")
        yield cluster


def inside(cluster: Cluster) -> Cluster:
    """The same cluster as its operator sees it: by the listener between brokers."""
    (pid,) = cluster.pids
    properties = javaproperties.loads(Path(psutil.Process(pid).cmdline()[-1]).read_text(encoding="latin-1"))
    listeners = dict(listener.split("://") for listener in properties["advertised.listeners"].split(","))
    return Cluster(bootstrap_servers=listeners["INTERNAL"])


def refusals(cluster: Cluster, **fields: Any) -> list[str]:
    """Why a scenario cannot run there."""
    with pytest.raises(ClusterError) as raised:
        run_scenario(Scenario.of(SHORT | fields), cluster)
    return str(raised.value).splitlines()


def run_advice(cluster: Cluster, refused: list[str]) -> None:
    """Grant what the errors say, as Kafka's own tool would; it is not among the jars of a broker any more."""
    requests = [
        request for text in refused for request in asked_for(cluster, text.partition("; or use an existing")[0])
    ]

    async def grant() -> None:
        client = AIOKafkaClient(bootstrap_servers=inside(cluster).bootstrap_servers)
        await client.bootstrap()
        try:
            for request in requests:
                answer = await client.send(client.get_random_node(), request)
                assert [code for code, *_ in answer.creation_responses] == [0]
        finally:
            await client.close()

    on_a_loop(grant())


def asked_for(cluster: Cluster, text: str) -> Iterator[Any]:
    """What the command in an error asks for; it must be one that the tool takes."""
    match = COMMAND.search(text)
    assert match is not None, text
    parser = argparse.ArgumentParser(exit_on_error=False)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--add", action="store_true", required=True)
    parser.add_argument("--allow-principal", required=True)
    parser.add_argument("--operation", action="append", required=True)
    parser.add_argument("--resource-pattern-type", default="literal")
    for kind in RESOURCES:
        parser.add_argument(f"--{kind}")
    given = parser.parse_args(shlex.split(match[1]))
    assert given.bootstrap_server == cluster.bootstrap_servers
    ((code, name),) = [
        (code, name) for kind, code in RESOURCES.items() if (name := getattr(given, kind.replace("-", "_"))) is not None
    ]
    for operation in given.operation:
        pattern = {"literal": 3, "prefixed": 4}[given.resource_pattern_type]
        yield CreateAclsRequest(code, name, pattern, given.allow_principal, "*", OPERATIONS[operation], ALLOW)


def test_what_is_missing_is_told_step_by_step_until_the_load_runs(guarded: Cluster) -> None:
    """Each advice, followed to the letter, takes the run one step further; nothing of a step stays behind."""
    servers = guarded.bootstrap_servers
    granting = (
        f"an administrator can grant it: kafka-acls --bootstrap-server {servers} --add --allow-principal User:kafkaperf"
    )

    refused = refusals(guarded, consumers=1, transaction_size=100)
    assert refused == [
        "the run cannot create its topic: the cluster does not grant READ, WRITE, CREATE, DELETE and DESCRIBE on "
        f"topics that start with 'kafkaperf-' to user 'kafkaperf'; {granting} --operation Read --operation Write "
        "--operation Create --operation Delete --operation Describe --topic kafkaperf- --resource-pattern-type "
        "prefixed; or use an existing topic: topic='NAME'"
    ]
    run_advice(guarded, refused)

    refused = refusals(guarded, consumers=1, transaction_size=100)
    assert refused == [
        "the cluster does not grant READ and DELETE on groups that start with 'kafkaperf-' to user 'kafkaperf'; "
        f"{granting} --operation Read --operation Delete --group kafkaperf- --resource-pattern-type prefixed",
        "the cluster does not grant WRITE and DESCRIBE on transactional ids that start with 'kafkaperf-' to user "
        f"'kafkaperf'; {granting} --operation Write --operation Describe --transactional-id kafkaperf- "
        "--resource-pattern-type prefixed",
    ]
    run_advice(guarded, refused)

    (one,) = run_scenario(Scenario.of(SHORT | {"consumers": 1, "transaction_size": 100}), guarded)
    assert (one.problems, left_behind(one)) == ((), [])

    refused = refusals(guarded, topic="orders", consumers=1)
    assert refused == [
        f"the cluster does not grant READ, WRITE and DESCRIBE on topic 'orders' to user 'kafkaperf'; {granting} "
        "--operation Read --operation Write --operation Describe --topic orders"
    ]
    run_advice(guarded, [refused[0].replace("--operation Read --operation Write ", "")])

    refused = refusals(guarded, topic="orders", consumers=1)
    assert refused == [
        f"the cluster does not grant READ and WRITE on topic 'orders' to user 'kafkaperf'; {granting} "
        "--operation Read --operation Write --topic orders"
    ]
    run_advice(guarded, refused)

    (one,) = run_scenario(Scenario.of(SHORT | {"topic": "orders", "consumers": 1}), guarded)
    assert (one.problems, left_behind(one), one.metrics["lost"]) == ((), [], 0)


def test_a_group_that_may_not_be_seen_is_named_with_what_it_takes(guarded: Cluster) -> None:
    """It is the application's: the run asks for no more than to see it."""
    operator, attempt = inside(guarded), secrets.token_hex(4)  # what was granted stays so if the test is repeated
    topic, group = f"billed-{attempt}", f"billing-{attempt}"
    make_topic(operator, topic)
    fields = {"topic": topic, "watch_group": group, "rate": 200, "records": 200}
    with running_sink(operator.bootstrap_servers, topic, group, delay_ms=0):
        run_advice(guarded, refusals(guarded, **fields))  # the topic
        (refused,) = refusals(guarded, **fields)
        assert refused == (
            f"the cluster does not grant DESCRIBE on group {group!r} to user 'kafkaperf'; an administrator can grant "
            f"it: kafka-acls --bootstrap-server {guarded.bootstrap_servers} --add --allow-principal User:kafkaperf "
            f"--operation Describe --group {group}"
        )
        run_advice(guarded, [refused])
        (one,) = run_scenario(Scenario.of(SHORT | fields), guarded)
    assert one.problems == ()
    assert one.metrics["app.drain"] < 30  # where the limit ends it, a minute


def grant(cluster: Cluster, resource: Resource, *operations: Operation) -> None:
    """Permit the client this, and nothing else."""
    run_advice(cluster, [refusal(operations, resource, cluster.access, cluster.bootstrap_servers)])


def test_what_a_run_could_not_delete_is_told_before_the_load(guarded: Cluster) -> None:
    """Otherwise each round would leave a topic and a group behind."""
    topic = "team-20261121T140509Z-0123456789ab-1"
    make_topic(inside(guarded), topic)
    topics, groups = (Resource(kind=kind, name="team-", prefixed=True) for kind in ("topic", "group"))
    grant(guarded, topics, Operation.CREATE, Operation.DESCRIBE, Operation.WRITE, Operation.READ)
    grant(guarded, groups, Operation.READ)

    scenario = Scenario.of(SHORT | {"consumers": 1})
    with pytest.raises(ClusterError) as raised:
        Preflight(guarded.bootstrap_servers, guarded.access).check(scenario, topic, f"{topic}-0", guarded=True)

    refused = [line.partition(" to user")[0] for line in str(raised.value).splitlines()]
    assert refused == [
        "the cluster does not grant DELETE on topics that start with 'team-'",
        "the cluster does not grant READ and DELETE on groups that start with 'team-'",
    ]


def application(cluster: Cluster, ready: str, *topics: str) -> Application:
    """One that reads and writes nothing, not opened yet."""
    body = "import time; print('up'); time.sleep(60)"
    return Application(Recipe(command=("python", "-c", body), ready=ready, topics=dict.fromkeys(topics, 1)), cluster)


def test_an_application_may_have_a_topic_that_this_client_may_only_see(guarded: Cluster) -> None:
    """It exists, so it need not be created, and is not deleted afterwards."""
    make_topic(inside(guarded), "seen")
    grant(guarded, Resource(kind="topic", name="seen"), Operation.DESCRIBE)
    with application(guarded, "line:up", "seen").open() as opened:
        assert opened.pid is not None
    assert not Admin(inside(guarded).bootstrap_servers, inside(guarded).access).is_gone("seen")


@pytest.mark.parametrize(
    ("ready", "topics", "missing"),
    [
        ("line:up", ["hidden"], "READ, WRITE and DESCRIBE on topic 'hidden'"),
        ("group:unseen", [], "DESCRIBE on group 'unseen'"),
    ],
)
def test_what_an_application_lacks_is_told_with_its_own_name(
    ready: str, topics: list[str], missing: str, guarded: Cluster
) -> None:
    """Not as a fault of the application, which is not started."""
    with pytest.raises(ClusterError, match=f"the cluster does not grant {missing} to user 'kafkaperf'; an admin"):
        application(guarded, ready, *topics).open()
