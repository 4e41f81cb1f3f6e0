"""The machine, the software and the commit that a run took place on."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import math
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_kafkaperf.core.errors import UsageError, shortened

# Patterns are compiled where they are used: the header of every pytest run loads this module.
_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?"

_RESERVED = r"(?is)(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?"
"""Names that Windows keeps for devices, whatever follows the first dot."""

_MAX_KEY = 100

_MAX_CPU = 40
"""Characters of the CPU's name in a key."""

_MAX_SHOWN = 40
"""Characters of a refused name that are shown."""

_NOISE = r"(?i)\((?:r|tm|c)\)|@.*|\b(?:cpu|processor|\d+-core)\b"
"""Parts of a CPU's name that tell no model from another."""

_MEANING = (
    ("provider", "kafka", "image", "config", "java"),
    (),
    ("aiokafka", "python"),
    ("docker", "system", "kernel", "architecture", "cpu", "cores", "governor", "memory"),
    ("plugin",),
)
"""Facts by what they mean for figures, the most first, each by its name up to the first dot: what brokers are, what
else is told of them (any other name), whom they are measured by, what all of it runs on."""

_OTHERS = _MEANING.index(())


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What is known of a machine; None where it does not tell."""

    system: str
    architecture: str
    kernel: str
    cpu: str | None
    cores: int
    """That this process may use: a container or an affinity mask leaves fewer than there are."""
    memory_bytes: int | None
    governor: str | None
    """Who decides on the frequency of its cores, as Linux names it: `performance`, `powersave`."""


@functools.cache
def this_machine() -> Machine:
    """Read what this machine is; it does not change while a process runs."""
    return Machine(
        system=platform.system() or os.name,
        architecture=platform.machine() or "unknown-architecture",
        kernel=platform.release(),
        cpu=read_cpu_model(Path("/proc/cpuinfo")) or platform.processor() or None,
        cores=usable_cores(Path("/sys/fs/cgroup/cpu.max")),
        memory_bytes=_memory_bytes(),
        governor=read_governor(Path("/sys/devices/system/cpu")),
    )


def default_environment_key(provider: str, machine: Machine | None = None) -> str:
    """The key of a machine with clusters of that provider: `linux-x86_64-intel-xeon-2c-local`. A safe folder name."""
    machine = machine or this_machine()
    cpu = _slug(re.sub(_NOISE, " ", machine.cpu or ""))[:_MAX_CPU].strip("-_")
    parts = (_slug(machine.system), _slug(machine.architecture), cpu, f"{machine.cores}c", _slug(provider))
    return "-".join(part for part in parts if part)[:_MAX_KEY].rstrip("-_")


def environment_key(name: str) -> str:
    """The name that `--kafka-environment` gives.

    Raises:
        UsageError: it is not a safe folder name on every system.

    """
    if not is_safe_name(name):
        raise UsageError(
            f"environment {shortened(name, _MAX_SHOWN)!r} is not a safe folder name; use at most 100 letters, digits, "
            "'.', '_' and '-', beginning with a letter or digit, for example 'ci-large'"
        )
    return name


def is_safe_name(name: str) -> bool:
    """Whether this is one plain folder name on every system."""
    return re.fullmatch(_NAME, name) is not None and not is_reserved(name)


def is_reserved(name: str) -> bool:
    """Whether Windows keeps this name for a device: `con`, `aux.json`."""
    return re.fullmatch(_RESERVED, name) is not None


def fingerprint(cluster: Mapping[str, str | None], machine: Machine | None = None) -> dict[str, str]:
    """What figures may depend on, as text by name: the cluster's facts, the versions, the machine.

    What is not known is left out.
    """
    from pytest_kafkaperf.core.units import Unit, format_quantity  # noqa: PLC0415 - costs start-up time

    machine = machine or this_machine()
    memory = machine.memory_bytes
    facts = {
        **cluster,
        "plugin": _version("pytest-kafkaperf"),
        "aiokafka": _version("aiokafka"),
        "python": platform.python_version(),
        "system": machine.system,
        "kernel": machine.kernel,
        "architecture": machine.architecture,
        "cpu": machine.cpu,
        "cores": str(machine.cores),
        "governor": machine.governor,
        "memory": None if memory is None else format_quantity(memory, Unit.BYTES),
    }
    return {name: text for name, text in facts.items() if text}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """What differs between two fingerprints, what matters most first: `kafka: 4.0.0 -> 4.1.1`.

    What one side does not have, it did not know: an older plugin, say, that did not read it. A broker's property that
    it does not have was not set, as far as it knows.
    """

    def told(facts: Mapping[str, str], name: str) -> str:
        return facts.get(name, "not set" if name.startswith("config.") else "not known")

    return tuple(
        f"{name}: {told(before, name)} -> {told(now, name)}"
        for name in sorted({*before, *now}, key=_by_meaning)
        if before.get(name) != now.get(name)
    )


def _by_meaning(name: str) -> tuple[int, int, str]:
    head = name.partition(".")[0]
    for rank, names in enumerate(_MEANING):
        if head in names:
            return rank, names.index(head), name
    return _OTHERS, 0, name


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-_")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_cpu_model(cpuinfo: Path) -> str | None:
    """The model that Linux tells; ARM kernels tell none."""
    try:
        with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip() or None
    except OSError:
        return None  # not Linux
    return None


def usable_cores(cpu_max: Path) -> int:
    """Return the number of cores that this process may use, with the quota of its control group."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = cpu_max.read_text(encoding="ascii").split()
        limit = math.ceil(int(quota) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return cores  # no cgroup v2, or `max`: no limit
    return max(1, min(cores, limit))


def read_governor(cpus: Path) -> str | None:
    """What Linux tells of all cores; virtual machines mostly have none."""
    found = set()
    for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor"):
        with contextlib.suppress(OSError):  # of a core that is off
            found.add(file.read_text(encoding="ascii", errors="replace").strip())
    return ", ".join(sorted(found - {""})) or None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None  # Windows, or a system that does not tell


_TIMEOUT_S = 5

_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX")
"""Set for whatever runs within a hook of git: there they would name another repository than the folder's."""

_HEAD = r"(?m)^# branch\.oid ([0-9a-f]{40,64})$"


def current_commit(folder: Path, *, besides: Path | None = None) -> str | None:
    """The commit that is checked out in `folder`, with `-dirty` where tracked files differ from it.

    None where there is no git, no repository, no commit yet, or no answer within 5 s.

    By git itself: `pytest_benchmark.utils.get_commit_info` looks into the working directory instead of a folder, runs
    four unbounded commands, writes git's index, and gives words such as `unknown` where there is no git or no commit.

    Args:
        folder: a folder of the working tree, such as pytest's rootdir.
        besides: a folder in it whose files may differ: baselines change with every session that writes them, and the
            code under test does not.

    """
    git = shutil.which("git")
    if git is None:
        return None
    told = _told([git, "-C", str(folder), *_STATUS, *_paths(folder, besides)])
    found = re.search(_HEAD, told)
    if found is None:
        return None
    differs = any(not line.startswith("#") for line in told.splitlines())
    return f"{found[1]}-dirty" if differs else found[1]


_STATUS = (
    "-c",
    "core.fsmonitor=false",  # it would start a process that outlives this one
    "status",
    "--porcelain=v2",
    "--branch",
    "--no-ahead-behind",
    "--untracked-files=no",
)


def _paths(folder: Path, besides: Path | None) -> list[str]:
    """All of the working tree but that folder; one that is not in `folder` is no matter."""
    folder = folder.resolve()
    besides = None if besides is None else (folder / besides).resolve()
    if besides is None or besides == folder or not besides.is_relative_to(folder):
        return ["--", ":/"]
    return ["--", ":/", f":(exclude,literal){besides.relative_to(folder).as_posix()}"]


def _told(command: list[str]) -> str:
    """What git says, or nothing where it fails."""
    surroundings = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE}
    try:
        done = subprocess.run(  # noqa: S603 - the user's git
            command,
            env={**surroundings, "GIT_OPTIONAL_LOCKS": "0"},  # an index that somebody else is about to write
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
