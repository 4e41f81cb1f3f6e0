"""What a search for the capacity has tried. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How a rate went."""

    HELD = "held"
    BROKEN = "broken"
    """A limit did not hold, or the cluster did not take the rate."""
    UNREACHED = "unreached"
    """The generator could not make the rate: of the cluster it says nothing."""
    DISTURBED = "disturbed"
    """It did not hold, while other programs took so much of the machine that it may be theirs: tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One rate, held for a while."""

    rate: float
    """That was asked for, in records a second."""
    outcome: Outcome
    reason: str | None
    """Why it did not hold."""
    settled: bool
    """Whether it was warm for so long that no buffer hid what it costs (see `capacity`)."""
    metrics: Mapping[str, float]
    """Of its window, in base units."""
