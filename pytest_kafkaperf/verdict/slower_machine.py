"""Slowdowns that Kafka is not the cause of, because brokers that run the baseline's software are also slower."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_kafkaperf.core.environment import Change, Part
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.units import RelativeChange
from pytest_kafkaperf.verdict.outcome import Finding, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineBrokers:
    """Brokers that run the stored baseline's software in a re-test."""

    are_own: bool = False
    """True if they are the test's own brokers, because neither Kafka nor its settings have changed since the baseline;
    False if they were started next to the test's own brokers."""
    common_changes: tuple[Change, ...] = ()
    """Differences from the baseline that these brokers share with the test, for example the Python version."""
    slower_machine: str | None = None
    """A test whose re-test found that such brokers are slower today; None if there is none.

    If such a test exists, a suspected regression is cleared earlier.
    """

    @property
    def shows_machine(self) -> bool:
        """True if only the machine can be the cause of a slowdown that these brokers have as well."""
        return all(each.of is Part.MACHINE for each in self.common_changes)


def finding_without_kafka(
    reason: str, metric: str, change: float, brokers: BaselineBrokers
) -> tuple[Finding, Notice | None]:
    """Return the finding and the warning for a slowdown that the baseline's brokers have as well.

    The finding is PASSED if only the machine can be the cause, and INCONCLUSIVE if the code, the client or Java has
    also changed.

    Args:
        reason: what the trials showed.
        metric: the metric that is slower.
        change: its change from the stored values, as a ratio.
        brokers: the baseline's brokers.

    """
    changes = "; ".join(map(str, brokers.common_changes))
    where = "with unchanged brokers" if brokers.are_own else "on both sides"
    values = {"metric": metric, "change": RelativeChange(change), "where": where, "changes": changes}
    if brokers.shows_machine:
        remark = Remark.MACHINE_CHANGED if changes else Remark.MACHINE_SLOWER
        return Finding.of(Verdict.PASSED, reason), Notice(remark, values)
    shift = Notice(Remark.BOTH_SLOWER, values)
    text = f"{shift}; either the machine is slower, or one of these changes is the cause: {changes}"
    return Finding.of(Verdict.INCONCLUSIVE, f"{reason}; {text}"), shift
