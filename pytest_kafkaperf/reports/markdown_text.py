"""Markdown text: escaping, lists, table rows, folded sections, and truncation to a limit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.text import printable

_SPECIAL = re.compile(r"[&<>|`*\\\[\]~$#!@{}\"]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|(?<=http)s?:|(?<=www)\.")
"""Characters with a special meaning in Markdown, HTML or tables, and URL prefixes that would create links."""
_ITEM = re.compile(r"^(?:[-+](?= |$)|-(?=[- ]*$)|\d{1,9}[.)](?= |$))")
"""Characters that start a nested list or a horizontal rule at the beginning of an item."""


def code(given: str) -> str:
    """Format a name as code that is safe in tables, headings, lists and HTML."""
    return f"<code>{text(printable(given))}</code>"


def text(given: str) -> str:
    """Return a text on a single line, escaped for Markdown."""
    return _SPECIAL.sub(_escaped, printable(" ".join(given.split())))


def _escaped(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(each)};" for each in found[0])


def line_of(cells: Iterable[str]) -> str:
    """Return a table row; the cells must already be escaped."""
    return f"| {' | '.join(cells)} |\n"


def codes(names: Iterable[str]) -> str:
    """Format names as code, separated by commas."""
    return ", ".join(map(code, names))


def items_of(items: Iterable[str]) -> str:
    """Return a list; the items must already be escaped, except for their first characters."""
    return "".join(f"- {_ITEM.sub(_escaped, item)}\n" for item in items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A section of a page; blocks that do not fit are omitted."""

    what: str
    """Name for the blocks, used in the note on omitted blocks."""
    head: str = ""
    blocks: Sequence[str]
    """Texts that are kept or omitted as a whole; empty texts do not count."""
    between: str = ""
    folded_as: str = ""
    """Title of the folded section; empty for a section that is always open."""

    def joined(self, blocks: Sequence[str]) -> str:
        """Return the section with these blocks; empty if there are none."""
        if not blocks:
            return ""
        content = f"{self.head}{self.between.join(blocks)}"
        return f"<details><summary>{self.folded_as}</summary>\n\n{content}\n</details>\n" if self.folded_as else content


def fitted(sections: Iterable[Section], left_bytes: int) -> tuple[str, str]:
    """Return the blocks of all sections that fit, in this order, and a note on the omitted blocks."""
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
