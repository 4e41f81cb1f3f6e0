"""A user's project with perf tests in it, run as users run it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_kafkaperf.clusters.auto import choose
from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.problems import ProblemKind
from tests.support.patience import RUN_S
from tests.support.repeats import note_report
from tests.support.report_schema import validate_report

ROOT = Path(__file__).parents[2]
"""Of the repository."""
PLAIN = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:asyncio", "-p", "no:randomly")
"""No folder of pytest's own, nothing that takes a second to import, and no plugin that changes how tests run."""
_ATTEMPTS = 3
INI = "[pytest]\nkafka_cluster = local\nkafka_broker_warmup = 0 s\nkafka_allow_unlimited = true\n"
"""Settings of a project: brokers that stand in for others' clusters are the tests' own, and may be saturated."""


@dataclass(frozen=True, slots=True)
class Run:
    """One pytest run that has ended."""

    status: int
    out: str
    """Standard output and error."""
    folder: Path

    @property
    def report(self) -> dict[str, Any]:
        """The JSON report, which matches its schema."""
        document: dict[str, Any] = json.loads((self.folder / "report.json").read_text(encoding="utf-8"))
        validate_report(document)
        return document

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdicts by the test's name."""
        return {test["nodeid"].split("::")[-1]: test["verdict"] for test in self.report["tests"]}

    @property
    def was_too_slow(self) -> bool:
        """Return True if a test is INVALID because this machine was too busy for the load."""
        if not (self.folder / "report.json").exists():
            return False
        return any(
            test["verdict"] == "INVALID" and ProblemKind.GENERATOR_TOO_SLOW in problem_kinds(test)
            for test in self.report["tests"]
        )

    @property
    def junit(self) -> ElementTree.Element:
        """The test suite of the JUnit report."""
        suite = ElementTree.parse(self.folder / "junit.xml").getroot().find("testsuite")  # noqa: S314 - our own file
        assert suite is not None
        return suite

    @property
    def baselines(self) -> dict[str, str]:
        """Content of each baseline file, by its path in the baseline folder."""
        root = self.folder / "kafka-baselines"
        return {str(file.relative_to(root)): file.read_text(encoding="utf-8") for file in sorted(root.rglob("*.json"))}


class Project:
    """A folder with tests, and no settings but its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not any((folder / name).exists() for name in ("pytest.ini", "pyproject.toml")):
            self.write("pytest.ini", INI)

    def write(self, name: str, text: str) -> Project:
        """Write a file of the project."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return self

    def test(self, body: str) -> Project:
        """Write the project's only test file."""
        return self.write("test_perf.py", f"import pytest\n\n{body}\n")

    def run(self, *arguments: str, reports: bool = True, timeout_s: float = RUN_S, **environment: str) -> Run:
        """Run pytest to its end."""
        with self.running(*arguments, reports=reports, **environment) as process:
            out, _ = process.communicate(timeout=timeout_s)
        return Run(process.returncode, out, self.folder)

    def run_steadily(self, *arguments: str, **environment: Any) -> Run:
        """Run pytest; repeat it a few times while a test is INVALID because this machine was too busy for the load."""
        for _ in range(_ATTEMPTS - 1):
            run = self.run(*arguments, **environment)
            if not run.was_too_slow:
                return run
        return self.run(*arguments, **environment)

    @contextmanager
    def running(self, *arguments: str, reports: bool = True, **environment: str) -> Iterator[subprocess.Popen[str]]:
        """Run pytest in a process group of its own, as a terminal does; ended at the latest with the block."""
        command = [sys.executable, "-m", "pytest", *PLAIN, *arguments]
        command += ["--kafka-report=json:report.json", "--junitxml=junit.xml"] if reports else []
        for name in ("report.json", "junit.xml"):  # those of an earlier run would pass for this one's
            (self.folder / name).unlink(missing_ok=True)
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env={**inherited(), "COLUMNS": "200", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                note_report(self.folder / "report.json")


def problem_kinds(measured: dict[str, Any]) -> list[str]:
    """Return the kinds of the problems of a test, a trial or a round in a JSON report."""
    return [problem["kind"] for problem in measured["problems"]]


def texts(remarks: list[dict[str, Any]]) -> list[str]:
    """Return the texts of warnings, notes or problems in a JSON report."""
    return [one["text"] for one in remarks]


def measured_again(test: dict[str, Any]) -> bool:
    """Return True if noise of this machine invalidated the first trial of a test, by its part of the JSON report."""
    return any("the first trial was repeated" in note for note in texts(test["notes"]))


def inherited() -> dict[str, str]:
    """This process's environment without what would change how pytest prints: its own settings, and CI's flags."""
    changes = re.compile(r"PYTEST_(?!KAFKAPERF)|GITHUB_|(CI|BUILD_NUMBER)$")
    return {name: text for name, text in os.environ.items() if not changes.match(name)}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project."""
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder)


@pytest.fixture
def on_broker(broker: Cluster) -> str:
    """The option that runs a project's tests on the shared broker."""
    return f"--kafka-cluster={broker.bootstrap_servers}"


def modules(project: Project, *arguments: str) -> set[str]:
    """Return the modules that a run of the project has loaded when it ends."""
    project.write(
        "conftest.py",
        "import json, pathlib, sys\n"
        "def pytest_unconfigure():\n"
        "    pathlib.Path('modules.json').write_text(json.dumps(sorted(sys.modules)))\n",
    )
    project.run(*arguments, reports=False)
    return set(json.loads((project.folder / "modules.json").read_text(encoding="utf-8")))


@pytest.fixture
def github(project: Project) -> dict[str, Any]:
    """The environment of a step, in a repository whose root is the project's parent."""
    folder = project.folder.parent
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_WORKSPACE": str(folder),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "CI": "true",
    }


GUARD = """
@pytest.mark.kafka_scenario(rate="10k records/s", duration="600 ms", warmup="300 ms", partitions=2, rounds={rounds})
@pytest.mark.kafka_threshold("produce.throughput >= baseline - 30%", "errors == 0", "unsent <= 1M")
def test_{name}(kafka_perf):
    kafka_perf()
"""


def guard(name: str = "guard", *, rounds: int = 5) -> str:
    """A test that compares throughput with its baseline."""
    return GUARD.format(name=name, rounds=rounds)


def copied_example(name: str, folder: Path) -> Project:
    """Copy an example into a folder, as a user would."""
    shutil.copytree(ROOT / "examples" / name, folder / name, ignore=shutil.ignore_patterns(".venv", "__pycache__"))
    return Project(folder / name)


RunPytest = Callable[..., tuple[int, str]]


@pytest.fixture
def run_pytest(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunPytest]:
    """Run pytest on one file of tests, in this process; gives its status and output."""
    monkeypatch.setenv("COLUMNS", "200")
    for variable in ("CI", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(variable, raising=False)
    pytester.makeini(INI)

    def run(tests: str, *arguments: str) -> tuple[int, str]:
        pytester.makepyfile(test_perf=f"import pytest\n\n{tests}\n")
        choose.cache_clear()  # each run looks for Docker itself, as a process of its own would
        ended = pytester.runpytest_inprocess(*PLAIN, *arguments)
        return ended.ret, f"{ended.stdout}\n{ended.stderr}"

    yield run
    choose.cache_clear()
