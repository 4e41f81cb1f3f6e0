"""The metrics file: OpenMetrics, and what GitLab makes of it."""

from __future__ import annotations

import re
import shlex

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.reports.ci import metrics_text
from tests.support.results import result

EXPECTED = """\
# HELP kafka_produce_throughput_records_per_second acknowledged records in the window, divided by the time until the \
last of them, median over the rounds
# TYPE kafka_produce_throughput_records_per_second gauge
kafka_produce_throughput_records_per_second{test="tests/perf/test_orders.py::test_a"} 52340.0
# HELP kafka_produce_latency_seconds time from when a record is due (closed loop: is appended) until it is \
acknowledged, median over the rounds
# TYPE kafka_produce_latency_seconds summary
kafka_produce_latency_seconds{quantile="0.99",test="tests/perf/test_orders.py::test_a"} 0.01235
kafka_produce_latency_seconds{quantile="0.999",test="tests/perf/test_orders.py::test_a"} 0.025
# HELP kafka_errors_records records that could not be sent even after all retries, sum over the rounds
# TYPE kafka_errors_records gauge
kafka_errors_records{test="tests/perf/test_orders.py::test_a"} 2.0
# EOF
"""

GITLAB_COMMENT = re.compile("#.*$")


def gitlab(text: str) -> dict[str, str]:
    """What GitLab reads: its parser cuts comments off, then splits as a shell does.

    Source: ee/lib/gitlab/ci/parsers/metrics/generic.rb of GitLab.
    """
    lines = (shlex.split(GITLAB_COMMENT.sub("", line)) for line in text.splitlines())
    return {name: values[0] for name, *values in filter(None, lines) if values}


def test_every_value_stands_there_in_its_base_unit() -> None:
    """Four digits: what is beyond noise, and short to read."""
    values = {
        "produce.throughput": 52_340.4,
        "produce.latency.p99": 0.0123456,
        "produce.latency.p99.9": 0.025,
        "errors": 2.0,
    }
    assert metrics_text([result("test_a", measured=[values])]) == EXPECTED


def test_the_format_is_openmetrics_for_every_metric_and_many_tests() -> None:
    """Read by the official parser, which is strict."""
    values = dict.fromkeys(CATALOGUE, 0.5)
    text = metrics_text([result(name, measured=[values]) for name in ("test_a", 'test_b["quoted" \\ \u00fc]')])
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    samples = [sample for family in families for sample in family.samples]
    assert len(samples) == 2 * len(CATALOGUE)
    assert {sample.labels["test"] for sample in samples} == {
        "tests/perf/test_orders.py::test_a",
        'tests/perf/test_orders.py::test_b["quoted" \\ \u00fc]',
    }


@pytest.mark.parametrize(
    "name", ["test_a[b c]", "test_a[50% #1]", 'test_a["]', "test_a[']", "test_a[{}]", "test_a[\\]"]
)
def test_gitlab_reads_a_value_of_each_test_whatever_its_name(name: str) -> None:
    """It takes a number sign for a comment, within quotes, too, and refuses the whole file then."""
    read = gitlab(metrics_text([result(name, measured=[{"errors": 1.0}]), result("other", measured=[{"errors": 2.0}])]))
    assert list(read.values()) == ["1.0", "2.0"]


def test_of_a_test_that_was_run_again_the_last_values_stand_there() -> None:
    """The format forbids a sample twice."""
    read = gitlab(metrics_text([result("test_a", measured=[{"errors": each}]) for each in (1.0, 2.0)]))
    assert list(read.values()) == ["2.0"]


def test_without_a_value_there_is_an_empty_report() -> None:
    """The job that uploads it must find a file."""
    assert metrics_text([result("test_down", measured=[])]) == "# EOF\n"
