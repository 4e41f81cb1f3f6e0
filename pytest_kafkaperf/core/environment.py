"""Facts about a run: the machine, the software versions and the commit."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import itertools
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from pytest_kafkaperf.core.errors import UsageError, shortened
from pytest_kafkaperf.core.text import listed
from pytest_kafkaperf.core.units import Unit, format_quantity

# Patterns are compiled on use, because every pytest run imports this module for its header.
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?"

_MAX_KEY = 100

_MAX_CPU = 40
"""Maximum length of the CPU name in an environment key, in characters."""

_MAX_SHOWN = 40
"""Maximum length of an invalid name in an error message, in characters."""

_NOISE = r"(?i)\((?:r|tm|c)\)|@.*|\b(?:cpu|processor|\d+-core)\b"
"""Pattern that matches the parts of a CPU name that do not identify the model."""

_CPUINFO = Path("/proc/cpuinfo")
_FAMILY = ("cpu family", "model", "stepping", "CPU implementer", "CPU part")
"""Fields in /proc/cpuinfo that identify the CPU generation: the first three on x86, the last two on ARM."""

CLUSTER_ID = "cluster id"
"""Name of the fact that contains an external cluster's id, unless the cluster may have been started for the run."""

SETTINGS = "broker settings"
"""Name of the fact that some brokers did not report their settings, so a missing setting may not be the default."""


class Part(StrEnum):
    """Subject of a fact. Members are in descending order of their effect on results."""

    CODE = "code"
    PACKAGES = "packages"
    BROKERS = "brokers"
    CLUSTER = "cluster"
    """All other facts about the cluster."""
    CLIENT = "client"
    MACHINE = "machine"
    PLUGIN = "plugin"


_FACTS = {
    Part.BROKERS: ("provider", "kafka", "image", SETTINGS, "config", "java", "java options"),
    Part.CLIENT: ("aiokafka", "python"),
    Part.MACHINE: ("docker", "system", "kernel", "architecture", "cpu", "cpu family", "cores", "governor", "memory"),
    Part.PLUGIN: ("plugin",),
}
"""Fact names (up to the first dot), in descending order of their effect on results. Facts that are not listed describe
the cluster."""

_BROKER_SETTING = "config."
_WITH_DEFAULT = (_BROKER_SETTING, "java options")
_PROPER_NAMES = {"kafka": "Kafka", "java": "Java", "python": "Python", "cpu": "CPU"}
"""Facts whose names are capitalized in reports."""


@functools.cache
def this_machine() -> Mapping[str, str | None]:
    """Return the facts about this machine by name. They are cached for the lifetime of the process.

    A value is None if the operating system does not report it. `cpu family` contains the CPU's family, model and
    stepping numbers (`6-85-7`), or an ARM CPU's implementer and part. It is recorded because virtual machines on
    different CPU generations can report the same `cpu`.
    """
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": platform.system(),
        "kernel": platform.release(),
        "architecture": platform.machine() or "unknown-architecture",
        "cpu": read_cpu_model(_CPUINFO) or _apple_model() or platform.processor() or None,
        "cpu family": read_cpu_family(_CPUINFO),
        "cores": str(usable_cores()),
        "governor": read_governor(Path("/sys/devices/system/cpu")),
        "memory": format_quantity(memory_bytes, Unit.BYTES),
    }


def default_environment_key(provider: str, machine: Mapping[str, str | None] | None = None) -> str:
    """Return the environment key for a machine and a cluster provider: `linux-x86_64-intel-xeon-6-85-7-2c-local`.

    The key is a safe folder name on every supported system.
    """
    facts = machine or this_machine()
    system, architecture, cpu, family = (facts[name] or "" for name in ("system", "architecture", "cpu", "cpu family"))
    model = _slug(re.sub(_NOISE, " ", cpu))[:_MAX_CPU].strip("-_")
    parts = (_slug(system), _slug(architecture), model, _slug(family), f"{facts['cores']}c", _slug(provider))
    return "-".join(part for part in parts if part)[:_MAX_KEY].rstrip("-_")


def environment_key(name: str) -> str:
    """Validate and return the value of `--kafka-environment`.

    Raises:
        UsageError: the name is not a safe folder name on every supported system.

    """
    if not is_safe_name(name):
        raise UsageError(
            f"invalid environment name {shortened(name, _MAX_SHOWN)!r}: must be at most 100 letters, digits, '.', '_' "
            "and '-', and start with a letter or digit, for example 'ci-large'"
        )
    return name


def is_safe_name(name: str) -> bool:
    """Return True if the name is a valid folder name on every supported system."""
    return re.fullmatch(_NAME, name) is not None


def fingerprint(cluster: Mapping[str, str | None], machine: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """Return the cluster, version and machine facts that can affect results, as a mapping from names to text.

    Unknown facts are omitted.
    """
    facts = {
        **cluster,
        "plugin": _version("pytest-kafkaperf"),
        "aiokafka": _version("aiokafka"),
        "python": platform.python_version(),
        **(machine or this_machine()),
    }
    return {name: text for name, text in facts.items() if text}


@dataclass(frozen=True, slots=True)
class Change:
    """Fact that differs between two environments, such as the baseline's and the test's."""

    fact: str
    before: str | None
    """Value in the earlier environment; None if the fact is missing there."""
    now: str | None
    """Value in the later environment; None if the fact is missing there."""
    of: Part
    remark: str = ""
    """Text appended in parentheses."""

    def __str__(self) -> str:
        """Format the change for files: `kafka: 4.0.0 -> 4.1.1`."""
        return self._text(self.fact, colon=":", arrow="->", default="not set")

    def shown(self) -> str:
        """Format the change for reports: `Kafka 4.0.0 → 4.1.1`, `broker setting num.io.threads (default) → 16`."""
        name = self.fact
        if name.startswith(_BROKER_SETTING):
            name = f"broker setting {name.removeprefix(_BROKER_SETTING)}"
        return self._text(_PROPER_NAMES.get(name, name), colon="", arrow="→", default="(default)")

    def with_remark(self, remark: str) -> Change:
        """Return the same change with a remark."""
        return replace(self, remark=remark)

    def _text(self, name: str, *, colon: str, arrow: str, default: str) -> str:
        """Format the name and any values. `default` is shown for an unset setting."""
        text = name
        if self.before is not None or self.now is not None:
            text = f"{name}{colon} {self._value(self.before, default)} {arrow} {self._value(self.now, default)}"
        return f"{text} ({self.remark})" if self.remark else text

    def _value(self, value: str | None, default: str) -> str:
        """Format a value. A value is unknown if an older version of the plugin did not record it."""
        if value is not None:
            return value
        if self.of is Part.PACKAGES:
            return "not installed"
        return default if self.fact.startswith(_WITH_DEFAULT) else "not known"


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    """Return the differences between two fingerprints, most important first.

    If some brokers did not report their settings on one side, only settings that both sides have, with the same value
    on all brokers, can be a difference.
    """
    names = {*before, *now} - {SETTINGS}
    if SETTINGS in before or SETTINGS in now:
        names = {name for name in names if not name.startswith(_BROKER_SETTING) or _is_on_all(name, before, now)}
    return tuple(
        Change(name, before.get(name), now.get(name), _part_of(name))
        for name in sorted(names, key=_importance)
        if before.get(name) != now.get(name)
    )


def _is_on_all(name: str, *sides: Mapping[str, str]) -> bool:
    """Return True if a setting is known on both sides, and has the same value on all brokers of a side."""
    return all(name in one and "(broker" not in one[name] for one in sides)


def cluster_changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    """Return the differences in id and number of brokers between two external clusters; empty for other clusters."""
    if CLUSTER_ID not in before and CLUSTER_ID not in now:
        return ()
    return tuple(each for each in differences(before, now) if each.fact in (CLUSTER_ID, "brokers"))


def package_changes(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[Change, ...]:
    """Return the differences between two sets of installed packages: `package numpy: 1.26 -> not installed`."""
    names = sorted({*before, *now} - {"pip"})  # pip comes with the virtual environment, and no code imports it
    return tuple(
        Change(f"package {name}", before.get(name), now.get(name), Part.PACKAGES)
        for name in names
        if before.get(name) != now.get(name)
    )


def commits(texts: Iterable[str]) -> tuple[Change, ...]:
    """Convert commits to changes without values: `commit cf541ca Round prices`."""
    return tuple(Change(text, None, None, Part.CODE) for text in texts)


def commit_change(before: str | None, now: str | None) -> tuple[Change, ...]:
    """Return the difference between two commits; empty if either is unknown: `commit: e46af78 -> cf541ca`."""
    if before is None or now is None or before == now:
        return ()
    return (Change("commit", _short(before), _short(now), Part.CODE),)


def _short(commit: str) -> str:
    return f"{commit[:SHORT_HASH]}{' with uncommitted changes' if commit.endswith(DIRTY) else ''}"


def code_change(folder: Path, before: str | None, now: str | None) -> tuple[Change, ...]:
    """Return the commit change if it affects a repository file that this process has imported.

    If only one commit is known, or if the earlier one is missing from a shallow clone, the change is always returned.
    If both commits are the same, uncommitted changes in the earlier code are ignored.
    """
    if (before is None) != (now is None):
        return (Change("commit", before and _short(before), now and _short(now), Part.CODE),)
    change = commit_change(before, now)
    if before is None or now is None or not change:
        return ()
    if before.endswith(DIRTY):
        return change if before.removesuffix(DIRTY) != now.removesuffix(DIRTY) else ()
    try:
        top = Path(git(folder, "rev-parse", "--show-toplevel"))
        names = git(folder, "diff", "--name-only", "--no-renames", "-z", before).split("\0")
    except UsageError:
        return (change[0].with_remark("this clone does not contain the earlier one"),)
    files = {os.path.realpath(str(getattr(module, "__file__", ""))) for module in tuple(sys.modules.values())}
    changed = [name for name in names if name and os.path.realpath(top / name) in files]
    return (change[0].with_remark(listed(changed)),) if changed else ()


def _part_of(name: str) -> Part:
    head = _head(name)
    return next((part for part, names in _FACTS.items() if head in names), Part.CLUSTER)


def _importance(name: str) -> tuple[int, int, str]:
    part = _part_of(name)
    place = 0 if part is Part.CLUSTER else _FACTS[part].index(_head(name))
    return list(Part).index(part), place, name


def _head(name: str) -> str:
    return name.partition(".")[0]


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")


def _version(package: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None


def read_cpu_model(cpuinfo: Path) -> str | None:
    """Return the CPU model reported by Linux; None on ARM, where the kernel does not report it."""
    return _first_core(cpuinfo).get("model name") or None


def read_cpu_family(cpuinfo: Path) -> str | None:
    """Return the numbers that identify the CPU generation on Linux, joined with `-`; None if unknown."""
    core = _first_core(cpuinfo)
    return "-".join(core[name] for name in _FAMILY if name in core) or None


def _first_core(cpuinfo: Path) -> dict[str, str]:
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            fields = [line.partition(":") for line in itertools.takewhile(str.strip, lines)]
    except OSError:
        return {}  # not Linux
    return {name.strip(): value.strip() for name, _, value in fields}


def _apple_model() -> str | None:
    """Return the CPU model on macOS, where `platform.processor()` is `arm` for all Apple CPUs."""
    if platform.system() != "Darwin":
        return None
    command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S).stdout.strip()  # noqa: S603 - macOS


def usable_cores(cpu_max: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return the number of cores available to this process, taking its cgroup quota into account."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = cpu_max.read_text(encoding="ascii").split()
        limit = math.ceil(int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return cores  # no cgroup v2, or no limit (`max`)
    return max(1, min(cores, limit))


def read_governor(cpus: Path) -> str | None:
    """Return the distinct CPU frequency governors of all cores; None if there are none, as on most virtual machines."""
    found = set()
    for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor"):
        with contextlib.suppress(OSError):  # the core is offline
            found.add(file.read_text(encoding="ascii", errors="replace").strip())
    return ", ".join(sorted(found - {""})) or None


_TIMEOUT_S = 5

_GIT_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Environment variables that git sets for hooks. Here, they would select the wrong repository."""

DIRTY = "-dirty"
"""Suffix appended to the commit hash if tracked files have uncommitted changes."""
SHORT_HASH = 7
"""Number of commit hash digits to display, as in git."""
_HEAD = r"(?m)^# branch\.oid ([0-9a-f]{40,64})$"


def current_commit(folder: Path, *, besides: Path | None = None) -> str | None:
    """Return the hash of the checked-out commit, with `-dirty` if tracked files have uncommitted changes.

    Returns None if git is not installed, if there is no repository or commit, or if git does not answer within 5 s.

    `pytest_benchmark.utils.get_commit_info` cannot be used here: it inspects the working directory instead of a given
    folder, runs four commands without a timeout, and writes git's index.

    Args:
        folder: a folder in the working tree, such as pytest's rootdir.
        besides: a folder whose changes are ignored. The plugin passes the baseline folder, because runs modify it
            without changing the code under test.

    """
    try:
        status = git(folder, *_STATUS, *_pathspecs(folder, besides), timeout_s=_TIMEOUT_S)
    except UsageError:
        return None
    found = re.search(_HEAD, status)
    if found is None:
        return None
    dirty = any(not line.startswith("#") for line in status.splitlines())
    return f"{found[1]}{DIRTY}" if dirty else found[1]


# The file system monitor is a process that would outlive this one.
_STATUS = ("-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch", "--no-ahead-behind", "-uno")


def _pathspecs(folder: Path, besides: Path | None) -> list[str]:
    """Return pathspecs for the whole working tree, excluding `besides` if it is inside `folder`."""
    folder = folder.resolve()
    besides = None if besides is None else (folder / besides).resolve()
    if besides is None or besides == folder or not besides.is_relative_to(folder):
        return ["--", ":/"]
    return ["--", ":/", f":(exclude,literal){besides.relative_to(folder).as_posix()}"]


def git(folder: Path, *arguments: str, problem: str = "", timeout_s: float = 120) -> str:
    """Run git and return its output.

    Raises:
        UsageError: git failed; the message starts with `problem`.

    """
    environment = {name: value for name, value in os.environ.items() if name not in _GIT_VARIABLES}
    try:
        done = subprocess.run(  # noqa: S603 - the user's git
            ["git", "-C", str(folder), *arguments],  # noqa: S607 - found as in the user's shell
            env={**environment, "GIT_OPTIONAL_LOCKS": "0"},  # another git process may be writing to the index
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{problem or 'git failed'}: {error}") from None
    if done.returncode:
        reason = " ".join((done.stderr or done.stdout).split())
        raise UsageError(": ".join(filter(None, [problem or f"git {arguments[0]} failed", reason])))
    return done.stdout.strip()
