"""Synchronisation on the scheduler: what each party receives, and which party counts as lost."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.backends.dask_sync import BEGIN_S, SILENT_S, SyncState, digest, new_key, seal, unseal
from pytest_kafkaperf.load.backends.dask_task import send

LEFT = "was lost: killed, out of memory, or cut off from the scheduler"
SILENT = "did not answer for 8 s: its machine or the network is down"
BUSY = "did not start within 30 s: it is busy with other tasks; use a dedicated Dask cluster"
ADDRESSES = ["tcp://10.0.0.1:1", "tcp://10.0.0.2:1"]


def test_everyone_gets_what_the_others_told() -> None:
    """The controller's row is that of start and stop; a worker needs those of other workers, too."""
    state = SyncState(ADDRESSES, now_s=0.0)
    assert state.control([1], now_s=0.1) == {"rows": [], "lost": []}
    assert state.share(0, "x", 5, [10], now_s=0.2) == {"rows": [[-1, [1]]]}
    assert state.share(1, "y", 6, [20], now_s=0.3) == {"rows": [[-1, [1]], [0, [10]]]}
    assert state.control([2], now_s=0.4) == {"rows": [[0, 5, [10]], [1, 6, [20]]], "lost": []}
    assert state.share(0, "x", 7, [11], now_s=0.5) == {"rows": [[-1, [2]], [1, [20]]]}


def test_a_share_is_never_run_again() -> None:
    """Dask runs tasks of lost workers elsewhere or later: such load would be nobody's."""
    state = SyncState(ADDRESSES, now_s=0.0)
    state.share(0, "x", 5, [10], now_s=0.1)
    assert state.share(0, "y", 6, [0], now_s=0.2) == {"over": True}
    assert "over" not in state.share(0, "x", 7, [11], now_s=0.3)


def test_a_round_without_its_controller_is_over() -> None:
    """Load that nobody measures must not go on, however the controller ended."""
    state = SyncState(ADDRESSES, now_s=0.0)
    state.control([1], now_s=1.0)
    assert "over" not in state.share(0, "x", 5, [10], now_s=1.0 + SILENT_S)
    assert state.share(0, "x", 5, [10], now_s=1.1 + SILENT_S) == {"over": True}


def test_who_left_is_lost_at_once_and_who_is_silent_after_a_while() -> None:
    """A killed process closes its connection; a machine that is cut off does not."""
    state = SyncState(ADDRESSES, now_s=0.0)
    state.share(0, "x", 5, [10], now_s=0.1)
    state.share(1, "y", 5, [10], now_s=0.1)
    state.gone.add(ADDRESSES[1])
    assert state.control([1], now_s=0.2)["lost"] == [(1, LEFT)]
    assert state.control([1], now_s=0.2 + SILENT_S)["lost"] == [(0, SILENT), (1, LEFT)]


def test_who_never_begins_has_other_work() -> None:
    """All threads of a Dask worker may be taken."""
    state = SyncState(ADDRESSES, now_s=0.0)
    state.control([1], now_s=BEGIN_S - 1)
    state.share(0, "x", 5, [10], now_s=BEGIN_S)
    assert state.control([1], now_s=BEGIN_S)["lost"] == []
    assert state.control([1], now_s=BEGIN_S + 0.1)["lost"] == [(1, BUSY)]


def test_a_scheduler_that_does_not_know_the_controller_any_more_is_a_load_error() -> None:
    """One that has started again, or has lost the connection: Dask's answer to an unknown message is None."""

    async def unknown(**_: object) -> None:
        """As Dask does."""

    scheduler = SimpleNamespace(kafkaperf=unknown)
    with pytest.raises(LoadError, match="^the Dask scheduler has restarted or lost its client$"):
        asyncio.run(send(scheduler, "kafkaperf", do="clock"))


def test_a_machine_gets_each_token_once() -> None:
    """Rows are exchanged many times a second, and tokens are long and change rarely."""
    state = SyncState(ADDRESSES, now_s=0.0)
    state.token = "first"  # noqa: S105 - of nobody
    assert state.share(0, "a", 1, [0], now_s=0.1).get("token") == "first"
    assert "token" not in state.share(0, "a", 2, [0], now_s=0.2, token=digest("first"))
    state.control([0], None, now_s=0.3)
    assert "token" not in state.share(0, "a", 3, [0], now_s=0.4, token=digest("first"))
    state.control([0], "second", now_s=0.5)
    assert state.share(0, "a", 4, [0], now_s=0.6, token=digest("first")).get("token") == "second"


def test_a_machine_whose_login_needs_no_token_gets_none() -> None:
    """Its worker would look for a file."""
    state = SyncState(ADDRESSES, now_s=0.0)
    assert "token" not in state.share(0, "a", 1, [0], now_s=0.1)


def test_a_token_in_a_message_is_sealed() -> None:
    """Dask logs messages at its most detailed level, and the scheduler needs no token."""
    key, token = new_key(), '{"token": "eyJ0eXAi", "problem": null}'
    sealed = seal(token, key)
    assert "eyJ0eXAi" not in sealed
    assert unseal(sealed, key) == token
