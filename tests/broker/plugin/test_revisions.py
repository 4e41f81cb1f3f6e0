"""Comparisons of two revisions of the code under test, each with its own cluster, fixtures and application."""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from pytest_kafkaperf.clusters.brokers import local_brokers
from pytest_kafkaperf.clusters.brokers.distribution import cache_folder
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from tests.support import service
from tests.support.orphans import becomes, ended, with_word
from tests.support.patience import PATIENCE_S
from tests.support.project import Project, measured_again
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


def test_a_slower_service_is_found_by_rounds_in_turns(repository: Project) -> None:
    """The commit is named, and the report has the instants of all rounds, which tell the order."""
    commit(repository.write("delay.txt", "100"), "Look up each order")
    run = repository.run("--kafka-compare=git:HEAD~1", "--kafka-rounds=2")
    (test,) = run.report["tests"]
    assert test["verdict"] == "REGRESSED", run.out
    assert f"commit {git(repository.folder, 'rev-parse', '--short', 'HEAD')} Look up each order" in test["changed"]
    (check,) = [each for each in test["checks"] if each["metric"] == "e2e.latency.p50"]
    assert check["observed"] - check["baseline"] > 0.015
    first = {"rounds": test["rounds"], "other_side_rounds": test["live_baseline"]["rounds"]}
    for trial in (first, *test["further_trials"]):
        sides = {side: [one["window_s"] for one in trial[side]] for side in ("rounds", "other_side_rounds")}
        windows = sorted((start, end, side) for side, rounds in sides.items() for start, end in rounds)
        assert all(one[1] <= later[0] for one, later in itertools.pairwise(windows))
        order = [side for _, _, side in windows]
        pairs = [order[at : at + 2] for at in range(0, len(order), 2)]
        assert all(len({*pair}) == 2 for pair in pairs), order
        assert all(one[1] == after[0] for one, after in itertools.pairwise(pairs)), order  # A B B A
    assert not leftovers(run.out)


def leftovers(text: str) -> list[str]:
    """Return the folders of other revisions that are left, of those that a run names."""
    return [word for word in text.split() if "kafkaperf-revision-" in word and Path(word).exists()]


RELATIVE = "e2e.latency.p50 <= baseline + 30%"
ACTIONS = """
    kafka_perf.at("300 ms", service.restart)
    kafka_perf.add_metric("app.side", lambda app: float(app.side == "baseline"), service, unit="count", better="lower")
"""


@pytest.mark.story
def test_actions_and_own_metrics_are_those_of_each_side(repository: Project) -> None:
    """The other pytest does them to its own application."""
    body = TEST.replace("    kafka_perf()", f"{ACTIONS}    kafka_perf()").replace('"1 s"', '"5 s"')
    commit(repository.test(body.replace(RELATIVE, "errors == 0")), "Restart")
    run = repository.run("--kafka-compare=git:HEAD", "--kafka-rounds=1")
    (test,) = run.report["tests"]
    assert test["problems"] == [], run.out
    ours, theirs = test["rounds"][0], test["live_baseline"]["rounds"][0]
    assert (ours["metrics"]["app.side"], theirs["metrics"]["app.side"]) == (0, 1)
    for one in (ours, theirs):
        events = " ".join(event["text"] for event in one["events"])
        assert "mover stopped" in events
        assert "mover ready" in events
        assert one["metrics"]["app.memory"] > 10e6


def test_a_new_test_is_measured_alone_and_undecided(repository: Project) -> None:
    """Its absolute thresholds are judged; there is nothing to compare it with."""
    body = TEST.replace("test_moved", "test_new").replace('30%")', '30%", "errors == 0")')
    repository.write("test_new.py", f"import pytest\n\n{body}")
    run = repository.run("--kafka-compare=git:HEAD", "test_new.py", "--kafka-rounds=2")
    (test,) = run.report["tests"]
    assert test["verdict"] == "INCONCLUSIVE", run.out
    assert any("the test is new: the baseline, --kafka-compare=git:HEAD, lacks it" in note for note in test["notes"])
    assert {check["metric"]: check["outcome"] for check in test["checks"]}["errors"] == "PASSED"


def test_a_test_that_needs_a_new_fixture_is_new(repository: Project) -> None:
    """The live baseline has its own `conftest.py`, without the fixture; the same commit may add both."""
    repository.write("conftest.py", "import pytest\n\n\n@pytest.fixture\ndef tenant():\n    return 'a'\n")
    repository.test(TEST.replace("test_moved(", "test_moved(tenant, "))
    run = repository.run("--kafka-compare=git:HEAD", "--kafka-rounds=2")
    (test,) = run.report["tests"]
    assert (test["verdict"], test["problems"]) == ("INCONCLUSIVE", []), run.out
    assert any("lacks what it needs (fixture 'tenant' not found)" in note for note in test["notes"])


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        (
            "conftest.py",
            "import pytest\n@pytest.fixture\ndef kafka_app():\n    raise OSError('no room')",
            "OSError: no room",
        ),
        ("delay.txt", "often", "application mover (pid"),
        ("pytest.ini", "[pytest]\naddopts = --unknown", "unrecognized arguments: --unknown"),
    ],
)
def test_a_live_baseline_that_fails_is_one_clear_error(file: str, text: str, problem: str, repository: Project) -> None:
    """With its reason, whether the other pytest, a fixture or the application failed."""
    before = (repository.folder / file).read_text(encoding="utf-8") if (repository.folder / file).exists() else ""
    commit(repository.write(file, text), "Break")
    commit(repository.write(file, before), "Fix")
    run = repository.run("--kafka-compare=git:HEAD~1", reports=False)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert "the baseline, --kafka-compare=git:HEAD~1" in run.out
    assert problem in run.out
    assert "Traceback" not in run.out.partition("the end of its log")[0]


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
    assert "give the live baseline a separate environment: --kafka-compare-setup='pip install -e .'" in run.out


PEER = "pytest_kafkaperf.plugin.peer_side"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_behind(end: signal.Signals, repository: Project) -> None:
    """Neither by Ctrl-C nor by SIGKILL: no process, and no folder of the checkout."""
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


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        (PEER, "the baseline, --kafka-compare=git:HEAD has ended"),
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


def wait_for(happens: Callable[[], bool]) -> None:
    """Wait until something happens."""
    assert becomes(happens)


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
    rounds = (test["rounds"][0], test["live_baseline"]["rounds"][0])
    assert [one["metrics"]["app.installed"] for one in rounds] == [0, 1], run.out
    assert any("0.0.1, is compared only as far as its application uses it" in note for note in test["notes"]), run.out
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
    trials = sum(1 + measured_again(test) + len(test["further_trials"]) for test in run.report["tests"])
    for folder in (repository.folder, other):
        starts = [line.split() for line in (folder / "starts").read_text(encoding="utf-8").splitlines()]
        assert len(starts) == trials - 1
        assert len({servers for _, _, servers in starts}) == 1
        assert all(ended(int(pid)) for pid, *_ in starts)


PORT = """
@pytest.fixture
def service(kafka_app):
    command = ["python", "-m", "http.server", "{port}", "--bind=127.0.0.1"]
    return kafka_app(command, ready="port:{port}", topics=["moved-in", "moved-out"], name="web")
"""


def test_a_setup_that_fails_runs_once(repository: Project) -> None:
    """Each of many tests would wait for it again."""
    commit(
        repository.test(TEST + TEST[TEST.index("\n\n@pytest.mark") :].replace("test_moved", "test_again")), "Test twice"
    )
    ran = repository.folder.parent / "ran"
    setup = f"--kafka-compare-setup=echo x >> {ran}; exit 3"
    run = repository.run("--kafka-compare=git:HEAD", setup, reports=False)
    assert run.out.count("exited with status 3") >= 2, run.out
    assert ran.read_text(encoding="utf-8") == "x\n"


def test_both_sides_need_a_cluster_of_their_own(repository: Project, on_broker: str) -> None:
    """A fixture could give both the same one, on which each application would get a part of the other's records."""
    broker = on_broker.partition("=")[2]
    own = f"@pytest.fixture\ndef kafka_cluster():\n    return {broker!r}\n\n"
    commit(repository.test(own + TEST), "Use a cluster that runs")
    run = repository.run("--kafka-compare=git:HEAD", reports=False)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert f"both sides use the cluster at {broker}" in " ".join(run.out.split()), run.out


def test_equal_code_is_told(repository: Project) -> None:
    """On an unchanged main branch, the commit where the branch began is this one."""
    commit(repository.test(TEST.replace(RELATIVE, "errors == 0")), "Judge errors alone")
    run = repository.run("--kafka-compare=git:HEAD", "--kafka-rounds=1")
    (test,) = run.report["tests"]
    assert "nothing differs: this side has the live baseline's commit and packages" in test["notes"], run.out


def test_a_smoke_test_measures_this_side_alone(repository: Project) -> None:
    """`--benchmark-disable` runs one round without a verdict, so there is nothing to compare."""
    run = repository.run("--kafka-compare=git:HEAD", "--benchmark-disable")
    (test,) = run.report["tests"]
    assert (run.status, len(test["rounds"]), test["live_baseline"]) == (pytest.ExitCode.OK, 1, None), run.out


def test_a_port_that_both_sides_need_is_an_error(repository: Project) -> None:
    """It says how each side gets its own."""
    (port,) = local_brokers.free_ports(1)
    commit(repository.test(PORT.format(port=port) + TEST[TEST.index("\n\n@pytest.mark") :]), "Serve")
    run = repository.run("--kafka-compare=git:HEAD", reports=False)
    assert run.status == pytest.ExitCode.TESTS_FAILED, run.out
    assert "choose the port by KAFKAPERF_SIDE" in " ".join(run.out.split()), run.out


def test_the_time_budget_counts_for_both_sides(repository: Project) -> None:
    """A comparison that it breaks off is undecided, and names the budget."""
    commit(repository.test(TEST.replace('"1 s"', '"5 s"')), "Take longer")
    run = repository.run("--kafka-compare=git:HEAD", "--kafka-time-budget=40 s")
    (test,) = run.report["tests"]
    assert test["verdict"] == "INCONCLUSIVE", run.out
    assert "time budget" in run.out
