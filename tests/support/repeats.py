"""Repeats of tests whose load was too much for a busy machine.

Such a test says nothing about the plugin: the plugin itself has reported INVALID because the load generator was too
slow. Every other failure counts. `GeneratorTooSlowError` takes the place of the test's own error then, and
pytest-rerunfailures repeats tests that end with it. If the last attempt ends like this as well, the test is skipped
with that reason, and `.ci/run` fails. The `conftest.py` of a folder takes the hooks from here.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.runner.rounds.round import Round

REPEATS = 2
_seen: list[str] = []
"""Problems of this kind that the plugin has reported while the current test ran."""


class GeneratorTooSlowError(Exception):
    """A test failed, and in one of its rounds the load generator was too slow."""


def note_rounds(rounds: Iterable[Round]) -> None:
    """Remember invalid rounds that ran in this process."""
    _note((problem.kind, problem.text) for one in rounds for problem in one.problems)


def note_report(file: Path) -> None:
    """Remember invalid rounds in the JSON report of a run that has ended; there is none if it was interrupted."""
    if file.exists():
        _note(_problems(json.loads(file.read_text(encoding="utf-8"))))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Have pytest-rerunfailures repeat tests that end with `GeneratorTooSlowError`, and no others."""
    item.add_marker(pytest.mark.flaky(reruns=REPEATS, only_rerun=GeneratorTooSlowError.__name__))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Tell a failure of a test whose load was too much for this machine from any other failure."""
    _seen.clear()
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as error:
        if not _seen:
            raise
        if getattr(pyfuncitem, "execution_count", 1) > REPEATS:  # set by pytest-rerunfailures
            pytest.skip(f"this machine is too slow for the load of this test: {_seen[0]}")
        raise GeneratorTooSlowError(_seen[0]) from error


def _note(problems: Iterable[tuple[str, str]]) -> None:
    _seen.extend(text for kind, text in problems if kind == ProblemKind.GENERATOR_TOO_SLOW)


def _problems(value: Any) -> Iterator[tuple[str, str]]:
    """Give the kind and the text of each problem of the tests, trials and rounds of a report.

    Of a first trial that was measured again only a note is left.
    """
    if isinstance(value, dict):
        yield from ((one["kind"], one["text"]) for one in value.get("problems", ()))
        invalidated = [note["text"] for note in value.get("notes", ()) if "was repeated: " in note["text"]]
        yield from ((ProblemKind.GENERATOR_TOO_SLOW, note) for note in invalidated if "generator too slow: " in note)
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _problems(each)
