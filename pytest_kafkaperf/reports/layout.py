"""The layout of the table of results: a row for each threshold, and the columns that fit into a width. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.verdict.outcome import Verdict

STYLES = {
    Verdict.PASSED: "green",
    Verdict.IMPROVED: "bold green",
    Verdict.MEASURED: "cyan",
    Verdict.NOT_JUDGED: "cyan",
    Verdict.ACCEPTED: "cyan",
    Verdict.INCONCLUSIVE: "yellow",
    Verdict.REGRESSED: "bold red",
    Verdict.VIOLATED: "bold red",
    Verdict.INVALID: "bold magenta",
}
"""Styles of rich by outcome."""
_MARKS = {"green": "✓", "bold green": "✓", "cyan": "·", "yellow": "?", "bold red": "✗", "bold magenta": "✗"}

Line = list[tuple[str, str]]
"""Texts of one line, each with its style."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One threshold of one test, or a metric without one. A text is empty if it is unknown or does not apply."""

    threshold: str
    """Expression as the user typed it; the metric's name without a threshold."""
    measured: str
    """Median over the rounds; the sum for counts."""
    rounds: str = ""
    """Lowest and highest round: `51.3–53.3` beside `52.3k/s`."""  # noqa: RUF001
    baseline: str = ""
    change: str = ""
    interval: str = ""
    """Confidence interval of the change in per cent: `(+41…+52)`."""
    detects: str = ""
    """Minimum detectable change, or for an absolute threshold the smallest detectable value."""
    outcome: Verdict | None = None
    """None without a threshold."""
    why: str = ""
    """Reason, and what to do, shown below the row."""


def mark_of(outcome: Verdict | None) -> str:
    """Return the sign of an outcome."""
    return " " if outcome is None else _MARKS[STYLES[outcome]]


def wrap_text(text: str, width: int = 80, *, indent: str = "", hanging: str = "") -> list[str]:
    """Wrap a text at `width` columns; `hanging` is the further indent of continuation lines."""
    return textwrap.wrap(
        printable(text, keep="\t\n"),
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    title: str
    text: Callable[[Row], str]
    coloured: bool = False
    """True if the figure has the colour of a threshold that fails."""
    left: bool = False
    gap: int = 2


_COLUMNS = (
    _Column(title="measured", text=lambda row: row.measured, coloured=True),
    _Column(title="rounds", text=lambda row: row.rounds),
    _Column(title="baseline", text=lambda row: row.baseline),
    _Column(title="change", text=lambda row: row.change, coloured=True),
    _Column(title="(95 % CI)", text=lambda row: row.interval, left=True, gap=1),
    _Column(title="detects", text=lambda row: row.detects),
)
_DROPPED_WHEN_NARROW = ("detects", "rounds", "(95 % CI)", "baseline", "change")
"""Titles of the columns that a narrow terminal lacks, in the order in which they are left out."""
_INDENT = 2
_ENOUGH = 39
"""Columns for a mark and a threshold. The figures of a longer threshold are below it where the table is narrow."""


class Layout:
    """The columns of the table that are not empty and fit into `width`; `plain` converts texts for the terminal."""

    def __init__(
        self, rows: Sequence[Row], *, width: int, plain: Callable[[str], str] = str, standard: str = "baseline"
    ) -> None:
        """`standard` is the title of the column of the baseline."""
        self._width, self._plain, self._standard = width, plain, standard
        self._columns: list[tuple[_Column, int]] = []
        for column in _COLUMNS:
            cells = [len(plain(column.text(row))) for row in rows]
            if any(cells):
                self._columns.append((column, max(len(self._title(column)), *cells)))
        longest = 2 + max((len(plain(row.threshold)) for row in rows), default=0)
        for title in _DROPPED_WHEN_NARROW:
            if self._room >= min(longest, _ENOUGH):
                break
            self._columns = [each for each in self._columns if each[0].title != title]
        self.start = _INDENT + max(len("threshold"), min(longest, max(self._room, min(_ENOUGH, width // 2))))
        """Column from which on the figures stand."""

    @property
    def _room(self) -> int:
        """Columns that the figures leave for the thresholds."""
        return self._width - _INDENT - sum(column.gap + width for column, width in self._columns)

    @property
    def header(self) -> Line:
        """The titles of the columns."""
        titles = self._cells(lambda column: (self._title(column), "dim"))
        return [((" " * _INDENT + "threshold").ljust(self.start), "dim"), *titles]

    def lines(self, row: Row) -> Iterator[Line]:
        """Yield the lines of a row: the threshold with its figures, then the reason."""
        style = "" if row.outcome is None else STYLES[row.outcome]
        fails = row.outcome is not None and row.outcome.fails
        head: Line = [(f"{' ' * _INDENT}{self._plain(mark_of(row.outcome))} ", style)]
        threshold = self._plain(printable(row.threshold))
        head.append((threshold.ljust(self.start - _INDENT - 2), ""))
        if _INDENT + 2 + len(threshold) > self.start:
            yield head
            head = [(" " * self.start, "")]
        yield head + self._cells(lambda column: (column.text(row), style if fails and column.coloured else ""))
        for part in wrap_text(self._plain(row.why), self._width, indent=" " * (_INDENT + 4)):
            yield [(part, style)]

    def _title(self, column: _Column) -> str:
        return self._standard if column.title == "baseline" else column.title

    def _cells(self, cell: Callable[[_Column], tuple[str, str]]) -> Line:
        line = []
        for column, width in self._columns:
            text, style = cell(column)
            text = self._plain(text)
            line.append(
                (" " * column.gap + (text.ljust(width) if column.left else text.rjust(width)), style if text else "")
            )
        return line


def text_of(line: Line) -> str:
    """Return a line without its styles."""
    return "".join(text for text, _ in line).rstrip()
