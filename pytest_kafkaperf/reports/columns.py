"""Layout of the results table: one row per threshold, with as many columns as fit the width. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.verdict.outcome import Verdict

STYLES = {
    Verdict.PASSED: "green",
    Verdict.IMPROVED: "bold green",
    Verdict.MEASURED: "cyan",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.REGRESSED: "bold red",
    Verdict.VIOLATED: "bold red",
    Verdict.INVALID: "bold magenta",
}
"""Rich styles, by outcome."""
_MARKS = {"green": "✓", "bold green": "✓", "cyan": "·", "yellow": "?", "bold red": "✗", "bold magenta": "✗"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """Properties of the terminal or file to which the output is printed."""

    width: int = 80
    """Width, in columns."""
    colour: bool = False

    def wrap(self, text: str, *, indent: str = "", hanging: str = "") -> list[str]:
        """Wrap a text to the width; `hanging` is the additional indentation of continuation lines."""
        return textwrap.wrap(
            printable(text, keep="\t\n"),
            self.width,
            initial_indent=indent,
            subsequent_indent=indent + hanging,
            break_long_words=False,
            break_on_hyphens=False,
        )


PLAIN = Paper()
"""Paper with 80 columns and no color."""


Line = list[tuple[str, str]]
"""The texts in a line, each with its style."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A test's threshold, or a metric without a threshold. A text is empty if it is unknown or does not apply."""

    threshold: str
    """The expression as the user typed it; without a threshold, the metric's name."""
    measured: str
    """Median over the rounds; for counts, the sum."""
    rounds: str = ""
    """Lowest and highest round, such as `51.3–53.3` next to `52.3k/s`."""  # noqa: RUF001
    baseline: str = ""
    change: str = ""
    interval: str = ""
    """Confidence interval for the true change, such as `+41…+52%`."""
    can_detect: str = ""
    """Minimum detectable change; for an absolute threshold, the smallest detectable value."""
    outcome: Verdict | None = None
    """The outcome; None without a threshold."""
    why: str = ""
    """The reason and advice, shown below the row."""


def mark_of(outcome: Verdict | None) -> str:
    """Return an outcome's symbol."""
    return " " if outcome is None else _MARKS[STYLES[outcome]]


_COLUMNS = {
    "measured": "measured",
    "rounds": "rounds",
    "baseline": "baseline",
    "change": "change",
    "range": "interval",
    "can detect": "can_detect",
}
"""Row fields, by column title."""
_COLOURED = ("measured", "change")
"""Columns whose values are colored if the threshold fails."""
_DROPPED_WHEN_NARROW = ("can detect", "rounds", "range", "baseline", "change")
"""Titles of the columns that are omitted from narrow terminals, in the order in which they are dropped."""
_INDENT = 2
_GAP = 2
"""Number of spaces before a column."""
_ENOUGH = 39
"""Width of a mark and a threshold. In a narrow table, a longer threshold's values appear below it."""


class Columns:
    """The table columns that are not empty and that fit on the paper."""

    def __init__(self, rows: Sequence[Row], paper: Paper) -> None:
        self._paper = paper
        self._widths: dict[str, int] = {}
        for title, field in _COLUMNS.items():
            longest_text = max((len(getattr(row, field)) for row in rows), default=0)
            if longest_text > 0:
                self._widths[title] = max(len(title), longest_text)
        longest = 2 + max((len(row.threshold) for row in rows), default=0)
        for title in _DROPPED_WHEN_NARROW:
            if self._room < min(longest, _ENOUGH):
                self._widths.pop(title, None)
        self.start = _INDENT + max(len("threshold"), min(longest, max(self._room, min(_ENOUGH, paper.width // 2))))
        """Column in which the values start."""

    @property
    def _room(self) -> int:
        """Width available for the thresholds next to the values."""
        return self._paper.width - _INDENT - sum(_GAP + width for width in self._widths.values())

    @property
    def header(self) -> Line:
        """The column titles."""
        return [
            ((" " * _INDENT + "threshold").ljust(self.start), "dim"),
            *self._cells({title: title for title in _COLUMNS}, ["dim"] * 2),
        ]

    def lines(self, row: Row) -> Iterator[Line]:
        """Yield a row's lines: the threshold with its values, then the reason."""
        style = "" if row.outcome is None else STYLES[row.outcome]
        threshold = printable(row.threshold)
        head: Line = [(f"{' ' * _INDENT}{mark_of(row.outcome)} ", style)]
        head.append((threshold.ljust(self.start - _INDENT - 2), ""))
        if _INDENT + 2 + len(threshold) > self.start:
            yield head
            head = [(" " * self.start, "")]
        cells = {title: getattr(row, field) for title, field in _COLUMNS.items()}
        yield head + self._cells(cells, [style if row.outcome is not None and row.outcome.fails else "", ""])
        for part in self._paper.wrap(row.why, indent=" " * (_INDENT + 4)):
            yield [(part, style)]

    def _cells(self, texts: Mapping[str, str], styles: Sequence[str]) -> Line:
        """Align texts given by column title; `styles` apply to `_COLOURED` columns and to all other columns."""
        return [
            (" " * _GAP + texts[title].rjust(width), styles[title not in _COLOURED] if texts[title] else "")
            for title, width in self._widths.items()
        ]


def text_of(line: Line) -> str:
    """Return a line's text without styles."""
    return "".join(text for text, _ in line).rstrip()
