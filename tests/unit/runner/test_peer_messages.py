"""What the two pytest processes of a comparison tell each other."""

from __future__ import annotations

import json

from pytest_kafkaperf.core.notices import Event, EventKind
from pytest_kafkaperf.runner.peer_messages import events_from_json


def test_events_arrive_as_they_were_sent() -> None:
    """The recovery of the other side is computed from them, here from the loss of one of several instances."""
    events = [
        Event(5, EventKind.STOPPED, "broker 1"),
        Event(7, EventKind.KILLED, "shop-1", "ended by SIGKILL", settled_ns=9),
    ]
    assert events_from_json(json.loads(json.dumps(events))) == events
