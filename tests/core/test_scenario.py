"""Scenarios: fields of markers, merged and validated."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.errors import ScenarioError
from pytest_kafkaperf.metrics import CATALOGUE
from pytest_kafkaperf.scenario import Scenario, format_field, merge


def test_the_defaults_are_those_of_the_contract() -> None:
    """A scenario without fields is to be a useful test; changing one invalidates every baseline."""
    assert Scenario.of({}).model_dump() == {
        "records": None,
        "duration": 5.0,
        "rate": None,
        "record_size": 100,
        "producers": 1,
        "acks": "all",
        "batch_size": 16_384,
        "linger": 0.005,
        "compression": None,
        "consumers": 0,
        "partitions": 6,
        "replication_factor": 1,
        "topic_config": {},
        "warmup": 2.0,
        "rounds": 5,
    }


def test_quantities_become_base_units() -> None:
    """Text with units is for people only."""
    scenario = Scenario.of(
        {
            "records": "50k",
            "rate": "5k records/s",
            "record_size": "1 KiB",
            "batch_size": "64 KiB",
            "linger": "10 ms",
            "warmup": "1 min",
            "topic_config": {"min.insync.replicas": 2, "unclean.leader.election.enable": False, "a": "b"},
        }
    )
    assert scenario.model_dump(include=scenario.model_fields_set) == {
        "records": 50_000,
        "rate": 5000.0,
        "record_size": 1024,
        "batch_size": 65_536,
        "linger": 0.01,
        "warmup": 60.0,
        "topic_config": {"min.insync.replicas": "2", "unclean.leader.election.enable": "false", "a": "b"},
    }
    assert scenario.duration is None


@pytest.mark.parametrize(
    ("rate", "record_size", "expected"),
    [("1 MiB/s", "1 KiB", 1024.0), ("1 MB/s", 100, 10_000.0), (250, 100, 250.0), ("60 records/min", 100, 1.0)],
)
def test_a_rate_in_bytes_becomes_one_in_records(rate: object, record_size: object, expected: float) -> None:
    """The generator schedules records."""
    assert Scenario.of({"rate": rate, "record_size": record_size}).rate == expected


@pytest.mark.parametrize(
    ("given", "meant"),
    [("0", 0), ("1", 1), ("-1", "all"), (-1, "all"), ("all", "all"), (0, 0)],
)
def test_acks_takes_kafkas_own_spellings(given: object, meant: object) -> None:
    """A value is copied from a producer's configuration."""
    assert Scenario.of({"acks": given}).acks == meant


def test_no_compression_can_be_named() -> None:
    """Kafka calls it `none`."""
    assert Scenario.of({"compression": "none"}) == Scenario.of({})


_SIZES = "B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, for example '100 B', '16 KiB', '1 MiB'"
_TIMES = "ns, us, µs, ms, s, min, h, for example '250 us', '25 ms', '5 s', '2 min'"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"partitons": 3}, "unknown field 'partitons': did you mean 'partitions'?"),
        (
            {"zzz": 1, "acs": 1},
            "unknown field 'zzz': valid are 'acks', 'batch_size', 'compression', 'consumers', 'duration', 'linger', "
            "'partitions', 'producers', 'rate', 'record_size', 'records', 'replication_factor', 'rounds', "
            "'topic_config', 'warmup'; unknown field 'acs': did you mean 'acks'?",
        ),
        ({"acks": 2}, "acks=2: input should be 0, 1 or 'all'"),
        ({"acks": True}, "acks='True': input should be 0, 1 or 'all'"),
        ({"compression": "zip"}, "compression='zip': input should be 'gzip', 'snappy', 'lz4' or 'zstd'"),
        ({"producers": 0}, "producers=0: input should be greater than or equal to 1"),
        ({"producers": True}, "producers=True: use a whole number"),
        ({"consumers": 1001}, "consumers=1001: input should be less than or equal to 1000"),
        ({"partitions": 1.5}, "partitions=1.5: input should be a valid integer, got a number with a fractional part"),
        ({"record_size": "1.5 B"}, "record_size: '1.5 B' is not a whole number of bytes"),
        ({"records": 2.5}, "records: 2.5 is not a whole number of records"),
        ({"records": "1e999"}, "records='1e999': input should be less than or equal to 1000000000000"),
        ({"record_size": "big"}, f"record_size: cannot read 'big' as a size; use one of {_SIZES}"),
        ({"duration": "5"}, f"duration: '5' has no unit; use one of {_TIMES}"),
        ({"duration": 0}, "duration=0: input should be greater than 0"),
        ({"linger": -1}, "linger: -1 is not a quantity; use a finite number of at least 0"),
        (
            {"rate": "5 foo", "partitions": 0},
            "rate: cannot read '5 foo' as a record rate; use one of records/s, records/sec, records/min, for example "
            "'500 records/s', '50k records/s'; partitions=0: input should be greater than or equal to 1",
        ),
        ({"rate": 0}, "rate=0: out of range; use more than 0 and at most 1G records/s"),
        ({"rate": "2G records/s"}, "rate='2G records/s': out of range; use more than 0 and at most 1G records/s"),
        (
            {"rate": "1 MiB/s", "record_size": "big"},
            f"record_size: cannot read 'big' as a size; use one of {_SIZES}",
        ),
        (
            {"rate": "1 QiB/s"},
            "rate: cannot read '1 QiB/s' as a byte rate; use one of B/s, KiB/s, MiB/s, GiB/s, TiB/s, kB/s, MB/s, "
            "GB/s, TB/s, for example '500 KiB/s', '50 MiB/s'",
        ),
        ({"topic_config": "x"}, "topic_config='x': input should be a valid dictionary"),
        (
            {"topic_config": {"retention.ms": None}},
            "topic_config.retention.ms=None: input should be a valid string",
        ),
        ({"records": 5, "duration": 3}, "give 'records' or 'duration', not both"),
        (
            {"consumers": 1, "record_size": 4},
            "record_size 4 B is too small with consumers: end-to-end timing writes 16 B into each value; "
            "use at least 16 B, or consumers=0",
        ),
        (
            {"consumers": 1, "acks": 0},
            "acks=0 with consumers: what was lost cannot be told from what is late; use acks=1 or 'all'",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name_with_the_valid_choices(fields: dict[str, Any], message: str) -> None:
    """The text is all that a user gets at collection; every problem is in it."""
    with pytest.raises(ScenarioError) as caught:
        Scenario.of(fields)
    assert str(caught.value) == message


def test_a_refused_value_is_shown_in_part_when_it_is_long() -> None:
    """A message of a megabyte helps nobody."""
    with pytest.raises(ScenarioError) as caught:
        Scenario.of({"compression": "z" * 10**6})
    assert str(caught.value) == f"compression='{'z' * 99}...: input should be 'gzip', 'snappy', 'lz4' or 'zstd'"


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["5 s", "1 KiB", "50k", "5k records/s", "1 MiB/s", "all", "lz4", 1, 20]),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.one_of(st.integers(), st.text(max_size=3)), max_size=2),
)
_FIELDS = st.dictionaries(st.sampled_from([*Scenario.model_fields, "typo"]), _VALUES, max_size=4)


@given(_FIELDS)
def test_any_fields_are_a_scenario_or_a_scenario_error(fields: dict[str, Any]) -> None:
    """A traceback at collection would name neither the test nor the mistake."""
    try:
        scenario = Scenario.of(fields)
    except ScenarioError as error:
        assert str(error)
    else:
        assert (scenario.records is None) != (scenario.duration is None)
        assert scenario.describe()


@given(_FIELDS)
def test_a_scenario_survives_its_dump_and_a_process_border(fields: dict[str, Any]) -> None:
    """Workers get it by pickle, baselines and reports hold its dump."""
    try:
        scenario = Scenario.of(fields)
    except ScenarioError:
        return
    assert Scenario.of(scenario.model_dump(mode="json")) == scenario
    assert pickle.loads(pickle.dumps(scenario)) == scenario  # noqa: S301 - our own


def test_the_closest_level_wins_field_by_field() -> None:
    """A module sets what its tests share, a test what is its own."""
    merged = merge({"acks": 1, "rate": 10}, {"rate": 20, "producers": 2}, {"producers": 3})
    assert merged == {"acks": 1, "rate": 20, "producers": 3}


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (({"duration": 5}, {"records": 10}), {"records": 10}),
        (({"records": 10}, {"duration": 5}), {"duration": 5}),
        (({"records": 10}, {"records": None}), {"records": None}),
        (({"duration": 5}, {"records": 10, "duration": 5}), {"records": 10, "duration": 5}),
    ],
)
def test_records_and_duration_replace_each_other(levels: Any, expected: dict[str, Any]) -> None:
    """They are one choice: `--kafka-duration` must not meet the `records` of a marker."""
    assert merge(*levels) == expected


_NAMES = st.sampled_from(["records", "duration", "acks", "rate"])
_LEVEL = st.dictionaries(_NAMES, st.sampled_from([1, 2]), max_size=4)
_LEVEL_WITH_NONE = st.dictionaries(_NAMES, st.sampled_from([None, 1, 2]), max_size=4)


@given(_LEVEL, _LEVEL, _LEVEL)
def test_merging_is_associative(far: dict[str, Any], middle: dict[str, Any], close: dict[str, Any]) -> None:
    """How levels are grouped must not matter."""
    assert merge(merge(far, middle), close) == merge(far, middle, close) == merge(far, merge(middle, close))


@given(_LEVEL_WITH_NONE, _LEVEL_WITH_NONE)
def test_the_closest_level_stays_whole(far: dict[str, Any], close: dict[str, Any]) -> None:
    """No level may lose what it says to a farther one, None included: it takes a value back."""
    assert close.items() <= merge(far, close).items()
    assert merge(close) == close


def test_merging_leaves_the_levels_as_they_are() -> None:
    """A module's marker is shared by its tests."""
    far, close = {"duration": 5}, {"records": 10}
    merge(far, close)
    assert (far, close) == ({"duration": 5}, {"records": 10})


def test_metrics_are_those_that_the_scenario_can_measure() -> None:
    """A limit on any other is refused at collection."""
    every = list(CATALOGUE)
    consuming = [name for name in every if name.split(".")[0] in ("consume", "e2e", "lag")]
    delays = [name for name in every if name.startswith("produce.delay")]
    measured = {
        "all": Scenario.of({"consumers": 1, "rate": 10}),
        "no consumer": Scenario.of({"rate": 10}),
        "no rate": Scenario.of({"consumers": 1}),
        "no acks": Scenario.of({"acks": 0, "rate": 10}),
    }
    assert {case: list(scenario.metrics()) for case, scenario in measured.items()} == {
        "all": every,
        "no consumer": [name for name in every if name not in consuming],
        "no rate": [name for name in every if name not in delays],
        "no acks": [name for name in every if name not in (*consuming, "lost", "duplicated")],
    }


def test_a_description_names_what_is_not_the_default() -> None:
    """One line in a report has room for little more."""
    assert Scenario.of({}).describe() == "defaults"
    assert Scenario.of({"records": "50k"}).describe() == "records=50k records"
    described = Scenario.of({"duration": "10 s", "rate": 5000, "record_size": 1024, "acks": 1}).describe()
    assert described == "duration=10 s, rate=5k records/s, record_size=1 KiB, acks=1"


def test_a_field_is_written_with_its_unit() -> None:
    """A changed scenario is told field by field."""
    told = [format_field("linger", 0.0125), format_field("acks", 1), format_field("records", 12_345)]
    assert told == ["12.5 ms", "1", "12.345k records"]
