"""Values of Kafka's setting `sasl.jaas.config`: a login module with options, parsed as in Java."""

from __future__ import annotations

import re
from collections.abc import Mapping

_OPTION = re.compile(r"""\s*(\w++)\s*=\s*("(?:[^"\\]|\\["\\])*"|'[^'\\]*'|[^\W\d][\w.$-]*+)""")
"""Pattern for an option and its value, in which only the escapes `\\"` and `\\\\` are valid, read as in Java."""


def read_options(line: str, module: str) -> dict[str, str] | None:
    """Return the options of a value that starts with this login module; None if they cannot be read."""
    found = re.fullmatch(rf"\s+required((?:{_OPTION.pattern})*)\s*;", line.removeprefix(module), re.IGNORECASE)
    if found is None:
        return None
    return {name: _unquoted(value) for name, value in _OPTION.findall(found[1])}


def jaas_line(module: str, options: Mapping[str, str]) -> str:
    """Return the value of `sasl.jaas.config` for a login module and its options."""
    given = "".join(f' {name}="{escaped(value)}"' for name, value in options.items())
    return f"{module} required{given};"


def escaped(text: str) -> str:
    """Escape text for use between quotes in `sasl.jaas.config`."""
    return re.sub(r'["\\]', r"\\\g<0>", text)


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] in "\"'" else value
