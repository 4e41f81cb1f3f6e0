"""Text and JSON that others wrote: read and shown safely."""

from __future__ import annotations

import json
import re
from typing import Any

from pytest_kafkaperf.core.errors import shortened

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


def discreet(text: str, *, login: str = "") -> str:
    """What may be shown of an option: `login` in place of one in an address, `***` of a property that may be secret."""
    lines = [re.sub(r"(?<=://)[^/?#,]*@", login, line) for line in text.splitlines()]
    properties = ((line, *line.partition("=")[:2]) for line in lines)
    return "\n".join(f"{name}=***" if equals and may_be_secret(name) else line for line, name, equals in properties)


def may_be_secret(name: str) -> bool:
    """Whether a property's value may be a secret: of a plug-in's properties Kafka itself does not know which are."""
    return re.search(r"password|secret|token|credential|jaas|private|key$", name, re.IGNORECASE) is not None


def file_of(nodeid: str) -> str:
    """The part of a nodeid that names the file."""
    return nodeid.partition("::")[0]


def without_folders(nodeid: str) -> str:
    """A nodeid without the folders of its file; parameters may have slashes, too: `test_a.py::test_rate[5k/s]`."""
    return nodeid[file_of(nodeid).rfind("/") + 1 :]


MAX_PROBLEM = 300
"""Characters of what is wrong with one that are shown: it may be wrong in every line."""

MAX_SCHEMA = 20
"""Digits of its version that are shown."""


def parse_document(content: bytes | str) -> Any:
    """Read JSON, with NaN and infinite numbers as Python reads them: the models of its users refuse these.

    Raises:
        ValueError: it is none, or more than Python reads.

    """
    try:
        return json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except (RecursionError, ValueError):
        raise ValueError("it is nested too deeply, or a number in it has thousands of digits") from None
