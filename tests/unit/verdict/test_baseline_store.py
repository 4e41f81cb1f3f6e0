"""Baseline files: where they lie, what they hold, what is refused."""

from __future__ import annotations

import json
import os
import pathlib
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pytest_kafkaperf.core.environment import Change, Part
from pytest_kafkaperf.core.errors import BaselineError, UsageError
from pytest_kafkaperf.core.files import lock_folder
from pytest_kafkaperf.runner.baseline_update import orphans_of
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.baseline_file import BaselineRecord, BaselineRounds, Imported, grown, scenario_changes
from pytest_kafkaperf.verdict.baseline_store import BaselineStore
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind

_NODEID = "tests/perf/test_orders.py::test_ingest"
_SCENARIO = Scenario.of({"rate": 5000}).model_dump(mode="json")
_ROUNDS = ({"produce.throughput": 4999.123456789, "errors": 0.0}, {"produce.throughput": 5001.5, "errors": 0.0})
_REPAIR = "restore it from version control, or delete it and make a new one with --kafka-update-baselines"


def _record(**changes: Any) -> BaselineRecord:
    fields: dict[str, Any] = {
        "nodeid": _NODEID,
        "environment": "ci",
        "scenario": _SCENARIO,
        "fingerprint": {"kafka": "4.1.0"},
        "created": "2025-01-31T12:00:00+00:00",
        "rounds": _ROUNDS,
    }
    return BaselineRecord.of_trial(**{**fields, **changes})


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_a_file_reads_as_a_review_needs_it(tmp_path: Path) -> None:
    """Baselines are committed: the order is stable, each value has its line, nothing is rounded."""
    path = BaselineStore(tmp_path).save(_record(scenario={"rate": 5000.0}, commit="abc123"))
    assert path == tmp_path / "ci" / "tests" / "perf" / "test_orders.py" / "test_ingest.json"
    assert (
        path.read_text()
        == """\
{
  "schema_version": 1,
  "nodeid": "tests/perf/test_orders.py::test_ingest",
  "environment": "ci",
  "scenario": {
    "rate": 5000.0
  },
  "trials": [
    {
      "created": "2025-01-31T12:00:00+00:00",
      "commit": "abc123",
      "fingerprint": {
        "kafka": "4.1.0"
      },
      "rounds": [
        {
          "produce.throughput": 4999.123456789,
          "errors": 0.0
        },
        {
          "produce.throughput": 5001.5,
          "errors": 0.0
        }
      ]
    }
  ]
}
"""
    )


_VALUES = st.dictionaries(st.text(max_size=20), st.floats(min_value=0, max_value=1e30), max_size=4)
_TEXTS = st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=3)


@given(
    nodeid=st.text(max_size=300),
    fingerprint=_TEXTS,
    scenario=_TEXTS,
    commit=st.one_of(st.none(), st.text(max_size=9)),
    rounds=st.lists(_VALUES, min_size=1, max_size=3),
)
def test_what_is_saved_is_what_is_loaded(**fields: Any) -> None:
    """A value that changed on its way would be compared with itself and differ."""
    assume(len(fields["nodeid"].split("/")) < 10)
    with tempfile.TemporaryDirectory() as folder:
        store = BaselineStore(Path(folder))
        record = _record(**fields)
        path = store.save(record)
        written = path.read_bytes()
        assert store.load("ci", record.nodeid) == record
        assert store.save(record).read_bytes() == written
        assert _files(store.folder) == [str(path.relative_to(folder))]


def test_without_a_file_there_is_no_record(tmp_path: Path) -> None:
    """The first run of a test has none."""
    assert BaselineStore(tmp_path / "absent").load("ci", _NODEID) is None
    (tmp_path / "ci").write_text("a file where a folder would be")
    assert BaselineStore(tmp_path).load("ci", _NODEID) is None


def test_the_folder_is_not_made_before_something_is_saved(tmp_path: Path) -> None:
    """Looking for a baseline must leave nothing behind."""
    store = BaselineStore(tmp_path / "kafka-baselines")
    store.comparable("ci", _NODEID, _SCENARIO)
    with lock_folder(store.folder):  # a run whose results will not do
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("nodeid", "path"),
    [
        ("tests/test_a.py::test_b", "tests/test_a.py/test_b.json"),
        ("test_a.py::test_b[acks=1-1.5]", "test_a.py/test_b[acks=1-1.5].json"),
        ("test_a.py::TestX::test_b", "test_a.py/TestX.test_b-2de29c4e2c.json"),
        ("test_a.py::test_b[1/s]", "test_a.py/test_b[1_s]-33d2df3344.json"),
        ("test_a.py::test_b[A]", "test_a.py/test_b[A]-f5f7b406a1.json"),
        ("../out.py::../../../etc/passwd", "_-5ec1f7e700/out.py/.._.._.._etc_passwd-56bfa7338a.json"),
        ("/etc/x.py::a", "_-e3b0c44298/etc/x.py/a.json"),
        ("a.py", "a.py/_-e3b0c44298.json"),
    ],
)
def test_a_test_has_a_readable_safe_path(tmp_path: Path, nodeid: str, path: str) -> None:
    """Plain names stay as they are; whatever was changed carries a hash."""
    assert BaselineStore(tmp_path).path("ci", nodeid).relative_to(tmp_path / "ci").as_posix() == path


_PART = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["test_a", "Test_a", "TEST_A", "..", ".", "a.", "con", "CON.x", "a-0123456789", "a" * 200, "\0", "é", "e\u0301"]
    ),
)
_NODEIDS = st.builds(
    lambda folders, names: "/".join(folders) + "".join(f"::{name}" for name in names),
    st.lists(_PART, min_size=1, max_size=3),
    st.lists(_PART, max_size=3),
)


@given(_NODEIDS, _NODEIDS)
def test_two_tests_never_share_a_file_on_any_file_system(first: str, second: str) -> None:
    """One test's values compared with another's: even on a file system that ignores case."""
    store = BaselineStore(Path("/baselines"))
    paths = [str(store.path("ci", nodeid)).casefold() for nodeid in (first, second)]
    # "a" and "a::" are no two tests: pytest never gives the latter.
    assume([*first.partition("::")][::2] != [*second.partition("::")][::2])
    assert paths[0] != paths[1]


@given(_NODEIDS)
def test_a_path_stays_in_its_folder_and_within_every_file_systems_limits(nodeid: str) -> None:
    """A parametrised name may hold anything, `../../` included."""
    folder = Path("/baselines")
    path = BaselineStore(folder).path("ci", nodeid)
    assert pathlib.PurePosixPath(os.path.normpath(path)).is_relative_to("/baselines/ci")
    names = path.relative_to(folder).parts
    assert all(len(name.encode()) <= 150 for name in names)
    assert all(name.isascii() and name.isprintable() and not name.endswith((".", " ")) for name in names)


def test_thousands_of_characters_become_one_short_name(tmp_path: Path) -> None:
    """Parameters are printed into names without a limit; the cut ones still differ."""
    store = BaselineStore(tmp_path)
    ids = [f"test_a.py::test_b[{'x' * 5000}{tail}]" for tail in "yz"]
    paths = {store.save(_record(nodeid=nodeid)) for nodeid in ids}
    assert [store.load("ci", nodeid) for nodeid in ids] == [_record(nodeid=nodeid) for nodeid in ids]
    assert {len(path.name) for path in paths} == {149}
    assert len(paths) == 2


def test_an_environment_that_is_no_folder_name_is_refused(tmp_path: Path) -> None:
    """The path must hold whatever the caller forgot to check."""
    with pytest.raises(UsageError, match="invalid environment name"):
        BaselineStore(tmp_path).path("../elsewhere", _NODEID)


def _written(**changes: Any) -> str:
    content = json.loads(_record().model_dump_json())
    return json.dumps({**content, **changes})


def _trial(**changes: Any) -> dict[str, Any]:
    trial: dict[str, Any] = json.loads(_written())["trials"][0]
    return {**trial, **changes}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("<<<<<<< HEAD\n{}", "not JSON: Expecting value: line 1 column 1 (char 0)"),
        ("\udcff", "not JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"),
        ("[]", "must be a JSON object, not list"),
        (
            "{}",
            "schema_version is missing; nodeid is missing; environment is missing; scenario is missing; trials is "
            "missing",
        ),
        (_written(schema_version="1"), "schema_version='1': must be 1"),
        (_written(trials=[]), "trials=[]: must not be empty"),
        (_written(extra=1), "extra=1: extra inputs are not permitted"),
        (_written(nodeid=5), "nodeid=5: must be a valid string"),
        (
            _written(trials=[_trial(rounds=[])]),
            "trials.0.rounds=[]: must not be empty",
        ),
        (
            _written(trials=[_trial(rounds=[{"errors": float("nan")}])]),
            "trials.0.rounds.0.errors=nan: must be a finite number",
        ),
        (
            _written(trials=[_trial(rounds=[{"errors": float("inf")}])]),
            "trials.0.rounds.0.errors=inf: must be a finite number",
        ),
        (
            _written(trials=[_trial(rounds=[{"errors": -1}])]),
            "trials.0.rounds.0.errors=-1: must be greater than or equal to 0",
        ),
        (
            _written(trials=[_trial(rounds=[{"errors": "1"}])]),
            "trials.0.rounds.0.errors='1': must be a valid number",
        ),
        (
            _written(trials=[_trial(rounds=[{"errors": True}])]),
            "trials.0.rounds.0.errors=True: must be a valid number",
        ),
        (
            _written(trials=[_trial(rounds=[{"errors": 1e31}])]),
            f"trials.0.rounds.0.errors=1e+31: must be less than or equal to {10**30}",
        ),
        (_written(trials=[_trial(extra=1)]), "trials.0.extra=1: extra inputs are not permitted"),
        (
            _written(trials=[_trial(imported={"tool": "a tool", "files": [], "extra": 1})]),
            "trials.0.imported.extra=1: extra inputs are not permitted",
        ),
        (
            _written(trials=[_trial(created="yesterday")]),
            "trials.0.created: Invalid isoformat string: 'yesterday'",
        ),
        (
            _written(trials=[_trial(created="2025-01-31T12:00:00")]),
            "trials.0.created='2025-01-31T12:00:00': must have a UTC offset, such as +00:00",
        ),
        (
            _written(trials=[_trial(created="0001-01-01T00:00:00+14:00")]),
            "trials.0.created='0001-01-01T00:00:00+14:00': must be a valid date in every time zone",
        ),
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong_and_left_untouched(
    tmp_path: Path, content: str, problem: str
) -> None:
    """It may be a merge gone wrong: guessing would compare with nonsense, overwriting would lose it."""
    store = BaselineStore(tmp_path)
    path = store.save(_record())
    path.write_text(content, errors="surrogateescape")
    before = path.read_bytes()
    for touch in (lambda: store.load("ci", _NODEID), lambda: store.save(_record())):
        with pytest.raises(BaselineError) as caught:
            touch()
        assert str(caught.value) == f"baseline {path} is damaged: {problem}; {_REPAIR}"
    assert path.read_bytes() == before
    assert len(_files(tmp_path)) == 1


@pytest.mark.parametrize("content", ["[" * 100_000, "1" * 10_000, '{"schema_version": 1' + "0" * 400 + "}"])
def test_a_file_that_is_hard_to_read_is_a_baseline_error_too(tmp_path: Path, content: str) -> None:
    """Nesting and numbers beyond Python's bounds raise errors of their own."""
    store = BaselineStore(tmp_path)
    path = store.save(_record())
    path.write_text(content)
    with pytest.raises(BaselineError) as caught:
        store.load("ci", _NODEID)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1500


def test_what_is_wrong_is_cut_when_it_is_long(tmp_path: Path) -> None:
    """A file may be wrong in every value."""
    store = BaselineStore(tmp_path)
    path = store.save(_record())
    path.write_text(_written(trials=[_trial(rounds=[{"errors": -1}] * 100)]))
    with pytest.raises(BaselineError) as caught:
        store.load("ci", _NODEID)
    text = str(caught.value).removeprefix(f"baseline {path} is damaged: ").removesuffix(f"; {_REPAIR}")
    assert len(text) == 303
    assert text.endswith("...")


@pytest.mark.parametrize(
    ("version", "advice"), [(2, "upgrade pytest-kafkaperf"), (0, "create it again with this version")]
)
def test_a_file_of_another_version_is_refused_and_left_untouched(tmp_path: Path, version: int, advice: str) -> None:
    """A team upgrades one machine at a time; an older plugin must not write over what it cannot read."""
    store = BaselineStore(tmp_path)
    path = store.save(_record())
    content = f'{{"schema_version": {version}, "unknown": "shape"}}'
    path.write_text(content)
    for touch in (lambda: store.load("ci", _NODEID), lambda: store.save(_record())):
        with pytest.raises(BaselineError) as caught:
            touch()
        assert str(caught.value) == (
            f"baseline {path} has schema_version {version}, but this version of pytest-kafkaperf reads only 1; "
            f"{advice}, or delete the file and make a new one with --kafka-update-baselines"
        )
    assert path.read_text() == content


@pytest.mark.parametrize(
    ("field", "given", "expected"),
    [("nodeid", "test_b.py::test_c", _NODEID), ("environment", "laptop", "ci")],
)
def test_a_file_of_another_test_or_environment_is_refused(
    tmp_path: Path, field: str, given: str, expected: str
) -> None:
    """A file was copied or moved: its results are another test's."""
    store = BaselineStore(tmp_path)
    path = store.save(_record())
    path.write_text(_written(**{field: given}))
    with pytest.raises(BaselineError) as caught:
        store.load("ci", _NODEID)
    assert str(caught.value) == (
        f"baseline {path} is damaged: its {field} is {given!r}, expected {expected!r}; "
        f"if it was renamed on purpose, correct {field!r} in the file, otherwise {_REPAIR}"
    )


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """`Is a directory` without a path helps nobody."""
    store = BaselineStore(tmp_path)
    path = store.path("ci", _NODEID)
    path.mkdir(parents=True)
    with pytest.raises(BaselineError) as caught:
        store.load("ci", _NODEID)
    assert str(caught.value) == f"cannot read baseline {path}: Is a directory"


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The folder may be read-only in CI."""
    (tmp_path / "ci").write_text("a file where a folder would be")
    store = BaselineStore(tmp_path)
    with pytest.raises(BaselineError) as caught:
        store.save(_record())
    assert str(caught.value) == (
        f"cannot write baseline {store.path('ci', _NODEID)}: Not a directory; use --kafka-baselines for another folder"
    )


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException
) -> None:
    """Half a baseline is worse than an old one."""
    store = BaselineStore(tmp_path)
    before = store.save(_record()).read_bytes()

    def fail(_: int) -> None:
        raise failure

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((BaselineError, KeyboardInterrupt)):
        store.save(_record(rounds=[{"errors": 1}]))
    assert store.path("ci", _NODEID).read_bytes() == before
    assert len(_files(tmp_path)) == 1


@pytest.mark.parametrize(
    ("rounds", "problem"),
    [
        ([], "trials.0.rounds=[]: must not be empty"),
        ([{"errors": float("nan")}], "trials.0.rounds.0.errors=nan: must be a finite number"),
        ([{"errors": -1}], "trials.0.rounds.0.errors=-1.0: must be greater than or equal to 0"),
    ],
)
def test_values_that_cannot_be_are_never_written(rounds: Any, problem: str) -> None:
    """The next run would find its baseline damaged."""
    with pytest.raises(BaselineError) as caught:
        _record(rounds=rounds)
    assert str(caught.value) == f"cannot create a baseline from the results of {_NODEID}: {problem}; run the test again"


def test_what_json_has_no_word_for_is_never_written() -> None:
    """Other tools could not read the file, and neither could this one."""
    with pytest.raises(BaselineError, match=r"scenario\.rate\.float=nan: must be a finite number"):
        _record(scenario={"rate": float("nan")})


def test_a_run_is_compared_with_its_own_environments_baseline(tmp_path: Path) -> None:
    """The plain case: these rounds count."""
    store = BaselineStore(tmp_path)
    store.save(_record(environment="laptop", rounds=[{"errors": 1}]))
    store.save(_record())
    assert store.comparable("ci", _NODEID, _SCENARIO) == BaselineRounds(
        trials=(_ROUNDS,), days=("2025-01-31",), fingerprint={"kafka": "4.1.0"}
    )


def test_without_a_baseline_the_reason_says_how_to_make_one(tmp_path: Path) -> None:
    """The first run of every user ends here."""
    rounds = BaselineStore(tmp_path).comparable("ci", _NODEID, _SCENARIO)
    assert rounds == BaselineRounds(obstacle=Obstacle(ObstacleKind.NO_BASELINE), stored=False)


def test_another_environments_baseline_is_shown_and_never_counts(tmp_path: Path) -> None:
    """A laptop must not fail because of CI's results."""
    store = BaselineStore(tmp_path)
    store.save(_record(environment="laptop", rounds=[{"errors": 1}]))
    store.save(_record(environment="ci"))
    (tmp_path / "not a baseline").mkdir()
    (tmp_path / "README").touch()
    assert store.environments(_NODEID) == ("ci", "laptop")
    assert store.environments("other.py::test") == ()
    assert store.comparable("new", _NODEID, _SCENARIO) == BaselineRounds(
        trials=(_ROUNDS,),
        days=("2025-01-31",),
        obstacle=_elsewhere("new", "'ci', 'laptop'"),
        stored=False,
    )


def _elsewhere(environment: str, known: str) -> Obstacle:
    return Obstacle(ObstacleKind.OTHER_ENVIRONMENT, {"environment": environment, "known": known})


def test_a_baseline_of_this_machine_with_another_provider_is_named_as_such(tmp_path: Path) -> None:
    """A Docker daemon that answers today changes the provider of `auto`, and with it the environment."""
    store = BaselineStore(tmp_path)
    for name in ("linux-4c-external", "linux-4c-local", "mac-2c-local"):
        store.save(_record(environment=name))
    assert store.comparable("linux-4c-docker", _NODEID, _SCENARIO).obstacle == _elsewhere(
        "linux-4c-docker",
        "'linux-4c-local' (this machine with --kafka-cluster=local), 'linux-4c-external', 'mac-2c-local'",
    )


def test_another_environments_damaged_file_stops_nobody(tmp_path: Path) -> None:
    """It is not this run's file."""
    store = BaselineStore(tmp_path)
    store.save(_record()).write_text("{")
    assert store.comparable("new", _NODEID, _SCENARIO) == BaselineRounds(
        obstacle=_elsewhere("new", "'ci'"), stored=False
    )


def test_a_changed_scenario_is_not_compared_and_named_field_by_field(tmp_path: Path) -> None:
    """Twice the load is not a regression."""
    store = BaselineStore(tmp_path)
    store.save(_record())
    now = Scenario.of({"rate": 10_000, "linger": "10 ms", "records": 1000, "acks": 1}).model_dump(mode="json")
    changes = (
        "acks: all -> 1; duration: 5 s -> none; linger: 5 ms -> 10 ms; rate: 5k records/s -> 10k records/s; "
        "records: none -> 1k records"
    )
    assert store.comparable("ci", _NODEID, now) == BaselineRounds(
        obstacle=Obstacle(ObstacleKind.OTHER_SCENARIO, {"changes": changes})
    )


_STAGING = {"provider": "external", "cluster id": "staging", "brokers": "3"}


@pytest.mark.parametrize(
    ("there", "now", "change"),
    [
        (_STAGING, _STAGING, None),
        (_STAGING, {**_STAGING, "cluster id": "prod"}, "cluster id: staging -> prod"),
        (_STAGING, {**_STAGING, "brokers": "2"}, "brokers: 3 -> 2"),
        ({"provider": "external", "brokers": "3"}, _STAGING, "cluster id: not known -> staging"),
        ({"provider": "local", "brokers": "1"}, {"provider": "local", "brokers": "3"}, None),  # as the test declares
    ],
)
def test_a_baseline_of_another_external_cluster_is_not_compared(
    tmp_path: Path, there: dict[str, str], now: dict[str, str], change: str | None
) -> None:
    """A slow cluster would hide each regression on a fast one, and the environment has the same name."""
    store = BaselineStore(tmp_path)
    store.save(_record(fingerprint=there))
    obstacle = store.comparable("ci", _NODEID, _SCENARIO, now).obstacle
    differs = None if change is None else Obstacle(ObstacleKind.OTHER_CLUSTER, {"changes": change})
    assert obstacle == differs


def test_imported_results_are_compared_on_any_cluster(tmp_path: Path) -> None:
    """Nobody knows where another tool has measured them; they never count as more than information."""
    store = BaselineStore(tmp_path)
    store.save(_imported())
    assert store.comparable("ci", _NODEID, _SCENARIO, _STAGING).obstacle is None


def test_trials_of_another_external_cluster_go() -> None:
    """Two clusters are not two trials of one."""
    there, here = (_record(fingerprint={**_STAGING, "cluster id": name}) for name in ("staging", "prod"))
    assert grown(there, here) == here
    assert len(grown(there, there).trials) == 2


def test_the_number_of_rounds_does_not_change_a_scenario() -> None:
    """It says how often to measure; `--kafka-rounds` is the answer to too few rounds."""
    assert scenario_changes({**_SCENARIO, "rounds": 5}, {**_SCENARIO, "rounds": 20}) == ()


def test_a_field_that_a_baseline_does_not_know_had_its_default() -> None:
    """A new version with a new field must not void every baseline."""
    older = {name: value for name, value in _SCENARIO.items() if name != "linger"}
    assert scenario_changes(older, _SCENARIO) == ()
    assert scenario_changes(older, {**_SCENARIO, "linger": 0.01}) == ("linger: 5 ms -> 10 ms",)


def test_samples_of_unknown_content_are_not_those_of_today() -> None:
    """An older baseline has only the name of its file, and the file may have changed since."""
    older = {"file": "orders.jsonl", "delimiter": "\n"}
    now = {**older, "size_bytes": 2048, "sha256": "ab" * 32}
    assert scenario_changes({**_SCENARIO, "payload": older}, {**_SCENARIO, "payload": now}) == (
        "payload: file:orders.jsonl (content unknown) -> file:orders.jsonl (2 KiB, SHA-256 abababababab)",
    )


def test_a_change_beyond_the_shown_digits_is_still_told() -> None:
    """`10 ms -> 10 ms` would look like a bug."""
    changes = scenario_changes({**_SCENARIO, "linger": 0.010000001}, {**_SCENARIO, "linger": 0.010000002})
    assert changes == ("linger: 0.010000001 -> 0.010000002",)


def test_a_trial_is_added_next_to_those_before_it() -> None:
    """Noise between trials can only be known from several."""
    first, second = _record(), _record(created="2025-02-01T12:00:00+00:00")
    both = grown(first, second)
    assert [trial.created for trial in both.trials] == ["2025-01-31T12:00:00+00:00", "2025-02-01T12:00:00+00:00"]
    assert grown(None, second) == second


def test_trials_are_in_the_order_of_their_times() -> None:
    """Machines write their own offsets, and runs may end in another order than they began."""
    times = ["2025-02-01T01:00:00+00:00", "2025-01-31T23:00:00-05:00", "2025-02-01T01:00:00+02:00"]
    first, second, third = (_record(created=time) for time in times)
    assert [trial.created for trial in grown(grown(first, second), third).trials] == [
        times[2],
        times[0],
        times[1],
    ]


def test_the_newest_trial_shows_where_results_come_from(tmp_path: Path) -> None:
    """A machine's fingerprint moves on with each trial that is added."""
    store = BaselineStore(tmp_path)
    later = _record(created="2025-02-01T12:00:00+00:00", fingerprint={"kafka": "4.2.0"})
    store.save(grown(_record(), later))
    assert store.comparable("ci", _NODEID, _SCENARIO) == BaselineRounds(
        trials=(_ROUNDS, _ROUNDS),
        days=("2025-01-31", "2025-02-01"),
        fingerprint={"kafka": "4.2.0"},
        mixed=(Change("kafka", "4.1.0", "4.2.0", Part.BROKERS),),
    )


def test_the_newest_trials_are_kept() -> None:
    """What a team's machine did a year ago says little of it now."""
    record = _record(created="2025-01-01T00:00:00+00:00")
    for day in range(2, 20):
        record = grown(record, _record(created=f"2025-01-{day:02}T00:00:00+00:00"))
    assert [trial.created[8:10] for trial in record.trials] == [f"{day:02}" for day in range(10, 20)]


def test_more_trials_of_one_day_push_out_no_other_day() -> None:
    """Another day shows more than another trial of the same day."""
    record = _record(created="2025-01-01T00:00:00+00:00")
    for day in range(2, 9):
        record = grown(record, _record(created=f"2025-01-{day:02}T00:00:00+00:00"))
    for hour in range(8, 14):
        record = grown(record, _record(created=f"2025-01-09T{hour:02}:00:00+00:00"))
    assert [trial.created[8:13] for trial in record.trials] == [
        *(f"{day:02}T00" for day in range(1, 9)),
        "09T12",
        "09T13",
    ]


def test_a_day_is_that_of_utc() -> None:
    """Machines write their own offsets."""
    days = [
        _record(created=created).trials[0].day
        for created in ("2025-02-01T01:00:00+02:00", "2025-01-31T23:59:59+00:00", "2025-01-31T23:00:00-05:00")
    ]
    assert days == ["2025-01-31", "2025-01-31", "2025-02-01"]


def test_trials_of_one_day_are_compared_as_one_day() -> None:
    """They share its level."""
    rounds = BaselineRounds(trials=((), ({"errors": 1.0},), ({"errors": 2.0},)), days=("b", "a", "b"))
    assert rounds.by_day == [[(), ({"errors": 2.0},)], [({"errors": 1.0},)]]
    assert BaselineRounds(trials=rounds.trials).by_day == [[*rounds.trials]]


def test_trials_of_another_workload_go() -> None:
    """They would be compared with what they are not."""
    changed = _record(scenario={**_SCENARIO, "partitions": 12})
    assert grown(_record(), changed) == changed


def _stored(store: BaselineStore, nodeid: str, environment: str = "ci") -> Path:
    return store.save(_record(nodeid=nodeid, environment=environment))


def test_all_baselines_are_listed_in_one_order(tmp_path: Path) -> None:
    """Of every environment; what lies next to them is left out."""
    store = BaselineStore(tmp_path)
    assert store.stored() == {}
    nodeids = ("tests/test_b.py::test_a", "tests/test_a.py::TestX::test_b", "test_c.py::test_d[1/s]")
    saved = {_stored(store, nodeid, name): nodeid for name in ("laptop", "ci") for nodeid in nodeids}
    (tmp_path / "README").touch()
    (tmp_path / "not a baseline").mkdir()
    assert [(path.relative_to(tmp_path).parts[0], nodeid) for path, nodeid in store.stored().items()] == [
        (name, nodeids[place]) for name in ("ci", "laptop") for place in (2, 1, 0)
    ]
    assert store.stored() == saved


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"nodeid": 5}', "[" * 100_000, '{"nodeid": "tests/perf/test_orders.py::renamed"}', "\udcff"],
)
def test_a_damaged_baseline_is_not_listed(tmp_path: Path, content: str) -> None:
    """It is told where it is loaded; a file that was moved by hand may be another test's, and can be repaired."""
    store = BaselineStore(tmp_path)
    store.save(_record()).write_text(content, errors="surrogateescape")
    assert store.stored() == {}


def test_a_baseline_of_a_newer_schema_is_listed(tmp_path: Path) -> None:
    """Whose it is can be told, and its test may be gone all the same."""
    store = BaselineStore(tmp_path)
    saved = _stored(store, _NODEID)
    saved.write_text(_written(schema_version=2))
    assert store.stored() == {saved: _NODEID}


def test_a_folder_of_baselines_that_is_none_holds_none(tmp_path: Path) -> None:
    """It may not have been made yet."""
    (tmp_path / "file").touch()
    assert BaselineStore(tmp_path / "absent").stored() == {}
    assert BaselineStore(tmp_path / "file").stored() == {}


def test_links_are_not_followed(tmp_path: Path) -> None:
    """What they lead to is not this folder's, and would be deleted with it."""
    outside, store = BaselineStore(tmp_path / "outside"), BaselineStore(tmp_path / "baselines")
    original = _stored(outside, _NODEID)
    path = store.path("ci", _NODEID)
    path.parent.mkdir(parents=True)
    path.symlink_to(original)
    (store.folder / "laptop").symlink_to(outside.folder / "ci")
    (store.folder / "ci" / "linked").symlink_to(outside.folder / "ci")
    assert store.stored() == {}
    within = store.folder / "laptop" / path.relative_to(store.folder / "ci")
    with pytest.raises(BaselineError, match="is outside the baseline folder"):
        store.prune([within])
    assert original.exists()


def test_orphans_are_the_baselines_of_tests_that_are_gone(tmp_path: Path) -> None:
    """Of a test file that was not collected, or in part only, nothing is known."""
    store = BaselineStore(tmp_path / "kept")
    for file in ("a.py", "b.py", "a.py2"):
        (tmp_path / file).touch()
    for nodeid in ("a.py::kept", "a.py::gone", "a.py::TestX::gone", "b.py::unknown", "removed.py::gone", "a.py2::x"):
        store.save(_record(nodeid=nodeid))
    settings: Any = SimpleNamespace(baselines=store.folder, root=tmp_path)
    found = orphans_of(store, settings, collected={"a.py::kept"}, files={"a.py"})
    assert sorted(found.values()) == ["a.py::TestX::gone", "a.py::gone", "removed.py::gone"]
    settings.root = tmp_path / "elsewhere"
    assert orphans_of(store, settings, collected=(), files=()) == {}


def test_pruning_deletes_those_files_and_the_folders_that_are_empty_then(tmp_path: Path) -> None:
    """A review sees the files go, and nothing else."""
    store = BaselineStore(tmp_path / "baselines")
    kept = _stored(store, "tests/test_a.py::kept")
    gone = [_stored(store, nodeid, "laptop") for nodeid in ("tests/test_a.py::gone", "tests/sub/test_b.py::gone")]
    gone.append(_stored(store, "tests/test_a.py::gone"))
    gone[0].unlink()  # by somebody else meanwhile
    store.prune(gone)
    assert store.stored() == {kept: "tests/test_a.py::kept"}
    assert sorted(str(path.relative_to(store.folder)) for path in store.folder.rglob("*")) == [
        "ci",
        "ci/tests",
        "ci/tests/test_a.py",
        "ci/tests/test_a.py/kept.json",
    ]
    store.prune([kept])
    assert list(store.folder.iterdir()) == []


@pytest.mark.parametrize("where", ["other/a.json", "baselines/../other/a.json", "baselines"])
def test_nothing_outside_the_folder_is_ever_deleted(tmp_path: Path, where: str) -> None:
    """And where one path is wrong, the others are not trusted either."""
    store = BaselineStore(tmp_path / "baselines")
    kept = _stored(store, _NODEID)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.json").touch()
    with pytest.raises(BaselineError) as caught:
        store.prune([kept, tmp_path / where])
    assert str(caught.value) == (
        f"{tmp_path / where} was not deleted, because it is outside the baseline folder {store.folder}; delete it "
        "yourself"
    )
    assert kept.exists()
    assert (tmp_path / "other" / "a.json").exists()


def test_a_baseline_that_cannot_be_deleted_is_named(tmp_path: Path) -> None:
    """The folder may be read-only; here a folder stands in the file's place."""
    store = BaselineStore(tmp_path)
    path = store.path("ci", _NODEID)
    path.mkdir(parents=True)
    with pytest.raises(BaselineError) as caught:
        store.prune([path])
    assert str(caught.value) == (
        f"cannot delete baseline {path}: Is a directory; delete it yourself, or make its folder writable"
    )


_TOOL = Imported(tool="kafka-producer-perf-test", files=("run.txt",))


def _imported(**changes: Any) -> BaselineRecord:
    return _record(**{"scenario": {}, "fingerprint": {}, "imported": _TOOL, **changes})


def test_an_imported_baseline_says_so_and_a_measured_one_stays_as_it_was(tmp_path: Path) -> None:
    """Files that are there keep their bytes; a review shows which results another tool has measured."""
    store = BaselineStore(tmp_path)
    assert "imported" not in store.save(_record()).read_text()
    record = _imported(rounds=[{"produce.throughput": 5.0}])
    content = json.loads(store.save(record).read_bytes())
    assert content["trials"] == [
        {
            "created": "2025-01-31T12:00:00+00:00",
            "fingerprint": {},
            "rounds": [{"produce.throughput": 5.0}],
            "imported": {"tool": "kafka-producer-perf-test", "files": ["run.txt"]},
        }
    ]
    assert store.load("ci", _NODEID) == record


def test_imported_rounds_are_compared_with_any_scenario(tmp_path: Path) -> None:
    """The tool has not told what its load was: the user says that it is the test's."""
    store = BaselineStore(tmp_path)
    store.save(_imported())
    assert store.comparable("ci", _NODEID, _SCENARIO) == BaselineRounds(
        trials=(_ROUNDS,), days=("2025-01-31",), imported="kafka-producer-perf-test"
    )
    elsewhere = store.comparable("new", _NODEID, _SCENARIO)
    assert (elsewhere.imported, elsewhere.trials) == ("kafka-producer-perf-test", (_ROUNDS,))
    assert elsewhere.obstacle == _elsewhere("new", "'ci'")


def test_a_scenario_that_is_not_known_has_no_changes() -> None:
    """Defaults would be a guess: a test of twelve partitions would never be compared."""
    twelve = {**_SCENARIO, "partitions": 12}
    assert (scenario_changes({}, twelve), scenario_changes(twelve, {})) == ((), ())


def test_measured_and_imported_trials_are_never_mixed(tmp_path: Path) -> None:
    """One has noise that is known, the other not: no rule would fit both."""
    measured = _record(created="2025-02-01T12:00:00+00:00")
    assert grown(_imported(), measured) == measured
    assert grown(measured, _imported()) == _imported()
    content = json.loads(_imported().model_dump_json())
    content["trials"].append(json.loads(_written())["trials"][0])
    path = BaselineStore(tmp_path).path("ci", _NODEID)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    with pytest.raises(BaselineError, match=": must not mix measured and imported trials; restore"):
        BaselineStore(tmp_path).load("ci", _NODEID)
