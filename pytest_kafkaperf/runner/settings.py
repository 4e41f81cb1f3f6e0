"""Settings of one pytest run, the parsed options and ini values, and the revision that `--kafka-compare` names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_kafkaperf.clusters.auto import choose, resolve
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION, Auto, External, Target
from pytest_kafkaperf.core.environment import SHORT_HASH, default_environment_key
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.text import discreet, shown_value
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.permission import MaxRate
from pytest_kafkaperf.scenarios.threshold import Threshold

SCENARIO_OPTIONS = ("rounds", "duration", "warmup")
"""Options that set a field of every scenario."""

CLUSTER_OPTIONS = ("brokers", "jmx", "low-noise")
"""Options that set a field of every cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Parsed options of one run.

    `command_line` and `ini` keep the texts for fields of scenarios and clusters, which are parsed together with the
    markers of each test, and for reports.
    """

    command_line: Mapping[str, str] = field(repr=False)  # tracebacks show reprs, and URLs may have passwords
    """Texts from the command line, by option name without `--kafka-`."""
    ini: Mapping[str, str] = field(repr=False)
    """Texts from the ini file, by the same names."""
    root: Path
    """pytest's root folder."""
    cluster: Target
    workers: WorkerAllocation
    client_config: Path | None
    """Client properties of an external cluster."""
    metrics_urls: tuple[str, ...] = field(repr=False)
    """URLs of the JMX exporters of an external cluster."""
    connect_timeout_s: float
    """Maximum wait until an external cluster is ready, in seconds."""
    allow_unlimited: bool
    """True if tests without a rate may load clusters that the plugin did not start."""
    max_rate: MaxRate
    """The highest rate on such clusters."""
    writable_topics: tuple[str, ...]
    """The existing topics of such clusters that tests may write to."""
    topic_prefix: str
    """Prefix of the topics, groups and transactional ids of the run."""
    log_dirs: tuple[Path, ...]
    """Folders for the logs of local brokers; tests use the first one by default."""
    baselines: Path
    update: str | None
    """Mode of `--kafka-update-baselines`; None: baselines are not written."""
    environment: str | None
    strict: bool
    accepts_regressed: bool
    """True if a test that is REGRESSED passes; its verdict stays the same."""
    broker_warmup_s: float
    """Maximum load of the broker warm-up, in seconds."""
    trial_gap_s: float
    """Pause before each fresh trial, in seconds."""
    confirm: bool
    """True if suspected regressions are re-tested in fresh trials."""
    compare: Target | Revision | None
    """Cluster, or code under test, that replaces the stored baselines; None: tests are compared with these."""
    compare_setup: str | None
    """Shell command that makes the environment of a revision."""
    compare_config: Mapping[str, str]
    """Broker properties of the live baseline, in addition to those of the test."""
    compare_client_config: Path | None
    """Client properties of an external live baseline."""
    calibrate: int | None
    """Number of calibration trials; None: tests are judged."""
    time_budget_s: float | None
    """Maximum duration of the run, in seconds."""
    prune: bool
    """True if baselines of deleted tests are deleted."""
    reports: Mapping[str, Path]
    """Paths of the reports to write, by kind."""
    thresholds: tuple[Threshold, ...]
    """Thresholds of the ini file, for every test that measures their metrics."""

    def fields(self, names: tuple[str, ...], source: str) -> dict[str, str]:
        """Return the fields among `names` that `source` (`command line` or `ini`) sets."""
        given = self.command_line if source == "command line" else self.ini
        return {name.replace("-", "_"): given[name] for name in names if name in given}

    def cluster_fields(self, source: str) -> dict[str, str | None]:
        """Return the fields of every cluster that `source` sets; `--kafka-cluster` may name a version or an image."""
        decides = "command line" if "cluster" in self.command_line else "ini"
        named = self.cluster.fields if source == decides else {}
        return {**named, **self.fields(CLUSTER_OPTIONS, source)}

    def shown(self, path: Path) -> str:
        """Return a path as text, relative to the root folder if it is inside."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def describe(self, *, verbose: bool) -> list[str]:
        """Describe the cluster, and what it is compared with; with `verbose` also the source of every option."""
        lines = [f"cluster {self._describe_cluster()}"]
        if self.compare is not None:
            changes = ", ".join(discreet(f"{name}={value}") for name, value in self.compare_config.items())
            lines.append(f"compared with {self.compare}{f' ({changes})' if changes else ''}")
        sources = self.describe_sources() if verbose else ""
        return [*lines, sources] if sources else lines

    def _describe_cluster(self) -> str:
        try:
            provider = resolve(self.cluster)
        except UsageError as error:  # tests with their own fixture `kafka_cluster` run anyway
            return f"none: {error}"
        environment = self.environment or default_environment_key(provider.name)
        if isinstance(self.cluster, External):
            cluster = f"{self.cluster} (external)"
        else:
            reason = f" (auto: {choose()[1]})" if isinstance(self.cluster, Auto) else ""
            cluster = (
                f"{provider.name}{reason}, {self.cluster.image or f'Kafka {self.cluster.version or DEFAULT_VERSION}'}"
            )
        return f"{cluster}, baselines {self.shown(self.baselines)}, environment {environment}"

    def describe_sources(self) -> str:
        """Describe every option that was set, with its value and its source, for `-v`."""
        return ", ".join(
            f"{name}={', '.join(shown_value(name, value).splitlines())} "
            f"({'command line' if name in self.command_line else 'ini'})"
            for name, value in sorted({**self.ini, **self.command_line}.items())
        )


@dataclass(frozen=True, slots=True)
class Revision:
    """The code that a test is compared with."""

    text: str
    """The value of the option."""
    ref: str | None = None
    """Commit, branch or tag; `merge-base` is where this branch began."""
    folder: Path | None = None
    """Root folder of another checkout, instead of `ref`."""
    tests: str | None = None
    """`ref` for the tests as they are there, `head` for this side's files of perf tests; None: the latter, but for new
    files."""
    python: str | None = None
    """Python interpreter of the other checkout; None: this one."""
    commit: str | None = None
    """Commit of the checked-out code; None if it is not checked out yet, or unknown."""

    def __str__(self) -> str:
        """Return the value of the option, and the commit if it is known: `git:main (cf541ca)`."""
        return f"{self.text} ({self.commit[:SHORT_HASH]})" if self.commit else self.text


def parse_revision(text: str, *, start: Path) -> Revision | None:
    """Return the revision that a value of `--kafka-compare` names; None if it names a cluster.

    Raises:
        UsageError: it is incomplete, or has an unknown option.

    """
    kind, _, rest = text.strip().partition(":")
    if kind not in ("git", "path"):
        return None
    named, *options = rest.split(",")
    given = dict(option.partition("=")[::2] for option in options)
    valid = {"git": "git:REF[,tests=ref|head], for example git:origin/main", "path": "path:DIR[,python=PATH]"}[kind]
    allowed = given.get("tests") in ("ref", "head") if kind == "git" else bool(given.get("python"))
    if not named or (given and (len(given) > 1 or not allowed)):
        raise UsageError(f"--kafka-compare={text}: {valid} is needed")
    if kind == "git":
        return Revision(text, ref=named, tests=given.get("tests"))
    python = given.get("python")
    return Revision(text, folder=start / named, python=str(start / python) if python and os.sep in python else python)
