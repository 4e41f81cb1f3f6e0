"""What Kafka's own tools print."""

from __future__ import annotations

from pathlib import Path

SAMPLES = Path(__file__).parents[1] / "data" / "kafka-tools"


SUMMARY = (
    "1000000 records sent, 99810.4 records/sec (9.52 MB/sec), 0.94 ms avg latency, 275.00 ms max latency, "
    "21 ms 50th, 30 ms 95th, 80 ms 99th, 160 ms 99.9th."
)


INTERVAL = "499898 records sent, 99959.6 records/sec (9.53 MB/sec), 1.2 ms avg latency, 275.0 ms max latency."


HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


ROW = (
    "2026-11-21 05:15:45:015, 2026-11-21 05:15:47:125, 286.1266, 135.6050, 3000255, 1421921.8009, 663, 1447, "
    "197.7378, 2073431.2370"
)
