"""JSON that others may have written."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.core.text import parse_document


def test_json_is_read() -> None:
    """In every encoding that JSON may have."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        assert parse_document('{"é": [1, null, "x"]}'.encode(encoding)) == {"é": [1, None, "x"]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        ("1" * 5000, "it is nested too deeply, or contains a number with thousands of digits"),
        ("[" * 100_000, "it is nested too deeply, or contains a number with thousands of digits"),
    ],
)
def test_what_cannot_be_read_is_a_value_error(content: bytes | str, problem: str) -> None:
    """Python's own words for bounds of its own would tell a user nothing."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - its text is compared
        parse_document(content)
    assert str(caught.value) == problem
