"""Parses option and ini values into `Settings`, so no other code has to parse text."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pytest_kafkaperf.clusters.admin.run_names import LEGAL_PREFIX
from pytest_kafkaperf.clusters.target import VALID, WORDS, Docker, External, Target, parse_target
from pytest_kafkaperf.core.environment import environment_key
from pytest_kafkaperf.core.errors import UnitError, UsageError, did_you_mean, nearest
from pytest_kafkaperf.core.units import parse_time
from pytest_kafkaperf.load.allocation import WorkerAllocation, parse_workers
from pytest_kafkaperf.plugin.options import OPTIONS, REPORTS, UPDATE_MODES, key_of
from pytest_kafkaperf.reports.html.html_report import check_installed
from pytest_kafkaperf.runner.rounds.permission import MaxRate, parse_max_rate
from pytest_kafkaperf.runner.settings import Revision, Settings, parse_revision
from pytest_kafkaperf.scenarios.threshold import Threshold, parse_declared

_BARE = re.compile(r"[\w.][\w./~^@-]*")
"""A name without a kind, such as `main` or `../old`: a revision, a folder or a server."""
_REVISIONS = "; or a revision: git:REF[,tests=ref|head] or path:DIR[,python=PATH], such as git:origin/main"
"""Further valid values of `--kafka-compare`, which are appended to errors."""

_MOST_GAP_S = 3600
"""Maximum pause before a new trial."""

_EXCLUSIVE = (
    ("update-baselines", "compare", "results of a side-by-side comparison are never written to baselines"),
    ("calibrate", "compare", "calibration measures the noise of a single cluster"),
    ("accept", "calibrate", "calibration does not judge any test, so there is no regression to accept"),
    (
        "accept",
        "update-baselines",
        "a new baseline accepts the slowdown for all later runs, but --kafka-accept accepts it for this run only",
    ),
    ("no-confirm", "compare", "a side-by-side comparison always takes several trials"),
    ("no-confirm", "calibrate", "calibration measures the false-alarm rate of verdicts that include re-tests"),
    ("time-budget", "calibrate", "calibration needs complete trials, but a time budget skips rounds"),
)
"""Pairs of mutually exclusive options, with the reason. An option on the command line overrides its counterpart in the
ini file."""


def read_settings(
    command_line: Mapping[str, object],
    ini: Mapping[str, object],
    *,
    invocation_folder: Path,
    root: Path,
    addopts: Sequence[str] = (),
    is_other_side: bool = False,
) -> Settings:
    """Parse a run's options; the command line overrides the ini file, including settings for overridden values.

    Args:
        command_line: values by option name without `--kafka-`.
        ini: values by the same names; an empty value counts as not set.
        invocation_folder: base folder of relative paths on the command line.
        root: base folder of relative paths in the ini file.
        addopts: pytest's own options from the ini file.
        is_other_side: True if this process runs another revision's tests for a comparison.

    Raises:
        UsageError: a value is invalid, or two options are mutually exclusive.

    """
    given = _texts(command_line)
    written = _texts(ini)
    if ini.get("quick-compiler") is False:
        written["quick-compiler"] = "false"  # unlike for other switches, this differs from the default
    other = _parse_compare(given.get("compare"), invocation_folder)
    set_aside = _set_aside(given, other)
    values = _Values(
        command_line=given,
        ini={name: text for name, text in written.items() if text and name not in set_aside},
        invocation_folder=invocation_folder,
        root=root,
    )
    cluster = parse_target(values.text("cluster"))
    compare = other or _parse_compare(values.ini.get("compare"), root)
    _check_combinations(values, compare, cluster)
    reports = {**_reports(values.ini.get("report"), root), **_reports(given.get("report"), invocation_folder)}
    _refuse_shared_paths(reports)
    if "html" in reports:
        check_installed()
    # An external live baseline uses the ini file's client properties even if the command line selects another cluster.
    login = None
    if "client-config" in set_aside and isinstance(compare, External):
        login = written.get("client-config")
    return Settings(
        command_line=given,
        ini=values.ini,
        root=root,
        invocation_folder=invocation_folder,
        selecting=tuple(name for name in ("-m", "-k") if any(option.startswith(name) for option in addopts)),
        cluster=cluster,
        workers=_workers(values.get("workers"), insecure=values.has("insecure-workers")),
        client_config=values.path("client-config"),
        metrics_urls=_urls(values.listed("metrics-url")),
        connect_timeout_s=values.seconds("connect-timeout", minimum=1),
        allow_unlimited=values.has("allow-unlimited"),
        max_rate=_max_rate(values.text("max-rate")),
        writable_topics=tuple(values.listed("writable-topics")),
        topic_prefix=_prefix(values.text("topic-prefix")),
        log_dirs=_folders(values.listed("log-dirs"), root),
        baselines=values.path("baselines") or root / OPTIONS["baselines"].default,
        update=_update_mode(values.get("update-baselines")),
        environment=_environment(values.get("environment")),
        strict=values.has("strict"),
        accepts_regressed=_accepts_regressed(values.get("accept")),
        broker_warmup_s=values.seconds("broker-warmup", minimum=0),
        trial_gap_s=values.seconds("trial-gap", minimum=0, maximum=_MOST_GAP_S),
        confirm=not values.has("no-confirm"),
        compare=compare,
        compares_code=is_other_side or isinstance(compare, Revision),
        compare_setup=values.get("compare-setup"),
        compare_config=_properties(values.get("compare-config")),
        compare_client_config=values.path("compare-client-config") or (root / login if login else None),
        calibrate=values.whole_number("calibrate", minimum=2),
        time_budget_s=values.seconds("time-budget", minimum=1) if values.has("time-budget") else None,
        prune=values.has("prune-baselines"),
        reports=reports,
        thresholds=_thresholds(values.get("thresholds")),
    )


def _set_aside(given: Mapping[str, str], compare: Target | Revision | None) -> set[str]:
    """Return the ini keys that the command line overrides; `compare` is its parsed `--kafka-compare`."""
    names = set()
    for one, other, _ in _EXCLUSIVE:
        if one in given:
            names.add(other)
        if other in given:
            names.add(one)
    if "compare" in names or isinstance(compare, Revision | External):
        names.add("compare-config")
    if "cluster" in given:
        cluster = parse_target(given["cluster"])
        if not isinstance(cluster, External):
            names |= {"client-config", "metrics-url"}
        if isinstance(cluster, External | Docker):
            names.add("log-dirs")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Values:
    """Texts of all options in effect, by name; the command line overrides the ini file."""

    command_line: Mapping[str, str]
    ini: Mapping[str, str]
    invocation_folder: Path
    root: Path

    def has(self, name: str) -> bool:
        """Return True if an option is set."""
        return name in self.command_line or name in self.ini

    def get(self, name: str) -> str | None:
        """Return the text of an option; None if it is not set."""
        return self.command_line.get(name, self.ini.get(name))

    def text(self, name: str) -> str:
        """Return the text of an option, or its default."""
        text = self.get(name)
        return OPTIONS[name].default if text is None else text

    def listed(self, name: str) -> list[str]:
        """Return the parts of a value, which are separated by line breaks or commas."""
        text = self.get(name)
        return [] if text is None else [part.strip() for part in re.split("[,\n]", text)]

    def path(self, name: str) -> Path | None:
        """Return a path; a relative path's base folder depends on where the option is set."""
        text = self.get(name)
        if text is None:
            return None
        if not text:
            raise UsageError(f"--kafka-{name}=: the path is empty; give a file or folder, or omit the option")
        return (self.invocation_folder if name in self.command_line else self.root) / text

    def whole_number(self, name: str, *, minimum: int) -> int | None:
        """Return an integer; None if the option is not set."""
        text = self.get(name)
        if text is None:
            return None
        if not re.fullmatch(r"[0-9]{1,9}", text.strip()) or int(text) < minimum:
            raise UsageError(f"--kafka-{name}={text}: must be an integer ≥ {minimum}")
        return int(text)

    def seconds(self, name: str, *, minimum: int, maximum: float = math.inf) -> float:
        """Return a time in seconds, or the default."""
        text = self.text(name)
        try:
            seconds = parse_time(text)
        except UnitError as error:
            raise UsageError(f"{_shown(name, text)}: {error}") from None
        if seconds < minimum:
            raise UsageError(f"{_shown(name, text)}: must be at least {minimum} s, for example 10m")
        if seconds > maximum:
            raise UsageError(f"{_shown(name, text)}: must be at most {maximum / 3600:g} h, for example 10m")
        return seconds


def _shown(name: str, text: str) -> str:
    """Return a value as the user would write it: as an option or, if there is no option, as an ini key."""
    return f"{key_of(name)} = {text}" if OPTIONS[name].place == "ini" else f"--kafka-{name}={text}"


def _environment(text: str | None) -> str | None:
    return None if text is None else environment_key(text)


def _thresholds(text: str | None) -> tuple[Threshold, ...]:
    """Parse the ini file's thresholds, one per line."""
    declared = [] if text is None else [parse_declared(line) for line in text.splitlines()]
    return tuple(dataclasses.replace(threshold, from_ini=True) for threshold in declared)


def _parse_compare(text: str | None, start: Path) -> Target | Revision | None:
    if text is None:
        return None
    revision = parse_revision(text, start=start)
    if revision is not None:
        return revision
    bare = text.strip()
    if _BARE.fullmatch(bare) and bare not in WORDS:
        kind = "path" if (start / bare).is_dir() else "git"
        server = [] if "/" in bare or "~" in bare else [f"{bare}:9092"]
        hint = did_you_mean([f"{kind}:{bare}", *server])
        raise UsageError(f"--kafka-compare={text}: {hint} {VALID}{_REVISIONS}")
    return parse_target(text, option="--kafka-compare", more=_REVISIONS)


def _check_combinations(values: _Values, compare: Target | Revision | None, cluster: Target) -> None:
    """Check for options that contradict each other.

    Raises:
        UsageError: two options contradict each other; the message contains both options and explains what to do.

    """
    if values.has("compare-config") and compare is None:
        raise UsageError(
            "--kafka-compare-config configures a live baseline, but there is none; add --kafka-compare=local"
        )
    for one, other, reason in _EXCLUSIVE:
        if values.has(one) and values.has(other):
            raise UsageError(f"--kafka-{one} with --kafka-{other}: {reason}; omit one of them")
    if values.has("compare-setup") and (not isinstance(compare, Revision) or compare.ref is None):
        raise UsageError(
            "--kafka-compare-setup is only for a revision of the code, such as --kafka-compare=git:origin/main"
        )
    if isinstance(compare, Revision) and isinstance(cluster, External):
        raise UsageError(
            f"--kafka-compare={compare} with --kafka-cluster={cluster}: the applications of both sides would share "
            "topics and groups on one cluster; use --kafka-cluster=local or docker"
        )
    if values.has("compare-config") and isinstance(compare, Revision):
        raise UsageError(
            f"--kafka-compare-config with --kafka-compare={compare}: each revision's tests declare its cluster, so "
            "it cannot be configured here; compare either code or brokers"
        )
    if values.has("compare-config") and isinstance(compare, External):
        raise UsageError(
            f"--kafka-compare-config with --kafka-compare={compare}: only brokers that the plugin starts can be "
            "configured; use --kafka-compare=local or docker, or configure those servers yourself"
        )


def _update_mode(text: str | None) -> str | None:
    if text is not None and text not in UPDATE_MODES:
        raise UsageError(
            f"--kafka-update-baselines={text}: {nearest(text, UPDATE_MODES)} (write the mode after an equals sign)"
        )
    return text


def _accepts_regressed(text: str | None) -> bool:
    if text not in (None, "regressed"):
        raise UsageError(f"--kafka-accept={text}: only regressions can be accepted; use --kafka-accept=regressed")
    return text is not None


def _workers(text: str | None, *, insecure: bool) -> WorkerAllocation:
    if text is None:
        return WorkerAllocation()
    allocation = dataclasses.replace(parse_workers(text), insecure=insecure)
    if allocation.scheduler is not None and importlib.util.find_spec("distributed") is None:
        raise UsageError(
            f"--kafka-workers={text}: Dask is not installed; install it with: pip install 'pytest-kafkaperf[dask]'"
        )
    return allocation


def _folders(names: list[str], start: Path) -> tuple[Path, ...]:
    if not all(names):
        raise UsageError(
            f"{_shown('log-dirs', ','.join(names))}: a folder name is empty; write one path per line, or separate "
            "paths with commas"
        )
    return tuple(start / name for name in names)


def _prefix(text: str) -> str:
    if not LEGAL_PREFIX.fullmatch(text):
        raise UsageError(
            f"{_shown('topic-prefix', text)}: must be 1 to 180 of the characters that topic names may have (a-z, A-Z, "
            "0-9, '.', '_' and '-'), and must not start with '__', for example team-a.perf-"
        )
    return text


def _max_rate(text: str) -> MaxRate:
    try:
        return parse_max_rate(text)
    except UnitError as error:
        raise UsageError(f"{_shown('max-rate', text)}: {error}") from None


def _properties(text: str | None) -> dict[str, str]:
    """Parse `--kafka-compare-config`, one `NAME=VALUE` per line."""
    properties: dict[str, str] = {}
    for line in (text or "").splitlines():
        name, equals, value = (part.strip() for part in line.partition("="))
        if not (name and equals):
            raise UsageError(
                f"--kafka-compare-config={line}: must be NAME=VALUE, for example num.io.threads=1; for several "
                "properties, repeat the option"
            )
        if properties.setdefault(name, value) != value:
            raise UsageError(f"--kafka-compare-config: {name} has two different values; set it once")
    return properties


def _reports(text: str | None, start: Path) -> dict[str, Path]:
    """Parse `--kafka-report`, one `KIND[:PATH]` per line; the last path for each kind counts."""
    reports: dict[str, Path] = {}
    for line in [] if text is None else text.splitlines() or [""]:
        kind, colon, name = line.strip().partition(":")
        if kind not in REPORTS or (colon and not name):
            problem = "the path after the colon is empty" if kind in REPORTS else nearest(kind, REPORTS)
            raise UsageError(
                f"--kafka-report={line}: {problem}; must be KIND[:PATH], for example html or html:reports/kafka.html"
            )
        reports[kind] = start / (name or REPORTS[kind])
    return reports


def _refuse_shared_paths(reports: Mapping[str, Path]) -> None:
    """Reject multiple reports in one file, because the last one would overwrite the others, even a long history."""
    kinds: dict[Path, str] = {}
    for kind, path in reports.items():
        other = kinds.setdefault(path.resolve(), kind)
        if other != kind:
            raise UsageError(
                f"--kafka-report: {other} and {kind} would be the same file, {path}; give each its own path"
            )


def _urls(urls: list[str]) -> tuple[str, ...]:
    for url in urls:
        try:
            parts = urlsplit(url)
            valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            valid = False
        if not valid:  # the text may contain a password
            raise UsageError(
                "kafka_metrics_url: each address must be http://HOST:PORT/PATH; give the URLs of the brokers' JMX "
                "exporters, for example http://broker1:9404/metrics,http://broker2:9404/metrics"
            )
    return tuple(urls)


def _texts(values: Mapping[str, object]) -> dict[str, str]:
    """Return the texts of all values that are set: `true` for a switch, one line per list item."""
    lists = {name: value if isinstance(value, list) else [value] for name, value in values.items()}
    return {
        name: "\n".join("true" if each is True else str(each) for each in found)
        for name, found in lists.items()
        if found and found[0] is not None and found[0] is not False
    }
