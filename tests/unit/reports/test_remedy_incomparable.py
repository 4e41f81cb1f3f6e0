"""The advice for a test that the other revision cannot run."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_kafkaperf.reports.remedy import reasons_undecided, remedy_of
from pytest_kafkaperf.runner.settings import Revision, parse_revision
from tests.support.problems import notice_told
from tests.support.results import result, rounds

NOTE = "the baseline, --kafka-compare=git:v1.0, could not collect the test: no prices"


def parsed(text: str) -> Revision | None:
    return parse_revision(text, start=Path("/src"))


@pytest.mark.parametrize("revision", ["git:v1.0", "git:v1.0,tests=head"])
def test_a_test_file_that_fails_there_is_repaired_first(revision: str) -> None:
    """The other side already has this side's file, so to give it another one would change nothing."""
    found = result("test_new", "produce.latency.p99 <= baseline + 20%", measured=rounds())
    options = {"compare": revision, "compare-setup": "pip install -e .", "strict": "true"}
    found = dataclasses.replace(found, revision=parsed(revision), notes=(notice_told(NOTE),), options=options)
    command = f"pytest {found.nodeid} --kafka-cluster=local --kafka-strict '--kafka-compare-setup=***'"
    assert reasons_undecided(found) == (NOTE,)
    assert str(remedy_of(found)) == (
        f"make the test file work at both revisions, then: {command} --kafka-compare={revision}"
    )


def test_one_whose_own_file_fails_there_gets_this_sides_file() -> None:
    """`tests=ref` has left the other side's file in place."""
    found = result("test_new", "produce.latency.p99 <= baseline + 20%", measured=rounds())
    found = dataclasses.replace(found, revision=parsed("git:v1.0,tests=ref"), notes=(notice_told(NOTE),))
    assert reasons_undecided(found) == (NOTE,)
    assert str(remedy_of(found)) == (
        f"run this side's test there, with: pytest {found.nodeid} --kafka-cluster=local "
        "--kafka-compare=git:v1.0,tests=head"
    )


def test_one_that_another_checkout_cannot_run_is_repaired_there() -> None:
    """`path:` takes no `tests`, and keeps its interpreter."""
    found = result("test_new", "produce.latency.p99 <= baseline + 20%", measured=rounds())
    given = "path:../main,python=../main/.venv/bin/python"
    found = dataclasses.replace(found, revision=parsed(given), notes=(notice_told(NOTE),), options={"compare": given})
    assert reasons_undecided(found) == (NOTE,)
    assert str(remedy_of(found)) == (
        f"repair it there, then: pytest {found.nodeid} --kafka-cluster=local --kafka-compare={given}"
    )
