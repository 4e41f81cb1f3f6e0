"""Settings of one pytest run: options and ini values, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_kafkaperf.clusters.target import DEFAULT_VERSION, External, Reference, choose, read_target
from pytest_kafkaperf.core.environment import default_environment_key
from pytest_kafkaperf.core.text import discreet

SCENARIO_OPTIONS = ("rounds", "duration", "warmup")
"""Options that set a field of every scenario."""

CLUSTER_OPTIONS = ("version", "image", "brokers", "jmx")
"""Options that set a field of every cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of one run. Fields of scenario and cluster are raw: the markers of each test come between."""

    command_line: Mapping[str, str]
    """Given there, by option name without `--kafka-`."""
    ini: Mapping[str, str]
    root: Path
    cluster: str
    workers: str | None
    """What makes the load, as `--kafka-workers` takes it; valid."""
    client_config: Path | None
    """The client properties of a running cluster."""
    metrics_urls: tuple[str, ...]
    """JMX exporters of a running cluster."""
    log_dirs: tuple[Path, ...]
    """Folders, on disks to compare, for the logs of brokers that `local` starts; tests that name none use the first."""
    baselines: Path
    update: str | None
    environment: str | None
    strict: bool
    preheat_s: float
    """Of load on brokers that were just started, before the first round."""
    confirm: bool
    """Whether suspects run again on fresh sessions."""
    reference: Reference | None
    """The cluster that stands for the baseline; None: stored baselines do."""
    reference_config: Mapping[str, str]
    """Broker properties of the reference, on top of the test's own."""
    reference_client_config: Path | None
    """The client properties of a reference that runs already."""
    reference_seed: int | None
    """Of the order in which rounds on both take turns; None: drawn."""
    calibrate: int | None
    """Sessions to measure the noise by; None: tests are judged."""
    time_budget_s: float | None
    """Of the whole run."""
    prune: bool
    """Whether baselines of tests that are gone are deleted."""
    reports: Mapping[str, Path]
    """The files to write, by the option that asks for each, without `--kafka-`."""
    compat: bool
    """Whether rounds are printed as Kafka's own tools would."""
    history: Path | None
    thresholds: tuple[str, ...]
    """Limits of the ini file, for every test that has those metrics."""

    def fields(self, names: tuple[str, ...], source: str) -> dict[str, str]:
        """The fields among `names` that `source` (`command line` or `ini`) sets."""
        given = self.command_line if source == "command line" else self.ini
        return {name: given[name] for name in names if name in given}

    @property
    def version(self) -> str:
        """The Kafka that is started for tests whose marker names none."""
        return self.command_line.get("version") or self.ini.get("version") or DEFAULT_VERSION

    def shown(self, path: Path) -> str:
        """A path as short as it can be written."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def described_cluster(self, *, look: bool) -> tuple[str, str | None]:
        """The cluster and the environment, for people; of `auto`, the environment is known only after a `look`."""
        if self.cluster == "auto" and not look:
            return "auto", self.environment
        target = read_target(self.cluster)
        provider = target.name
        image = self.command_line.get("image") or self.ini.get("image")
        started = f"Kafka {self.version}" if provider == "local" or image is None else image
        environment = self.environment or default_environment_key(provider)
        if isinstance(target, External):
            return f"{self.cluster} ({provider})", environment
        reason = f" (auto: {choose()[1]})" if self.cluster == "auto" else ""
        return f"{provider}{reason}, {started}", environment

    def describe_sources(self) -> str:
        """Every option that was set, with its value and where: for `-v`."""
        effective = {name: (value, "ini") for name, value in self.ini.items()}
        effective |= {name: (value, "command line") for name, value in self.command_line.items()}
        return ", ".join(
            f"{name}={', '.join(discreet(value).splitlines())} ({source})"
            for name, (value, source) in sorted(effective.items())
        )
