"""Text that others wrote, as it can be shown: control characters become visible, and control nothing."""

from __future__ import annotations

import re

from pytest_kafkaperf.errors import shortened

_MOST_SHOWN = 1000
"""Characters of a value."""
UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, separators of lines, marks that turn the direction of what follows, and halves of surrogate
pairs, which no encoding takes. Joiners of letters and of emoji stay: they are a part of what is read."""


def printable(text: str, *, keep: str = "") -> str:
    r"""The text with such characters by their number, but for those in `keep`.

    >>> printable("a\x1b[31m\nb")
    'a\\x1b[31m\\nb'
    """
    return UNSEEN.sub(lambda found: found[0] if found[0] in keep else _numbered(found[0]), text)


def ascii_of(text: str) -> str:
    """Text of ours for a terminal that knows no other: what it lacks is spelt out, or a question mark."""
    return text.replace("µ", "u").replace("±", "+-").encode("ascii", "replace").decode()


def repr_of(value: object) -> str:
    """Its repr, cut where it is long; or what it is, where Python does not write it out."""
    try:
        return shortened(repr(value), _MOST_SHOWN)
    except (RecursionError, ValueError):  # nested hundreds of times, or a number of thousands of digits
        return f"a value of type {type(value).__name__}, too large to show"


def _numbered(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
