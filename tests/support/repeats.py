"""Repeats of tests whose load was too much for a busy machine.

Such a test says nothing about the plugin: the plugin itself has reported INVALID because the load generator was too
slow, or a violated `unsent == 0`, which nobody had declared, because the brokers were too slow. Every other failure
counts. `GeneratorTooSlowError` takes the place of the test's own error then, and pytest-rerunfailures repeats tests
that end with it. If the last attempt ends like this as well, the test is skipped with that reason, and `.ci/run` fails.
The `conftest.py` of a folder takes the hooks from here.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.runner.rounds.round import Round
from pytest_kafkaperf.verdict.outcome import Verdict

REPEATS = 2
_seen: list[str] = []
"""Problems of this kind that the plugin has reported while the current test ran."""


class GeneratorTooSlowError(Exception):
    """A test failed, and in one of its rounds the load generator was too slow."""


def note_rounds(rounds: Iterable[Round]) -> None:
    """Remember invalid rounds that ran in this process, and those that were repeated."""
    for one in rounds:
        _note((problem.kind, problem.text) for problem in one.problems)
        _note(_repeated(map(str, one.warnings)))


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

    Of a repeated first trial only a note is left, and of a repeated round only a warning. Actions ran again in it, on
    what the first attempt had left.
    """
    if isinstance(value, dict):
        yield from ((one["kind"], one["text"]) for one in value.get("problems", ()))
        if value.get("metric") == "unsent" and value["implied"] and value["verdict"] == Verdict.VIOLATED:
            yield ProblemKind.GENERATOR_TOO_SLOW, f"{value['expression']}: {value['observed']:g} unsent"
        yield from _repeated(one["text"] for one in (*value.get("notes", ()), *value.get("warnings", ())))
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _problems(each)


def _repeated(remarks: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Give the kind and the text of the problems for which something was repeated."""
    texts = [text for text in remarks if "was repeated: " in text and "generator too slow: " in text]
    yield from ((ProblemKind.GENERATOR_TOO_SLOW, text) for text in texts)
