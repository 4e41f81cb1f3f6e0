"""Comparisons of two revisions: other checkouts, environments and services, and sides that die."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from pytest_kafkaperf.clusters.brokers import local_brokers
from pytest_kafkaperf.clusters.brokers.distribution import cache_folder
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support.orphans import ended, with_word
from tests.support.patience import PATIENCE_S
from tests.support.project import Project, measured_again, texts
from tests.support.repository import git
from tests.support.revisions import (
    PEER,
    RELATIVE,
    TEST,
    break_the_live_baseline,
    commit,
    end_a_comparison,
    wait_for,
)


@pytest.mark.parametrize(("how", "worktree"), [("orders", False), ("orders", True), ("the program of mover", False)])
def test_code_is_never_compared_with_itself(how: str, worktree: bool, repository: Project, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter of the test
    """Here, a path leads to a module or a program of this side, or of another worktree, on both sides."""
    folder = tmp_path / "other" if worktree else repository.folder
    imported = f"import sys\nsys.path.insert(0, {str(folder)!r})\nimport orders\n{TEST}"
    started = TEST.replace('"service.py"', repr(str(folder / "service.py")))
    commit(repository.write("orders.py", "").test(imported if how == "orders" else started), "Use this folder")
    if worktree:
        git(repository.folder, "worktree", "add", "--quiet", str(folder), "HEAD")
    run = repository.run("--kafka-compare=git:HEAD", "--import-mode=importlib", reports=False)
    assert f"it uses {how} from {folder}" in " ".join(run.out.split()), run.out
    assert "a separate virtual environment with --kafka-compare-setup='pip install -e .'" in run.out


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        (PEER, "the baseline, --kafka-compare=git:HEAD has exited"),
        ("kafka.Kafka", "broker 1"),
        ("service.py", "application mover"),
    ],
)
def test_a_live_baseline_that_dies_under_load_is_one_clear_error(word: str, problem: str, repository: Project) -> None:
    """Its pytest, its broker or its application; the test ends soon, and says which."""
    commit(repository.test(TEST.replace('"1 s"', '"1 h"')), "Take long")
    with repository.running("--kafka-compare=git:HEAD", "-v", reports=False) as process:
        pytests = psutil.Process(process.pid)
        wait_for(lambda: bool(with_word(pytests.children(), "spawn_main")))
        children = pytests.children(recursive=True)
        (peer,) = with_word(children, PEER)
        (victim,) = with_word([peer, *peer.children(recursive=True)], word)
        victim.kill()
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == NOT_JUDGED, out
    assert problem in out, out
    assert "Traceback" not in out, out
    wait_for(lambda: not any(map(psutil.Process.is_running, children)))


def test_another_checkout_with_another_interpreter_is_a_live_baseline(repository: Project, tmp_path: Path) -> None:
    """It has the tests, the packages and the configuration that it has; equal code differs in nothing."""
    commit(repository.test(TEST.replace(RELATIVE, "errors == 0")), "Judge errors alone")
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(repository.folder), str(other))
    run = repository.run(f"--kafka-compare=path:{other},python={sys.executable}", "--kafka-rounds=2")
    (test,) = run.report["tests"]
    assert (test["verdict"], test["problems"], test["changed"]) == ("PASSED", [], []), run.out
    for folder, name in ((repository.folder, "test"), (other, "baseline")):
        starts = [line.split() for line in (folder / "starts").read_text(encoding="utf-8").splitlines()]
        assert [side for _, side, _ in starts] == [name] * (1 + measured_again(test))
        assert all(ended(int(pid)) for pid, *_ in starts)


PROGRAM = """
    installed = lambda app: float("/venv/bin/" in app.output)
    kafka_perf.add_metric("app.installed", installed, service, unit="count", better="lower")
    kafka_perf()
"""


SETUP = """
cp bin/moving $VIRTUAL_ENV/bin/moving
folder=$(echo $VIRTUAL_ENV/lib/python*/site-packages)/aiokafka-0.0.1.dist-info
mkdir $folder && printf 'Metadata-Version: 2.1\\nName: aiokafka\\nVersion: 0.0.1\\n' > $folder/METADATA
"""


def test_each_side_has_its_own_programs_and_packages(repository: Project) -> None:
    """Those of its environment come first; the report lists them, and says which aiokafka makes the load."""
    script = '#!/bin/sh\necho "$0"\nexec python service.py --delay-ms 1\n'
    body = TEST.replace('"python", "service.py", "--delay-ms", open("delay.txt").read()', '"moving"')
    body = body.replace(RELATIVE, "errors == 0").replace("    kafka_perf()\n", PROGRAM)
    repository.test(body).write("bin/moving", script)
    (repository.folder / "bin/moving").chmod(0o755)
    commit(repository, "Install a program")
    repository.write("delay.txt", "2")
    path = os.pathsep.join((str(repository.folder / "bin"), os.environ["PATH"]))
    run = repository.run(
        "--kafka-compare=git:HEAD",
        f"--kafka-compare-setup={SETUP}",
        "--kafka-rounds=1",
        PATH=path,
        XDG_CACHE_HOME=str(repository.folder.parent / "cache"),
        PYTEST_KAFKAPERF_CACHE=str(cache_folder()),
    )
    (test,) = run.report["tests"]
    assert test["problems"] == [], run.out
    rounds = (test["trials"][0]["rounds"][0], test["trials"][0]["baseline_rounds"][0])
    assert [one["metrics"]["app.installed"] for one in rounds] == [0, 1], run.out
    assert any("0.0.1, is compared only if its application uses it" in note for note in texts(test["notes"])), run.out
    head = git(repository.folder, "rev-parse", "--short=7", "HEAD")
    assert f"commit: {head} -> {head} with uncommitted changes" in test["changed"]
    assert f"package aiokafka: 0.0.1 -> {importlib.metadata.version('aiokafka')}" in test["changed"]
    assert len(test["changed"]) == 2


SHARED = """
@pytest.fixture(scope="session")
def kafka_cluster(kafka_cluster_factory):
    return kafka_cluster_factory()


@pytest.fixture(scope="session")
def service(kafka_app_factory, kafka_cluster):
    command = ["python", "service.py", "--delay-ms", open("delay.txt").read()]
    topics = {"moved-in": 2, "moved-out": 2}
    with kafka_app_factory(command, ready="group:mover", topics=topics, cluster=kafka_cluster, name="mover") as app:
        yield app
"""


def test_a_service_of_the_whole_run_serves_all_tests_of_its_side(repository: Project, tmp_path: Path) -> None:
    """It starts again in each trial but a later test's first one, at its brokers' same address, on both sides."""
    compared = TEST[TEST.index("@pytest.mark.kafka_scenario") :].replace("30%", "300%")
    once = compared.replace("test_moved", "test_again").replace("e2e.latency.p50 <= baseline + 300%", "errors == 0")
    commit(repository.test(SHARED + compared + once), "Share the service")
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", str(repository.folder), str(other))
    run = repository.run(f"--kafka-compare=path:{other}", "--kafka-rounds=1")
    assert run.verdicts == {"test_moved": "PASSED", "test_again": "PASSED"}, run.out
    trials = sum(measured_again(test) + len(test["trials"]) for test in run.report["tests"])
    for folder in (repository.folder, other):
        starts = [line.split() for line in (folder / "starts").read_text(encoding="utf-8").splitlines()]
        assert len(starts) == trials - 1
        assert len({servers for _, _, servers in starts}) == 1
        assert all(ended(int(pid)) for pid, *_ in starts)


def test_a_live_baseline_whose_application_fails_is_one_clear_error(repository: Project) -> None:
    """With the end of its log."""
    break_the_live_baseline(repository, "delay.txt", "often", "application mover (pid")


def test_nothing_is_left_after_ctrl_c(repository: Project) -> None:
    """No process, and no folder of the checkout."""
    end_a_comparison(repository, signal.SIGINT)


PORT = """
@pytest.fixture
def service(kafka_app):
    command = ["python", "-m", "http.server", "{port}", "--bind=127.0.0.1"]
    return kafka_app(command, ready="port:{port}", topics=["moved-in", "moved-out"], name="web")
"""


def test_a_port_that_both_sides_need_is_an_error(repository: Project) -> None:
    """It says how each side gets its own."""
    (port,) = local_brokers.free_ports(1)
    commit(repository.test(PORT.format(port=port) + TEST[TEST.index("\n\n@pytest.mark") :]), "Serve")
    run = repository.run("--kafka-compare=git:HEAD", reports=False)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert "choose the port depending on KAFKAPERF_SIDE" in " ".join(run.out.split()), run.out


def test_both_sides_need_a_cluster_of_their_own(repository: Project, on_broker: str) -> None:
    """A fixture could give both the same one, on which each application would get a part of the other's records."""
    broker = on_broker.partition("=")[2]
    own = f"@pytest.fixture\ndef kafka_cluster():\n    return {broker!r}\n\n"
    commit(repository.test(own + TEST), "Use a cluster that runs")
    run = repository.run("--kafka-compare=git:HEAD", reports=False)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert f"both sides use the cluster at {broker}" in " ".join(run.out.split()), run.out


def test_a_smoke_test_measures_this_side_alone(repository: Project) -> None:
    """`--benchmark-disable` runs one round without a verdict, so there is nothing to compare."""
    run = repository.run("--kafka-compare=git:HEAD", "--benchmark-disable")
    (test,) = run.report["tests"]
    assert (run.status, len(test["trials"][0]["rounds"]), test["live_baseline"]) == (pytest.ExitCode.OK, 1, None), (
        run.out
    )


def test_the_time_budget_counts_for_both_sides(repository: Project) -> None:
    """A comparison that it breaks off is undecided, and names the budget."""
    commit(repository.test(TEST.replace('"1 s"', '"5 s"')), "Take longer")
    run = repository.run("--kafka-compare=git:HEAD", "--kafka-time-budget=40 s")
    (test,) = run.report["tests"]
    assert test["verdict"] == "INCONCLUSIVE", run.out
    assert "time budget" in run.out
