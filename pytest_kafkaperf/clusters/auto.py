"""The provider for `auto`: local brokers if jgo is installed, otherwise Docker if a daemon answers."""

from __future__ import annotations

import importlib.util
from functools import cache

from pytest_kafkaperf.clusters.target import (
    Auto,
    Docker,
    Local,
    Provider,
    Target,
    parse_target,
)
from pytest_kafkaperf.core.errors import UsageError


def resolve(target: Target | str) -> Provider:
    """Return the provider for a target or its text; `auto` tries to detect a Docker daemon at most once per process.

    Raises:
        UsageError: the text is not a target, or `auto` does not find a provider.

    """
    target = parse_target(target) if isinstance(target, str) else target
    return choose()[0] if isinstance(target, Auto) else target


@cache
def choose() -> tuple[Local | Docker, str]:
    """Resolve `auto`, and return the target and the reason for the choice as text for the user.

    Raises:
        UsageError: neither jgo nor a Docker daemon was found; the message explains how to install each.

    """
    if importlib.util.find_spec("jgo") is not None:
        return Local(), "the extra 'local' is installed"
    from pytest_kafkaperf.clusters.docker.daemon import look  # noqa: PLC0415 - only if no target is given

    address, reason = look()
    if reason is None:
        return Docker(), f"the extra 'local' is not installed, and a Docker daemon answers at {address}"
    raise UsageError(
        f"--kafka-cluster=auto: the extra 'local' is not installed, and no Docker daemon answers at {address} "
        f"({reason}). Install one of them: pip install 'pytest-kafkaperf[local]' does not need Docker; for Docker, "
        "follow https://docs.docker.com/get-docker until `docker info` succeeds"
    )
