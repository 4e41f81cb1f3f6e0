"""Calls of `kafka_perf` with arguments that it does not take."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.plugin.calls import wrong_calls
from tests.support.project import RunPytest

UNNAMED = (
    "kafka_perf() takes only keyword arguments, for example kafka_perf(rate='5k records/s'); declare thresholds with "
    "the marker kafka_threshold('produce.latency.p99 <= 25 ms')"
)


class Example:
    def test_method(self, kafka_perf: Any) -> None:
        kafka_perf(iterations=3)

    async def test_async(self, kafka_perf: Any) -> None:
        await kafka_perf.run("errors == 0")

    def test_fine(self, kafka_perf: Any, fields: dict[str, Any], other: Any) -> None:
        other("errors == 0", thresholds=[])
        kafka_perf.at("1 s", other)
        kafka_perf.capacity("errors == 0", hold="1 s")
        kafka_perf(rate="5k records/s", **fields)


@pytest.mark.parametrize(
    ("function", "errors"),
    [
        (Example.test_method, ("kafka_perf(): unknown field 'iterations': did you mean 'rounds'?",)),
        (Example.test_async, (UNNAMED,)),
        (Example.test_fine, ()),
        (len, ()),
        (None, ()),
    ],
)
def test_only_calls_of_the_fixture_itself_are_checked(function: Any, errors: tuple[str, ...]) -> None:
    """Nothing is guessed: what cannot be read from the source is checked when it is called."""
    assert wrong_calls(function) == errors


def test_a_source_that_cannot_be_parsed_alone_has_no_errors(tmp_path: Path) -> None:
    """A text in several lines may start left of the function."""
    path = tmp_path / "odd.py"
    text = 'class Odd:\n    def test_odd(self, kafka_perf):\n        """One\nline.\n"""\n        kafka_perf(acs=1)\n'
    path.write_text(text, encoding="utf-8")
    found: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), found)  # noqa: S102 - our own text
    assert wrong_calls(found["Odd"].test_odd) == ()


def test_thresholds_of_a_call_are_refused_at_collection(run_pytest: RunPytest) -> None:
    """Without this, the brokers would start first."""
    test = """
    def test_one(kafka_perf):
        kafka_perf(thresholds=["produce.latency.p99 <= 25 ms"])
    """
    status, out = run_pytest(textwrap.dedent(test))
    assert status == pytest.ExitCode.INTERRUPTED
    assert (
        "test_perf.py::test_one: kafka_perf(): unknown field 'thresholds': declare thresholds with the marker "
        "kafka_threshold('produce.latency.p99 <= 25 ms')"
    ) in out
