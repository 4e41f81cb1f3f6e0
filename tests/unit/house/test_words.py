"""The words of this project: one word for one thing, in code, documentation and examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = ("pytest_kafkaperf", "docs", "examples", "tests", "benchmarks")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "conftest.py", "pyproject.toml", "mkdocs.yml")
SUFFIXES = {".py", ".md", ".yml", ".ini", ".toml", ".html", ".js", ".css", ".jsonl"}
OLD: dict[str, str] = {
    r"sessions?": "trial, or run",
    r"suspects?": "suspected regression",
    r"beside": "side by side, or next to",
    r"anew": "again",
    r"spoil(s|t)?": "invalidate",
    r"mend(s|ed)?": "fix",
    r"preheat\w*": "broker warm-up",
    r"figures?": "value, or result",
    r"kafka[-_]reference\w*": "kafka-compare",
    r"(an?|the|live) reference": "live baseline",
    r"(broker|client)\.cost": "cpu_per_record",
    r"error levels?": "false-alarm rate",
    r"kafkaperf compare": "kafkaperf diff",
    r"update-baselines=(all|append|improved)": "replace, or add",
}
"""Words that this project used for its own terms, and the words that it uses now."""
OTHERS = re.compile(
    # Kafka's and pytest's sessions, those of POSIX, and a name that a program gave.
    r"session\.timeout|session_timeout|SESSION_TIMEOUT|pytest_session\w+|pytest\.Session|start_new_session|"
    r"own session\b|scope=.session.|session[- ]scope\w*|"
    r"\bsession(?=\.(config|items|exitstatus|testsfailed|should\w+|_setup))|"
    r"(?<=\()session(?=[:,)])|(?<=, )session(?=[:,)])|\bsession(?=: Any = )|(?<=\.)session\b|test session starts|"
    # The folder of reference pages, and references of Python.
    r"weak reference|[Tt]he reference (has|shows|says|explains)|the guide's reference"
)
"""What others call so."""
PLOTLY = re.compile(r"reports/html/|reports/test_latency_curve|broker/pages/")
"""Where a figure is one of Plotly or HTML."""


def test_old_words_are_gone() -> None:
    """Two words for one thing make a reader look for the difference."""
    assert list(_found()) == []


@pytest.mark.parametrize(
    "text", ["a further session", "two suspects", "beside it", "--kafka-reference=local", "the reference is slower"]
)
def test_an_old_word_is_found(text: str) -> None:
    """A rule that finds nothing would hold for ever."""
    assert list(_old(text))


@pytest.mark.parametrize(
    "text", ['@pytest.fixture(scope="session")', "session.timeout.ms", "a weak reference", "def pytest_sessionfinish("]
)
def test_the_words_of_others_stay(text: str) -> None:
    """Kafka's, pytest's and Python's terms keep their names."""
    assert list(_old(text)) == []


def _old(text: str) -> Iterator[str]:
    kept = OTHERS.sub("", text)
    for old, new in OLD.items():
        for found in re.finditer(rf"(?<!\w){old}(?![\w-])", kept, re.IGNORECASE):
            yield f"{found[0]!r}: write {new}"


def _found() -> Iterator[str]:
    for path in _files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            for each in _old(line):
                if not (each.lower().startswith("'figure") and PLOTLY.search(str(path))):
                    yield f"{path.relative_to(ROOT)}:{number}: {each}"


def _files() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and path != Path(__file__):
                yield path
    yield from (ROOT / page for page in PAGES)
