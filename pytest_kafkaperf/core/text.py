"""Safe parsing and display of text and JSON from untrusted sources."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_kafkaperf.core.errors import shortened

_MAX_REPR = 1000
"""Maximum length of a displayed value, in characters."""

UNSEEN = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Pattern of characters that must be escaped: control characters, line separators, marks that change the text
direction, and lone surrogates, which no encoding accepts. Joiners are kept because some scripts and emoji need them."""


def printable(text: str, *, keep: str = "") -> str:
    r"""Escape the characters that match `UNSEEN`, except those in `keep`.

    >>> printable("a\x1b[31m\nb")
    'a\\x1b[31m\\nb'
    """
    return UNSEEN.sub(
        lambda found: found[0] if found[0] in keep else found[0].encode("unicode_escape").decode("ascii"), text
    )


def listed(names: Sequence[str], most: int = 5) -> str:
    """Join names with commas. After the first `most`, show only how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def repr_of(value: object) -> str:
    """Return a shortened `repr()`, or the value's type if `repr()` fails."""
    try:
        return shortened(repr(value), _MAX_REPR)
    except (RecursionError, ValueError):  # nested hundreds of levels deep, or a number with thousands of digits
        return f"a value of type {type(value).__name__}, too large to show"


def discreet(text: str, *, login: str = "") -> str:
    """Redact secrets in text such as an option value: `login` replaces credentials in URLs, `***` all other secrets.

    A property's value extends to the end of the line. In a command, a variable's or option's value ends at a space.
    """
    return "\n".join(_discreet(line, login) for line in text.splitlines())


_URL_LOGIN = re.compile(r"(?<=://)[^/?#,]*@")
_PROPERTY = re.compile(r"(\s*([^\s=]*)\s*)=.*")
_WORD = r"""("[^"]*"|'[^']*'|[^\s;&|'"]+)"""
_NAMED = (
    re.compile(rf"""(([^\s=;&'"]+)=){_WORD}"""),  # part of a command or a URL: PIP_PASSWORD='abc', ?sig=abc
    re.compile(rf"(?<!\S)(--?([\w-]+)\s+){_WORD}"),  # --password abc
    re.compile(r"""(([\w-]+):[ \t]+)([^'"]+)"""),  # a header, as in `curl -H 'X-Api-Key: abc'`
)
"""Patterns for named values, with groups for the text before the value, the name, and the value."""
_UNNAMED = (
    re.compile(r"""(?<!\S)((?:-u|--user|--proxy-user)[\s=]*)["']?[^\s:'"]+:[^\s'"]+["']?"""),  # `curl -u user:password`
    re.compile(r"\b((?:bearer|basic)\s+)[\w.~+/=-]{8,}", re.IGNORECASE),
    re.compile(r"\b()eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"),  # a JSON web token
)
"""Patterns for secrets without a name, with a group for the text before the secret."""


def _discreet(line: str, login: str) -> str:
    line = _URL_LOGIN.sub(login, line)
    is_property = _PROPERTY.fullmatch(line)
    if is_property and may_be_secret(is_property[2]):
        return f"{is_property[1]}=***"
    for pattern in _NAMED:
        line = pattern.sub(_masked, line)
    for pattern in _UNNAMED:
        line = pattern.sub(r"\1***", line)
    return line


def _masked(found: re.Match[str]) -> str:
    return f"{found[1]}***" if may_be_secret(found[2]) else found[0]


_SECRET = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|jaas|private|authorization|cookie|api-?key|key$|signature$"
    r"|(^|[\W_])(auth|pass|sig)$",
    re.IGNORECASE,
)


def may_be_secret(name: str) -> bool:
    """Return True if a property, variable, option, URL parameter or header with this name may hold a secret.

    Only the name is checked, because broker plugins can add any property.
    """
    return _SECRET.search(name) is not None


def without_secrets(properties: Mapping[Any, Any]) -> dict[Any, Any]:
    """Replace property values that may be secret with `***`."""
    return {name: "***" if is_secret(str(name), value) else value for name, value in properties.items()}


def is_secret(name: str, value: object) -> bool:
    """Return True if a property or a header may be secret, judging by its name or its value."""
    return may_be_secret(name) or (isinstance(value, str) and discreet(value) != "\n".join(value.splitlines()))


_TAIL_LINES = 20
"""Number of lines from a program's log that an error message shows."""
_JVM_OPTIONS = re.compile(r"(NOTE: )?Picked up ")
"""Start of the line on which a JVM prints the options from `JAVA_TOOL_OPTIONS` or `JDK_JAVA_OPTIONS`."""


def last_lines(log: str) -> str:
    """Return the end of a program's log, without stack frames.

    Each JVM prints the options that it takes from the environment, which may contain passwords, so these lines are
    omitted as well.
    """
    lines = [line for line in log.splitlines() if not _JVM_OPTIONS.match(line) and not line.startswith("\tat ")]
    return "\n".join(lines[-_TAIL_LINES:])


_COMMANDS = ("compare-setup",)
"""Options whose values are shell commands, which can contain secrets in any form."""


def shown_value(option: str, value: str, *, login: str = "") -> str:
    """Redact secrets in an option value as `discreet` does; a shell command becomes `***`."""
    return "***" if option in _COMMANDS else discreet(value, login=login)


def file_of(nodeid: str) -> str:
    """Return the file part of a node ID."""
    return nodeid.partition("::")[0]


def without_file(nodeid: str) -> str:
    """Remove the file part from a node ID: `test_rate[5k/s]`."""
    return nodeid.partition("::")[2]


def without_folders(nodeid: str) -> str:
    """Remove the folders from a node ID, but keep slashes in parameters: `test_a.py::test_rate[5k/s]`."""
    return nodeid[file_of(nodeid).rfind("/") + 1 :]


MAX_PROBLEM = 300
"""Maximum length of the displayed validation problems, in characters. A document can have a problem in every line."""


def parse_document(content: bytes | str) -> Any:
    """Parse JSON. NaN and infinite numbers are accepted here; the callers' models reject them.

    Raises:
        ValueError: the content is not JSON, or exceeds the limits of Python's parser.

    """
    try:
        return json.loads(content)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except (RecursionError, ValueError):
        raise ValueError("it is nested too deeply, or contains a number with thousands of digits") from None
