"""What is seen while load runs: one line that changes, or a line a round."""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pytest_kafkaperf.core.text import ascii_of, printable
from pytest_kafkaperf.core.units import Unit, format_quantity

if TYPE_CHECKING:
    from pytest_kafkaperf.load.controller import Progress
    from pytest_kafkaperf.scenario.scenario import Scenario

_PROGRESS_S = 0.5
"""Time between two updates of the line."""
_SPARKS = 12
"""Updates that the sparkline shows: the last 6 s."""
_BARS = "▁▂▃▄▅▆▇█"
_ASCII_BARS = "_.-=+*%#"


def sparkline(values: Sequence[float], *, ascii_only: bool) -> str:
    """Bars from zero to the largest value; nothing where all are zero.

    >>> sparkline([0, 1, 2, 4], ascii_only=False)
    '▁▃▅█'
    """
    bars = _ASCII_BARS if ascii_only else _BARS
    largest = max(values, default=0)
    if largest <= 0:
        return ""
    return "".join(bars[round(max(0.0, value) / largest * (len(bars) - 1))] for value in values)


class ProgressLine:
    """One line that is written again and again while a scenario runs."""

    def __init__(self, name: str, scenario: Scenario, write: Callable[[str], None], *, ascii_only: bool) -> None:
        self._name = printable(name)
        self._scenario = scenario
        self._write = write
        self._ascii_only = ascii_only
        self._shown_s = 0.0
        self._seen = (0, time.monotonic())
        self._rates: deque[float] = deque([0.0], maxlen=_SPARKS)

    def update(self, session: str, number: int, seen: Progress) -> None:
        """Show how far round `number` is, and of which session where it is not the first."""
        now_s = time.monotonic()
        if now_s - self._shown_s < _PROGRESS_S:
            return
        acknowledged, since_s = self._seen
        if seen.acknowledged >= acknowledged:
            self._rates.append((seen.acknowledged - acknowledged) / max(now_s - since_s, 1e-9))
        self._seen, self._shown_s = (seen.acknowledged, now_s), now_s
        width = shutil.get_terminal_size().columns - 1
        line = progress_text(
            self._name,
            self._scenario,
            session=session,
            number=number,
            seen=seen,
            rates=self._rates,
            width=width,
            ascii_only=self._ascii_only,
        )
        self._write(f"\r\x1b[K{line}")

    def close(self) -> None:
        """Leave no trace of it."""
        if self._shown_s:
            self._write("\r\x1b[K")


def progress_text(
    name: str,
    scenario: Scenario,
    *,
    session: str,
    number: int,
    seen: Progress,
    rates: Sequence[float],
    width: int,
    ascii_only: bool,
) -> str:
    """How far round `number` is, cut to a width: what is least missed goes first.

    `rates` are records a second, the last one the current.
    """
    size_bytes = _record_bytes(scenario)
    parts = {
        "name": name,
        "session": session,
        "round": f"round {number}/{scenario.rounds}",
        "step": seen.step,
        "phase": f"{seen.phase}{_elapsed(scenario, seen)}",
        "left": _left(scenario, number, seen),
        "rate": _rate(rates[-1]),
        "bandwidth": "" if size_bytes is None else format_quantity(rates[-1] * size_bytes, Unit.BYTE_RATE),
        "p99": _p99(seen),
        "bars": sparkline(rates, ascii_only=ascii_only),
        "lag": _lag(seen),
    }
    for given_up in ("bars", "bandwidth", "left", "lag", "p99", ""):
        line = "  ".join(filter(None, parts.values()))
        if len(line) <= width:
            break
        parts.pop(given_up, None)
    line = line[:width]
    return ascii_of(line) if ascii_only else line


class RoundLines:
    """A plain line when a round has ended: where nobody watches, and the log is read later."""

    def __init__(self, name: str, scenario: Scenario, write: Callable[[str], None]) -> None:
        self._name = printable(name)
        self._scenario = scenario
        self._write = write
        self._round: tuple[str, int, str] | None = None
        self._first: Progress | None = None
        self._last: Progress | None = None

    def update(self, session: str, number: int, seen: Progress) -> None:
        """See how far round `number` is."""
        if (session, number, seen.step) != self._round:
            self.close()
            self._round = (session, number, seen.step)
        if seen.phase == "measuring":
            self._first, self._last = self._first or seen, seen

    def close(self) -> None:
        """Write the line of the last round."""
        if self._round is not None:
            session, number, step = self._round
            parts = [self._name, session, f"round {number}/{self._scenario.rounds}", step, *self._figures()]
            self._write("  ".join(filter(None, parts)))
        self._round = self._first = self._last = None

    def _figures(self) -> list[str]:
        """As they were seen on the way; what counts stands in the table."""
        first, last = self._first, self._last
        if first is None or last is None or last.elapsed_s <= first.elapsed_s:
            return []
        rate = (last.acknowledged - first.acknowledged) / (last.elapsed_s - first.elapsed_s)
        return [_rate(rate), _p99(last), _lag(last)]


def _elapsed(scenario: Scenario, seen: Progress) -> str:
    if seen.phase != "measuring":
        return ""
    whole = f" / {scenario.duration:g} s" if scenario.duration else ""
    return f" {max(0.0, seen.elapsed_s):.1f} s{whole}"


def _left(scenario: Scenario, number: int, seen: Progress) -> str:
    """What the rounds still take, as far as it is known; connecting and draining come on top."""
    if scenario.duration is None or seen.step:  # how many steps are to come nobody knows
        return ""
    begun_s = scenario.duration - seen.elapsed_s if seen.phase in ("warm-up", "measuring") else 0.0
    left_s = max(0.0, begun_s) + (scenario.rounds - number) * (scenario.warmup + scenario.duration)
    return f"{left_s:.0f} s left" if left_s >= 1 else ""


def _rate(rate: float) -> str:
    return format_quantity(rate, Unit.RECORD_RATE)


def _p99(seen: Progress) -> str:
    return "" if seen.p99_s is None else f"p99 {format_quantity(seen.p99_s, Unit.SECONDS)}"


def _lag(seen: Progress) -> str:
    return "" if seen.lag is None else f"lag {format_quantity(seen.lag, Unit.COUNT)}"


def _record_bytes(scenario: Scenario) -> float | None:
    """Mean bytes of a value; None where samples decide."""
    return None if scenario.record_size is None else scenario.mean_record_size
