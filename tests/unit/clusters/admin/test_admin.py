"""Requests of an administrator to a cluster that does not answer."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Iterator

import pytest

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.tokens import TokenFunction
from pytest_kafkaperf.clusters.admin.admin import Admin
from pytest_kafkaperf.clusters.admin.wire import CreateTopic
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.rounds import within


def test_sweeping_a_cluster_that_is_not_there_is_bounded() -> None:
    """Whoever calls it decides that nothing depends on it."""
    with within(15), pytest.raises(ClusterError, match=r"^could not look for leftovers of crashed runs on 127"):
        Admin("127.0.0.1:9", Access()).sweep()


def test_sweeping_where_a_request_is_not_known_is_told(one_of_tomorrow: str) -> None:
    """The client library raises NotImplementedError, which would end a run that does not need the sweep."""
    with pytest.raises(ClusterError) as raised:
        Admin(one_of_tomorrow, Access()).sweep()
    assert str(raised.value) == (
        f"could not look for leftovers of crashed runs on {one_of_tomorrow}: "
        "its brokers are too old, or too new, for a request (Support for ListGroupsRequest v9 has not yet been added)"
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


def test_a_login_that_hangs_does_not_make_timeouts_longer() -> None:
    """An event loop waits for its own threads when it closes, and a user's function may take a minute."""
    released = threading.Event()
    login = OAuth(source=TokenFunction(function=lambda: released.wait(60)))
    access = Access(protocol="SASL_PLAINTEXT", login=login)
    try:
        with within(30), pytest.raises(ClusterError, match=r"^could not delete consumer groups on 127.*: no answer"):
            Admin("127.0.0.1:9", access).delete_groups(["group"], timeout_s=1)
    finally:
        released.set()


def test_a_topic_is_requested_with_the_clusters_own_number_of_replicas() -> None:
    """Versions of the request before 4 have no such number (KIP-464)."""
    request = CreateTopic("t", Scenario(), {}, 1000).prepare({19: (2, 7)})
    assert request.API_VERSION == 4
    assert request.create_topic_requests == [("t", 6, -1, [], [])]
