"""READMEs and guide as their readers have them: the blocks of code on each page."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

from pytest_kafkaperf.plugin.options import OPTIONS

ROOT = Path(__file__).parents[3]
OPTION_NAMES = tuple(name for name, option in OPTIONS.items() if option.place != "ini")
"""Without `--kafka-`."""
PAGES = (
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
    ROOT / "benchmarks" / "simulations.md",
    ROOT / "tests" / "faults.md",
)
_PROMPT = "$ "


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of code."""

    page: Path
    line: int
    language: str | None
    """What its fence says; None of an indented one."""
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def commands(self) -> Iterator[list[str]]:
        """What a shell would run, in words: those after a prompt where there are prompts, else every line."""
        text = self.text.replace("\\\n", " ")
        lines = text.splitlines()
        if self.language == "console":
            lines = [line.removeprefix(_PROMPT) for line in lines if line.startswith(_PROMPT)]
        for line in lines:
            words = shlex.shlex(line, posix=True, punctuation_chars="&|;")
            words.whitespace_split = True
            yield from _split(list(words))


def _split(words: list[str]) -> Iterator[list[str]]:
    """The commands of a line."""
    command: list[str] = []
    for word in words:
        if re.fullmatch(r"&&|\|\|?|;", word):
            yield command
            command = []
        else:
            command.append(word)
    if command:
        yield command


def blocks(*languages: str | None) -> list[Block]:
    """Every block of those languages, page by page; of all, where none is named."""
    return [block for page in PAGES for block in _blocks(page) if not languages or block.language in languages]


def files_of(page: Path) -> dict[str, str]:
    """The Python files on a page, whose first line is their name; each with its text after that line."""
    found = (block.text.partition("\n") for block in blocks("python") if block.page == page)
    return {name.removeprefix("# "): text for name, _, text in found if name.startswith("# ")}


@functools.cache
def _blocks(page: Path) -> tuple[Block, ...]:
    found = []
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            language = token.info.strip() if token.type == "fence" else None
            line = 0 if token.map is None else token.map[0] + 1
            found.append(Block(page=page, line=line, language=language, text=token.content))
    return tuple(found)
