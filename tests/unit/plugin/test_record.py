"""`kafka_perf.record(...)`: what a test may give it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_kafkaperf.plugin.fixtures import KafkaPerf

ONE = (
    "give each metric one function, before the load; it is called at the end of each round and returns the value, for "
    "example `lambda: 1234`"
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
def test_a_number_is_no_function(perf: KafkaPerf) -> None:
    """Before the load it is not known, and after it the verdict has been given."""
    number: Any = 1234
    text = refused(lambda: perf.record("custom.rows", number, better="higher"))
    assert text == f"kafka_perf.record('custom.rows', ...): {ONE}"


@pytest.mark.usefixtures("catalogue")
def test_a_metric_is_recorded_once(perf: KafkaPerf) -> None:
    """The second function would replace the first one."""
    perf.record("custom.rows", lambda: 1, better="higher")
    assert ONE in refused(lambda: perf.record("custom.rows", lambda: 2, better="higher"))
    perf.record("custom.pages", lambda: 1, unit="pages", better="lower")


@pytest.mark.parametrize(
    ("name", "fields", "text"),
    [
        ("app.rows", {"better": "lower"}, "invalid name 'app.rows' of a metric of your own: must be 'custom.'"),
        ("custom.rows", {"better": "big"}, "invalid better='big': must be 'lower' or 'higher'"),
        ("custom.rows", {"better": "lower", "unit": "ms"}, "invalid unit 'ms': give the values in 's', and unit='s'"),
    ],
)
def test_what_no_metric_can_have_fails_the_test(perf: KafkaPerf, name: str, fields: Any, text: str) -> None:
    """As any wrong argument does, before the load."""
    assert text in refused(lambda: perf.record(name, lambda: 1, **fields))
