"""The key of a machine, its fingerprint, and the commit that is measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core import environment
from pytest_kafkaperf.core.environment import (
    code_change,
    commit_change,
    current_commit,
    default_environment_key,
    differences,
    environment_key,
    fingerprint,
    is_safe_name,
    this_machine,
)
from pytest_kafkaperf.core.errors import UsageError
from tests.support.repository import git

_XEON = {
    "system": "Linux",
    "architecture": "x86_64",
    "kernel": "6.1.0",
    "cpu": "Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz",
    "cpu family": "6-106-6",
    "cores": "2",
    "memory": "8 GiB",
    "governor": "performance",
}


@pytest.mark.parametrize(
    ("cpu", "key"),
    [
        ("Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz", "linux-x86_64-intel-xeon-platinum-8370c-6-106-6-2c-local"),
        ("Intel(R) Xeon(R) Processor @ 2.90GHz", "linux-x86_64-intel-xeon-6-106-6-2c-local"),
        ("AMD EPYC 7763 64-Core Processor", "linux-x86_64-amd-epyc-7763-6-106-6-2c-local"),
        ("Ünknown/../CPU\n", "linux-x86_64-nknown-6-106-6-2c-local"),
        ("x" * 500, f"linux-x86_64-{'x' * 40}-6-106-6-2c-local"),
        (None, "linux-x86_64-6-106-6-2c-local"),
    ],
)
def test_the_key_names_what_changes_results_most(cpu: str | None, key: str) -> None:
    """The same machine must find its baselines again, another must not find them."""
    assert default_environment_key("local", {**_XEON, "cpu": cpu}) == key


def test_the_key_tells_generations_apart_where_the_name_is_hidden() -> None:
    """Virtual machines are often called `Intel Xeon Processor`, and ARM kernels give no name: only numbers differ."""
    hidden = {**_XEON, "cpu": "Intel(R) Xeon(R) Processor"}
    keys = [
        default_environment_key("local", {**hidden, "cpu family": "6-85-7"}),
        default_environment_key("local", {**hidden, "cpu family": None}),
        default_environment_key("local", {**hidden, "cpu": None, "cpu family": "0x41-0xd0c"}),
    ]
    assert keys == [
        "linux-x86_64-intel-xeon-6-85-7-2c-local",
        "linux-x86_64-intel-xeon-2c-local",
        "linux-x86_64-0x41-0xd0c-2c-local",
    ]


def test_the_key_tells_providers_cores_and_systems_apart() -> None:
    """Results of an external cluster say nothing about a local one."""
    keys = [
        default_environment_key("external", _XEON),
        default_environment_key("local", {**_XEON, "cores": "4"}),
        default_environment_key(
            "local",
            {**_XEON, "system": "Darwin", "architecture": "arm64", "cpu": "Apple M2", "cpu family": None},
        ),
    ]
    assert keys == [
        "linux-x86_64-intel-xeon-platinum-8370c-6-106-6-2c-external",
        "linux-x86_64-intel-xeon-platinum-8370c-6-106-6-4c-local",
        "darwin-arm64-apple-m2-2c-local",
    ]


@given(st.text(), st.text(), st.text(), st.text(max_size=20))
def test_the_key_is_a_safe_folder_name_whatever_the_machine_calls_itself(
    system: str, architecture: str, cpu: str, provider: str
) -> None:
    """It becomes a folder that is committed and checked out elsewhere."""
    machine = {
        "system": system[:20],
        "architecture": architecture[:20],
        "cpu": cpu,
        "cpu family": cpu,
        "cores": "2",
    }
    assert is_safe_name(default_environment_key(provider, machine))


def test_this_machine_has_a_key_that_stays() -> None:
    """Two runs on one machine are compared by it."""
    key = default_environment_key("local")
    assert is_safe_name(key)
    assert key.endswith(f"-{this_machine()['cores']}c-local")
    assert key == default_environment_key("local")


@pytest.mark.parametrize("name", ["ci", "CI-large", "a", "runner_2.1", "a" * 100])
def test_a_plain_name_is_taken_as_given(name: str) -> None:
    """`--kafka-environment` replaces the key."""
    assert environment_key(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "/etc", "-a", ".a", "a.", "a b", "a\n", "ä", "a\0b"])
def test_a_name_that_is_no_safe_folder_is_refused(name: str) -> None:
    """It would write outside the baseline folder, or could not be checked out elsewhere."""
    with pytest.raises(UsageError) as caught:
        environment_key(name)
    assert str(caught.value) == (
        f"invalid environment name {name!r}: must be at most 100 letters, digits, '.', '_' and '-', "
        "and start with a letter or digit, for example 'ci-large'"
    )


def test_a_refused_name_is_shown_in_part_when_it_is_long() -> None:
    """The message stays a message."""
    with pytest.raises(UsageError, match=r"^invalid environment name 'a{40}\.\.\.': must be"):
        environment_key("a" * 5000)


def test_the_fingerprint_holds_what_results_may_depend_on() -> None:
    """A change of results is first looked for in a change of these; what is not known is left out, not made up."""
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
        "cpu family": "6-106-6",
        "cores": "2",
        "governor": "performance",
        "memory": "8 GiB",
    }


def test_the_fingerprint_leaves_out_what_the_machine_does_not_tell() -> None:
    """An ARM kernel names no CPU model, Windows no memory by sysconf, a virtual machine no governor."""
    facts = fingerprint({}, {**_XEON, "cpu": None, "memory": None, "governor": None})
    assert {"cpu", "memory", "governor"}.isdisjoint(facts)


def test_differences_are_named_with_both_sides() -> None:
    """`+40%` after a broker upgrade is another story than without one."""
    before = {"kafka": "4.0.0", "java": "21", "cpu": "x"}
    now = {"kafka": "4.1.1", "java options": "-Xint", "cpu": "x", "kernel": "6.1"}
    assert [str(each) for each in differences(before, now)] == [
        "kafka: 4.0.0 -> 4.1.1",
        "java: 21 -> not known",
        "java options: not set -> -Xint",
        "kernel: not known -> 6.1",
    ]
    assert differences(now, now) == ()


@pytest.mark.parametrize("unread_first", [True, False])
def test_a_setting_that_no_broker_reported_is_no_difference(*, unread_first: bool) -> None:
    """A busy cluster that answered late would seem to have lost all the settings of its owner."""
    read = {"kafka": "4.0.0", "config.num.io.threads": "8", "config.log.retention.hours": "1"}
    unread = {"kafka": "4.0.0", "broker settings": "unknown", "config.log.retention.hours": "2"}
    found = differences(unread, read) if unread_first else differences(read, unread)
    words = ("2", "1") if unread_first else ("1", "2")
    assert [each.shown() for each in found] == ["broker setting log.retention.hours {} → {}".format(*words)]


def test_a_setting_of_some_brokers_is_no_difference_if_others_did_not_report_theirs() -> None:
    """The silent broker may be the one with the other value."""
    read = {"config.num.io.threads": "8 (brokers 1, 2), 4 (broker 3)"}
    assert differences(read, {"broker settings": "unknown", "config.num.io.threads": "8"}) == ()
    assert len(differences(read, {"config.num.io.threads": "8"})) == 1


def test_what_matters_most_is_the_first_difference() -> None:
    """A reader of a regression looks at the first line: brokers before clients, these before the machine."""
    names = [
        "provider",
        "kafka",
        "image",
        "image.digest",
        "config.num.io.threads",
        "config.num.network.threads",
        "java",
        "java options",
        "heap",
        "jmx",
        "not applied",
        "security",
        "aiokafka",
        "python",
        "docker",
        "system",
        "kernel",
        "architecture",
        "cpu",
        "cpu family",
        "cores",
        "governor",
        "memory",
        "plugin",
    ]
    found = differences(dict.fromkeys(sorted(names), "1"), {})
    assert [each.fact for each in found] == names


@pytest.mark.parametrize(
    ("governors", "told"),
    [
        (["performance\n", "performance\n"], "performance"),
        (["powersave\n", "performance\n"], "performance, powersave"),
        (["performance\n", None], "performance"),
        (["\n"], None),
        ([], None),
    ],
)
def test_the_governor_is_told_once_where_all_cores_agree(
    tmp_path: Path, governors: list[str | None], told: str | None
) -> None:
    """A laptop that saves power is another machine; a core that is off, or a virtual machine, tells nothing."""
    (tmp_path / "cpufreq").mkdir()
    for number, governor in enumerate(governors):
        file = tmp_path / f"cpu{number}" / "cpufreq" / "scaling_governor"
        file.parent.mkdir(parents=True)
        if governor is None:
            file.mkdir()  # it is listed, and cannot be read
        else:
            file.write_text(governor)
    assert environment.read_governor(tmp_path) == told


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A working tree with one commit, in which the baselines are committed, too."""
    tree = tmp_path / "tree"
    (tree / "kafka-baselines").mkdir(parents=True)
    git(tree, "init", "--quiet")
    for name in ("code.py", "kafka-baselines/test.json"):
        (tree / name).write_text("before")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "--message=first")
    return tree


def test_the_commit_is_that_of_the_folder_wherever_pytest_was_started(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pytest /path/to/project` works, and so do hooks of git, which name another repository in the environment."""
    head = git(repository, "rev-parse", "HEAD")
    monkeypatch.chdir("/")
    monkeypatch.setenv("GIT_DIR", str(repository.parent / "other"))
    assert current_commit(repository) == current_commit(repository / "kafka-baselines") == head
    git(repository, "tag", "--annotate", "--message=release", "v1-2")
    assert current_commit(repository) == head


def test_a_commit_with_changes_on_top_is_told_as_dirty(repository: Path) -> None:
    """Nobody can check it out again; a new file that git does not know, such as a report, is no change of the code."""
    head = git(repository, "rev-parse", "HEAD")
    (repository / "report.json").write_text("{}")
    assert current_commit(repository) == head
    (repository / "code.py").write_text("after")
    assert current_commit(repository) == f"{head}-dirty"
    git(repository, "add", "code.py")
    assert current_commit(repository / "kafka-baselines") == f"{head}-dirty"


def test_baselines_of_this_run_make_no_commit_dirty(repository: Path) -> None:
    """Five runs on one commit, each of which adds to its baselines, are runs of that commit."""
    head, baselines = git(repository, "rev-parse", "HEAD"), repository / "kafka-baselines"
    (baselines / "test.json").write_text("after")
    assert current_commit(repository) == f"{head}-dirty"
    assert current_commit(repository, besides=baselines) == head
    assert current_commit(repository, besides=Path("kafka-baselines")) == head
    assert current_commit(repository, besides=repository.parent / "elsewhere") == f"{head}-dirty"
    assert current_commit(repository, besides=repository) == f"{head}-dirty"
    (repository / "code.py").write_text("after")
    assert current_commit(repository, besides=baselines) == f"{head}-dirty"


def test_there_is_no_commit_without_a_repository_a_commit_or_git(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not known is left out, never made up."""
    empty = tmp_path / "empty"
    empty.mkdir()
    assert current_commit(empty) is None
    assert current_commit(tmp_path / "absent") is None
    git(empty, "init", "--quiet")
    assert current_commit(empty) is None
    monkeypatch.setenv("PATH", str(empty))
    assert current_commit(repository) is None


def test_a_git_that_does_not_answer_is_given_up(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository on a network drive must not hold a run up."""
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(environment, "_TIMEOUT_S", 0.2)
    assert current_commit(repository) is None


@pytest.mark.parametrize(
    ("content", "model"),
    [
        ("processor\t: 0\nmodel\t\t: 85\nmodel name\t: AMD EPYC 7763\n\nmodel name\t: other\n", "AMD EPYC 7763"),
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
    assert environment.read_cpu_model(cpuinfo) == model


@pytest.mark.parametrize(
    ("content", "family"),
    [
        (
            "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\nmodel name\t: Xeon\n"
            "stepping\t: 7\nmicrocode\t: 0x1\n\nprocessor\t: 1\ncpu family\t: 6\nmodel\t\t: 85\nstepping\t: 7\n",
            "6-85-7",
        ),
        ("CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n", "0x41-0xd0c"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", None),
        (None, None),
    ],
)
def test_the_cpu_family_is_that_of_the_first_core(tmp_path: Path, content: str | None, family: str | None) -> None:
    """CPUID on x86, the main ID register on ARM."""
    cpuinfo = tmp_path / "cpuinfo"
    if content is not None:
        cpuinfo.write_text(content)
    assert environment.read_cpu_family(cpuinfo) == family


@pytest.mark.parametrize("content", ["max 100000\n", "", "0 0\n", "rubbish", None])
def test_without_a_limit_all_cores_count(tmp_path: Path, content: str | None) -> None:
    """Most machines have none."""
    limit = tmp_path / "cpu.max"
    if content is not None:
        limit.write_text(content)
    assert environment.usable_cores(limit) == environment.usable_cores(tmp_path / "absent") >= 1


def test_a_containers_cpu_quota_limits_the_cores(tmp_path: Path) -> None:
    """A container with half a core is not the machine that it runs on."""
    limit = tmp_path / "cpu.max"
    limit.write_text("50000 100000\n")
    assert environment.usable_cores(limit) == 1


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        ("e46af78" + "0" * 33, "cf541ca" + "1" * 33, ("commit: e46af78 -> cf541ca",)),
        ("a" * 40, f"{'a' * 40}-dirty", (f"commit: {'a' * 7} -> {'a' * 7} with uncommitted changes",)),
        (f"{'a' * 40}-dirty", "b" * 40, (f"commit: {'a' * 7} with uncommitted changes -> {'b' * 7}",)),
        ("a" * 40, "a" * 40, ()),
        (None, "a" * 40, ()),
        ("a" * 40, None, ()),
    ],
)
def test_a_change_of_the_commit_is_written_as_git_shortens_it(
    before: str | None, now: str | None, change: tuple[str, ...]
) -> None:
    """Code that is in no commit is a change, too."""
    assert tuple(map(str, commit_change(before, now))) == change


@pytest.fixture
def imported(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the repository that this process has imported."""
    module = types.ModuleType("code_of_the_repository")
    module.__file__ = str(repository / "code.py")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return repository / "code.py"


def _commit(repository: Path, name: str) -> str:
    (repository / name).write_text("after")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", f"--message=changes {name}")
    return git(repository, "rev-parse", "HEAD")


def test_a_commit_counts_if_it_changes_code_that_was_imported(repository: Path, imported: Path) -> None:
    """Each pull request has another commit than its baseline; most of them change nothing that a test runs."""
    first = git(repository, "rev-parse", "HEAD")
    other = _commit(repository, "kafka-baselines/test.json")
    assert code_change(repository, first, other) == ()
    changed = _commit(repository, imported.name)
    assert list(map(str, code_change(repository, first, changed))) == [
        f"commit: {first[:7]} -> {changed[:7]} (code.py)"
    ]
    assert code_change(repository / "kafka-baselines", other, changed) != ()


def test_a_commit_counts_if_nobody_knows_the_code_of_the_baseline(repository: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    now = _commit(repository, "kafka-baselines/test.json")
    (absent,) = code_change(repository, "a" * 40, now)
    assert str(absent) == f"commit: {'a' * 7} -> {now[:7]} (this clone does not contain the earlier one)"
    (unknown,) = code_change(repository, f"{first}-dirty", now)
    assert str(unknown) == f"commit: {first[:7]} with uncommitted changes -> {now[:7]}"
    assert code_change(repository, f"{now}-dirty", f"{now}-dirty") == code_change(repository, f"{now}-dirty", now) == ()


def test_uncommitted_changes_count_if_they_are_of_code_that_was_imported(repository: Path, imported: Path) -> None:
    """A fixture that was just made slower is no slower machine; a baseline that was just staged is none of the code."""
    now = git(repository, "rev-parse", "HEAD")
    (repository / "kafka-baselines" / "test.json").write_text("after")
    assert code_change(repository, now, f"{now}-dirty") == ()
    imported.write_text("after")
    change = f"commit: {now[:7]} -> {now[:7]} with uncommitted changes (code.py)"
    assert list(map(str, code_change(repository, now, f"{now}-dirty"))) == [change]


def test_a_commit_counts_if_only_one_of_the_two_is_known(repository: Path) -> None:
    """In a container, git may refuse a checkout that belongs to somebody else."""
    now = git(repository, "rev-parse", "HEAD")
    assert list(map(str, code_change(repository, None, now))) == [f"commit: not known -> {now[:7]}"]
    assert list(map(str, code_change(repository, now, None))) == [f"commit: {now[:7]} -> not known"]
    assert code_change(repository, None, None) == ()
