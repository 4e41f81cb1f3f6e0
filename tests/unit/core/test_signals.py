"""Ctrl-C at the wrong moment: it is neither lost nor does it leave anything behind."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.brokers.local_brokers import Process
from pytest_kafkaperf.clusters.brokers.run_folders import PROPERTIES, run_folder
from pytest_kafkaperf.core import signals
from pytest_kafkaperf.core.errors import ClusterError
from pytest_kafkaperf.core.signals import interrupted_by_sigterm, without_interrupt
from tests.support.ground import SETTLE_TIMEOUT_S
from tests.support.orphans import as_broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def _in_background() -> Iterator[None]:
    """Ignore Ctrl-C, as in a job that a shell script has started with `&`."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("shown", [True, False], ids=["command line", "no command line yet"])
def test_a_broker_that_its_run_does_not_know_of_goes_with_the_run_folder(tmp_path: Path, *, shown: bool) -> None:
    """Ctrl-C can come when the process is there and its number has not been kept yet."""
    with run_folder(tmp_path / "runs") as folder:
        home = folder / "broker-1"
        home.mkdir()
        command = as_broker(home / PROPERTIES)
        words = command if shown else [""]
        unknown = subprocess.Popen(words, executable=command[0], stdin=subprocess.PIPE, cwd=home)
    with unknown:
        assert unknown.wait(SETTLE_TIMEOUT_S) == -signal.SIGKILL
    assert [each.name for each in (tmp_path / "runs").iterdir() if each.name != ".lock"] == []


def test_a_second_ctrl_c_does_not_break_off_the_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Users press it again when nothing seems to happen."""
    remove = shutil.rmtree

    def interrupted(*args: Any, **given: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        remove(*args, **given)

    with pytest.raises(KeyboardInterrupt), run_folder(tmp_path / "runs"):  # noqa: PT012 - the body is the point
        monkeypatch.setattr(shutil, "rmtree", interrupted)
        signal.raise_signal(signal.SIGINT)
    assert [each.name for each in (tmp_path / "runs").iterdir() if each.name != ".lock"] == []


def test_ctrl_c_that_was_held_back_comes_afterwards() -> None:
    """It is late, not lost; and whoever handled it before handles it again."""
    handler = signal.getsignal(signal.SIGINT)
    done = []
    with pytest.raises(KeyboardInterrupt), without_interrupt():  # noqa: PT012 - as above
        signal.raise_signal(signal.SIGINT)
        done.append("all")
    assert done == ["all"]
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_is_not_held_back_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """What should be bounded may hang all the same, and then Ctrl-C is all that a user has."""
    monkeypatch.setattr(signals, "_PROTECTED_S", 0)
    handler = signal.getsignal(signal.SIGINT)
    done = []
    with pytest.raises(KeyboardInterrupt), without_interrupt():  # noqa: PT012 - as above
        signal.raise_signal(signal.SIGINT)
        done.append("all")
    assert done == []
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.usefixtures("_in_background")
def test_sigterm_that_was_held_back_in_the_background_comes_afterwards() -> None:
    """CI ends jobs by SIGTERM; a job that went on would be killed, and leave brokers behind."""
    done = []
    with pytest.raises(KeyboardInterrupt), interrupted_by_sigterm(), without_interrupt():  # noqa: PT012 - as above
        with without_interrupt():
            signal.raise_signal(signal.SIGTERM)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


@pytest.mark.usefixtures("_in_background")
def test_sigterm_is_not_held_back_for_ever_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs there can be interrupted in no other way."""
    monkeypatch.setattr(signals, "_PROTECTED_S", 0)
    done = []
    with pytest.raises(KeyboardInterrupt), interrupted_by_sigterm(), without_interrupt():  # noqa: PT012 - as above
        signal.raise_signal(signal.SIGTERM)
        done.append("all")
    assert done == []


@pytest.mark.usefixtures("_in_background")
@pytest.mark.parametrize("protected_s", [60, 0])
def test_ctrl_c_in_the_background_stays_ignored(monkeypatch: pytest.MonkeyPatch, protected_s: int) -> None:
    """It is meant for the program in the foreground."""
    monkeypatch.setattr(signals, "_PROTECTED_S", protected_s)
    done = []
    with without_interrupt():
        signal.raise_signal(signal.SIGINT)
        done.append("all")
    assert done == ["all"]


def test_a_broker_that_was_removed_is_not_started_again(tmp_path: Path) -> None:
    """A test's `start_broker` runs in a thread of its own, which Ctrl-C does not reach."""
    broker = Process(1, lambda quick: [sys.executable, "-c", str(quick)], folder=tmp_path, quick=False)
    broker.remove()
    with pytest.raises(ClusterError) as raised:
        broker.start()
    assert str(raised.value) == "cannot start broker 1: it was removed"
    assert broker.pid is None
