"""A latency between two clocks: what seems negative is borne as far as the clocks are not known, and no further."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from pytest_kafkaperf.load.clock import set_clock
from pytest_kafkaperf.load.engines.aiokafka.consumer import latencies_since


@pytest.fixture(autouse=True)
def one_clock() -> Iterator[None]:
    """As it is in any other process."""
    yield
    set_clock(offset_ns=0, uncertainty_ns=0)


def test_by_one_clock_nothing_is_changed() -> None:
    """A negative latency there is a mistake of ours, which the histogram refuses."""
    assert latencies_since(np.array([90, 100, 110]), 100).tolist() == [10, 0, -10]


def test_between_clocks_no_record_comes_before_it_was_due() -> None:
    """What is beyond their bound stays as it is, and is refused."""
    set_clock(offset_ns=7, uncertainty_ns=10)
    assert latencies_since(np.array([90, 100, 110, 111]), 100).tolist() == [10, 0, 0, -11]
