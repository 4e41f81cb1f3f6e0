"""Text for Markdown: escaped, as lists and lines of tables, folded, and cut to a limit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.text import printable

_SPECIAL = re.compile(r"[&<>|`*\\\[\]~$#!@{}\"]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<=http)s?:|(?<=www)\.")
"""Characters with a meaning in Markdown, HTML or tables, and beginnings of addresses that would become links."""
_ITEM = re.compile(r"^(?:[-+](?= |$)|-(?=[- ]*$)|\d{1,9}[.)](?= |$))")
"""Characters that start a nested list or a horizontal rule at the beginning of an item."""


def code(given: str) -> str:
    """Return a name as code that is safe in a table, a heading, a list and HTML."""
    return f"<code>{text(printable(given))}</code>"


def text(given: str) -> str:
    """Return a text in one line, escaped for Markdown."""
    return _SPECIAL.sub(_escaped, printable(" ".join(given.split())))


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(each)};" for each in found[0])


def line_of(cells: Iterable[str]) -> str:
    """Return a line of a table, whose cells are escaped already."""
    return f"| {' | '.join(cells)} |\n"


def codes(names: Iterable[str]) -> str:
    """Return names as code, separated by commas."""
    return ", ".join(map(code, names))


def items_of(items: Iterable[str]) -> str:
    """Return a list of items, which are escaped already except for their beginnings."""
    return "".join(f"- {_ITEM.sub(_escaped, item)}\n" for item in items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of a page, of which as much is kept as fits."""

    what: str
    """Name of its blocks for the note on omitted ones."""
    head: str = ""
    blocks: Sequence[str]
    """Texts that are kept or omitted as a whole; empty ones do not count."""
    between: str = ""
    folded_as: str = ""
    """Title that unfolds the section; empty if it is always open."""

    def joined(self, blocks: Sequence[str]) -> str:
        """Return the section with these blocks; empty without any."""
        if not blocks:
            return ""
        content = f"{self.head}{self.between.join(blocks)}"
        return f"<details><summary>{self.folded_as}</summary>\n\n{content}\n</details>\n" if self.folded_as else content


def fitted(sections: Iterable[Section], left_bytes: int) -> tuple[str, str]:
    """Return the blocks of all sections, in this order, as far as they fit, and what is omitted."""
    texts: list[str] = []
    omitted: list[str] = []
    for section in sections:
        blocks = [*filter(None, section.blocks)]
        kept = []
        for block in blocks:
            left_bytes -= len(block.encode())
            if left_bytes >= 0:
                kept.append(block)
        texts.append(section.joined(kept))
        if len(kept) < len(blocks):
            omitted.append(f"{len(blocks) - len(kept)} of {len(blocks)} {section.what}")
    return "\n".join(filter(None, texts)), ", ".join(omitted)
