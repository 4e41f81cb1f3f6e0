"""The figures of a run as OpenMetrics text: for GitLab's metrics report, and whatever else reads that format.

Source: https://docs.gitlab.com/ci/testing/metrics_reports/ and https://prometheus.io/docs/specs/om/open_metrics_spec/.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest

from pytest_kafkaperf.files import write_report
from pytest_kafkaperf.metrics import CATALOGUE, QUANTILES, Metric
from pytest_kafkaperf.printable import UNSEEN
from pytest_kafkaperf.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pytest_kafkaperf.result import Result

_SUFFIXES = {
    Unit.SECONDS: "seconds",
    Unit.BYTES: "bytes",
    Unit.RECORDS: "records",
    Unit.RECORD_RATE: "records_per_second",
    Unit.BYTE_RATE: "bytes_per_second",
    Unit.CORES: "cores",
    Unit.CPU_COST: "seconds_per_million_records",
    Unit.RATIO: "ratio",
    Unit.COUNT: "",
}
"""What names end in: the base unit."""
_ENDING = re.compile(f"[%#]|{UNSEEN.pattern}")
_DIGITS = 4
"""GitLab compares texts, and shows them as they are: more digits are noise."""


def write_metrics(path: Path, results: Sequence[Result]) -> None:
    """Write the metrics whole or not at all.

    Raises:
        UsageError: the file cannot be written; names it and the reason.

    """
    write_report(path, metrics_text(results).encode(), option="gitlab-metrics", what="metrics")


def metrics_text(results: Sequence[Result]) -> str:
    """Every metric of every test, in its base unit: `kafka_produce_throughput_records_per_second{test="..."} 5003`.

    Quantiles of a latency are one metric with a label: `kafka_produce_latency_seconds{test="...",quantile="0.99"}`.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(results))
    content: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return content.decode()


class _Families:
    """What prometheus_client takes for a collector."""

    def __init__(self, results: Sequence[Result]) -> None:
        self._results = results

    def collect(self) -> Iterable[Family]:
        families: dict[str, Family] = {}
        for result in {each.nodeid: each for each in self._results}.values():  # of one that was run again the last
            for name, value in result.metrics.items():
                family, labels = _family(CATALOGUE[name])
                known = families.setdefault(family.name, family)
                known.add_sample(family.name, {"test": _label(result.nodeid), **labels}, float(f"{value:.{_DIGITS}g}"))
        return families.values()


def _family(subject: Metric) -> tuple[Family, dict[str, str]]:
    """The metric family of a metric, and what labels tell it from others of the same."""
    part = next((part for part in QUANTILES if subject.name.endswith(f".{part}")), None)
    if part is not None:
        meaning = subject.meaning.removesuffix(f": {part}")
        name = _name(subject.name.removesuffix(f".{part}"), subject.unit)
        return Family(name, f"{meaning}, median over the rounds", "summary"), {"quantile": str(QUANTILES[part])}
    how = "sum" if subject.summed else "median"
    return Family(_name(subject.name, subject.unit), f"{subject.meaning}, {how} over the rounds", "gauge"), {}


def _name(name: str, unit: Unit) -> str:
    return "_".join(filter(None, ("kafka", *name.split("."), _SUFFIXES[unit])))


def _label(nodeid: str) -> str:
    """By number, as in addresses, what cannot be seen, and what GitLab takes for the beginning of a comment: `#`.

    The per cent sign, too, so that no two tests get the same label.
    """
    return _ENDING.sub(lambda found: quote(found[0], errors="surrogatepass"), nodeid)
