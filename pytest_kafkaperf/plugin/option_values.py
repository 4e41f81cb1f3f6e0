"""What one pytest run was asked for: options and ini values, each with its source."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pytest_kafkaperf.clusters.target import Reference, parse_reference, parse_target
from pytest_kafkaperf.core.environment import environment_key
from pytest_kafkaperf.core.errors import UnitError, UsageError, nearest
from pytest_kafkaperf.plugin.options import REPORTS
from pytest_kafkaperf.runner.settings import Settings

UPDATE_MODES = ("all", "new", "improved", "append")
"""What `--kafka-update-baselines` knows."""

DEFAULT_BASELINES = "kafka-baselines"
"""The folder of baselines, below the root folder."""

_PREHEAT_S = 6.0
"""After it, rounds on brokers that were just started are as fast as later ones."""


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
        reports={name: file for name in REPORTS if (file := path(name)) is not None},
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
    from pytest_kafkaperf.load.allocation import parse_workers  # noqa: PLC0415 - costs start-up time

    if parse_workers(text).scheduler is not None and importlib.util.find_spec("distributed") is None:
        raise UsageError(
            f"--kafka-workers={text}: Dask is not installed; install it with: pip install 'pytest-kafkaperf[dask]'"
        )
    return text


_EXCLUDE = (
    ("update-baselines", "reference", "figures taken in turns with another cluster's make no baseline"),
    ("calibrate", "reference", "calibration compares a cluster with itself"),
    ("time-budget", "calibrate", "how much sessions differ is seen in whole ones only"),
    ("no-confirm", "calibrate", "calibration shows how often the rule with confirmation errs"),
)
"""Two options, and why they exclude each other."""


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
    for one, other, why in _EXCLUDE:
        if one in given and other in given:
            raise UsageError(f"--kafka-{one} with --kafka-{other}: {why}; leave one of them out")
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
    from pytest_kafkaperf.core.units import Unit, parse  # noqa: PLC0415 - costs start-up time

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
