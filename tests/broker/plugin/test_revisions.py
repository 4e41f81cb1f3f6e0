"""Comparisons of two revisions of the code, each with its own cluster and application; `tests/nightly` has variants."""

from __future__ import annotations

import itertools
import os
import signal
from pathlib import Path

import psutil
import pytest

from pytest_kafkaperf.clusters.brokers import local_brokers
from tests.support.orphans import with_word
from tests.support.patience import PATIENCE_S
from tests.support.project import Project
from tests.support.repository import git
from tests.support.revisions import PEER, RELATIVE, TEST, commit, wait_for


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
