"""Comparisons of two revisions of the code, each with its own cluster and application; `tests/nightly` has variants."""

from __future__ import annotations

import signal

import pytest

from tests.support.project import INI, Project, texts
from tests.support.repository import git
from tests.support.revisions import (
    RELATIVE,
    TEST,
    break_the_live_baseline,
    commit,
    compilers_of,
    end_a_comparison,
    find_a_slower_service,
)


def test_a_slower_service_fails_and_its_commit_is_named(repository: Project) -> None:
    """By rounds in turns."""
    find_a_slower_service(repository)


def test_a_limit_that_quick_brokers_miss_is_measured_again_with_all_compilers(repository: Project) -> None:
    """Otherwise the compiler could be the reason for a red build."""
    commit(repository.test(TEST.replace(RELATIVE, "e2e.latency.p50 <= 1 us")), "Promise the impossible")
    run = repository.run("--kafka-compare=git:HEAD~1", "--kafka-rounds=1")
    (test,) = run.report["tests"]
    assert (run.status, test["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "VIOLATED"), run.out
    assert compilers_of(test) == ["all", "all"]
    assert not [change for change in test["changed"] if "compiler" in change]
    (note,) = [text for text in texts(test["notes"]) if text.startswith("repeated on brokers")]
    assert "because with the quick compiler alone, e2e.latency.p50 was" in note


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
    assert "nothing differs: both sides have the same commit and packages" in texts(test["notes"]), run.out
    ours, theirs = test["trials"][0]["rounds"][0], test["trials"][0]["baseline_rounds"][0]
    assert (ours["metrics"]["app.side"], theirs["metrics"]["app.side"]) == (0, 1)
    for one in (ours, theirs):
        events = " ".join(event["text"] for event in one["events"])
        assert "mover stopped" in events
        assert "mover ready" in events
        assert one["metrics"]["app.memory"] > 10e6


@pytest.mark.story
def test_a_new_test_is_judged_by_its_absolute_thresholds_alone(repository: Project) -> None:
    """The pull request that adds the first one is green, even with `--kafka-strict`; one that renames it shows both."""
    body = TEST.replace("test_moved", "test_new").replace('30%")', '30%", "errors == 0")')
    repository.write("test_new.py", f"import pytest\n\n{body}")
    (repository.folder / "test_perf.py").unlink()
    run = repository.run("--kafka-compare=git:HEAD", "test_new.py", "--kafka-rounds=2", "--kafka-strict")
    (test,) = run.report["tests"]
    assert (run.status, test["verdict"]) == (pytest.ExitCode.OK, "MEASURED"), run.out
    note = "the test is new: it does not exist in the baseline, --kafka-compare=git:HEAD"
    assert any(note in each for each in texts(test["notes"]))
    outcomes = {check["metric"]: (check["verdict"], check["reason"]) for check in test["checks"]}
    assert outcomes["errors"][0] == "PASSED"
    assert outcomes["e2e.latency.p50"] == ("MEASURED", "new test, nothing to compare with")
    assert run.report["new_tests"] == ["test_new.py::test_new"]
    assert run.report["removed_tests"] == ["test_perf.py::test_moved"]
    assert "removed by this change, with their thresholds: test_perf.py::test_moved" in run.out


@pytest.mark.story
def test_one_command_serves_main_and_pull_requests(repository: Project) -> None:
    """On main, absolute thresholds decide: the commit where the branch begins is this one."""
    body = TEST.replace('30%")', '30%", "errors == 0")')
    repository.write("pytest.ini", f"{INI}kafka_compare = git:merge-base\n").test(body)
    commit(repository, "Compare with the base")
    run = repository.run("--kafka-strict", "--kafka-rounds=2")
    (test,) = run.report["tests"]
    assert (run.status, test["verdict"], test["live_baseline"]) == (pytest.ExitCode.OK, "MEASURED", None), run.out
    reasons = {check["metric"]: (check["verdict"], check["reason"]) for check in test["checks"]}
    assert reasons["e2e.latency.p50"] == ("MEASURED", "this is the base")
    assert reasons["errors"][0] == "PASSED"
    assert "git:merge-base is this commit, so thresholds relative to it are not judged" in run.out
    git(repository.folder, "checkout", "--quiet", "-b", "topic")
    commit(repository.write("delay.txt", "100"), "Look up each order")
    run = repository.run("--kafka-strict", "--kafka-rounds=2")
    (test,) = run.report["tests"]
    assert (run.status, test["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "REGRESSED"), run.out


def test_a_test_that_needs_a_new_fixture_is_undecided(repository: Project) -> None:
    """The live baseline has its own `conftest.py`, without the fixture; the same commit may add both."""
    repository.write("conftest.py", "import pytest\n\n\n@pytest.fixture\ndef tenant():\n    return 'a'\n")
    repository.test(TEST.replace("test_moved(", "test_moved(tenant, "))
    run = repository.run("--kafka-compare=git:HEAD", "--kafka-rounds=2")
    (test,) = run.report["tests"]
    assert (test["verdict"], test["problems"]) == ("INCONCLUSIVE", []), run.out
    assert any("does not have the fixture 'tenant' that the test needs" in note for note in texts(test["notes"]))


def test_a_setup_that_fails_runs_once_and_is_told_once(repository: Project) -> None:
    """Each of many tests would wait for it again, and repeat the end of its output."""
    commit(
        repository.test(TEST + TEST[TEST.index("\n\n@pytest.mark") :].replace("test_moved", "test_again")), "Test twice"
    )
    ran = repository.folder.parent / "ran"
    setup = f"--kafka-compare-setup=echo x >> {ran}; exit 3"
    run = repository.run("--kafka-compare=git:HEAD", setup, reports=False)
    first, second = (f"test_perf.py::{name}" for name in ("test_moved", "test_again"))
    assert run.out.count("--kafka-compare-setup: the command exited with status 3") == 2, (
        "not once, and once summarized"
    )
    assert f"--kafka-compare=git:HEAD failed; the error of {first} has the reason" in run.out
    assert f"ERROR at setup of {second.rpartition(':')[2]}" in run.out
    assert not (repository.folder / "starts").exists(), "a broker or an application has started"
    assert ran.read_text(encoding="utf-8") == "x\n"


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        (
            "conftest.py",
            "import pytest\n@pytest.fixture\ndef kafka_app():\n    raise OSError('no room')",
            "OSError: no room",
        ),
        ("pytest.ini", "[pytest]\naddopts = --unknown", "unrecognized arguments: --unknown"),
    ],
    ids=["fixture", "pytest"],
)
def test_a_live_baseline_that_fails_is_one_clear_error(file: str, text: str, problem: str, repository: Project) -> None:
    """With its reason, whether the other pytest or a fixture failed."""
    break_the_live_baseline(repository, file, text, problem)


def test_nothing_is_left_after_sigkill(repository: Project) -> None:
    """No process, and no folder of the checkout."""
    end_a_comparison(repository, signal.SIGKILL)
