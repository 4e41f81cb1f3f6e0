"""Tokens for connections that log in."""

from __future__ import annotations

import asyncio
import threading

import pytest
from pydantic import SecretStr

from pytest_kafkaperf.clusters.access.tokens import Token
from pytest_kafkaperf.clusters.admin.connection import run
from pytest_kafkaperf.clusters.admin.relogin import TokenProvider
from tests.support.rounds import within


def test_a_token_that_takes_long_does_not_make_timeouts_longer() -> None:
    """An event loop waits for its own threads when it closes."""
    released = threading.Event()

    def current() -> Token:
        released.wait(60)
        return Token(value=SecretStr("abc"))

    async def connect() -> None:
        await asyncio.wait_for(TokenProvider(current, {}).token(), 0.2)

    try:
        with within(30), pytest.raises(TimeoutError):
            run(connect())
    finally:
        released.set()
