"""The cluster that a test requires: its fields, and the facts that follow from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, field_validator

from pytest_kafkaperf.clusters.target import image_problem, version_problem
from pytest_kafkaperf.core.text import is_secret
from pytest_kafkaperf.scenarios.fields import Config, MarkerFields
from pytest_kafkaperf.scenarios.scenario import Scenario

OWN_PROPERTIES = (
    "advertised.listeners",
    "broker.id",
    "controller.*",
    "inter.broker.listener.name",
    "inter.broker.protocol.version",
    "listener.*",
    "listeners",
    "log.dir",
    "log.dirs",
    "metadata.log.dir",
    "node.id",
    "process.roles",
    "sasl.*",
    "security.*",
    "ssl.*",
    "zookeeper.*",
)
"""Broker properties that a provider sets itself because the cluster would not start with other values."""

CONFIG = "config."
"""Prefix for the names of facts that are broker properties."""

MAX_BROKERS = 100
"""Maximum number of brokers: more than one machine can run, but low enough to detect a port number given by mistake."""

_HEAP = re.compile(r"[1-9]\d*[kmgKMG]")

_PROPERTY = re.compile(r"[\w.-]+")

_HINTS = {
    "nodes": "did you mean 'brokers'?",
    "memory": "did you mean 'heap'?",
    "properties": "did you mean 'config'?",
    **{name: f"declare it with the marker kafka_scenario({name}=...)" for name in Scenario.model_fields},
}


def _without(problem_of: Callable[[str], str | None]) -> AfterValidator:
    def check(value: str) -> str:
        problem = problem_of(value)
        if problem is not None:
            raise ValueError(problem)
        return value

    return AfterValidator(check)


def _heap_problem(heap: str) -> str | None:
    return None if _HEAP.fullmatch(heap) else "must be a whole number followed by k, m or g, such as '512m' or '1g'"


class ClusterSpec(MarkerFields):
    """Fields of the `kafka_cluster` marker; tests with the same spec share a cluster within a run."""

    hints: ClassVar[Mapping[str, str]] = MappingProxyType(_HINTS)

    brokers: int = Field(default=1, ge=1, le=MAX_BROKERS)
    """Number of brokers."""
    version: Annotated[str, _without(version_problem)] | None = None
    """Kafka version, such as `4.1.0`; None for the plugin's default."""
    image: Annotated[str, _without(image_problem)] | None = None
    """Docker image, such as `confluentinc/cp-kafka:8.0.0`, for `docker` only. If the image does not have a tag, the
    version becomes its tag. None for `apache/kafka`."""
    config: Config = Field(default_factory=dict)
    """Broker properties, under their names in Kafka; they override the provider's defaults."""
    security: Literal["sasl_scram", "sasl_plain", "sasl_oauth", "tls", "sasl_scram+tls", "sasl_oauth+tls"] | None = None
    """Authentication and encryption for clients; None for plaintext."""
    jmx: bool = False
    """Collect JMX metrics from the brokers with the JMX exporter."""
    heap: Annotated[str, _without(_heap_problem)] = "512m"
    """Size of each broker's Java heap, as in `-Xmx`."""
    log_dirs: str | None = None
    """Folders for the brokers' logs, separated by commas as in Kafka's `log.dirs`; `local` only. None for the user's
    cache folder."""
    quick_compiler: bool | None = None
    """Use only the JVM's quick compiler (C1): brokers are warm within seconds and less noisy, but slower. None to do so
    only where a comparison of two revisions allows it."""
    logs_in_memory: bool = False
    """Keep the brokers' logs in memory, which removes the noise of the disk."""

    @field_validator("log_dirs", mode="before")
    @classmethod
    def _check_log_dirs(cls, log_dirs: Any) -> Any:
        if isinstance(log_dirs, Path):
            log_dirs = str(log_dirs)
        if isinstance(log_dirs, str) and not all(part.strip() for part in log_dirs.split(",")):
            raise ValueError("a folder path is empty; give paths separated by commas")
        return log_dirs

    @field_validator("config")
    @classmethod
    def _check_config(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        invalid = sorted(name for name in config if not _PROPERTY.fullmatch(name))
        if invalid:
            raise ValueError(f"invalid names of broker properties: {', '.join(map(repr, invalid))}")
        reserved = sorted(name for name in config if any(fnmatchcase(name, pattern) for pattern in OWN_PROPERTIES))
        if reserved:
            raise ValueError(
                f"cannot set {', '.join(map(repr, reserved))}; the plugin sets {', '.join(OWN_PROPERTIES)} itself"
            )
        return config

    def __hash__(self) -> int:
        return hash((self.brokers, self.version, self.image, frozenset(self.config.items())))


COMPILER = "compiler"
"""Name of the fact that brokers use only the quick compiler."""
QUICK_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+AlwaysPreTouch")
"""JVM options of the quick compiler.

The optimizing compiler (C2) generates different code in each process, takes tens of seconds to finish, and uses CPU
time that is then unavailable to the load. `AlwaysPreTouch` allocates the heap's memory at startup.
"""


def facts_of(spec: ClusterSpec) -> dict[str, str]:
    """Return the facts about brokers that the plugin starts, excluding values that may be secret."""
    facts = {"heap": spec.heap}
    if spec.security is not None:
        facts["security"] = spec.security
    if spec.jmx:
        facts["jmx"] = "on"
    if spec.quick_compiler:
        facts[COMPILER] = f"quick ({' '.join(QUICK_JVM_OPTIONS)})"
    if spec.logs_in_memory:
        facts["logs"] = "in memory"
    config = {f"{CONFIG}{name}": text for name, text in sorted(spec.config.items()) if not is_secret(name, text)}
    return facts | config


def not_applied(spec: ClusterSpec, *fields: str) -> dict[str, str]:
    """Return the fact `not applied`, listing the fields in `fields` that the spec sets; empty if there are none."""
    default = ClusterSpec()
    ignored = [name for name in fields if getattr(spec, name) != getattr(default, name)]
    return {"not applied": ", ".join(ignored)} if ignored else {}
