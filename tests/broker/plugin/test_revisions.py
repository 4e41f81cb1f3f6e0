"""Comparisons of two revisions of the code, each with its own cluster and application; `tests/nightly` has variants."""

from __future__ import annotations

import signal

import pytest

from tests.support.project import Project
from tests.support.revisions import (
    RELATIVE,
    TEST,
    break_the_live_baseline,
    commit,
    end_a_comparison,
    find_a_slower_service,
)


def test_a_slower_service_fails_and_its_commit_is_named(repository: Project) -> None:
    """By rounds in turns; `tests/nightly` confirms it on further trials."""
    find_a_slower_service(repository, "--kafka-no-confirm")


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
    assert "nothing differs: this side has the live baseline's commit and packages" in test["notes"], run.out
    ours, theirs = test["rounds"][0], test["live_baseline"]["rounds"][0]
    assert (ours["metrics"]["app.side"], theirs["metrics"]["app.side"]) == (0, 1)
    for one in (ours, theirs):
        events = " ".join(event["text"] for event in one["events"])
        assert "mover stopped" in events
        assert "mover ready" in events
        assert one["metrics"]["app.memory"] > 10e6


def test_a_new_test_is_measured_alone_and_undecided(repository: Project) -> None:
    """Its absolute thresholds are judged; there is nothing to compare it with.

    So it is with a test that needs a new fixture, which the live baseline's own `conftest.py` lacks.
    """
    body = TEST.replace("test_moved", "test_new").replace('30%")', '30%", "errors == 0")')
    repository.write("test_new.py", f"import pytest\n\n{body}")
    repository.write("conftest.py", "import pytest\n\n\n@pytest.fixture\ndef tenant():\n    return 'a'\n")
    repository.test(TEST.replace("test_moved(", "test_moved(tenant, "))
    run = repository.run("--kafka-compare=git:HEAD", "test_new.py", "test_perf.py", "--kafka-rounds=2")
    assert run.verdicts == {"test_new": "INCONCLUSIVE", "test_moved": "INCONCLUSIVE"}, run.out
    new, needing = run.report["tests"]
    assert any("the test is new: the baseline, --kafka-compare=git:HEAD, lacks it" in note for note in new["notes"])
    assert {check["metric"]: check["outcome"] for check in new["checks"]}["errors"] == "PASSED"
    assert needing["problems"] == []
    assert any("lacks what it needs (fixture 'tenant' not found)" in note for note in needing["notes"])


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
