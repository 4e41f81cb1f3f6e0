"""`kafka_perf.record(...)`: what a test may give it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kafkaperf.plugin.fixtures import KafkaPerf

ONE = (
    "give each metric once, before the load: a number, or a function that is called at the end of each round and "
    "returns the value"
)


@pytest.fixture
def perf() -> KafkaPerf:
    """The fixture of a test whose load has not run."""
    request: Any = SimpleNamespace(node=SimpleNamespace(get_closest_marker=lambda _: None))
    session: Any = None
    case: Any = None
    return KafkaPerf(request, session, None, case=case, later=[])


def refused(call: Callable[[], None]) -> str:
    """The text with which the test fails."""
    with pytest.raises(pytest.fail.Exception) as caught:
        call()
    return str(caught.value)


@pytest.mark.usefixtures("catalogue")
def test_a_metric_is_recorded_once(perf: KafkaPerf) -> None:
    """The second function would replace the first one."""
    perf.record("app.rows", lambda: 1, better="higher")
    assert ONE in refused(lambda: perf.record("app.rows", lambda: 2, better="higher"))
    perf.record("app.pages", 1, unit="pages", better="lower")


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("app.cpu", {"better": "lower"}, "invalid name 'app.cpu' of a metric of your own: must be 'app.'"),
        ("app.rows", {"better": "big"}, "invalid better='big': must be 'lower' or 'higher'"),
        ("app.rows", {"better": "lower", "unit": "ms"}, "invalid unit 'ms': give the values in 's', and unit='s'"),
    ],
)
def test_what_no_metric_can_have_fails_the_test(perf: KafkaPerf, name: str, fields: Any, text: str) -> None:
    """As any wrong argument does, before the load."""
    assert text in refused(lambda: perf.record(name, lambda: 1, **fields))
