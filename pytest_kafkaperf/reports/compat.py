"""Each round in the words of Kafka's own performance tools, for scripts and people that read those."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_kafkaperf.kafka_tools import consumer, producer
from pytest_kafkaperf.printable import printable

if TYPE_CHECKING:
    from pytest_kafkaperf.result import Result


def compat_lines(result: Result) -> Iterator[str]:
    """The test's name, then a line a round of `kafka-producer-perf-test`, then of `kafka-consumer-perf-test`.

    A round that lacks a figure of a line has none. The consumer's clock times are those at which the session began.
    """
    yield printable(result.nodeid)
    for one in result.rounds:
        line = producer.format_summary(one.metrics, result.scenario)
        if line is not None:
            yield line
    began = datetime.datetime.fromisoformat(result.trials[0].created)
    rows = [consumer.format_row(one.metrics, result.scenario, began=began) for one in result.rounds]
    if any(rows):
        yield consumer.HEADER
        yield from (row for row in rows if row is not None)
