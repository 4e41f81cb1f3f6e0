"""Safe reading and display of text and JSON from outside sources."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_kafkaperf.core.errors import shortened

_MAX_REPR = 1000
"""Maximum number of characters of a displayed value."""

UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Pattern of the characters that must be escaped: control characters, line separators, marks that change the text
direction, and lone surrogates, which no encoding accepts. Joiners stay: letters of some scripts and emoji need them."""


def printable(text: str, *, keep: str = "") -> str:
    r"""Escape the characters that match `UNSEEN`, except those in `keep`.

    >>> printable("a\x1b[31m\nb")
    'a\\x1b[31m\\nb'
    """
    return UNSEEN.sub(
        lambda found: found[0] if found[0] in keep else found[0].encode("unicode_escape").decode("ascii"), text
    )


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def repr_of(value: object) -> str:
    """Return a shortened `repr()`, or a description of the type if `repr()` fails."""
    try:
        return shortened(repr(value), _MAX_REPR)
    except (RecursionError, ValueError):  # nested hundreds of levels deep, or a number of thousands of digits
        return f"a value of type {type(value).__name__}, too large to show"


def discreet(text: str, *, login: str = "") -> str:
    """Remove secrets from an option value: `login` replaces credentials in URLs, `***` values of secret properties.

    The value of a property is the rest of its line; that of a variable in a command ends at a space.
    """
    lines = [re.sub(r"(?<=://)[^/?#,]*@", login, line) for line in text.splitlines()]
    properties = ((line, *line.partition("=")[:2]) for line in lines)
    return "\n".join(
        f"{name}=***" if equals and _NAME.fullmatch(name) and may_be_secret(name) else _ASSIGNED.sub(_masked, line)
        for line, name, equals in properties
    )


_NAME = re.compile(r"\s*[^\s=]*\s*")
_ASSIGNED = re.compile(r"""([^\s=;&'"]+)=("[^"]*"|'[^']*'|[^\s;&]*)""")
"""Parts of a command or a URL such as `PIP_PASSWORD='abc'`."""


def _masked(found: re.Match[str]) -> str:
    return f"{found[1]}=***" if may_be_secret(found[1]) else found[0]


def may_be_secret(name: str) -> bool:
    """Return True if the value of this property may be a secret. The name decides: plug-ins can add any property."""
    return re.search(r"password|secret|token|credential|jaas|private|key$", name, re.IGNORECASE) is not None


def without_secrets(properties: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return properties with `***` for the values that may be secret, such as those of broker plug-ins."""
    return {name: "***" if may_be_secret(str(name)) else value for name, value in properties.items()}


def file_of(nodeid: str) -> str:
    """Return the file part of a node ID."""
    return nodeid.partition("::")[0]


def without_folders(nodeid: str) -> str:
    """Remove the folders from a node ID, but keep slashes in parameters: `test_a.py::test_rate[5k/s]`."""
    return nodeid[file_of(nodeid).rfind("/") + 1 :]


MAX_PROBLEM = 300
"""Maximum number of characters of a displayed validation problem; a document may have one in every line."""


def parse_document(content: bytes | str) -> Any:
    """Parse JSON. NaN and infinite numbers pass, as in Python's parser; the callers' models reject them.

    Raises:
        ValueError: the content is not JSON, or exceeds the limits of Python's parser.

    """
    try:
        return json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except (RecursionError, ValueError):
        raise ValueError("it is nested too deeply, or a number in it has thousands of digits") from None
