"""Possible outcomes of a threshold and of a test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """Outcome of a threshold or of a test. If outcomes differ, the one that is defined last here takes precedence."""

    PASSED = "PASSED"
    IMPROVED = "IMPROVED"
    """Significantly better than the baseline by more than the tolerance."""
    INCONCLUSIVE = "INCONCLUSIVE"
    """No comparison was possible: neither passed nor failed."""
    REGRESSED = "REGRESSED"
    """Significantly worse than the baseline by more than the tolerance."""
    VIOLATED = "VIOLATED"
    """An absolute threshold is not met."""
    INVALID = "INVALID"
    """The measurement is not trustworthy."""

    @property
    def fails(self) -> bool:
        """True if the test fails. INCONCLUSIVE fails only with `--kafka-strict`."""
        return self in (Verdict.REGRESSED, Verdict.VIOLATED, Verdict.INVALID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Outcome of a threshold, or of one part of it."""

    outcome: Verdict
    reason: str
    unsettled: bool = False
    """True if another fresh session is needed."""
