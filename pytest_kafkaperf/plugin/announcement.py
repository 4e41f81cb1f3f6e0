"""The lines that pytest prints after collection: the cluster, the expected duration, and limits of the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from pytest_kafkaperf.clusters import provision
from pytest_kafkaperf.plugin.benchmarks import is_disabled
from pytest_kafkaperf.plugin.options import UPDATE_MODES
from pytest_kafkaperf.reports.calibration import describe_plan
from pytest_kafkaperf.runner.perftest import PerfTest
from pytest_kafkaperf.runner.settings import Revision, Settings
from pytest_kafkaperf.runner.time_budget import estimate


def announce(tests: Sequence[PerfTest], settings: Settings, config: pytest.Config, *, is_base: bool) -> list[str]:
    """Return the lines about a run of these tests; `is_base` is True if this code is itself the baseline revision."""
    markup = config.get_terminal_writer().markup
    return [
        *(f"kafkaperf: {line}" for line in _plan(tests, settings, config, is_base=is_base)),
        *(f"kafkaperf: {line}" for line in _downloads(tests, settings)),
        *(markup(f"kafkaperf: this run {deviation}", red=True) for deviation in _deviations(tests, settings, config)),
    ]


def _plan(tests: Sequence[PerfTest], settings: Settings, config: pytest.Config, *, is_base: bool) -> Iterator[str]:
    """Yield the cluster, the baseline and the tests' expected duration."""
    verbosity = config.get_verbosity()
    if verbosity >= 0:
        is_relative = any(threshold.relative is not None for test in tests for threshold in test.thresholds)
        stored = (is_relative and settings.compare is None) or settings.update is not None
        yield from settings.describe(verbose=verbosity > 0, stored=stored)
        if is_base:
            yield f"{settings.compare} is this commit, so thresholds relative to it are not judged"
    if settings.calibrate is not None and not is_disabled(config):
        yield from describe_plan(tests, settings.calibrate)
    elif verbosity >= 0:
        yield estimate(tests)


def _downloads(tests: Sequence[PerfTest], settings: Settings) -> list[str]:
    """Return a line for each download that delays the first test."""
    other = settings.compare
    wanted = {(test.spec, settings.cluster) for test in tests}
    if other is not None and not isinstance(other, Revision):
        wanted |= {(test.live_baseline, other) for test in tests if test.live_baseline is not None}
    notices = dict.fromkeys(provision.first_fetch(spec, target=target) for spec, target in wanted)
    return [notice for notice in notices if notice]


def _deviations(tests: Sequence[PerfTest], settings: Settings, config: pytest.Config) -> Iterator[str]:
    """Yield a line for each option that may let a slowdown go undetected in this run."""
    update = settings.update
    if update is not None and not is_disabled(config):
        yield f"accepts its results: {UPDATE_MODES[update]} (--kafka-update-baselines={update})"
    if settings.accepts_regressed:
        yield "accepts tests that are REGRESSED (--kafka-accept=regressed)"
    if config.getoption("benchmark_skip", default=False):
        yield "skips all perf tests (--benchmark-skip)"
    if is_disabled(config) and any(test.thresholds for test in tests):
        yield "does not judge any threshold (--benchmark-disable)"
