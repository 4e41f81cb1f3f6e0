"""The work on each record."""

import hashlib

WORK = 4_000
"""Number of hashes; they are nearly all of the service's CPU time."""
DELAY_S = 0.0
"""Wait for another system, which other records do not wait for."""


def enrich(value: bytes) -> bytes:
    """Work for a while."""
    digest = b""
    for _ in range(WORK):
        digest = hashlib.md5(digest, usedforsecurity=False).digest()
    return value
