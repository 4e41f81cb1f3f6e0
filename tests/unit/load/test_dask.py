"""Versions and addresses of Dask workers that cannot be used."""

from __future__ import annotations

import contextlib
import socket
import sysconfig
from importlib.metadata import version

import pytest

from pytest_kafkaperf.core.errors import ClusterError, LoadError
from pytest_kafkaperf.load.dask.workers import check_version, refuse_loopback
from pytest_kafkaperf.load.messages import Clock


@pytest.mark.parametrize(
    ("name", "version", "problem"),
    [
        (
            "Python",
            "3.9",
            f"X has Python 3.9, this machine has {sysconfig.get_python_version()}: install the same version on both",
        ),
        (
            "aiokafka",
            "0.1.2",
            f"X has aiokafka 0.1.2, this machine has {version('aiokafka')}: install the same version on both",
        ),
        (
            "pytest-kafkaperf",
            None,
            "X has no pytest-kafkaperf: install it there with "
            f"'pip install pytest-kafkaperf[dask]=={version('pytest-kafkaperf')}'",
        ),
    ],
)
def test_versions_that_differ_are_named(name: str, version: str | None, problem: str) -> None:
    """Figures of two programs are no measurement."""
    with pytest.raises(ClusterError) as raised:
        check_version("X", name, version)
    assert str(raised.value) == problem


def test_the_versions_of_this_machine_will_do() -> None:
    """Corrections of Python make no difference."""
    check_version("X", "Python", sysconfig.get_python_version())
    check_version("X", "aiokafka", version("aiokafka"))


@pytest.mark.parametrize(
    ("servers", "refused"),
    [
        ("127.0.0.1:9092", True),
        ("localhost:9092,[::1]:9093", True),
        ("127.0.0.1:9092,broker:9092", False),
        ("broker:9092", False),
        ("10.0.0.1:9092", False),
    ],
)
def test_brokers_on_loopback_are_no_use_to_other_machines(servers: str, *, refused: bool) -> None:
    """A timeout after 20 s would not say why."""
    away = [Clock(name="x", host="another-machine", offset_ns=0, uncertainty_ns=0)]
    here = [Clock(name="x", host=socket.gethostname(), offset_ns=0, uncertainty_ns=0)]
    refuse_loopback(servers, here)
    with pytest.raises(LoadError, match="another-machine") if refused else contextlib.nullcontext():
        refuse_loopback(servers, [*here, *away])
