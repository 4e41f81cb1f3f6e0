"""Labels: whose a container or a network is, and the end of those whose session is gone."""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, NotFound

from pytest_kafkaperf.clusters.runs import is_alive

if TYPE_CHECKING:
    from pathlib import Path

LABEL = "pytest-kafkaperf.run"
"""Whose a container or a network is: host and run folder of its session."""


def label_of(folder: Path) -> str:
    """The label of a session with this run folder."""
    return f"{socket.gethostname()}:{folder}"


def sweep(client: Any, runs: Path) -> None:
    """Remove the containers and networks of sessions that are gone; those of other hosts and caches are left alone."""
    for left in labelled(client, LABEL):
        label = (left.labels if hasattr(left, "labels") else left.attrs.get("Labels") or {}).get(LABEL, "")
        name = label.rpartition("/")[2]
        if label != label_of(runs / name) or is_alive(runs / name):
            continue
        with contextlib.suppress(APIError):  # another session sweeps, too
            discard(left)


def labelled(client: Any, label: str) -> list[Any]:
    """Containers first: a network that is in use stays."""
    filters = {"label": label}
    containers = client.containers.list(all=True, filters=filters, ignore_removed=True)
    return [*containers, *client.networks.list(filters=filters)]


def discard(left: Any) -> None:
    """Remove a container with its data, running or not, or a network; one that is gone is no failure."""
    with contextlib.suppress(NotFound):
        left.remove(force=True, v=True) if hasattr(left, "kill") else left.remove()
