"""Detects when a run's suspected regressions have a common cause: the machine or Kafka as a whole is slower today."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.runner.cold_brokers import is_cold
from pytest_kafkaperf.runner.result import Result, Trial, judged
from pytest_kafkaperf.verdict.outcome import Check, Verdict
from pytest_kafkaperf.verdict.scale import sign_of

_FEWEST = 6
"""Minimum number of compared tests for assuming a common cause."""
_SHARE = 1 / 3
"""Share of compared tests above which suspected regressions are assumed to have a common cause. A side-by-side
comparison shows whether that cause is the machine or Kafka. If each of 6 tests has a 10% probability of being falsely
suspected, this share is exceeded in 2 of 100 runs."""

FIRST_RESTARTED = 3
"""The trial before which unchanged brokers restart, counting a test's first trial as 1."""


class CommonShift:
    """Counts a run's suspected regressions, and records what their re-tests found."""

    def __init__(self) -> None:
        self._tests = self._suspected = 0
        self._machine: str | None = None
        """The last test whose re-test found that the baseline's brokers are also slower; None if there is none."""

    def add(self, result: Result, *, both_slower: bool) -> None:
        """Count a finished test; `both_slower` is True if the baseline's brokers were also slower in its re-test."""
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
            self._machine = None  # Kafka as a whole may be slower, so each suspected regression must be confirmed
        elif both_slower and _is_sure(judged(result.trials), side_by_side):
            self._machine = result.nodeid

    @property
    def is_common(self) -> bool:
        """True if this run's suspected regressions have a common cause."""
        return self._tests >= _FEWEST and self._suspected > _SHARE * self._tests

    @property
    def slower_machine(self) -> str | None:
        """The test whose re-test found that the baseline's brokers are also slower; None if there is none."""
        return self._machine if self.is_common else None

    def __str__(self) -> str:
        """Return a sentence that describes the common cause."""
        share = f"{self._suspected} of {self._tests} tests have suspected regressions"
        found = f"{share}: the machine or all of Kafka is slower"
        if self._machine is None:
            return found
        name = self._machine.removeprefix(f"{file_of(self._machine)}::")
        return f"{found}; the re-test of {name} found that the baseline's brokers are also slower"


def _is_sure(trials: Sequence[Trial], side_by_side: Sequence[Check]) -> bool:
    """Return True if brokers other than those of the first trial were slower as well, and none were cold.

    Cold brokers are slower on any machine, and so are brokers whose JVM had a bad start.
    """
    return not any(map(is_cold, trials)) and (bool(side_by_side) or len(trials) >= FIRST_RESTARTED)


def _open(check: Check) -> bool:
    """Return True if the value was worse than the limit but could not be confirmed."""
    if check.outcome is not Verdict.INCONCLUSIVE or check.observed is None or check.limit_value is None:
        return False
    return sign_of(CATALOGUE[check.metric]) * (check.observed - check.limit_value) > 0
