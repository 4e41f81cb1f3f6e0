"""Text that others wrote, as it can be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.text import discreet, printable, repr_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("größe 1/s µs 値 \U0001f600 👩‍💻", "größe 1/s µs 値 \U0001f600 👩‍💻"),
        ("a\x1b[31mb\x07\0\x7f\x9b", r"a\x1b[31mb\x07\x00\x7f\x9b"),
        ("a\r\nb\tc\x85d\u2028", r"a\r\nb\tc\x85d\u2028"),
        ("\u202etxt.exe\u2069\u200f", r"\u202etxt.exe\u2069\u200f"),
        ("\ud83d half", r"\ud83d half"),
    ],
)
def test_what_is_not_seen_is_shown_by_its_number(text: str, shown: str) -> None:
    """It could colour the terminal, end a line, or turn what follows around; letters of all languages stay."""
    assert printable(text) == shown


def test_what_a_caller_can_show_is_kept() -> None:
    """Lines of a message."""
    assert printable("a\nb\t\x1b", keep="\t\n") == "a\nb\t\\x1b"


@given(st.text(st.characters()))
def test_what_was_shown_once_stays_as_it_is_and_can_be_written(text: str) -> None:
    """A report may be made of texts that were shown already."""
    shown = printable(text)
    assert printable(shown) == shown
    assert shown.encode().decode() == shown
    assert len(shown.splitlines()) <= 1


def test_a_value_that_python_does_not_write_out_is_told_by_its_type() -> None:
    """An error about an error helps nobody."""
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert repr_of(nested) == "a value of type list, too large to show"
    assert repr_of(10**5000) == "a value of type int, too large to show"
    assert repr_of({"a": "b\n"}) == "{'a': 'b\\n'}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("export X=1; PIP_PASSWORD=abc pip install -e .", "export X=1; PIP_PASSWORD=*** pip install -e ."),
        ("A=1 B_TOKEN='a b' pip install .", "A=1 B_TOKEN=*** pip install ."),
        ("https://me:abc@pypi/simple?token=abc&x=1", "https://pypi/simple?token=***"),
        ("sasl.jaas.config=Module required password='abc';", "sasl.jaas.config=***"),
        ("num.io.threads=1", "num.io.threads=1"),
    ],
)
def test_a_secret_in_an_option_is_not_shown(text: str, shown: str) -> None:
    """Reports show the command that runs a test again, and a log belongs to many people."""
    assert discreet(text) == shown
