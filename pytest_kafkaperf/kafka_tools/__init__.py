"""Kafka's own performance tools: their text output read into our metrics, and printed from them.

Every file of the tools' sources is in `org.apache.kafka.tools`. In all of them MB is 2**20 bytes, percentiles are whole
milliseconds, and numbers are written as the locale of the Java process has them.
"""

from __future__ import annotations

from dataclasses import replace

from pytest_kafkaperf.errors import UsageError, shortened
from pytest_kafkaperf.kafka_tools import consumer, latency, producer
from pytest_kafkaperf.kafka_tools.runs import MAX_SHOWN, Run, Unfinished

TOOLS = (producer.TOOL, consumer.TOOL, consumer.SHARE_TOOL, latency.TOOL)


def read_output(text: str) -> tuple[Run, ...]:
    """The runs whose output stands in a text, in its order; what else stands there is passed over.

    Raises:
        UsageError: there is no run, or one that cannot be; names the line.

    """
    lines = text.splitlines()
    found = [one for read in (producer.read, consumer.read, latency.read) for one in read(lines)]
    runs = tuple(sorted((one for one in found if isinstance(one, Run)), key=lambda one: one.line))
    broken = sorted((one for one in found if isinstance(one, Unfinished)), key=lambda one: one.line)
    if runs:
        *others, last = runs
        return (*others, replace(last, notes=(*last.notes, *(f"left out: {one}" for one in broken))))
    if broken:
        raise UsageError(f"{broken[0]}; run it to its end")
    first = next((line.strip() for line in lines if line.strip()), "")
    raise UsageError(
        f"this is no output of {', '.join(TOOLS)}, nor a result of OpenMessaging Benchmark (JSON); "
        f"its first line is {shortened(first, MAX_SHOWN)!r}"
    )
