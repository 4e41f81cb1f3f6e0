"""The command that runs one test again, as it was run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_kafkaperf.settings import discreet

if TYPE_CHECKING:
    from pytest_kafkaperf.result import Result

_OPTIONS = (
    "client-config",
    "metrics-url",
    "version",
    "image",
    "brokers",
    "jmx",
    "rounds",
    "duration",
    "warmup",
    "preheat",
    "baselines",
    "environment",
    "strict",
    "no-confirm",
    "calibrate",
    "reference",
    "reference-config",
    "reference-client-config",
)
"""Options of the command line that decide what is measured and how it is judged; those of the ini file hold anyway."""


def command_for(result: Result, options: Mapping[str, str], *, reference_seed: int | None) -> str:
    """A line for a shell. `options` are those of the command line, by name without `--kafka-`.

    `auto` becomes the provider that it chose. What may be secret is left out; `LOGIN` and `***` say where.
    """
    given = [
        f"--kafka-{name}" if value == "true" else f"--kafka-{name}={discreet(value, login='LOGIN@')}"
        for name in _OPTIONS
        for value in options.get(name, "").splitlines()
    ]
    seed = [] if reference_seed is None else [f"--kafka-reference-seed={reference_seed}"]
    target = options.get("cluster", "auto")
    started = result.cluster.provider if result.cluster.provider in ("local", "docker") else None
    cluster = [f"--kafka-cluster={started or target}"] if started or target != "auto" else []
    return shlex.join(["pytest", result.nodeid, *cluster, *given, *seed])
