"""The charts of one test, in their order. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kafkaperf.reports.html.capacity import capacity_chart
from pytest_kafkaperf.reports.html.charts import FAMILIES, Chart
from pytest_kafkaperf.reports.html.percentiles import percentiles_chart
from pytest_kafkaperf.reports.html.rounds import rounds_chart
from pytest_kafkaperf.reports.html.timeline import latency_chart, throughput_chart

if TYPE_CHECKING:
    from pytest_kafkaperf.result import Result


def charts_of(result: Result) -> tuple[Chart, ...]:
    """What the load met; charts of which nothing was measured are left out."""
    families = [family for family in FAMILIES if f"{family}.p50" in result.metrics]
    charts = [
        capacity_chart(result),
        rounds_chart(result),
        *(percentiles_chart(result, family) for family in families),
        *(latency_chart(result, family) for family in families),
        throughput_chart(result),
    ]
    return tuple(chart for chart in charts if chart is not None)
