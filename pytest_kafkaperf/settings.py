"""What one pytest run was asked for: options and ini values, each with its source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pytest_kafkaperf.environment import environment_key
from pytest_kafkaperf.errors import UsageError, nearest
from pytest_kafkaperf.target import parse_target

SCENARIO_OPTIONS = ("rounds", "duration", "warmup")
"""Options that set a field of every scenario."""
CLUSTER_OPTIONS = ("version", "image", "brokers", "jmx")
"""Options that set a field of every cluster."""
DEFAULT_VERSION = "4.3.1"
"""The Kafka that is started where none is named: the newest that resolves."""
UPDATE_MODES = ("all",)
"""What `--kafka-update-baselines` knows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options of one run. Fields of scenario and cluster are raw: the markers of each test come between."""

    command_line: Mapping[str, str]
    """Given there, by option name without `--kafka-`."""
    ini: Mapping[str, str]
    root: Path
    cluster: str
    client_config: Path | None
    """The client properties of a running cluster."""
    metrics_urls: tuple[str, ...]
    """JMX exporters of a running cluster."""
    baselines: Path
    update: str | None
    environment: str | None
    strict: bool
    json: Path | None
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

    def describe_sources(self) -> str:
        """Every option that was set, with its value and where: for `-v`."""
        effective = {name: (value, "ini") for name, value in self.ini.items()}
        effective |= {name: (value, "command line") for name, value in self.command_line.items()}
        return ", ".join(
            f"{name}={_without_login(value)} ({source})" for name, (value, source) in sorted(effective.items())
        )


def read_settings(
    command_line: Mapping[str, str | bool | None],
    ini: Mapping[str, str | bool],
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
    written = {name: _text(value) for name, value in ini.items() if value not in ("", False)}
    either = {**written, **given}

    def path(name: str, default: str | None) -> Path | None:
        if name in given:
            return invocation_folder / given[name]
        text = written.get(name, default)
        return None if text is None else root / text

    update = either.get("update-baselines")
    if update is not None and update not in UPDATE_MODES:
        raise UsageError(
            f"--kafka-update-baselines={update}: {nearest(update, UPDATE_MODES)} (give the mode after an equals sign)"
        )
    environment = either.get("environment")
    return Settings(
        command_line=given,
        ini=written,
        root=root,
        cluster=parse_target(either.get("cluster", "auto")),
        client_config=path("client-config", None),
        metrics_urls=_urls(either.get("metrics-url")),
        baselines=path("baselines", "kafka-baselines") or root,
        update=update,
        environment=None if environment is None else environment_key(environment),
        strict="strict" in either,
        json=path("json", None),
        thresholds=tuple(thresholds),
    )


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


def _without_login(text: str) -> str:
    """The text without a user name and a password in an address."""
    return re.sub(r"(?<=://)[^/?#,]*@", "", text)


def _text(value: str | bool | None) -> str:  # noqa: FBT001 - as pytest gives it
    return "true" if value is True else str(value)
