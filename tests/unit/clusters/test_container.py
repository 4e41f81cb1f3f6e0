"""Containers and networks of a run: whose they are, and how they are removed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from pytest_kafkaperf.clusters.docker.container import LABEL, labels_of, removing
from pytest_kafkaperf.core.errors import ClusterError


def refuse(*_: object, **__: object) -> Any:
    raise APIError("500 Server Error", explanation="device or resource busy")


def gone(*_: object, **__: object) -> Any:
    raise NotFound("no such container")


def daemon(*removes: Callable[..., Any], network: Callable[..., Any] = gone) -> Any:
    """A daemon's client that lists these containers, which are removed by these functions, and a network."""
    containers = [
        SimpleNamespace(name=f"broker-{number}", kill=None, remove=each) for number, each in enumerate(removes, 1)
    ]
    return SimpleNamespace(
        containers=SimpleNamespace(list=lambda **_: containers),
        networks=SimpleNamespace(list=lambda **_: [SimpleNamespace(name="net", remove=network)]),
    )


def test_a_container_that_cannot_be_removed_hides_no_error_and_keeps_no_other() -> None:
    """The reason why a start failed is what a user needs."""
    removed: list[str] = []
    client = daemon(refuse, lambda **_: removed.append("broker-2"), network=lambda: removed.append("net"))
    with (
        pytest.warns(UserWarning, match=r"^could not remove broker-1: device or resource busy; the next run") as warned,
        pytest.raises(ClusterError, match=r"^broker 1 exited with status 1$"),
        removing(client, {LABEL: "run"}),
    ):
        raise ClusterError("broker 1 exited with status 1")
    assert removed == ["broker-2", "net"]
    assert len(warned) == 1


def test_a_daemon_that_fails_in_the_end_hides_no_error() -> None:
    """The list of what to remove is its first request after a failed start."""
    client = SimpleNamespace(containers=SimpleNamespace(list=refuse))
    with (
        pytest.warns(UserWarning, match=r"^could not look for containers and networks to remove: device or resource"),
        pytest.raises(ClusterError, match=r"^broker 1 exited with status 1$"),
        removing(client, {LABEL: "run"}),
    ):
        raise ClusterError("broker 1 exited with status 1")


def test_a_cache_folder_has_one_id_even_if_a_killed_run_left_the_file_empty(tmp_path: Path) -> None:
    """An empty id would be that of every such cache on a shared daemon."""
    (tmp_path / "owner").touch()
    folder = tmp_path / "runs" / "kafkaperf-1"
    first = labels_of(folder)[LABEL]
    content = (tmp_path / "owner").read_text(encoding="ascii")
    assert len(content) == 16
    assert first.startswith(f"{content}-")
    assert labels_of(folder)[LABEL] == first


def test_an_id_that_cannot_be_read_is_an_error_with_the_path(tmp_path: Path) -> None:
    """The cache may come from another user."""
    (tmp_path / "owner").mkdir()
    with pytest.raises(ClusterError) as raised:
        labels_of(tmp_path / "runs" / "kafkaperf-1")
    assert str(raised.value) == (
        f"cannot read {tmp_path}/owner: Is a directory; delete it, or set the environment variable "
        "PYTEST_KAFKAPERF_CACHE to another folder"
    )
