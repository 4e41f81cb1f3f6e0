"""What can be found of a limit, and of a test. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What was found, of one limit or of a test; the later outranks the earlier."""

    PASSED = "PASSED"
    IMPROVED = "IMPROVED"
    """Better than the baseline by more than the tolerance, beyond noise."""
    INCONCLUSIVE = "INCONCLUSIVE"
    """Could not be compared: neither passed nor failed."""
    REGRESSED = "REGRESSED"
    """Worse than the baseline by more than the tolerance, beyond noise."""
    VIOLATED = "VIOLATED"
    """An absolute limit is broken."""
    INVALID = "INVALID"
    """The run itself cannot be trusted."""

    @property
    def fails(self) -> bool:
        """Whether such a test fails; INCONCLUSIVE fails under `--kafka-strict` only."""
        return self in (Verdict.REGRESSED, Verdict.VIOLATED, Verdict.INVALID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The outcome of a limit, or of one part of it."""

    outcome: Verdict
    reason: str
    unsettled: bool = False
    """Whether another fresh session is needed."""
