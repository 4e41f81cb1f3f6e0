"""What one pytest run was asked for: options and ini values, each with its source."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pytest_kafkaperf.environment import environment_key
from pytest_kafkaperf.errors import UnitError, UsageError, nearest
from pytest_kafkaperf.target import Reference, choose, parse_reference, parse_target, read_target

SCENARIO_OPTIONS = ("rounds", "duration", "warmup")
"""Options that set a field of every scenario."""
CLUSTER_OPTIONS = ("version", "image", "brokers", "jmx")
"""Options that set a field of every cluster."""
DEFAULT_VERSION = "4.3.1"
"""The Kafka that is started where none is named: the newest that resolves."""
UPDATE_MODES = ("all", "new", "improved", "append")
"""What `--kafka-update-baselines` knows."""
DEFAULT_BASELINES = "kafka-baselines"
"""The folder of baselines, below the root folder."""
_PREHEAT_S = 6.0
"""After it, rounds on brokers that were just started are as fast as later ones."""


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
    json: Path | None
    markdown: Path | None
    gitlab_metrics: Path | None
    html: Path | None
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

    def described_cluster(self) -> tuple[str, str]:
        """The provider, and where load would go and why, for people."""
        provider = read_target(self.cluster).name
        image = self.command_line.get("image") or self.ini.get("image")
        started = f"Kafka {self.version}" if provider == "local" or image is None else image
        match self.cluster:
            case "auto":
                return provider, f"{provider} (auto: {choose()[1]}), {started}"
            case "local" | "docker":
                return provider, f"{provider}, {started}"
            case servers:
                return provider, f"{servers} ({provider})"

    def describe_sources(self) -> str:
        """Every option that was set, with its value and where: for `-v`."""
        effective = {name: (value, "ini") for name, value in self.ini.items()}
        effective |= {name: (value, "command line") for name, value in self.command_line.items()}
        return ", ".join(
            f"{name}={', '.join(discreet(value).splitlines())} ({source})"
            for name, (value, source) in sorted(effective.items())
        )


def discreet(text: str, *, login: str = "") -> str:
    """What may be shown of an option: `login` in place of one in an address, `***` of a property that may be secret."""
    lines = [re.sub(r"(?<=://)[^/?#,]*@", login, line) for line in text.splitlines()]
    properties = ((line, *line.partition("=")[:2]) for line in lines)
    return "\n".join(f"{name}=***" if equals and may_be_secret(name) else line for line, name, equals in properties)


def may_be_secret(name: str) -> bool:
    """Whether a property's value may be a secret: of a plug-in's properties Kafka itself does not know which are."""
    return re.search(r"password|secret|token|credential|jaas|private|key$", name, re.IGNORECASE) is not None


def read_settings(
    command_line: Mapping[str, str | bool | list[str] | None],
    ini: Mapping[str, str | bool | list[str]],
    thresholds: list[str],
    *,
    invocation_folder: Path,
    root: Path,
) -> Settings:
    """Combine the command line with the ini file; the command line wins.

    Paths of the command line are relative to where pytest was called, those of the ini file to the root folder.

    Raises:
        UsageError: a value that no test could run with.

    """
    given = {name: _text(value) for name, value in command_line.items() if value not in (None, False)}
    written = {name: _text(value) for name, value in ini.items() if value not in ("", False, [])}
    either = {**written, **given}

    def path(name: str) -> Path | None:
        if name in given:
            return invocation_folder / given[name]
        return root / written[name] if name in written else None

    def paths(name: str) -> tuple[Path, ...]:
        start = invocation_folder if name in given else root
        parts = [part.strip() for part in either.get(name, "").split(",")] if name in either else []
        if not all(parts):
            raise UsageError(f"--kafka-{name}={either[name]}: a folder has no name; give paths, separated by commas")
        return tuple(start / part for part in parts)

    update = either.get("update-baselines")
    if update is not None and update not in UPDATE_MODES:
        raise UsageError(
            f"--kafka-update-baselines={update}: {nearest(update, UPDATE_MODES)} (give the mode after an equals sign)"
        )
    environment = either.get("environment")
    reference = parse_reference(either["reference"]) if "reference" in either else None
    preheat_s = _seconds(either, "preheat", least=0)
    calibrate = _whole(either, "calibrate", least=2)
    _refuse_together(either, update)
    if reference is not None:
        _refuse_for_reference(either, reference)
    return Settings(
        command_line=given,
        ini=written,
        root=root,
        cluster=parse_target(either.get("cluster", "auto")),
        workers=_workers(either.get("workers")),
        client_config=path("client-config"),
        metrics_urls=_urls(either.get("metrics-url")),
        log_dirs=paths("log-dirs"),
        baselines=path("baselines") or root / DEFAULT_BASELINES,
        update=update,
        environment=None if environment is None else environment_key(environment),
        strict="strict" in either,
        preheat_s=_PREHEAT_S if preheat_s is None else preheat_s,
        confirm="no-confirm" not in either,
        reference=reference,
        reference_config=_properties(either.get("reference-config")),
        reference_client_config=path("reference-client-config"),
        reference_seed=_whole(either, "reference-seed", least=0),
        calibrate=calibrate,
        time_budget_s=_seconds(either, "time-budget", least=1),
        prune="prune-baselines" in either,
        json=path("json"),
        markdown=path("markdown"),
        gitlab_metrics=path("gitlab-metrics"),
        html=path("html"),
        compat="compat" in either,
        history=path("history"),
        thresholds=tuple(thresholds),
    )


def _workers(text: str | None) -> str | None:
    """The text of `--kafka-workers`.

    Raises:
        UsageError: it cannot be read, or asks for what is not installed.

    """
    if text is None:
        return None
    from pytest_kafkaperf.crew import parse_crew  # noqa: PLC0415 - costs start-up time

    if parse_crew(text).scheduler is not None and importlib.util.find_spec("distributed") is None:
        raise UsageError(
            f"--kafka-workers={text}: Dask is not installed; install it with: pip install 'pytest-kafkaperf[dask]'"
        )
    return text


def _refuse_together(given: Mapping[str, str], update: str | None) -> None:
    """Refuse options that contradict each other.

    Raises:
        UsageError: names both, and what to do.

    """
    for name in ("reference-config", "reference-client-config", "reference-seed"):
        if name in given and "reference" not in given:
            raise UsageError(
                f"--kafka-{name} says how the reference is, and there is none: add --kafka-reference, "
                "for example --kafka-reference=local"
            )
    if "reference" in given and update is not None:
        raise UsageError(
            "--kafka-update-baselines with --kafka-reference: figures taken in turns with another cluster's make no "
            "baseline; leave one of them out"
        )
    if "reference" in given and "calibrate" in given:
        raise UsageError(
            "--kafka-calibrate with --kafka-reference: calibration compares a cluster with itself; "
            "leave one of them out"
        )
    if "calibrate" in given and "time-budget" in given:
        raise UsageError(
            "--kafka-time-budget with --kafka-calibrate: how much sessions differ is seen in whole ones only; "
            "leave one of them out"
        )
    if "calibrate" in given and "no-confirm" in given:
        raise UsageError(
            "--kafka-no-confirm with --kafka-calibrate: calibration shows how often the rule with confirmation errs; "
            "leave one of them out"
        )
    if "calibrate" in given and update == "improved":
        raise UsageError(
            "--kafka-update-baselines=improved with --kafka-calibrate: nothing is judged, so nothing is better; "
            "use all, new or append"
        )


def _refuse_for_reference(given: Mapping[str, str], reference: Reference) -> None:
    """Refuse what that kind of reference cannot take.

    Raises:
        UsageError: names both, and what to do.

    """
    if "reference-config" in given and not reference.is_started:
        raise UsageError(
            f"--kafka-reference-config with --kafka-reference={reference}: it is for brokers that the session starts; "
            "use --kafka-reference=local or docker, or configure those servers themselves"
        )
    if "reference-client-config" in given and reference.is_started:
        raise UsageError(
            f"--kafka-reference-client-config with --kafka-reference={reference}: it is for a running cluster; name "
            "one by --kafka-reference=HOST:PORT, or leave it out"
        )


def _properties(text: str | None) -> dict[str, str]:
    """`--kafka-reference-config`: `NAME=VALUE`, one a line.

    Raises:
        UsageError: a part that is not NAME=VALUE.

    """
    properties: dict[str, str] = {}
    for line in (text or "").splitlines():
        name, equals, value = (part.strip() for part in line.partition("="))
        if not (name and equals):
            raise UsageError(
                f"--kafka-reference-config={line}: NAME=VALUE is needed, such as num.io.threads=1; several properties "
                "are given by the option again"
            )
        properties[name] = value
    return properties


def _whole(given: Mapping[str, str], name: str, *, least: int) -> int | None:
    """An option that is a number.

    Raises:
        UsageError: it is none, or less than that.

    """
    text = given.get(name)
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,9}", text.strip()) or int(text) < least:
        raise UsageError(f"--kafka-{name}={text}: a whole number of at least {least} is needed")
    return int(text)


def _seconds(given: Mapping[str, str], name: str, *, least: int) -> float | None:
    """An option that is a time, in seconds.

    Raises:
        UsageError: it is none, or less than that.

    """
    text = given.get(name)
    if text is None:
        return None
    from pytest_kafkaperf.units import Unit, parse  # noqa: PLC0415 - costs start-up time

    try:
        seconds = parse(re.sub(r"m\s*\Z", "min", text), Unit.SECONDS)  # as CI systems write minutes
    except UnitError as error:
        raise UsageError(f"--kafka-{name}={text}: {error}; for example 10m or 5s") from None
    if seconds < least:
        raise UsageError(f"--kafka-{name}={text}: a time of at least {least} s is needed, for example 10m")
    return seconds


def _urls(text: str | None) -> tuple[str, ...]:
    """The addresses of `--kafka-metrics-url`.

    Raises:
        UsageError: one that is no address of a page.

    """
    urls = () if text is None else tuple(part.strip() for part in text.split(","))
    for url in urls:
        try:
            parts = urlsplit(url)
            valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:
            valid = False
        if not valid:
            raise UsageError(
                "--kafka-metrics-url: one of the addresses is not http://HOST:PORT/PATH; give the pages of the "
                "brokers' JMX exporters, for example http://broker1:9404/metrics,http://broker2:9404/metrics"
            )
    return urls


def _text(value: str | bool | list[str] | None) -> str:  # noqa: FBT001 - as pytest gives it
    match value:
        case True:
            return "true"
        case list():
            return "\n".join(value)
        case _:
            return str(value)
