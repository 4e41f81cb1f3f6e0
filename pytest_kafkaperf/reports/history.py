"""Change points that Apache Otava finds in the history file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import AwareDatetime, BaseModel, ConfigDict

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.text import listed
from pytest_kafkaperf.core.units import counted
from pytest_kafkaperf.reports.writing import HISTORY_SCHEMA_VERSION
from pytest_kafkaperf.scenarios.fields import NotJsonError, OtherSchemaError, parse_model
from pytest_kafkaperf.verdict.outcome import Verdict

FEWEST_RUNS = 10
"""Minimum number of runs in a series. In shorter series, Otava finds a 20% change in fewer than 4 of 10 cases if runs
vary by 5%."""
_MAX_PVALUE = 1e-4
"""Significance level of a change point. In simulations, a change is reported for up to 1% of the series without one.
With Otava's default of 0.001, that proportion rises to as much as 5%, while only a few more true changes are found."""


class Run(BaseModel):
    """One line of the history file; unknown fields are ignored, because later versions may add fields."""

    model_config = ConfigDict(allow_inf_nan=False)

    schema_version: Literal[1]
    time: AwareDatetime
    commit: str | None
    environment: str
    nodeid: str
    kind: str
    verdict: str
    metrics: dict[str, float | None]
    fingerprint: dict[str, str]


class ChangePoint(NamedTuple):
    """A change in one metric, with the metric's mean since the previous change and its mean until the next one."""

    metric: str
    before: float
    after: float
    last: Run
    """Last run before the change."""
    first: Run
    """First run after the change."""


def find_change_points(
    path: Path, *, metrics: Sequence[str], test: str = "", say: Callable[[str], None]
) -> list[list[ChangePoint]]:
    """Find changes in tests whose node ID contains `test`; return one list per test, environment and run.

    Only first trials without another side count, because re-tests run only if the first trial was bad. Lines that are
    not JSON are skipped, and `say` is called with their number.

    Raises:
        UsageError: The file is not a history or has too few runs, or Otava is missing.

    """
    compute = _change_point_analysis()
    runs, skipped = _read(path)
    if skipped:
        lines = listed([str(number) for number in skipped])
        say(f"{path}: skipped {counted(len(skipped), 'line')} of {len(runs) + len(skipped)} that are not JSON: {lines}")
    counted_runs = [
        run for run in runs if run.kind == "first" and run.verdict != Verdict.INVALID and test in run.nodeid
    ]
    series = [each for each in _series(counted_runs, metrics) if len(each.values) >= FEWEST_RUNS]
    if not series:
        raise UsageError(
            f"{path} has fewer than {FEWEST_RUNS} valid runs of each {test or 'test'} in one environment with "
            f"{' or '.join(metrics)}; add runs with --kafka-report=history, or name another metric or test"
        )
    found: dict[tuple[str, str, str], list[ChangePoint]] = defaultdict(list)
    for each in series:
        for change in _change_points(each, compute):
            first = change.first
            found[first.nodeid, first.environment, first.time.isoformat()].append(change)
    return [found[key] for key in sorted(found)]


def _change_point_analysis() -> Callable[..., Any]:
    """Return Otava's function.

    Raises:
        UsageError: Otava is missing.

    """
    try:
        from otava.analysis import compute_change_points  # noqa: PLC0415 - of an extra
    except ImportError:
        raise UsageError("kafkaperf trend needs Apache Otava: pip install 'pytest-kafkaperf[trend]'") from None
    return compute_change_points  # type: ignore[no-any-return]


class _Series(NamedTuple):
    """One metric from one test in one environment, over all runs in chronological order."""

    metric: str
    runs: list[Run]
    values: list[float]


def _series(runs: Sequence[Run], metrics: Sequence[str]) -> list[_Series]:
    found: dict[tuple[str, str, str], _Series] = {}
    for run in sorted(runs, key=lambda run: run.time):
        for name in metrics:
            value = run.metrics.get(name)
            if value is not None:
                series = found.setdefault((run.nodeid, run.environment, name), _Series(name, [], []))
                series.runs.append(run)
                series.values.append(value)
    return list(found.values())


def _change_points(series: _Series, compute: Callable[..., Any]) -> Iterator[ChangePoint]:
    for point in compute(series.values, max_pvalue=_MAX_PVALUE)[0]:
        yield ChangePoint(
            metric=series.metric,
            before=float(point.stats.mean_1),
            after=float(point.stats.mean_2),
            last=series.runs[point.index - 1],
            first=series.runs[point.index],
        )


def _read(path: Path) -> tuple[list[Run], list[int]]:
    """Read a history; return its lines, and the numbers of lines that are not JSON, for example after a killed run."""
    runs: list[Run] = []
    skipped: list[int] = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"cannot read history {path}: {error.strerror or error}") from None
    for number, line in enumerate(lines, 1):
        try:
            runs.append(parse_model(line, Run, schema_version=HISTORY_SCHEMA_VERSION))
        except NotJsonError:
            skipped.append(number)
        except OtherSchemaError as error:
            raise UsageError(f"line {number} of {path} {error}") from None
        except ValueError as error:
            raise UsageError(f"line {number} of {path} is not one of --kafka-report=history: {error}") from None
    return runs, skipped
