"""Versions and addresses of Dask workers that cannot be used."""

from __future__ import annotations

import contextlib
import socket
import sysconfig
from importlib.metadata import version

import pytest
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.logins import Plain
from pytest_kafkaperf.core.errors import ClusterError, LoadError
from pytest_kafkaperf.load.backends.dask_workers import check_version, refuse_loopback, refuse_plain_text
from pytest_kafkaperf.load.messages import Clock


@pytest.mark.parametrize(
    ("name", "version", "problem"),
    [
        (
            "Python",
            "3.9",
            f"X has Python 3.9, but this machine has {sysconfig.get_python_version()}: install the same version on "
            "both",
        ),
        (
            "aiokafka",
            "0.1.2",
            f"X has aiokafka 0.1.2, but this machine has {version('aiokafka')}: install the same version on both",
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
    """Results of two programs are not a measurement."""
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


TLS, TCP = "tls://10.0.0.1:8786", "tcp://10.0.0.1:8786"
WITH_PASSWORD = Access(protocol="SASL_SSL", login=Plain(username="me", password=SecretStr("hunter2")))
WITH_KEY = Access(protocol="SSL", certificate="public", key=SecretStr("private"))


@pytest.mark.parametrize(
    ("access", "addresses", "refused"),
    [
        (WITH_PASSWORD, [TLS, TCP], True),
        (WITH_PASSWORD, [TCP, TLS], True),
        (WITH_KEY, [""], True),
        (WITH_PASSWORD, [TLS, TLS], False),
        (Access(protocol="SSL", trusted="public"), [TCP, TCP], False),
        (Access(), [TCP, TCP], False),
    ],
)
def test_credentials_go_over_tls_only(access: Access, addresses: list[str], *, refused: bool) -> None:
    """A password that was sent once in plain text has to be changed."""
    with pytest.raises(ClusterError, match="kafka-insecure-workers") if refused else contextlib.nullcontext():
        refuse_plain_text(access, addresses)
