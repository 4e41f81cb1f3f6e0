"""What must be the same wherever load runs, or its figures are those of two programs."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass

PACKAGES = ("pytest-kafkaperf", "aiokafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Of one process."""

    python: str
    packages: Mapping[str, str | None]
    """None: not installed."""


def here() -> Versions:
    """Of this process."""
    return Versions(
        python=platform.python_version(), packages={name: importlib.metadata.version(name) for name in PACKAGES}
    )


def differing(others: Mapping[str, Versions], ours: Versions) -> list[str]:
    """What is not the same as here, one text each: such figures would be those of two programs.

    Python's last number does not count: it stands for corrections.
    """
    problems = []
    for name, there in others.items():
        if _minor(there.python) != _minor(ours.python):
            problems.append(f"{name} has Python {there.python}, here it is {ours.python}: use the same on both")
        for package, version in there.packages.items():
            own = ours.packages[package]
            if version is None:
                problems.append(
                    f"{name} has no {package}: install it there, with 'pip install pytest-kafkaperf[dask]=="
                    f"{ours.packages[PACKAGES[0]]}'"
                )
            elif version != own:
                problems.append(f"{name} has {package} {version}, here it is {own}: install the same on both")
    return problems


def _minor(python: str) -> list[str]:
    return python.split(".")[:2]
