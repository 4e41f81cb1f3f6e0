"""Tests' spans as text: a line for each test, and rows with the totals over all tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_kafkaperf.core.spans import Span
from pytest_kafkaperf.runner.result import Result

REMEDIES = {
    Span.FETCH: "keep the cache folder, or the image, between runs",
    Span.START: "tests with the same kafka_cluster share brokers",
    Span.SETUP: "share applications between tests: kafka_app_factory",
    Span.PROBE: "set the number of workers: --kafka-workers",
    Span.WARM_UP: "tests with the same scenario and cluster share it",
    Span.TOPIC: "fewer rounds or partitions",
    Span.CONNECT: "fewer rounds, or fewer producers and consumers",
    Span.WINDOW: "fewer or shorter rounds: rounds=, duration=, warmup=",
    Span.DRAIN: "a lower rate, or consumers that keep up with it",
    Span.AUDIT: "fewer records, or find out why counts disagree",
    Span.JUDGE: "",
    Span.PAUSE: "a shorter kafka_trial_gap",
    Span.OTHER: "look at your own fixtures and the test's own code",
}
"""Advice on shortening each span, in at most 54 characters so that each row fits in 80 columns."""
_LEAST_S = 0.05
"""Minimum length of a span; shorter spans are omitted because they would be shown as 0.0 s."""


def name_of(span: Span) -> str:
    """Return a span's display name, such as `warm-up`."""
    return span.replace("_", "-")


def describe_spans(spans: Mapping[Span, float]) -> str:
    """Return a test's spans, longest first, as in `time 31.2 s: window 15.3 s, warm-up 8.4 s`; empty if none."""
    parts = ", ".join(f"{name_of(span)} {_shown(seconds)}" for span, seconds in _longest_first(spans))
    return f"time {_shown(sum(spans.values()))}: {parts}" if parts else ""


def span_rows(results: Sequence[Result]) -> list[tuple[str, str, str, str]]:
    """Return all tests' spans, longest first: name, time, share of the total time, and how to shorten the span."""
    sums = {span: sum(result.spans.get(span, 0.0) for result in results) for span in Span}
    whole_s = sum(sums.values())
    return [
        (name_of(span), _shown(seconds), f"{seconds / whole_s:.0%}", REMEDIES[span])
        for span, seconds in _longest_first(sums)
    ]


def _longest_first(spans: Mapping[Span, float]) -> list[tuple[Span, float]]:
    shown = [(span, seconds) for span, seconds in spans.items() if seconds >= _LEAST_S]
    return sorted(shown, key=lambda each: -each[1])


def _shown(seconds: float) -> str:
    """Format a time in seconds with one decimal place, which makes times easy to compare."""
    return f"{seconds:.1f} s"
