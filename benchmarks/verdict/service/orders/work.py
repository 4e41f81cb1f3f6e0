"""The work on each record."""

import hashlib
import time

WORK = 20_000
"""Number of hashes; they are nearly all of the service's CPU time."""
DELAY_S = 0.0


def enrich(value: bytes) -> bytes:
    """Work for a while and wait for a while."""
    digest = b""
    for _ in range(WORK):
        digest = hashlib.md5(digest, usedforsecurity=False).digest()
    if DELAY_S:
        time.sleep(DELAY_S)
    return value
