"""The settings of a run, parsed from options and ini values, and the revision that `--kafka-compare` selects."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_kafkaperf.clusters.auto import choose, resolve
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION, Auto, External, Target
from pytest_kafkaperf.core.environment import SHORT_HASH, default_environment_key
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.text import discreet, file_of, shown_value
from pytest_kafkaperf.load.allocation import WorkerAllocation
from pytest_kafkaperf.runner.rounds.permission import MaxRate
from pytest_kafkaperf.scenarios.threshold import Threshold

SCENARIO_OPTIONS = ("rounds", "duration", "warmup")
"""Options that set a field in every scenario."""

CLUSTER_OPTIONS = ("brokers", "jmx", "quick-compiler")
"""Options that set a field in every cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The parsed options of a run.

    `command_line` and `ini` keep the original texts, both for reports and for scenario and cluster fields, which are
    parsed together with each test's markers.
    """

    command_line: Mapping[str, str] = field(repr=False)  # tracebacks show reprs, and URLs may contain passwords
    """Option texts from the command line, by name without `--kafka-`."""
    ini: Mapping[str, str] = field(repr=False)
    """Option texts from the ini file, by the same names."""
    root: Path
    """pytest's root folder."""
    invocation_folder: Path
    """The folder in which pytest was started."""
    selecting: tuple[str, ...]
    """Options in the ini file's `addopts` that can deselect a test even if its nodeid is given: `-m` and `-k`."""
    cluster: Target
    workers: WorkerAllocation
    client_config: Path | None
    """Client properties file for an external cluster."""
    metrics_urls: tuple[str, ...] = field(repr=False)
    """URLs of an external cluster's JMX exporters."""
    connect_timeout_s: float
    """Maximum wait until an external cluster is ready, in seconds."""
    allow_unlimited: bool
    """True if load at any rate or at full speed is allowed on clusters that the plugin did not start."""
    max_rate: MaxRate
    """The maximum rate on clusters that the plugin did not start."""
    writable_topics: tuple[str, ...]
    """Existing topics that tests may write to on clusters that the plugin did not start."""
    topic_prefix: str
    """Prefix of the topics, consumer groups and transactional ids that the run creates."""
    log_dirs: tuple[Path, ...]
    """Folders for local brokers' logs; tests use the first one by default."""
    baselines: Path
    update: str | None
    """Mode of `--kafka-update-baselines`; None if baselines are not written."""
    environment: str | None
    strict: bool
    accepts_regressed: bool
    """True if REGRESSED tests pass; their verdict does not change."""
    broker_warmup_s: float
    """Maximum broker warm-up on each side, in seconds."""
    trial_gap_s: float
    """Pause before each new trial, in seconds."""
    confirm: bool
    """True if suspected regressions are re-tested."""
    compare: Target | Revision | None
    """The live baseline, a cluster or a revision of the code; None to compare with stored baselines."""
    compares_code: bool
    """True if two revisions are compared, on either side."""
    compare_setup: str | None
    """Shell command that installs a revision into a separate virtual environment."""
    compare_config: Mapping[str, str]
    """Broker properties for the live baseline, in addition to those of the test."""
    compare_client_config: Path | None
    """Client properties file for an external live baseline."""
    calibrate: int | None
    """Number of calibration trials; None if tests are judged."""
    time_budget_s: float | None
    """Maximum duration of the run, in seconds; None without a limit."""
    prune: bool
    """True if the baselines of tests that no longer exist are deleted."""
    reports: Mapping[str, Path]
    """Paths of the reports to write, by kind."""
    thresholds: tuple[Threshold, ...]
    """Thresholds from the ini file, which apply to every test that measures their metric."""

    def selection(self, nodeid: str) -> tuple[str, ...]:
        """Return the pytest arguments that select a test in the folder in which pytest was started."""
        if self.invocation_folder != self.root:
            file = file_of(nodeid)
            nodeid = os.path.relpath(self.root / file, self.invocation_folder) + nodeid.removeprefix(file)
        return (nodeid, *(part for option in self.selecting for part in (option, "")))

    def fields(self, names: tuple[str, ...], source: str) -> dict[str, str]:
        """Return the fields that `source` (`command line` or `ini`) sets."""
        given = self.command_line if source == "command line" else self.ini
        return {name.replace("-", "_"): given[name] for name in names if name in given}

    def cluster_fields(self, source: str) -> dict[str, str | None]:
        """Return the cluster fields that `source` sets; `--kafka-cluster` may contain a version or an image."""
        decides = "command line" if "cluster" in self.command_line else "ini"
        named = self.cluster.fields if source == decides else {}
        return {**named, **self.fields(CLUSTER_OPTIONS, source)}

    def shown(self, path: Path) -> str:
        """Return a path as text, relative to the root folder if it is inside that folder."""
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def describe(self, *, verbose: bool, stored: bool) -> list[str]:
        """Describe the cluster, its baseline and, with `verbose`, the source of every option.

        `stored` is True if this run reads or writes baseline files.
        """
        lines = [f"cluster {self._describe_cluster(stored=stored)}"]
        if self.compare is not None:
            changes = ", ".join(discreet(f"{name}={value}") for name, value in self.compare_config.items())
            lines.append(f"compared with {self.compare}{f' ({changes})' if changes else ''}")
        sources = self.describe_sources() if verbose else ""
        return [*lines, sources] if sources else lines

    def _describe_cluster(self, *, stored: bool) -> str:
        try:
            provider = resolve(self.cluster)
        except UsageError as error:  # tests that override the `kafka_cluster` fixture run regardless
            return f"none: {error}"
        environment = self.environment or default_environment_key(provider.name)
        if isinstance(self.cluster, External):
            cluster = f"{self.cluster} (external)"
        else:
            reason = f" (auto: {choose()[1]})" if isinstance(self.cluster, Auto) else ""
            cluster = (
                f"{provider.name}{reason}, {self.cluster.image or f'Kafka {self.cluster.version or DEFAULT_VERSION}'}"
            )
        return f"{cluster}, baselines {self.shown(self.baselines)}, environment {environment}" if stored else cluster

    def describe_sources(self) -> str:
        """Describe every option that was set, with its value and source; used by `-v`."""
        return ", ".join(
            f"{name}={', '.join(shown_value(name, value).splitlines())} "
            f"({'command line' if name in self.command_line else 'ini'})"
            for name, value in sorted({**self.ini, **self.command_line}.items())
        )


@dataclass(frozen=True, slots=True)
class Revision:
    """A code revision to compare with."""

    text: str
    """The option value."""
    ref: str | None = None
    """Commit, branch or tag; `merge-base` is the commit where this branch started."""
    folder: Path | None = None
    """Root folder of another checkout, instead of `ref`."""
    tests: str | None = None
    """`ref` for that revision's tests; `head` for this side's perf test files; None for these files without new
    ones."""
    python: str | None = None
    """Python interpreter for the other checkout; None for this one."""
    commit: str | None = None
    """Commit of the checked-out code; None if it is unknown or not checked out yet."""

    def __str__(self) -> str:
        """Return the option value, with the commit if known, as in `git:main (cf541ca)`."""
        return f"{self.text} ({self.commit[:SHORT_HASH]})" if self.commit else self.text


def parse_revision(text: str, *, start: Path) -> Revision | None:
    """Parse a `--kafka-compare` value as a revision; return None if the value specifies a cluster.

    Raises:
        UsageError: the value is incomplete or has an unknown option.

    """
    kind, _, rest = text.strip().partition(":")
    if kind not in ("git", "path"):
        return None
    named, *options = rest.split(",")
    given = dict(option.partition("=")[::2] for option in options)
    valid = {"git": "git:REF[,tests=ref|head], for example git:origin/main", "path": "path:DIR[,python=PATH]"}[kind]
    allowed = given.get("tests") in ("ref", "head") if kind == "git" else bool(given.get("python"))
    if not named or (given and (len(given) > 1 or not allowed)):
        raise UsageError(f"--kafka-compare={text}: must be {valid}")
    if kind == "git":
        return Revision(text, ref=named, tests=given.get("tests"))
    python = given.get("python")
    return Revision(text, folder=start / named, python=str(start / python) if python and os.sep in python else python)
