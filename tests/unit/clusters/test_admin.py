"""Requests of an administrator to a cluster that does not answer."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.clusters.access import Access
from pytest_kafkaperf.clusters.client.admin import Admin
from pytest_kafkaperf.core.errors import ClusterError
from tests.support.rounds import within


def test_sweeping_a_cluster_that_is_not_there_is_bounded() -> None:
    """Whoever calls it decides that nothing depends on it."""
    with within(15), pytest.raises(ClusterError, match=r"^could not look for what crashed runs left behind on 127"):
        Admin("127.0.0.1:9", Access()).sweep()


def test_deleting_is_bounded_and_told() -> None:
    """A topic that stays behind is somebody's to remove."""
    with within(30), pytest.raises(ClusterError, match=r"^could not delete topic 'topic' on 127"):
        Admin("127.0.0.1:9", Access()).delete_topic("topic", timeout_s=5)
