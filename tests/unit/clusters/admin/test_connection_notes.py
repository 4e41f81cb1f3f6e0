"""What the client library says is kept for the report, and stays out of the terminal."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from pytest_kafkaperf.clusters.admin.connection import Notes


def test_warnings_are_kept_once_and_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """A broker that is away is told of by every connection, again and again."""
    client = logging.getLogger("aiokafka.client")
    with Notes() as notes:
        for _ in range(3):
            client.warning("Unable to connect to %s\nand more of it", "broker:9092")
            client.info("all is well")
        client.error("another")

    assert notes.texts() == ["Unable to connect to broker:9092", "another"]
    assert capfd.readouterr() == ("", "")


def test_the_error_that_ended_a_task_is_kept_with_its_text() -> None:
    """aiokafka's tasks end by themselves: the reason stands nowhere else."""

    async def fail() -> None:
        raise ValueError("why")

    async def run() -> None:
        task = asyncio.ensure_future(fail())
        await asyncio.wait([task])
        del task

    with Notes() as notes:
        asyncio.run(run())
    assert notes.texts() == ["Task exception was never retrieved: ValueError('why')"]


def test_the_cause_of_an_error_is_kept_with_it() -> None:
    """aiokafka says that a connection was closed, and not that the broker asked for a certificate."""
    error = ConnectionError("closed")
    error.__cause__ = OSError("certificate required")
    with Notes() as notes:
        logging.getLogger("aiokafka").error("cannot connect: %s", error)
    assert notes.texts() == ["cannot connect: closed (OSError: certificate required)"]
    assert notes.causes == [error]


def test_notes_are_few() -> None:
    """The first tell what happened; the rest follows from it."""
    with Notes() as notes:
        for number in range(100):
            logging.getLogger("aiokafka").warning("%d", number)

        assert notes.texts() == ["0", "1", "2", "3", "4"]
        notes.clear()
        assert notes.texts() == []


def test_notes_of_two_clusters_overlap(caplog: pytest.LogCaptureFixture) -> None:
    """Two clusters restart at the same time, and one of them is ready first."""
    client = logging.getLogger("aiokafka.client")
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(Notes())
        notes = second.enter_context(Notes())
        first.close()
        client.error("not ready")
        second.close()
        client.error("later")

    assert (notes.texts(), caplog.messages) == (["not ready"], ["later"])


def test_afterwards_logging_is_as_it_was(caplog: pytest.LogCaptureFixture) -> None:
    """Others use the library in this process, too."""
    with Notes() as notes:
        pass
    logging.getLogger("aiokafka").warning("later")

    assert (notes.texts(), caplog.messages) == ([], ["later"])
