"""The provider that `auto` stands for: Docker if a daemon answers, otherwise local brokers."""

from __future__ import annotations

from functools import cache

from pytest_kafkaperf.clusters.target import (
    Auto,
    Docker,
    Local,
    Provider,
    Target,
    parse_target,
)


def resolve(target: Target | str) -> Provider:
    """Return the provider of a target or of its text; `auto` looks for a Docker daemon, once per process.

    Raises:
        UsageError: the text is not a target.

    """
    target = parse_target(target) if isinstance(target, str) else target
    return choose()[0] if isinstance(target, Auto) else target


@cache
def choose() -> tuple[Local | Docker, str]:
    """Resolve `auto` and return the target and the reason for the choice, as text for the user."""
    from pytest_kafkaperf.clusters.docker.daemon import look  # noqa: PLC0415 - only where nothing is named

    address, reason = look()
    if reason is None:
        return Docker(), f"a Docker daemon answers at {address}"
    return Local(), f"no Docker daemon at {address}: {reason}"
