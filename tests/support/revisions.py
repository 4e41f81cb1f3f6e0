"""A repository of a service with a perf test, whose revisions are compared."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import service
from tests.support.orphans import becomes, with_word
from tests.support.patience import PATIENCE_S
from tests.support.project import Project
from tests.support.repository import git

TEST = """
@pytest.fixture
def service(kafka_app):
    return kafka_app(
        ["python", "service.py", "--delay-ms", open("delay.txt").read()], ready="group:mover",
        topics={"moved-in": 2, "moved-out": 2}, name="mover",
    )


@pytest.mark.kafka_scenario(
    topic="moved-in", output_topic="moved-out", rate="20 records/s", duration="1 s", warmup="200 ms",
    consumers=1,
)
@pytest.mark.kafka_threshold("e2e.latency.p50 <= baseline + 30%")
def test_moved(service, kafka_perf):
    kafka_perf()
"""
RELATIVE = "e2e.latency.p50 <= baseline + 30%"
PEER = "pytest_kafkaperf.plugin.peer_side"


@pytest.fixture
def repository(project: Project) -> Project:
    """A project in a git repository: its service waits 1 ms for each record."""
    git(project.folder, "init", "--quiet", "--initial-branch=main")
    project.write("service.py", Path(service.__file__).read_text(encoding="utf-8"))
    project.write(".gitignore", "*.json\n*.xml\nstarts\n__pycache__\n")
    project.write("delay.txt", "1").test(TEST)
    commit(project, "Move records")
    return project


def commit(project: Project, subject: str) -> None:
    """Commit all files."""
    git(project.folder, "add", "--all")
    git(project.folder, "commit", "--quiet", f"--message={subject}")


def compilers_of(test: dict[str, Any]) -> list[str]:
    """What the brokers of both sides compiled with at the end: `quick`, or `all`."""
    clusters = [test["cluster"], test["live_baseline"]]
    return ["quick" if "compiler" in cluster else "all" for cluster in clusters]


def wait_for(happens: Callable[[], bool]) -> None:
    """Wait until something happens."""
    assert becomes(happens)


def find_a_slower_service(repository: Project) -> None:
    """Make the service slower: its commit is named, and the rounds of both sides take turns in each trial."""
    commit(repository.write("delay.txt", "100"), "Look up each order")
    run = repository.run("--kafka-compare=git:HEAD~1", "--kafka-rounds=2")
    (test,) = run.report["tests"]
    assert test["verdict"] == "REGRESSED", run.out
    assert compilers_of(test) == ["quick", "quick"]
    assert f"commit {git(repository.folder, 'rev-parse', '--short', 'HEAD')} Look up each order" in test["changed"]
    (check,) = [each for each in test["checks"] if each["metric"] == "e2e.latency.p50"]
    assert check["observed"] - check["baseline"] > 0.015
    for trial in test["trials"]:
        sides = {side: [one["window_s"] for one in trial[side]] for side in ("rounds", "baseline_rounds")}
        windows = sorted((start, end, side) for side, rounds in sides.items() for start, end in rounds)
        assert all(one[1] <= later[0] for one, later in itertools.pairwise(windows))
        order = [side for _, _, side in windows]
        pairs = [order[at : at + 2] for at in range(0, len(order), 2)]
        assert all(len({*pair}) == 2 for pair in pairs), order
        assert all(one[1] == after[0] for one, after in itertools.pairwise(pairs)), order  # A B B A
    assert not _folders_left(run.out)


def _folders_left(text: str) -> list[str]:
    """Return the folders of other revisions that are left, of those that a run names."""
    return [word for word in text.split() if "kafkaperf-revision-" in word and Path(word).exists()]


def break_the_live_baseline(repository: Project, file: str, text: str, problem: str) -> None:
    """Compare with a commit in which a file is broken: the error has the reason, and no traceback."""
    before = (repository.folder / file).read_text(encoding="utf-8") if (repository.folder / file).exists() else ""
    commit(repository.write(file, text), "Break")
    commit(repository.write(file, before), "Fix")
    run = repository.run("--kafka-compare=git:HEAD~1", reports=False)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert "the baseline, --kafka-compare=git:HEAD~1" in run.out
    assert problem in run.out
    assert "Traceback" not in run.out.partition("the end of its log")[0]


def end_a_comparison(repository: Project, end: signal.Signals) -> None:
    """Send a signal to a comparison under load: neither a process nor a folder of the checkout is left."""
    commit(repository.test(TEST.replace('"1 s"', '"1 h"')), "Take long")
    with repository.running("--kafka-compare=git:HEAD", "-v", reports=False) as process:
        pytests = psutil.Process(process.pid)
        wait_for((repository.folder / "starts").exists)
        children = pytests.children(recursive=True)
        folders = {one.cwd() for one in with_word(children, PEER)}
        assert folders
        os.killpg(process.pid, end)
        process.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not any(map(psutil.Process.is_running, children)))
    wait_for(lambda: not any(Path(folder).exists() for folder in folders))
