"""Messages between the two sides of a comparison of revisions."""

from __future__ import annotations

import json
import time

import pytest
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.logins import Login, Plain, Scram
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.tokens import FixedToken, TokenFunction
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.notices import Event, EventKind
from pytest_kafkaperf.runner.peer_messages import cluster_from_json, cluster_to_json, events_from_json
from tests.support.client_files import MADE

FIXED = OAuth(source=FixedToken(value=SecretStr("token")), extensions={"logicalCluster": "lkc-1"})
FETCHED = OAuth(
    source=TokenFunction(function=lambda: ("token", (time.time() + 60) * 1000)), extensions=FIXED.extensions
)
SCRAM = Scram(mechanism="SCRAM-SHA-256", username="alice", password=SecretStr("hunter2"))
PLAIN = Plain(username="alice", password=SecretStr("hunter2"))


@pytest.mark.parametrize(
    ("login", "there"),
    [(PLAIN, PLAIN), (SCRAM, SCRAM), (FIXED, FIXED), (FETCHED, FIXED)],
    ids=["plain", "scram", "token", "function"],
)
def test_the_other_side_can_log_in(login: Login, there: Login) -> None:
    """It measures the brokers of this side; a function stays here, and its token goes."""
    access = Access(
        protocol="SASL_SSL", login=login, certificate=MADE.certificate, key=MADE.key, trusted=MADE.authority
    )
    sent = json.dumps(cluster_to_json(Cluster(bootstrap_servers="broker1:9093", access=access)))
    found = cluster_from_json(json.loads(sent)).access
    assert (found.protocol, found.login, found.key, found.trusted) == ("SASL_SSL", there, MADE.key, MADE.authority)


def test_events_arrive_as_they_were_sent() -> None:
    """The recovery of the other side is computed from them, here from the loss of one of several instances."""
    events = [
        Event(5, EventKind.STOPPED, "broker 1"),
        Event(7, EventKind.KILLED, "shop-1", "ended by SIGKILL", settled_ns=9),
    ]
    assert events_from_json(json.loads(json.dumps(events))) == events
