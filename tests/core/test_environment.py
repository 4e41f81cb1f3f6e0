"""The key of a machine and its fingerprint."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import platform
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf import environment
from pytest_kafkaperf.environment import (
    Machine,
    default_environment_key,
    differences,
    environment_key,
    fingerprint,
    is_safe_name,
    this_machine,
)
from pytest_kafkaperf.errors import UsageError

_XEON = Machine(
    system="Linux",
    architecture="x86_64",
    kernel="6.1.0",
    cpu="Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz",
    cores=2,
    memory_bytes=8 * 2**30,
)


@pytest.mark.parametrize(
    ("cpu", "key"),
    [
        ("Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", "linux-x86_64-intel-xeon-platinum-8370c-2c-local"),
        ("Intel(R) Xeon(R) Processor @ 2.90GHz", "linux-x86_64-intel-xeon-2c-local"),
        ("AMD EPYC 7763 64-Core Processor", "linux-x86_64-amd-epyc-7763-2c-local"),
        ("Ünknown/../CPU\n", "linux-x86_64-nknown-2c-local"),
        ("x" * 500, f"linux-x86_64-{'x' * 40}-2c-local"),
        (None, "linux-x86_64-2c-local"),
    ],
)
def test_the_key_names_what_moves_figures_most(cpu: str | None, key: str) -> None:
    """The same machine must find its baselines again, another must not find them."""
    assert default_environment_key("local", dataclasses.replace(_XEON, cpu=cpu)) == key


def test_the_key_tells_providers_cores_and_systems_apart() -> None:
    """Figures of an external cluster say nothing about a local one."""
    keys = [
        default_environment_key("external", _XEON),
        default_environment_key("local", dataclasses.replace(_XEON, cores=4)),
        default_environment_key(
            "local", dataclasses.replace(_XEON, system="Darwin", architecture="arm64", cpu="Apple M2")
        ),
    ]
    assert keys == [
        "linux-x86_64-intel-xeon-platinum-8370c-2c-external",
        "linux-x86_64-intel-xeon-platinum-8370c-4c-local",
        "darwin-arm64-apple-m2-2c-local",
    ]


@given(st.text(), st.text(), st.text(), st.text(max_size=20))
def test_the_key_is_a_safe_folder_name_whatever_the_machine_calls_itself(
    system: str, architecture: str, cpu: str, provider: str
) -> None:
    """It becomes a folder that is committed and checked out elsewhere."""
    machine = Machine(
        system=system[:20], architecture=architecture[:20], kernel="", cpu=cpu, cores=2, memory_bytes=None
    )
    assert is_safe_name(default_environment_key(provider, machine))


def test_this_machine_has_a_key_that_stays() -> None:
    """Two runs on one machine are compared by it."""
    key = default_environment_key("local")
    assert is_safe_name(key)
    assert key.endswith(f"-{this_machine().cores}c-local")
    assert key == default_environment_key("local")


@pytest.mark.parametrize("name", ["ci", "CI-large", "a", "runner_2.1", "a" * 100])
def test_a_plain_name_is_taken_as_given(name: str) -> None:
    """`--kafka-environment` replaces the key."""
    assert environment_key(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "a\\b", "/etc", "-a", ".a", "a.", "a b", "a\n", "ä", "nul", "CON", "com1.x", "a\0b"]
)
def test_a_name_that_is_no_safe_folder_is_refused(name: str) -> None:
    """It would write outside the baseline folder, or could not be checked out elsewhere."""
    with pytest.raises(UsageError) as caught:
        environment_key(name)
    assert str(caught.value) == (
        f"environment {name!r} is not a safe folder name; use at most 100 letters, digits, '.', '_' and '-', "
        "beginning with a letter or digit, for example 'ci-large'"
    )


def test_a_refused_name_is_shown_in_part_when_it_is_long() -> None:
    """The message stays a message."""
    with pytest.raises(UsageError, match=r"^environment 'a{40}\.\.\.' is not a safe folder name"):
        environment_key("a" * 5000)


def test_the_fingerprint_holds_what_figures_may_depend_on() -> None:
    """A change of figures is first looked for in a change of these; what is not known is left out, not made up."""
    facts = fingerprint({"provider": "local", "kafka": "4.1.0", "java": None}, _XEON)
    assert facts == {
        "provider": "local",
        "kafka": "4.1.0",
        "plugin": importlib.metadata.version("pytest-kafkaperf"),
        "aiokafka": importlib.metadata.version("aiokafka"),
        "python": platform.python_version(),
        "system": "Linux",
        "kernel": "6.1.0",
        "architecture": "x86_64",
        "cpu": "Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz",
        "cores": "2",
        "memory": "8 GiB",
    }


def test_the_fingerprint_leaves_out_what_the_machine_does_not_tell() -> None:
    """An ARM kernel names no CPU model, Windows no memory by sysconf."""
    facts = fingerprint({}, dataclasses.replace(_XEON, cpu=None, memory_bytes=None))
    assert {"cpu", "memory"}.isdisjoint(facts)


def test_differences_are_named_with_both_sides() -> None:
    """`+40 %` after a broker upgrade is another story than without one."""
    before = {"kafka": "4.0.0", "java": "21", "cpu": "x"}
    now = {"kafka": "4.1.1", "cpu": "x", "kernel": "6.1"}
    assert differences(before, now) == ("java: 21 -> not known", "kafka: 4.0.0 -> 4.1.1", "kernel: not known -> 6.1")
    assert differences(now, now) == ()


@pytest.mark.parametrize(
    ("content", "model"),
    [
        ("processor\t: 0\nmodel\t\t: 85\nmodel name\t: AMD EPYC 7763\nmodel name\t: other\n", "AMD EPYC 7763"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", None),
        ("model name\t:\n", None),
        (None, None),
    ],
)
def test_the_cpu_model_is_read_where_the_kernel_tells_it(
    tmp_path: Path, content: str | None, model: str | None
) -> None:
    """Not every kernel does, and not every system has the file."""
    cpuinfo = tmp_path / "cpuinfo"
    if content is not None:
        cpuinfo.write_text(content)
    assert environment._cpu_model(cpuinfo) == model


@pytest.mark.parametrize("content", ["max 100000\n", "", "0 0\n", "rubbish", None])
def test_without_a_limit_all_cores_count(tmp_path: Path, content: str | None) -> None:
    """Most machines have none."""
    limit = tmp_path / "cpu.max"
    if content is not None:
        limit.write_text(content)
    assert environment._usable_cores(limit) == environment._usable_cores(tmp_path / "absent") >= 1


def test_a_containers_cpu_quota_limits_the_cores(tmp_path: Path) -> None:
    """A container with half a core is not the machine that it runs on."""
    limit = tmp_path / "cpu.max"
    limit.write_text("50000 100000\n")
    assert environment._usable_cores(limit) == 1
