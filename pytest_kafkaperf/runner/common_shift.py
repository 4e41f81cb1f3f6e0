"""A cause that the suspected regressions of a run have in common: the machine, or all of Kafka, is slower today."""

from __future__ import annotations

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from pytest_kafkaperf.verdict.scale import sign_of

_FEWEST = 6
"""Tests compared with a baseline before which nothing is said."""
_SHARE = 1 / 3
"""Share of suspected regressions among them beyond which they have a common cause, the machine or Kafka; a comparison
will show which.
Of independent false suspicions of a tenth each, 6 tests exceed it by chance in 2 of 100 runs."""


class CommonShift:
    """Counts the suspected regressions of a run, and knows what comparisons side by side have shown about them."""

    def __init__(self) -> None:
        self._tests = self._suspected = 0
        self._machine: str | None = None
        """The last suspected regression that was equal side by side, while both sides were slower than the baseline."""

    def add(self, result: Result, *, both_slower: bool) -> None:
        """Count a test that has ended; `both_slower`: side by side, both sides were slower than the baseline."""
        checks = [check for check in result.checks if check.is_relative and check.change is not None]
        if result.baseline_trials is None or not checks or result.verdict is Verdict.INVALID:
            return
        self._tests += 1
        suspected = [check for check in checks if check.rerun or check.outcome is Verdict.REGRESSED or _open(check)]
        if not suspected:
            return
        self._suspected += 1
        side_by_side = [check for check in suspected if check.trials]
        if any(check.outcome is Verdict.REGRESSED for check in side_by_side):
            self._machine = None  # maybe all of Kafka is slower: each suspected regression must be confirmed
        elif both_slower:
            self._machine = result.nodeid

    @property
    def is_common(self) -> bool:
        """True if the suspected regressions of this run have a common cause."""
        return self._tests >= _FEWEST and self._suspected > _SHARE * self._tests

    @property
    def slower_machine(self) -> str | None:
        """The test that has shown, side by side, that both sides are slower; None if none has."""
        return self._machine if self.is_common else None

    def __str__(self) -> str:
        """Describe the shift."""
        share = f"{self._suspected} of {self._tests} tests have suspected regressions"
        found = f"{share}: the machine or all of Kafka is slower"
        if self._machine is None:
            return found
        name = self._machine.removeprefix(f"{file_of(self._machine)}::")
        return f"{found}; side by side, {name} has shown that both sides are slower"


def _open(check: Check) -> bool:
    """Return True if the check was worse than its limit and could not be confirmed."""
    if check.outcome is not Verdict.INCONCLUSIVE or check.observed is None or check.limit_value is None:
        return False
    return sign_of(CATALOGUE[check.metric]) * (check.observed - check.limit_value) > 0
