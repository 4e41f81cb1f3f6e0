"""The small project of a user that is disturbed: one test, its workload long enough in the phase that matters."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .terminal import GATES

ENVIRONMENT = "faults"
BASELINE = Path("kafka-baselines") / ENVIRONMENT / "test_load.py" / "test_load.json"

LIMITS = ("errors == 0", "lost == 0", "produce.latency.p99 <= 10 s", "produce.throughput >= 100 records/s")
"""A machine that others share keeps them; clocks that are wrong by an hour, and brokers that hang, do not."""
TIGHT = ("errors == 0", "lost == 0", "produce.latency.p99 <= 2 s")
"""What a quota breaks."""
AGAINST_BASELINE = ("produce.throughput >= baseline - 10%",)

_ANY: dict[str, Any] = {
    "rate": 1000,
    "record_size": 100,
    "partitions": 2,
    "duration": "4 s",
    "warmup": "2 s",
    "rounds": 1,
}
PACED = _ANY | {"consumers": 1}
MANY_PARTITIONS = PACED | {"partitions": 50}
"""They take the cluster a moment to create."""
SLOWLY_DRAINED = PACED | {
    "rate": 4000,
    "consume": "after",
    "linger": 0,
    "consumer_config": {"fetch_max_bytes": 1, "max_partition_fetch_bytes": 1},
}
"""A batch is a record, and a fetch brings one batch: what a second has sent takes longer than a second to read."""
SHORT = {"records": 2000, "record_size": 100, "partitions": 2, "warmup": "100 ms", "rounds": 5}
"""Without a rate no machine is too busy for it."""

_TEST = """
import pytest


@pytest.mark.kafka_scenario(**{fields!r})
@pytest.mark.kafka_threshold(*{limits!r})
def test_load(gate, kafka_cluster, kafka_perf):
    gate("load")
    kafka_perf()
"""


def write_project(folder: Path, fields: dict[str, Any], limits: tuple[str, ...]) -> None:
    """Write it, with gates that say where its run is."""
    folder.mkdir(exist_ok=True)
    ini = (
        f"[pytest]\nkafka_broker_warmup = 0 s\nkafka_workers = 1\nkafka_environment = {ENVIRONMENT}\n"
        "kafka_allow_unlimited = true\nkafka_writable_topics = orders\n"
    )
    (folder / "pytest.ini").write_text(ini, encoding="utf-8")
    (folder / "conftest.py").write_text(GATES, encoding="utf-8")
    (folder / "test_load.py").write_text(_TEST.format(fields=fields, limits=limits), encoding="utf-8")


def write_baseline(folder: Path, text: str) -> Path:
    """Put a baseline where the project's test has its own."""
    path = folder / BASELINE
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def verdict_in(report: dict[str, Any] | None) -> str | None:
    """The verdict of the project's test; None where it has come to none."""
    tests = [] if report is None else report["tests"]
    return tests[0]["verdict"] if tests else None


def reason_in(report: dict[str, Any] | None, shown: str) -> str:
    """Why a run ended as it did, in its own words, on one line; empty where all is well."""
    tests = [] if report is None else report["tests"]
    told = [line for test in tests for line in _texts(test)]
    told += [f"{check['expression']}: {check['reason']}" for test in tests for check in _failing(test)]
    told += [] if report is None else [*report["errors"], *(one["reason"] or "" for one in report["unmeasured"])]
    told += re.findall(r"^(?:ERROR: |_+ (?:ERROR at teardown of )?test_load _+\r?\n)(.+?)\r?$", shown, re.MULTILINE)
    return told[0].partition("\n")[0] if told else ""


def _texts(test: dict[str, Any]) -> list[str]:
    return [problem["text"] for problem in test["problems"]]


def _failing(test: dict[str, Any]) -> list[dict[str, Any]]:
    return [check for check in test["checks"] if check["verdict"] in ("VIOLATED", "REGRESSED")]
