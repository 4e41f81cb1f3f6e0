"""A user's function that returns access tokens."""

from __future__ import annotations

import time
from dataclasses import dataclass

from pytest_kafkaperf.clusters.access.access import Access
from pytest_kafkaperf.clusters.access.oauth import OAuth
from pytest_kafkaperf.clusters.access.tokens import TokenFunction


@dataclass
class TokensOfASecond:
    """Returns token-1, token-2 and so on, which live for a second."""

    count: int = 0
    failures: int = 0
    is_down: bool = False

    def __call__(self) -> tuple[str, float]:
        if self.is_down:
            self.failures += 1
            raise RuntimeError("no role")
        self.count += 1
        return f"token-{self.count}", (time.time() + 1) * 1000


def access_of(source: TokensOfASecond) -> Access:
    """What a cluster with this function as its `token` gives its clients."""
    return Access(protocol="SASL_SSL", login=OAuth(source=TokenFunction(function=source)))
