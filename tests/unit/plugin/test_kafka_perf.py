"""`kafka_perf.add_metric(...)` and `kafka_perf.at(...)`: what a test may give them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kafkaperf.plugin.kafka_perf import FixtureRun, KafkaPerf

ONE = (
    "add each metric once, before the load starts, as a number or as a function that returns the value and is called "
    "at the end of each round"
)


@pytest.fixture
def perf() -> KafkaPerf:
    """The fixture of a test whose load has not run."""
    request: Any = SimpleNamespace(node=SimpleNamespace(get_closest_marker=lambda _: None))
    perf: Any = None
    perftest: Any = None
    return KafkaPerf(FixtureRun(request, perf, None, test=perftest, later=[]))


def refused(call: Callable[[], None]) -> str:
    """The text with which the test fails."""
    with pytest.raises(pytest.fail.Exception) as caught:
        call()
    return str(caught.value)


@pytest.mark.usefixtures("catalogue")
def test_a_metric_is_recorded_once(perf: KafkaPerf) -> None:
    """The second function would replace the first one."""
    perf.add_metric("app.rows", lambda: 1, better="higher")
    assert ONE in refused(lambda: perf.add_metric("app.rows", lambda: 2, better="higher"))
    perf.add_metric("app.pages", 1, unit="pages", better="lower")


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("app.cpu", {"better": "lower"}, "invalid custom metric name 'app.cpu': must be 'app.'"),
        ("app.rows", {"better": "big"}, "invalid better='big': must be 'lower' or 'higher'"),
        (
            "app.rows",
            {"better": "lower", "unit": "ms"},
            "invalid unit 'ms': convert the values to 's', and set unit='s'",
        ),
    ],
)
def test_what_no_metric_can_have_fails_the_test(perf: KafkaPerf, name: str, fields: Any, text: str) -> None:
    """As any wrong argument does, before the load."""
    assert text in refused(lambda: perf.add_metric(name, lambda: 1, **fields))


async def _restart() -> None:
    """As the test's own code may be."""


@pytest.mark.parametrize(("action", "shown"), [(_restart, "<function _restart at "), (None, "None"), ("x", "'x'")])
def test_an_action_that_would_not_be_done_fails_the_test(perf: KafkaPerf, action: Any, shown: str) -> None:
    """A restart that did not happen is no restart that went well."""
    text = refused(lambda: perf.at("1 s", action))
    assert text.startswith(f"kafka_perf.at('1 s', {shown}")
    assert text.endswith("): call it before the load starts, with a function that is not async")


def test_an_action_after_the_load_fails_the_test(perf: KafkaPerf) -> None:
    """Nothing would do it any more."""
    perf.at("1 s", print)
    perf._fixture._called = True  # noqa: SLF001 - a load needs brokers
    assert "call it before the load" in refused(lambda: perf.at("1 s", print))


def test_a_test_sees_only_what_it_may_call() -> None:
    """Editors offer each name."""
    assert {name for name in dir(KafkaPerf) if not name.startswith("_")} == {
        "add_metric",
        "at",
        "capacity",
        "run",
        "run_capacity",
    }
