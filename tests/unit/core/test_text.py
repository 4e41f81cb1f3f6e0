"""Text that others wrote, as it can be shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.text import discreet, may_be_secret, printable, repr_of, shown_value


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
        ("login --password abc --verbose 'x y'", "login --password *** --verbose 'x y'"),
        ("login --api-key='a b' x", "login --api-key=*** x"),
        ("curl -u me:abc https://host/x", "curl -u *** https://host/x"),
        ("curl --user 'me:abc' -ume:abc x", "curl --user *** -u*** x"),
        ("curl 'https://host/x.whl?sv=1&sig=a%2Bb&se=2'", "curl 'https://host/x.whl?sv=1&sig=***&se=2'"),
        ("https://host/x?X-Amz-Signature=abc", "https://host/x?X-Amz-Signature=***"),
        ("curl -H 'Private-Token: abc' x", "curl -H 'Private-Token: ***' x"),
        ('curl -H "Authorization: Basic YWJjOmRlZg=="', 'curl -H "Authorization: ***"'),
        ("got Bearer abcdefghijkl", "got Bearer ***"),
        ("jwt eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.abc-_d", "jwt ***"),
        ("python -u run.py --time 10:30 -u 5", "python -u run.py --time 10:30 -u 5"),
        (
            "local:4.0.0 docker:apache/kafka:4.0.0 token-broker:9092",
            "local:4.0.0 docker:apache/kafka:4.0.0 token-broker:9092",
        ),
        ("a\nPASSWORD=b\n", "a\nPASSWORD=***"),
    ],
)
def test_a_secret_in_an_option_is_not_shown(text: str, shown: str) -> None:
    """Reports show the command that runs a test again, and a log belongs to many people."""
    assert discreet(text) == shown


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl.jaas.config", True),
        ("MYSQL_PWD", True),
        ("PIP_PASS", True),
        ("Authorization", True),
        ("X-Api-Key", True),
        ("Set-Cookie", True),
        ("sig", True),
        ("ssl.keystore.location", False),
        ("authorizer.class.name", False),
        ("bypass", False),
        ("signals", False),
        ("monitoring.signature.algorithms", False),
    ],
)
def test_a_name_tells_whether_its_value_may_be_secret(name: str, *, secret: bool) -> None:
    """A value that is hidden by mistake cannot be compared with the baseline's."""
    assert may_be_secret(name) is secret


def test_the_value_of_an_option_that_is_a_command_is_never_shown() -> None:
    """A shell has too many ways to write a password down."""
    assert shown_value("compare-setup", "echo abc | pip-login") == "***"
    assert shown_value("compare", "git:main") == "git:main"
