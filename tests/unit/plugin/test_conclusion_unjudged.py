"""Thresholds of the ini file that no test of a run has judged."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.plugin.conclusion import describe_unjudged
from pytest_kafkaperf.scenarios.threshold import parse_declared
from tests.support.results import result, rounds


def unjudged(*expressions: str) -> list[str]:
    """Sentences about these thresholds, in a run of two tests that judged others."""
    first = result("test_a", "errors == 0", "produce.latency.p99 <= 1 s")
    own = result("test_b", "app.rows >= 1", measured=[{**one, "app.rows": 10.0} for one in rounds()])
    return describe_unjudged([parse_declared(each) for each in expressions], [first, own])


def test_a_threshold_that_one_test_judged_is_no_news() -> None:
    """Not every test measures everything."""
    assert unjudged() == unjudged("errors == 0", "app.rows >= 1", "produce.latency.p99 <= 1 s") == []


@pytest.mark.parametrize(
    ("expression", "advice"),
    [
        ("app.rowz >= 10", "did you mean 'app.rows'?"),
        ("app.other >= 10", "record it with kafka_perf.add_metric('app.other', ...), or remove the threshold"),
        ("broker.produce.queue <= 10 ms", "set kafka_jmx = true or kafka_metrics_url, or remove the threshold"),
        ("lag.max <= 10", "add a test that measures it, or remove the threshold"),
    ],
)
def test_a_threshold_that_no_test_judged_is_told_with_its_remedy(expression: str, advice: str) -> None:
    """A typing mistake would gate nothing, for ever."""
    name = expression.split(maxsplit=1)[0]
    assert unjudged("errors == 0", expression) == [
        f"kafka_thresholds: {expression!r} was never judged, because no test measures {name}; {advice}"
    ]
