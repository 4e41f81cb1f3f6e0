"""Chart of a comparison side by side: its pairs of rounds, and the estimate and interval after each session. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.units import format_ratio
from pytest_kafkaperf.reports.html.charts import LIMIT, NOW, NOW_SOFT, REFERENCE, Chart, literal, rounded
from pytest_kafkaperf.runner.result import MeasuredSession, Result, judged
from pytest_kafkaperf.verdict.comparison import change_of, logs
from pytest_kafkaperf.verdict.outcome import Check
from pytest_kafkaperf.verdict.sequential import MARGIN

_PERCENT = 100


def session_charts(result: Result) -> list[Chart]:
    """Return a chart for each threshold relative to the reference; none without a reference."""
    sessions = [session for session in judged(result.sessions) if session.reference is not None]
    return [_chart(check, sessions) for check in result.checks if check.sessions]


def _chart(check: Check, sessions: Sequence[MeasuredSession]) -> Chart:
    subject, numbers = CATALOGUE[check.metric], [each.sessions for each in check.sessions]

    def percent(shift: float) -> float:
        return rounded(_PERCENT * change_of(subject, shift))

    bounded = [each for each in check.sessions if each.interval is not None]
    pairs = [
        (look.sessions, shift)
        for look, one in zip(check.sessions, sessions, strict=True)
        for shift in _shifts(check, one)
    ]
    ends = [sorted(percent(end) for end in each.interval or ()) for each in bounded]
    data: list[dict[str, Any]] = [
        _edge([each.sessions for each in bounded], [low for low, _ in ends]),
        {
            **_edge([each.sessions for each in bounded], [high for _, high in ends]),
            "fill": "tonexty",
            "fillcolor": NOW_SOFT,
            "name": "interval",
            "showlegend": True,
        },
        {
            "mode": "markers",
            "x": [number for number, _ in pairs],
            "y": [percent(shift) for _, shift in pairs],
            "marker": {"color": REFERENCE, "size": 3},
            "name": "pair of rounds",
            "hovertemplate": "session %{x}: %{y:+.1f} %<extra></extra>",
        },
        {
            "mode": "markers",
            "x": numbers,
            "y": [percent(each.last) for each in check.sessions],
            "marker": {"color": REFERENCE, "size": 7},
            "name": "single session",
            "hovertemplate": "session %{x}: %{y:+.1f} %<extra></extra>",
        },
        {
            "mode": "lines+markers",
            "x": numbers,
            "y": [percent(each.mean) for each in check.sessions],
            "line": {"color": NOW, "width": 2},
            "name": "mean so far",
            "hovertemplate": "after %{x}: %{y:+.1f} %<extra></extra>",
        },
    ]
    tolerance = check.sessions[0].tolerance
    ys = [*ends[-1:], *(one["y"] for one in data[2:]), [percent(tolerance), percent(tolerance + MARGIN)]]
    least, most = min(map(min, ys)), max(map(max, ys))  # the first intervals are much wider than all else
    margin = 0.1 * (most - least)
    layout = {
        "xaxis": {"title": {"text": "sessions"}, "tickformat": "d"},
        "yaxis": {
            "title": {"text": "change, %"},
            "range": [least - margin, most + margin],
        },
        "shapes": [_line(percent(tolerance), "dash"), _line(percent(tolerance + MARGIN), "dot")],
    }
    target = format_ratio(change_of(subject, tolerance + MARGIN))
    return Chart(
        title=f"{literal(check.metric)}, session by session",
        note=f"dashed: the threshold, {check.limit}; dotted: {target}, which the comparison must find or exclude",
        figure={"data": data, "layout": layout},
    )


def _shifts(check: Check, session: MeasuredSession) -> list[float]:
    """Return the differences of the pairs of rounds, on the scale of `comparison`."""
    subject, measured = CATALOGUE[check.metric], session.measured
    sides = logs(subject, measured.rounds), logs(subject, measured.reference or ())
    return [ours - theirs for ours, theirs in zip(*sides, strict=True)]


def _edge(numbers: Sequence[int], values: Sequence[float]) -> dict[str, Any]:
    return {
        "mode": "lines",
        "x": list(numbers),
        "y": list(values),
        "line": {"color": NOW, "width": 0},
        "showlegend": False,
        "hoverinfo": "skip",
    }


def _line(at: float, dash: str) -> dict[str, Any]:
    across = {"xref": "paper", "x0": 0, "x1": 1, "y0": at, "y1": at}
    return {"type": "line", "line": {"color": LIMIT, "width": 1, "dash": dash}, **across}
