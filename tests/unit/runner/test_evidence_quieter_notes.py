"""A hint at brokers with low noise, where a comparison was noisy."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.runner.evidence import quieter_notes
from pytest_kafkaperf.runner.perftest import read_perftest
from pytest_kafkaperf.verdict.judge import judge
from pytest_kafkaperf.verdict.scale import Measured
from pytest_kafkaperf.verdict.side_by_side import SideBySide

LIMIT = "produce.throughput >= baseline - 5%"


@pytest.mark.parametrize(
    ("options", "spread", "hinted"),
    [
        ({"compare": "local"}, 0.1, True),
        ({"compare": "local"}, 0.01, False),
        ({"compare": "local", "quick-compiler": "true"}, 0.1, False),
        ({"compare": "127.0.0.1:1", "allow-unlimited": "true"}, 0.1, False),
    ],
)
def test_noisy_trials_of_started_brokers_get_a_hint(options: dict[str, str], spread: float, *, hinted: bool) -> None:
    settings = read_settings({"cluster": "local", **options}, {}, invocation_folder=Path(), root=Path())
    perftest = read_perftest("a.py::test", [pytest.mark.kafka_threshold(*(LIMIT,)).mark], {}, settings, folder=Path())
    trials = [
        Measured(rounds=[{"produce.throughput": 1e6 * (1 + sign * spread)}], other_side=[{"produce.throughput": 1e6}])
        for sign in (1, -1, 1, -1)
    ]
    checks = judge(perftest.thresholds, trials, SideBySide()).checks
    notes = quieter_notes(perftest, checks)
    assert [str(note.values["noise"]) for note in notes] == ["12%"] * hinted
