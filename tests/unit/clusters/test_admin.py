"""Requests of an administrator to a cluster that does not answer."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator

import pytest
from aiokafka import errors as kafka_errors

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.client.admin import Admin
from pytest_kafkaperf.clusters.client.requests import CreateTopic, policy_problem, replicas_problem
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import within


def test_sweeping_a_cluster_that_is_not_there_is_bounded() -> None:
    """Whoever calls it decides that nothing depends on it."""
    with within(15), pytest.raises(ClusterError, match=r"^could not look for what crashed runs left behind on 127"):
        Admin("127.0.0.1:9", Access()).sweep()


def test_sweeping_where_a_request_is_not_known_is_told(one_of_tomorrow: str) -> None:
    """The client library raises NotImplementedError, which would end a run that does not need the sweep."""
    with pytest.raises(ClusterError) as raised:
        Admin(one_of_tomorrow, Access()).sweep()
    assert str(raised.value) == (
        f"could not look for what crashed runs left behind on {one_of_tomorrow}: "
        "Support for ListGroupsRequest v9 has not yet been added"
    )


@pytest.fixture
def one_of_tomorrow() -> Iterator[str]:
    """The address of a broker that knows ApiVersions v0, Metadata v0 and a version of ListGroups that is to come."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while head := self.rfile.read(4):
                request = self.rfile.read(int.from_bytes(head))
                key, _, correlation = struct.unpack(">hhi", request[:8])
                if key == 18:
                    answer = struct.pack(">hi" + 3 * "hhh", 0, 3, 18, 0, 0, 3, 0, 0, 16, 9, 9)
                else:
                    answer = struct.pack(">iih9sii", 1, 1, 9, b"127.0.0.1", port, 0)
                self.wfile.write(struct.pack(">ii", 4 + len(answer), correlation) + answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        port = server.server_address[1]
        threading.Thread(target=server.serve_forever).start()
        yield f"127.0.0.1:{port}"
        server.shutdown()


def test_deleting_is_bounded_and_told() -> None:
    """A topic that stays behind is somebody's to remove."""
    with within(30), pytest.raises(ClusterError, match=r"^could not delete topic 'topic' on 127"):
        Admin("127.0.0.1:9", Access()).delete_topic("topic", timeout_s=5)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (
            1,
            "the cluster at k:1 refuses replication_factor=1 (must be 3); give the one that it demands, or leave "
            "replication_factor out to use its default",
        ),
        (
            5,
            "replication_factor=5 needs 5 brokers, and the cluster at k:1 has 3 (must be 3); use replication_factor=3 "
            "or less, or a cluster of 5 brokers",
        ),
        (
            None,
            "the cluster at k:1 has 3 brokers and refuses its own default.replication.factor (must be 3); give "
            "replication_factor=3 or less",
        ),
    ],
)
def test_the_advice_on_a_refused_replication_factor_fits_its_cause(wanted: int | None, text: str) -> None:
    """Managed clusters demand 3: "a cluster of 1 brokers" is no advice."""
    assert replicas_problem(wanted, 3, "k:1", "must be 3") == text


def test_a_policy_is_told_with_what_was_requested() -> None:
    """The text of the policy alone does not say which field it is about."""
    scenario = Scenario.of({"replication_factor": 1})
    assert policy_problem(scenario, {"retention.ms": "1"}, "Topic replication factor must be 3") == (
        "its policy for new topics forbids it: Topic replication factor must be 3 (requested: partitions=6, "
        "replication_factor=1, retention.ms=1); set partitions, replication_factor or topic_config to what the policy "
        "demands, or use an existing topic: topic='NAME'"
    )


def test_a_broker_without_a_default_for_requests_is_told_what_it_needs() -> None:
    """Kafka 2.3 has version 3 of the request, in which -1 means something else (KIP-464)."""
    old, new = {19: (0, 3)}, {19: (2, 7)}
    assert CreateTopic("t", 1, None, {}, 1000).prepare(new).API_VERSION == 4
    assert CreateTopic("t", 1, 3, {}, 1000).prepare(old).API_VERSION == 3
    with pytest.raises(kafka_errors.IncompatibleBrokerVersion, match=r"before Kafka 2\.4 .*; give replication_factor"):
        CreateTopic("t", 1, None, {}, 1000).prepare(old)
