"""What must hold of every text and file that others give us, whatever is in it.

A target takes the bytes of one. It is read, or refused by the error that is documented for that, with a text that a
user can act on; nothing else is ever raised. What was read can be shown, and reads the same when it is written again.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import javaproperties

from pytest_kafkaperf.clusters.access.client_properties import read_client_properties
from pytest_kafkaperf.core.errors import BaselineError, ScenarioError, UnitError, UsageError
from pytest_kafkaperf.core.metrics import CATALOGUE, HEADLINES
from pytest_kafkaperf.core.text import parse_document, printable
from pytest_kafkaperf.core.units import Unit, format_quantity, parse, parse_exact
from pytest_kafkaperf.reports.columns import Paper
from pytest_kafkaperf.reports.compare import Report, compare_reports, read_report
from pytest_kafkaperf.reports.history import find_change_points
from pytest_kafkaperf.reports.terminal import (
    render_baseline,
    render_changes,
    render_compared,
    render_metrics,
    render_note,
    render_unmatched,
)
from pytest_kafkaperf.reports.tool_runs import ToolRun, notes_on, origin, read_runs, rounds_of
from pytest_kafkaperf.scenarios.payloads import dump_sizes, format_sizes, parse_keys, parse_sizes
from pytest_kafkaperf.scenarios.rate import dump_rate, format_rate, parse_rate, peak_rate
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.scenarios.threshold import describe_limit, limit_value, parse_threshold
from pytest_kafkaperf.verdict.baseline_file import BaselineRecord, scenario_changes
from pytest_kafkaperf.verdict.baseline_store import BaselineStore, read_baseline
from pytest_kafkaperf.verdict.judge import judge
from pytest_kafkaperf.verdict.regression import AgainstStored
from pytest_kafkaperf.verdict.scale import Measured
from tests.support.access_properties import properties_of
from tests.support.json_reports import perftest, report

Target = Callable[[bytes], None]
_T = TypeVar("_T")

NODEID = "tests/perf/test_orders.py::test_ingest"
_TESTS = Path(__file__).parents[1]
_HERE = _TESTS / "nightly" / "fuzz"
_OUTPUTS = _TESTS / "data" / "kafka-tools"
_PAPER = Paper()
_MOST_TOLD = 10_000
"""Characters of an error."""
_INTERNAL = ("Traceback", " object at 0x", "pydantic", "maximum recursion depth", "set_int_max_str_digits")
"""Words of Python's, which tell a user nothing."""
_MOST_EXPRESSION = 300
"""Characters of a threshold."""
_SIX_DIGITS = 6e-6
_WRITTEN = (1e-290, 1e300)
"""Values that six digits are left of in any unit."""
_SCENARIO = Scenario().model_dump(mode="json")
_ROUNDS = [
    {"produce.throughput": 5000.0 * spread, "produce.latency.p99": 0.01 * spread, "e2e.latency.p99": 0.02 * spread}
    for spread in (0.98, 0.99, 1.0, 1.01, 1.02)
]
_LIMITS = [
    parse_threshold(limit)
    for limit in (
        "produce.throughput >= baseline - 10%",
        "produce.latency.p99 <= baseline + 20%",
        "e2e.latency.p99 <= max(baseline + 20%, 5 ms)",
    )
]
_REPORT = Report.model_validate(
    report(perftest(nodeid=NODEID, scenario=_SCENARIO, limit=None, first=[{"metrics": one} for one in _ROUNDS]))
)


def thresholds(content: bytes) -> None:
    """The text of a `kafka_threshold`."""
    found = _read((ScenarioError,), parse_threshold, _text(content))
    if found is None:
        return
    assert parse_threshold(found.expression) == found
    described = f"{found.metric.name} {found.operator} {describe_limit(found.limit, found.metric)}"
    nothing_left = found.relative is not None and found.relative.factor < _SIX_DIGITS
    if len(described) <= _MOST_EXPRESSION and not nothing_left:
        again = parse_threshold(described)
        for baseline in (1.0, 1e-3, 1e9):
            values = (limit_value(one.limit, baseline) for one in (found, again))
            assert math.isclose(*map(_number, values), rel_tol=_SIX_DIGITS, abs_tol=1e-290)


def units(content: bytes) -> None:
    """Quantities, rates, sizes and keys: all that is read from a text with a unit in it."""
    text = _text(content)
    for unit in Unit:
        exact = _read((UnitError,), parse_exact, text, unit)
        value = _read((UnitError,), parse, text, unit)
        if value is None:
            assert exact is None or _number(exact) > _WRITTEN[1]
        else:
            assert value == float(_number(exact))
            assert value <= _WRITTEN[1]
            if value == 0 or _WRITTEN[0] <= value:
                assert math.isclose(parse(format_quantity(value, unit, digits=6), unit), value, rel_tol=_SIX_DIGITS)
    rate = _read((UnitError,), parse_rate, text, record_bytes=100.0)
    if rate is not None:
        assert parse_rate(dump_rate(rate), record_bytes=None) == rate
        again = parse_rate(format_rate(rate), record_bytes=None)
        assert math.isclose(peak_rate(again), peak_rate(rate), rel_tol=_SIX_DIGITS)
    _sizes(text)
    with contextlib.suppress(ValueError):
        text = parse_document(text)
    _sizes(text)
    keys = _read((ValueError,), parse_keys, text)
    if keys is not None:
        assert parse_keys(str(keys)) == keys


def _sizes(given: Any) -> None:
    found = _read((UnitError,), parse_sizes, given)
    if found is not None:
        assert format_sizes(found)
        assert parse_sizes(dump_sizes(found) if isinstance(found, Mapping) else found) == found


def client_properties(content: bytes) -> None:
    """The file of `--kafka-client-config`."""
    with _file(content) as file:
        access = _read((UsageError,), read_client_properties, file)
        if access is not None:
            file.write_text(javaproperties.dumps(properties_of(access)), encoding="latin-1")
            assert read_client_properties(file) == access


def baselines(content: bytes) -> None:
    """A baseline file: shown, compared with, and kept again."""
    with _file(content) as file:
        record = _read((BaselineError,), read_baseline, file)
        if record is None:
            return
        _check_shown(render_baseline(record, file, _PAPER))
        _check_notes(scenario_changes(record.scenario, _SCENARIO))
        store = BaselineStore(file.parent / "kept")
        path = _read((UsageError, BaselineError), store.save, record)
        if path is not None:
            assert store.load(record.environment, record.nodeid) == record
            assert {each for each in file.parent.rglob("*") if each.is_file()} == {file, path}
            known = store.comparable(record.environment, record.nodeid, record.scenario)
            checks = judge(_LIMITS, [Measured(rounds=_ROUNDS)], AgainstStored(baseline=known)).checks
            assert all(check.reason and check.expression for check in checks)


def reports(content: bytes) -> None:
    """A JSON report: compared with itself and with another one, either way round."""
    with _file(content) as file:
        read = _read((UsageError,), read_report, file)
        if read is None:
            return
        file.write_text(json.dumps(read.model_dump(), allow_nan=False), encoding="utf-8")
        assert read_report(file) == read
        for before, after in ((read, read), (_REPORT, read), (read, _REPORT)):
            outcome = _read((ScenarioError,), compare_reports, before, after, tolerance_ratio=0.1)
            if outcome is not None:
                _check_shown(render_unmatched(outcome))
                for test in (*outcome.tests, *outcome.new):
                    _check_shown(render_compared(test, _PAPER))


def history(content: bytes) -> None:
    """A history: its change points are shown."""
    with _file(content) as file:
        found = _read((UsageError,), find_change_points, file, metrics=HEADLINES, say=lambda _: None)
        _check_shown([] if found is None else render_changes(found, _PAPER))


def outputs(content: bytes) -> None:
    """Output of another tool: shown, and kept as a baseline."""
    runs = _read((UsageError,), read_runs, content, file="run.txt")
    rounds = None if runs is None else _read((UsageError,), rounds_of, runs)
    if runs is None or rounds is None:
        return
    _check_shown(render_metrics(rounds, _PAPER, names=CATALOGUE))
    _check_notes(notes_on(runs))
    record = _read((BaselineError,), _imported, runs, rounds)
    if record is not None:
        with TemporaryDirectory() as folder:
            store = BaselineStore(Path(folder))
            store.save(record)
            assert store.load(record.environment, record.nodeid) == record


def _imported(runs: list[ToolRun], rounds: tuple[Mapping[str, float], ...]) -> BaselineRecord:
    return BaselineRecord.of_trial(
        nodeid=NODEID,
        environment="ci",
        scenario={},
        fingerprint={},
        created="2026-01-31T12:00:00+00:00",
        rounds=rounds,
        imported=origin(runs),
    )


TARGETS: Mapping[str, Target] = {
    target.__name__.replace("_", "-"): target
    for target in (thresholds, units, client_properties, baselines, reports, history, outputs)
}


def folders(target: str) -> list[Path]:
    """Where the samples of a target are, and the inputs that have broken it once."""
    found = [_HERE / kind / target for kind in ("corpus", "crashers")]
    return [folder for folder in found if folder.exists()] + ([_OUTPUTS] if target == "outputs" else [])


def _read(errors: tuple[type[Exception], ...], read: Callable[..., _T], *given: Any, **named: Any) -> _T | None:
    """What was read; None where it was refused as it must be: by one of these errors, and none that is more special."""
    try:
        return read(*given, **named)
    except errors as error:
        text = str(error)
        assert type(error) in errors
        assert text.strip()
        assert len(text) <= _MOST_TOLD
        assert text == printable(text)
        assert not [word for word in _INTERNAL if word in text and word not in str(given)], text
    return None


def _text(content: bytes) -> str:
    """As Python reads arguments: what is not UTF-8 becomes halves of surrogate pairs."""
    return content.decode("utf-8", "surrogateescape")


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        file = Path(folder, "given")
        file.write_bytes(content)
        yield file


def _number(value: Any) -> Any:
    assert value is not None
    return value


def _check_shown(lines: Iterable[str]) -> None:
    assert [line for line in lines if line != printable(line)] == []


def _check_notes(notes: Iterable[str]) -> None:
    _check_shown(line for note in notes for line in render_note(note, _PAPER))
