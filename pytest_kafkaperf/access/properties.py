"""The file that Kafka's own tools take by `--command-config`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_kafkaperf.access import Access
from pytest_kafkaperf.access.file import content_of
from pytest_kafkaperf.access.settings import read_settings
from pytest_kafkaperf.errors import UsageError
from pytest_kafkaperf.printable import printable

if TYPE_CHECKING:
    from javaproperties import PropertiesElement


def read_client_properties(path: Path) -> Access:
    """Read the file that Kafka's own tools take by `--command-config`.

    Raises:
        UsageError: a file that cannot be read or that asks for what cannot be; every problem in one text.

    """
    problem = ""
    try:
        return _read_file(path)
    except UsageError as error:
        problem = str(error)
    raise UsageError(printable(problem))  # anew: a traceback through the reading would show what was read


def _read_file(path: Path) -> Access:
    import javaproperties  # noqa: PLC0415 - only where a file is given

    try:
        text = content_of(path).decode("latin-1")  # as Java reads it: any bytes are text
    except UsageError as error:
        raise UsageError(f"client properties {error}") from None
    if "\0" in text:
        raise UsageError(f"client properties {path}: not a text; name a Java properties file, not a store")
    try:
        given = {
            entry.key: (entry.value, f"line {number}")
            for number, entry in _numbered(javaproperties.parse(text))
            if isinstance(entry, javaproperties.KeyValue)
        }
    except javaproperties.InvalidUEscapeError:
        raise UsageError(
            f"client properties {path}: a \\u that four hexadecimal digits do not follow; write a backslash as \\\\"
        ) from None
    return read_settings(given, origin=f"client properties {path}", folder=path.parent)


def _numbered(elements: Iterator[PropertiesElement]) -> Iterator[tuple[int, PropertiesElement]]:
    """Elements of a properties file with the line that each begins on."""
    number = 1
    for element in elements:
        yield number, element
        number += len(re.findall(r"\r\n|\r|\n", element.source))
