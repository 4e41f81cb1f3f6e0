"""The advice for a test that the other revision lacks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pytest_kafkaperf.reports.remedy import undecided
from pytest_kafkaperf.runner.settings import Revision, parse_revision
from tests.support.problems import notice_told
from tests.support.results import result, rounds


def revision(text: str) -> Revision | None:
    return parse_revision(text, start=Path("/src"))


def test_one_that_could_not_be_collected_is_repaired_first() -> None:
    """The file is there by now, so to give it to the other side again would change nothing."""
    found = result("test_new", "produce.latency.p99 <= baseline + 20%", measured=rounds())
    found = dataclasses.replace(
        found, revision=revision("git:v1.0,tests=head"), notes=(notice_told("could not collect the test: no prices"),)
    )
    text = undecided(dataclasses.replace(found, options={"compare": "git:v1.0,tests=head"}))
    assert "could not collect the test: no prices; repair that, then: pytest " in text
    assert text.endswith(" --kafka-compare=git:v1.0,tests=head")


def test_one_that_another_checkout_lacks_is_added_there() -> None:
    """`path:` takes no `tests`, and keeps its interpreter."""
    found = result("test_new", "produce.latency.p99 <= baseline + 20%", measured=rounds())
    given = "path:../main,python=../main/.venv/bin/python"
    found = dataclasses.replace(
        found, revision=revision(given), notes=(notice_told("the test is new"),), options={"compare": given}
    )
    text = undecided(found)
    assert text == (
        f"INCONCLUSIVE: the test is new; add it there, then: pytest {found.nodeid} --kafka-cluster=local "
        f"--kafka-compare={given}"
    )


def test_the_advice_runs_it_there_too() -> None:
    """The command is one that the plugin accepts: it replaces the value of the option."""
    found = result("test_new", "produce.latency.p99 <= baseline + 20%", measured=rounds())
    note = "the test is new: the baseline, --kafka-compare=git:v1.0, lacks it"
    found = dataclasses.replace(found, revision=revision("git:v1.0"), notes=(notice_told(note),))
    options = {"compare": "git:v1.0", "compare-setup": "pip install -e .", "strict": "true"}
    assert undecided(dataclasses.replace(found, options=options)) == (
        f"INCONCLUSIVE: {note}; run it there, too: pytest {found.nodeid} --kafka-cluster=local --kafka-strict "
        "'--kafka-compare-setup=***' --kafka-compare=git:v1.0,tests=head"
    )
