"""The headline for a test that did not pass: what happened, what changed, what confirmed it, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pytest_kafkaperf.core.metrics import metric
from pytest_kafkaperf.core.problems import merged
from pytest_kafkaperf.core.text import printable, without_file
from pytest_kafkaperf.core.units import counted, short_change
from pytest_kafkaperf.reports.remedy import NextStep, acceptance_of, reasons_undecided, remedy_of
from pytest_kafkaperf.reports.wording import bounded, changes_of, digits_of, range_of, short
from pytest_kafkaperf.runner.result import Result, judged
from pytest_kafkaperf.verdict.judge import value_missing
from pytest_kafkaperf.verdict.outcome import Check, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Facts that reports show first for a test that did not pass. Texts that do not apply are empty."""

    sentence: str
    """The event and its extent, such as `test_x lost 12 of 50,000 records`."""
    details: tuple[str, ...] = ()
    """Further lines about a problem, such as the end of a log."""
    changed: tuple[str, ...] = ()
    """Differences from the baseline, such as `Kafka 4.0.0 → 4.1.1`."""
    confirmed: str = ""
    """Trials that confirmed a regression, such as `5 side-by-side re-tests`."""
    cause: str = ""
    """The likely cause, such as the deduced bottleneck."""
    next_step: NextStep | None = None

    @property
    def in_one_line(self) -> str:
        """The sentence and the next step."""
        return "; ".join(filter(None, (self.sentence, str(self.next_step or ""))))

    @property
    def lines(self) -> Iterator[str]:
        """The lines of a failure message, left unwrapped so users can copy commands."""
        yield self.sentence
        yield from (f"  {line}" for line in self.details)
        if self.changed:
            yield f"  changed: {', '.join(self.changed)}"
        if self.confirmed:
            yield f"  confirmed: {self.confirmed}"
        if self.cause:
            yield f"  likely cause: {self.cause}"
        if self.next_step is not None:
            yield f"  {self.next_step}"


def headline_of(result: Result, *, strict: bool) -> Headline | None:
    """Return a test's headline, whether accepted or not; None if the test passed or was only measured.

    With `strict`, undecided thresholds take precedence over an accepted regression.
    """
    verdict = Verdict.INCONCLUSIVE if strict and is_undecided(result) else result.verdict
    match verdict:
        case Verdict.REGRESSED | Verdict.VIOLATED:
            return _of_failure(result)
        case Verdict.INVALID:
            return _of_invalid(result)
        case Verdict.INCONCLUSIVE:
            return _of_undecided(result)
        case _:
            return None


def failure_of(result: Result, *, strict: bool) -> str | None:
    """Return a test's failure message, or None if the test passes. With `strict`, INCONCLUSIVE also fails."""
    fails = result.verdict.fails and not result.accepted
    if not fails and not (strict and is_undecided(result)):
        return None
    headline = headline_of(result, strict=strict)
    return None if headline is None else "\n".join(printable(line, keep="\t") for line in headline.lines)


def is_undecided(result: Result) -> bool:
    """Return True if the test is INCONCLUSIVE or would be without an accepted regression."""
    open_checks = [check for check in result.checks if check.outcome is Verdict.INCONCLUSIVE]
    return result.verdict is Verdict.INCONCLUSIVE or (result.accepted and bool(open_checks))


def _of_failure(result: Result) -> Headline:
    """Return the headline for a REGRESSED or VIOLATED test; it describes the test's worst threshold."""
    failing = [check for check in result.checks if check.outcome in (Verdict.REGRESSED, Verdict.VIOLATED)]
    worst = max(failing, key=_severity)
    what = _regression(worst, result) if worst.outcome is Verdict.REGRESSED else _violation(worst, result)
    can_accept = result.verdict is Verdict.REGRESSED and not result.accepted
    return Headline(
        sentence=f"{without_file(result.nodeid)} {what}{_more(len(failing) - 1)}",
        changed=tuple(changes_of(result)),
        confirmed=_confirmed(worst, result),
        cause=result.deduced or "",
        next_step=acceptance_of(result) if can_accept else None,
    )


def _of_invalid(result: Result) -> Headline:
    """Return the headline for an INVALID test; it describes the test's first problem."""
    missing = (value_missing(check) for check in result.checks if check.outcome is Verdict.INVALID)
    problems = merged(result.problems) or tuple(missing)
    first = problems[0]
    return Headline(
        sentence=f"{without_file(result.nodeid)} could not be measured: {first.sentence}{_more(len(problems) - 1)}",
        details=first.details,
        cause=first.excuse,
        next_step=NextStep(label=first.advice) if first.advice else None,
    )


def _of_undecided(result: Result) -> Headline:
    """Return the headline for an INCONCLUSIVE test."""
    first, *others = reasons_undecided(result)
    return Headline(
        sentence=f"{without_file(result.nodeid)} could not be decided: {first}{_more(len(others))}",
        next_step=remedy_of(result),
    )


def _more(others: int) -> str:
    return f" (and {others} more)" if others else ""


def _severity(check: Check) -> tuple[int, bool]:
    """Rank a failed check: lost records are worse than other violated limits."""
    return list(Verdict).index(check.outcome), check.metric == "lost"


def _regression(check: Check, result: Result) -> str:
    """Return a text such as `got slower: produce.latency.p50 3.04 ms, was 1.96 ms (+55%, range +50…+60%; ...)`."""
    before = "" if check.baseline is None else f", was {short(check.baseline, metric(check.metric).unit)}"
    return f"got {metric(check.metric).worse}: {check.metric} {_measured(check, result)}{before}{_by_how_much(check)}"


def _by_how_much(check: Check) -> str:
    """Return the change, its range and the allowed change: ` (+55%, range +50…+60%; allowed +30%)`."""
    if check.change is None:
        return ""
    within = "" if check.interval is None else f", range {range_of(check.interval)}"
    allowed = ""
    if check.baseline and check.limit_value is not None:
        allowed = f"; allowed {short_change(check.limit_value / check.baseline - 1)}"
    return f" ({short_change(check.change)}{within}{allowed})"


def _violation(check: Check, result: Result) -> str:
    """Return a text such as `lost 12 of 50,000 records`, or `broke its limit: produce.latency.p99 31 ms, ...`."""
    fault = _FAULTS.get(check.metric)
    if fault is None or check.observed is None:
        allowed = check.expression.removeprefix(check.metric).strip()
        return f"broke its limit: {check.metric} {_measured(check, result)}, allowed {allowed}"
    allowed = f" (allowed {check.limit_value:,.0f})" if check.limit_value else ""
    return f"{fault.format(_of_all(check, result))}{allowed}"


_FAULTS = {
    "lost": "lost {}",
    "errors": "failed to send {}",
    "unsent": "could not send {} in time",
    "duplicated": "duplicated {}",
    "reordered": "reordered {}",
}
"""Texts about records, by the metric that counts them."""


def _of_all(check: Check, result: Result) -> str:
    """Return the number of faults out of all records in that trial, such as `12 of 50,000 records`."""
    faults = round(check.observed or 0.0)
    for trial in result.trials:
        sent = sum(share.sent for one in trial.rounds for share in one.shares)
        same = sum(one.metrics.get(check.metric, 0.0) for one in trial.rounds) == check.observed
        if same and sent > faults:
            return f"{faults:,} of {sent:,} records"
    return f"{faults:,} record{'' if faults == 1 else 's'}"


def _measured(check: Check, result: Result) -> str:
    if check.observed is None:
        return "unknown"
    return bounded(short(check.observed, metric(check.metric).unit, digits_of(check)), check.metric, result)


def _confirmed(check: Check, result: Result) -> str:
    """Return the trials that confirmed a regression; empty if the first trial alone was decisive."""
    trials = len(judged(result.trials))
    if check.outcome is not Verdict.REGRESSED:
        return ""
    if result.live_baseline is not None:
        return counted(trials, "side-by-side trial")
    if not check.rerun or trials == 1:
        return ""
    return counted(trials - 1, "side-by-side re-test" if check.trials else "fresh trial")
