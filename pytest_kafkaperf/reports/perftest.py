"""The report `perftest`: rounds in the words of Kafka's own tools, for scripts that read these."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.runner.round import Round

_MB = 2**20
_PERCENTILES = {"p50": "50th", "p95": "95th", "p99": "99th", "p99.9": "99.9th"}
_HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def perftest_lines(result: Result) -> Iterator[str]:
    """Yield the test's name, then for each round the line that Kafka's own producer or consumer tool would print.

    The producer's lines come first. A round without all figures of a line gets no such line. As clock time, each
    consumer line has the time at which the session started.
    """
    yield printable(result.nodeid)
    yield from filter(None, map(_produced, result.rounds))
    began = datetime.datetime.fromisoformat(result.sessions[0].created)
    rows = [*filter(None, (_consumed(one, began) for one in result.rounds))]
    yield from [_HEADER, *rows] if rows else []


def _produced(one: Round) -> str | None:
    """Return the summary line of Kafka 4.3 for a round."""
    records, metrics, family = sum(share.sent for share in one.shares), one.metrics, "produce.latency"
    needed = ["produce.bandwidth", *(f"{family}.{part}" for part in ("mean", "max", *_PERCENTILES))]
    if not records or any(name not in metrics for name in needed):
        return None
    ms = {part: metrics[f"{family}.{part}"] * 1000 for part in ("mean", "max", *_PERCENTILES)}
    percentiles = ", ".join(f"{ms[part]:.0f} ms {name}" for part, name in _PERCENTILES.items())
    return (
        f"{records} records sent, {metrics['produce.throughput']:f} records/sec "
        f"({metrics['produce.bandwidth'] / _MB:.2f} MB/sec), {ms['mean']:.2f} ms avg latency, "
        f"{ms['max']:.2f} ms max latency, {percentiles}."
    )


def _consumed(one: Round, began: datetime.datetime) -> str | None:
    """Return the row below the header; the time to join the group is 0, because consumers join before the round."""
    metrics, received = one.metrics, sum(share.received for share in one.shares)
    throughput = metrics.get("consume.throughput")
    if not received or not throughput or "consume.bandwidth" not in metrics:
        return None
    elapsed_ms = max(1, round(received / throughput * 1000))
    rate = f"{metrics['consume.bandwidth'] / _MB:.4f}"
    times = [_time(began), _time(began + datetime.timedelta(milliseconds=elapsed_ms))]
    mb = metrics["consume.bandwidth"] / _MB * elapsed_ms / 1000
    cells = [*times, f"{mb:.4f}", rate, str(received), f"{throughput:.4f}", "0", str(elapsed_ms), rate]
    return ", ".join([*cells, f"{throughput:.4f}"])


def _time(instant: datetime.datetime) -> str:
    """Format a time like the tool's default, `yyyy-MM-dd HH:mm:ss:SSS`."""
    return f"{instant:%Y-%m-%d %H:%M:%S}:{instant.microsecond // 1000:03}"
