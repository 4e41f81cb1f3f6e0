"""Scenarios: fields of markers, merged and validated."""

from __future__ import annotations

import pickle
import re
import sys
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.core.metrics import LOAD_METRICS, STEADINESS_METRICS
from pytest_kafkaperf.scenarios.fields import format_field
from pytest_kafkaperf.scenarios.payloads import Keys, Samples
from pytest_kafkaperf.scenarios.rate import Segment
from pytest_kafkaperf.scenarios.scenario import Scenario, merge


def test_the_defaults_are_those_of_the_contract() -> None:
    """A scenario without fields is to be a useful test; changing one invalidates every baseline."""
    assert Scenario.of({}).model_dump() == {
        "records": None,
        "duration": 5.0,
        "record_size": 100,
        "payload": "random",
        "rate": None,
        "backlog": 0,
        "key": None,
        "headers": {},
        "producers": 1,
        "client": "batch",
        "acks": "all",
        "batch_size": 16_384,
        "linger": 0.005,
        "compression": None,
        "idempotence": False,
        "transaction_size": None,
        "abort_ratio": 0.0,
        "producer_config": {},
        "consumers": 0,
        "consumer_groups": 1,
        "consume": "live",
        "isolation_level": "read_uncommitted",
        "consumer_config": {},
        "topic": None,
        "output_topic": None,
        "dead_letter_topic": None,
        "identify": "header",
        "expect": "1",
        "watch_group": (),
        "partitions": 6,
        "replication_factor": None,
        "topic_config": {},
        "warmup": 0.5,
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
    [
        ("1 MiB/s", "1 KiB", 1024.0),
        ("1 MB/s", 100, 10_000.0),
        ("1 MB/s", {"100 B": 3, "500 B": 1}, 5000.0),
        (250, 100, 250.0),
        ("60 records/min", 100, 1.0),
        ("1 MB/s -> 2 MB/s over 3 s", 100, (Segment(start=10_000.0, end=20_000.0, seconds=3.0),)),
    ],
)
def test_a_rate_in_bytes_becomes_one_in_records(rate: object, record_size: object, expected: object) -> None:
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
    """Kafka calls it `none`; so can keys be."""
    assert Scenario.of({"compression": "none", "key": "none"}) == Scenario.of({})


def test_sizes_of_records_are_shares_of_all() -> None:
    """Weights are whatever adds up easily; the order in which they are given is not a difference."""
    scenario = Scenario.of({"record_size": {"10 KiB": 1, "100 B": 9}})
    assert scenario == Scenario.of({"record_size": {100: 0.9, 10_240: 0.1}})
    assert scenario.record_size == scenario.record_sizes == {100: 0.9, 10_240: 0.1}
    assert ([*scenario.record_sizes], scenario.mean_record_size) == ([100, 10_240], 1114.0)
    assert scenario.model_dump(mode="json")["record_size"] == {"100 B": 0.9, "10240 B": 0.1}


def test_one_size_is_no_distribution() -> None:
    """What is the same load must compare equal."""
    scenario = Scenario.of({"record_size": {"1 KiB": 7}})
    assert scenario == Scenario.of({"record_size": 1024})
    assert (scenario.record_sizes, scenario.mean_record_size) == ({1024: 1.0}, 1024.0)


def read_again(dump: dict[str, Any]) -> Scenario:
    """Read a dump; its times are numbers of seconds, which a marker must give with their unit."""
    times = {name: f"{dump[name]} s" for name in ("duration", "linger", "warmup") if dump[name] is not None}
    return Scenario.of(dump | times)


@given(st.dictionaries(st.integers(1, 1 << 30), st.floats(1, 500), min_size=2, max_size=20))
def test_shares_stay_as_they_are_when_they_are_read_again(weights: dict[int, float]) -> None:
    """A baseline's sizes are read from its file: rounding them again would make another workload of them."""
    scenario = Scenario.of({"record_size": weights})
    assert read_again(scenario.model_dump(mode="json")) == scenario
    assert sum(scenario.record_sizes.values()) == pytest.approx(1, rel=1e-13)
    assert list(scenario.record_sizes) == sorted(weights)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("zeros", "zeros"),
        ("file:orders.jsonl", Samples(file="orders.jsonl")),
        ("file:C:\\orders", Samples(file="C:\\orders")),
        ({"file": "orders.csv", "delimiter": ";"}, Samples(file="orders.csv", delimiter=";")),
    ],
)
def test_a_payload_is_a_word_or_a_file_of_samples(given: object, meant: object) -> None:
    """Real messages compress as real messages do."""
    assert Scenario.of({"payload": given}).payload == meant


def test_samples_decide_the_sizes() -> None:
    """A separate size would be wrong; a level above that names one can be taken back."""
    scenario = Scenario.of(merge({"record_size": 5}, {"payload": "file:x", "record_size": None}))
    assert scenario.record_size is None
    with pytest.raises(ValueError, match="record_sizes is undefined"):
        _ = scenario.mean_record_size


@pytest.mark.parametrize(
    ("given", "meant", "written"),
    [
        ("uniform:10k", Keys(kind="uniform", count=10_000), "uniform:10000"),
        ("uniform:1G", Keys(kind="uniform", count=10**9), "uniform:1000000000"),
        ("zipf:1000", Keys(kind="zipf", count=1000, exponent=1.0), "zipf:1000"),
        ("zipf:1M:1.0", Keys(kind="zipf", count=10**6, exponent=1.0), "zipf:1000000"),
        ("zipf:5:0.99", Keys(kind="zipf", count=5, exponent=0.99), "zipf:5:0.99"),
        ("sequential", Keys(kind="sequential"), "sequential"),
    ],
)
def test_keys_are_read_and_written_as_one_text(given: str, meant: Keys, written: str) -> None:
    """One spelling in baselines, whatever a marker says."""
    scenario = Scenario.of({"key": given})
    assert scenario.key == meant
    assert scenario.model_dump(mode="json")["key"] == str(scenario.key) == written


@pytest.mark.parametrize(("given", "meant"), [(True, True), ("true", True), ("False", False)])
def test_idempotence_is_on_or_off(given: object, meant: object) -> None:
    """A value is copied from a producer's configuration."""
    assert Scenario.of({"idempotence": given}).idempotence is meant


def test_transactions_are_idempotent() -> None:
    """Kafka has no others."""
    scenario = Scenario.of({"transaction_size": "1k", "abort_ratio": 0.25})
    assert (scenario.transaction_size, scenario.abort_ratio, scenario.idempotence) == (1000, 0.25, True)


@pytest.mark.parametrize("given", [0.25, "0.25", "25 %"])
def test_a_ratio_is_a_number_or_a_percentage(given: object) -> None:
    """As in thresholds."""
    assert Scenario.of({"transaction_size": 100, "abort_ratio": given}).abort_ratio == 0.25


def test_parameters_of_clients_take_aiokafkas_spelling() -> None:
    """Kafka's documentation has dots; one workload has one spelling."""
    scenario = Scenario.of(
        {
            "producer_config": {"max.request.size": 10, "client_id": "me"},
            "consumers": 1,
            "consumer_config": {"fetch.min.bytes": 10},
        }
    )
    assert scenario.producer_config == {"client_id": "me", "max_request_size": 10}
    assert scenario.consumer_config == {"fetch_min_bytes": 10}


_SIZES = "B, KiB, MiB, GiB, TiB, kB, MB, GB, TB, for example '100 B', '16 KiB', '1 MiB'"
_TOPIC_NAME = "a topic's name has 1 to 249 of the characters a-z A-Z 0-9 . _ - and is not '.' or '..'"
_MIX = "for example {'100 B': 0.9, '10 KiB': 0.1}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"partitons": 3}, "unknown field 'partitons': did you mean 'partitions'?"),
        (
            {"zzz": 1, "acs": 1},
            "unknown field 'zzz': expected one of 'abort_ratio', 'acks', 'backlog', 'batch_size', 'client', "
            "'compression', 'consume', 'consumer_config', 'consumer_groups', 'consumers', "
            "'dead_letter_topic', 'duration', 'expect', "
            "'headers', 'idempotence', 'identify', 'isolation_level', 'key', 'linger', 'output_topic', 'partitions', "
            "'payload', 'producer_config', 'producers', 'rate', 'record_size', 'records', 'replication_factor', "
            "'rounds', 'topic', 'topic_config', 'transaction_size', 'warmup', 'watch_group'; "
            "unknown field 'acs': did you mean 'acks'?",
        ),
        ({"throughput": 5, "rps": 5}, "unknown fields 'throughput', 'rps': did you mean 'rate'?"),
        (
            {"num_messages": 5, "msg_size": 5},
            "unknown field 'num_messages': did you mean 'records'?; "
            "unknown field 'msg_size': did you mean 'record_size'?",
        ),
        ({"acks": 2}, "acks=2: must be 0, 1 or 'all'"),
        ({"acks": True}, "acks='True': must be 0, 1 or 'all'"),
        ({"compression": "zip"}, "compression='zip': must be 'gzip', 'snappy', 'lz4' or 'zstd'"),
        ({"producers": -1}, "producers=-1: must be greater than or equal to 0"),
        ({"producers": True}, "producers=True: must be a number, not True or False"),
        ({"consumers": 1001}, "consumers=1001: must be less than or equal to 1000"),
        ({"partitions": 1.5}, "partitions=1.5: must be a valid integer, got a number with a fractional part"),
        ({"record_size": "1.5 B"}, "record_size: invalid quantity '1.5 B': must be a whole number of bytes"),
        ({"records": 2.5}, "records: invalid quantity 2.5: must be a whole number of records"),
        ({"records": "1e999"}, "records='1e999': must be less than or equal to 1000000000000"),
        ({"record_size": "big"}, f"record_size: cannot read 'big' as a size; use one of {_SIZES}"),
        ({"duration": "5"}, "duration='5': a time needs a unit: '5 ms' or '5 s'"),
        (
            {"duration": 5, "warmup": 0.5, "linger": 5},
            "duration=5: a time needs a unit: '5 ms' or '5 s'; linger=5: a time needs a unit: '5 ms' or '5 s'; "
            "warmup=0.5: a time needs a unit: '0.5 ms' or '0.5 s'",
        ),
        ({"duration": 0}, "duration=0: must be greater than 0"),
        ({"linger": -1}, "linger: invalid quantity -1: must be a finite number of at least 0"),
        (
            {"rate": "5 foo", "partitions": 0},
            "rate: cannot read '5 foo' as a record rate; use one of records/s, records/sec, records/min, for example "
            "'500 records/s', '50k records/s'; partitions=0: must be greater than or equal to 1",
        ),
        ({"rate": 0}, "rate=0: must be above 0 and at most 1G records/s"),
        ({"rate": "2G records/s"}, "rate='2G records/s': must be above 0 and at most 1G records/s"),
        (
            {"rate": "1 MiB/s", "record_size": "big"},
            f"record_size: cannot read 'big' as a size; use one of {_SIZES}",
        ),
        (
            {"rate": "1 QiB/s"},
            "rate: cannot read '1 QiB/s' as a byte rate; use one of B/s, KiB/s, MiB/s, GiB/s, TiB/s, kB/s, MB/s, "
            "GB/s, TB/s, for example '500 KiB/s', '50 MiB/s'",
        ),
        ({"topic_config": "x"}, "topic_config='x': must be a valid dictionary"),
        ({"topic": ""}, "topic='': must have 1 to 249 of the characters a-z A-Z 0-9 . _ - and must not be '.' or '..'"),
        ({"topic": ".."}, "topic: must have 1 to 249 of the characters a-z A-Z 0-9 . _ - and must not be '.' or '..'"),
        (
            {"topic": "my orders"},
            ("topic='my orders': must have 1 to 249 of the characters a-z A-Z 0-9 . _ - and must not be '.' or '..'"),
        ),
        (
            {"topic": "örders"},
            ("topic='örders': must have 1 to 249 of the characters a-z A-Z 0-9 . _ - and must not be '.' or '..'"),
        ),
        (
            {"topic": "orders\n"},
            ("topic='orders\\n': must have 1 to 249 of the characters a-z A-Z 0-9 . _ - and must not be '.' or '..'"),
        ),
        (
            {"topic": "x" * 250},
            (
                f"topic='{'x' * 99}...: "
                "must have 1 to 249 of the characters a-z A-Z 0-9 . _ - and must not be '.' or '..'"
            ),
        ),
        ({"topic": 7}, "topic=7: must be a valid string"),
        (
            {"topic": "__consumer_offsets"},
            (
                "topic='__consumer_offsets': must not start with '__', like Kafka's internal topics, which load "
                "could harm"
            ),
        ),
        (
            {"topic_config": {"retention.ms": None}},
            "topic_config.retention.ms=None: must be a valid string",
        ),
        ({"records": 5, "duration": "3 s"}, "records and duration cannot be combined; give only one of them"),
        (
            {"consumers": 1, "record_size": 4},
            (
                "record_size 4 B is too small for consumers, because end-to-end timing writes 16 B into each value; "
                "use at least 16 B, or consumers=0"
            ),
        ),
        (
            {"consumers": 1, "acks": 0},
            (
                "acks=0 cannot be combined with consumers, because lost and late records would look the same; use "
                "acks=1 or 'all'"
            ),
        ),
        ({"record_size": 0}, "record_size=0: must be between 1 B and 1 GiB"),
        ({"record_size": {}}, "record_size={}: must have at least one size, for example {'100 B': 0.9, '10 KiB': 0.1}"),
        (
            {"record_size": {"1 KiB": 1, 1024: 2}},
            (
                "record_size={'1 KiB': 1, 1024: 2}: size 1 KiB is given twice; give each size once, for "
                "example {'100 B': 0.9, '10 KiB': 0.1}"
            ),
        ),
        (
            {"record_size": {"2 GiB": 1}},
            "record_size: invalid size '2 GiB': must be between 1 B and 1 GiB",
        ),
        (
            {"record_size": {"1 B": 0}},
            (
                "record_size: invalid weight 0 of size '1 B': must be a finite number above 0, for example "
                "{'100 B': 0.9, '10 KiB': 0.1}"
            ),
        ),
        (
            {"record_size": {"1 B": True}},
            (
                "record_size: invalid weight True of size '1 B': must be a finite number above 0, for "
                "example {'100 B': 0.9, '10 KiB': 0.1}"
            ),
        ),
        (
            {"record_size": {1: 1, 2: 1e-5}},
            "record_size={1: 1, 2: 1e-05}: the share of size 2 B is below 1 in 10,000; remove this size",
        ),
        (
            {"consumers": 1, "record_size": {4: 1, 100: 1}},
            (
                "record_size 4 B is too small for consumers, because end-to-end timing writes 16 B into each value; "
                "use at least 16 B, or consumers=0"
            ),
        ),
        (
            {"payload": "text"},
            "payload='text': must be 'random', 'zeros', 'file:PATH', {'file': PATH, 'delimiter': TEXT}, "
            "'template:PATH', a function (index, random), or {'function': FUNCTION, 'pool': NUMBER}",
        ),
        ({"payload": "file:"}, "payload: invalid file '': must be non-empty text that can be encoded in UTF-8"),
        (
            {"payload": {"file": "a", "delimeter": ","}},
            ("payload={'file': 'a', 'delimeter': ','}: unknown entry 'delimeter': did you mean 'delimiter'?"),
        ),
        (
            {"payload": {"file": "a", "delimiter": ""}},
            "payload: invalid delimiter '': must be non-empty text that can be encoded in UTF-8",
        ),
        (
            {"payload": "file:a", "record_size": "1 KiB"},
            (
                "record_size 1 KiB cannot be combined with samples, which define the sizes; remove "
                "record_size, or set record_size=None to override another marker"
            ),
        ),
        (
            {"payload": "file:a", "rate": "1 MiB/s"},
            "rate: invalid rate '1 MiB/s': samples differ in size, so the rate must be in records/s",
        ),
        (
            {"key": "uniform"},
            (
                "key='uniform': must be 'uniform:N', 'zipf:N', 'zipf:N:EXPONENT' or 'sequential', for "
                "example 'uniform:10k'"
            ),
        ),
        (
            {"key": "zipf:2M"},
            ("key: invalid key count '2M': must be a whole number between 1 and 1,000,000 for zipf, for example '10k'"),
        ),
        (
            {"key": "uniform:x"},
            (
                "key: invalid key count 'x': must be a whole number between 1 and 1,000,000,000 for uniform, "
                "for example '10k'"
            ),
        ),
        (
            {"key": "zipf:5:nan"},
            "key: invalid exponent 'nan': must be a finite number above 0, for example 'zipf:10k:1.1'",
        ),
        ({"headers": {"": "x"}}, "headers={'': 'x'}: header names must not be empty"),
        (
            {"headers": {"trace": "\ud800"}},
            (
                "headers={'trace': '\\ud800'}: header 'trace' contains characters that cannot be encoded in UTF-8; "
                "remove them"
            ),
        ),
        ({"headers": {"trace": None}}, "headers.trace=None: must be a valid string"),
        ({"client": "java"}, "client='java': must be 'batch' or 'record'"),
        ({"idempotence": 1}, "idempotence=1: must be True or False"),
        ({"idempotence": True, "acks": 1}, "idempotence requires acks='all', not acks=1; remove one of them"),
        (
            {"transaction_size": 5, "acks": 0},
            "transaction_size requires acks='all', not acks=0; remove one of them",
        ),
        (
            {"transaction_size": 5, "idempotence": False},
            "transaction_size requires idempotence; remove idempotence=False",
        ),
        ({"transaction_size": 0}, "transaction_size=0: must be greater than or equal to 1"),
        (
            {"abort_ratio": 0.1},
            "abort_ratio requires transactions; set transaction_size, for example transaction_size=100",
        ),
        ({"transaction_size": 5, "abort_ratio": 1}, "abort_ratio=1: must be less than 1"),
        ({"transaction_size": 5, "abort_ratio": False}, "abort_ratio=False: must be a number, not True or False"),
        (
            {"producer_config": {"transaction.timeout.ms": 5}},
            ("producer_config: 'transaction.timeout.ms' requires transactions; set transaction_size, or remove it"),
        ),
        (
            {"consumer_groups": 2, "consume": "after"},
            (
                "consumer_groups requires consumers; set consumers=1 or more, or remove consumer_groups; "
                "consume requires consumers; set consumers=1 or more, or remove consume"
            ),
        ),
        (
            {"isolation_level": "read_committed"},
            "isolation_level requires consumers; set consumers=1 or more, or remove isolation_level",
        ),
        (
            {"consumers": 600, "consumer_groups": 2},
            "2 groups of 600 consumers are 1200 clients; use at most 1000 clients",
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
    assert str(caught.value) == f"compression='{'z' * 99}...: must be 'gzip', 'snappy', 'lz4' or 'zstd'"


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["5 s", "1 KiB", "50k", "5k records/s", "1 MiB/s", "all", "lz4", 1, 20]),
    st.sampled_from(["1 -> 2 records/s over 3 s", "file:x", "zipf:5", "record", "true", "after", "read_committed"]),
    st.sampled_from([{"1 KiB": 2, 100: 0.1}, {"file": "x", "delimiter": ","}, {"max.request.size": 5}]),
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


@given(_FIELDS)
def test_a_scenario_survives_its_dump_and_a_process_border(fields: dict[str, Any]) -> None:
    """Workers get it by pickle, baselines and reports hold its dump."""
    try:
        scenario = Scenario.of(fields)
    except ScenarioError:
        return
    assert read_again(scenario.model_dump(mode="json")) == scenario
    assert read_again(scenario.model_dump()) == scenario
    assert pickle.loads(pickle.dumps(scenario)) == scenario  # noqa: S301 - our own
    assert all(format_field(name, value) for name, value in scenario)


def test_the_closest_level_wins_field_by_field() -> None:
    """A module sets what its tests share, a test what is its own."""
    merged = merge({"acks": 1, "rate": 10}, {"rate": 20, "producers": 2}, {"producers": 3})
    assert merged == {"acks": 1, "rate": 20, "producers": 3}


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (({"duration": "5 s"}, {"records": 10}), {"records": 10}),
        (({"records": 10}, {"duration": "5 s"}), {"duration": "5 s"}),
        (({"records": 10}, {"records": None}), {"records": None}),
        (({"duration": "5 s"}, {"records": 10, "duration": "5 s"}), {"records": 10, "duration": "5 s"}),
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
    far, close = {"duration": "5 s"}, {"records": 10}
    merge(far, close)
    assert (far, close) == ({"duration": "5 s"}, {"records": 10})


def test_metrics_are_those_that_the_scenario_can_measure() -> None:
    """A limit on any other is refused at collection."""
    always = [name for name in LOAD_METRICS if name not in STEADINESS_METRICS]
    caught_up = [name for name in always if not name.startswith("app.")]
    everything = [name for name in always if not name.startswith(("catchup", "app.output_ratio", "app.dead_letter"))]
    every = [name for name in everything if not name.startswith("app.")]
    few = [name for name in every if name.endswith("p99.99")]
    consuming = [name for name in every if name.split(".")[0] in ("consume", "e2e", "lag", "rebalance")]
    live = [name for name in every if name.split(".")[0] in ("e2e", "lag")]
    delays = [name for name in every if name.startswith("produce.delay")]
    measured = {
        "all": Scenario.of({"consumers": 1, "rate": 2000}),
        "few records": Scenario.of({"consumers": 1, "rate": 2000, "duration": "4.9 s"}),
        "fewer records": Scenario.of({"consumers": 1, "rate": 2000, "records": 9_999}),
        "no consumer": Scenario.of({"rate": 2000}),
        "backlog": Scenario.of({"consumers": 1, "rate": 2000, "consume": "after"}),
        "no rate": Scenario.of({"consumers": 1}),
        "no acks": Scenario.of({"acks": 0, "rate": 2000}),
        "watch_group": Scenario.of({"consumers": 1, "rate": 2000, "topic": "orders", "watch_group": "billing"}),
        "catch-up": Scenario.of({"consumers": 1, "rate": 2000, "backlog": 1}),
        "through": Scenario.of({"consumers": 1, "rate": 2000, "topic": "in", "output_topic": "out"}),
        "of a group": Scenario.of(
            {"consumers": 1, "rate": 2000, "topic": "in", "watch_group": "billing", "backlog": 1}
        ),
    }
    assert {kind: list(scenario.metrics()) for kind, scenario in measured.items()} == {
        "all": every,
        "few records": [name for name in every if name not in few],
        "fewer records": [name for name in every if name not in few],
        "no consumer": [name for name in every if name not in consuming],
        "backlog": [name for name in every if name not in live],
        "no rate": [name for name in every if name not in (*delays, "unsent")],
        "no acks": [name for name in every if name not in (*consuming, "lost", "duplicated", "reordered")],
        "watch_group": everything,
        "catch-up": caught_up,
        "through": [name for name in always if name in (*every, "app.output_ratio") and name != "reordered"],
        "of a group": everything,
    }


@pytest.mark.parametrize(
    ("fields", "measured"),
    [
        ({"duration": "10 s", "consumers": 1}, [*STEADINESS_METRICS]),
        ({"duration": "10 s"}, ["produce.throughput.steadiness"]),
        ({"duration": "10 s", "consumers": 1, "consume": "after"}, ["produce.throughput.steadiness"]),
        ({"rate": 100, "records": 1000}, ["produce.throughput.steadiness"]),
        ({"rate": 100, "records": 999}, []),
        ({"records": 10**9}, []),
        ({"duration": "9.9 s"}, []),
        ({"rate": "1k -> 2k records/s over 30 s"}, []),
        ({"producers": 0, "topic": "orders", "consumers": 1}, []),
    ],
)
def test_steadiness_is_measured_in_long_windows_with_a_constant_load(
    fields: dict[str, Any], measured: list[str]
) -> None:
    """The end of a short window is too short to differ for a reason, and a ramp rises by itself."""
    assert [name for name in Scenario.of(fields).metrics() if name in STEADINESS_METRICS] == measured


@pytest.mark.parametrize("name", ["orders", "a", "Orders_v1.2-dlq", "_private", "...", "x" * 249])
def test_any_name_that_kafka_takes_names_a_topic(name: str) -> None:
    """It exists already: whoever created it found a name."""
    assert Scenario.of({"topic": name}).topic == name
    assert Scenario.of({"topic": name, "transaction_size": 10}).transaction_size == 10


def wrapped_tag(record: Any) -> bytes:
    """A function as a test gives it."""
    value: bytes = record.value
    return value[:16]


THROUGH: dict[str, Any] = {"topic": "orders", "output_topic": "orders-enriched", "consumers": 1}
UNWRAPPED = {"input": "value:16", "output": wrapped_tag}


def test_a_function_that_identifies_records_is_known_by_its_name() -> None:
    """Workers import it, and a baseline has to distinguish it from another one."""
    scenario = Scenario.of({**THROUGH, "identify": UNWRAPPED})
    dumped = scenario.model_dump(mode="json")["identify"]
    assert dumped == {"input": "value:16", "output": f"{__name__}.wrapped_tag"}
    shown = f"input value:16, output {__name__}.wrapped_tag"
    assert [format_field("identify", value) for value in (scenario.identify, dumped)] == [shown, shown]
    assert pickle.loads(pickle.dumps(scenario)) == scenario  # noqa: S301 - our own
    assert not scenario.tags_in_header


@pytest.mark.parametrize(
    ("given", "groups"),
    [
        ("billing", ("billing",)),
        (["billing", "audit"], ("billing", "audit")),
        ([], ()),
        (None, ()),
    ],
)
def test_groups_are_given_by_one_name_or_several(given: Any, groups: tuple[str, ...]) -> None:
    """Each is watched once."""
    scenario = Scenario.of({"topic": "orders", "watch_group": given})
    assert (scenario.watch_group, scenario.tags_in_header) == (groups, bool(groups))
    assert format_field("watch_group", ("billing", "audit")) == "billing, audit"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"topic": None}, "watch_group requires topic; set it to the topic that the application reads"),
        ({"acks": 0}, "watch_group cannot be combined with acks=0, which returns no offsets; use acks=1 or 'all'"),
        ({"headers": {"kafkaperf-tag": "1"}}, "the name 'kafkaperf-tag' is reserved for the plugin"),
        ({"dead_letter_topic": "orders"}, "dead_letter_topic 'orders' is the same as topic or output_topic"),
        ({"dead_letter_topic": "__dead"}, "must not start with '__'"),
        ({"watch_group": ""}, "watch_group.0='': string should have at least 1 character"),
        ({"watch_group": ["billing", 7]}, "watch_group.1=7: must be a valid string"),
    ],
)
def test_a_group_that_cannot_be_watched_is_refused(fields: dict[str, Any], told: str) -> None:
    """Each error names what was given and what to do."""
    with pytest.raises(ScenarioError, match=re.escape(told)):
        Scenario.of({"topic": "orders", "watch_group": "billing", **fields})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "group_id",
            "set watch_group to measure an application's consumer group; the plugin chooses the groups for its own "
            "consumers",
        ),
        ("iterations", "did you mean 'rounds'?"),
        ("replicas", "did you mean 'replication_factor'?"),
        ("min_insync_replicas", "set the topic's property: topic_config={'min.insync.replicas': 2}"),
        (
            "exactly_once",
            "set transaction_size to use transactions, for example transaction_size=100, and "
            "isolation_level='read_committed' for consumers",
        ),
        ("thresholds", "declare thresholds with the marker kafka_threshold('produce.latency.p99 <= 25 ms')"),
        ("brokers", "declare it with the marker kafka_cluster(brokers=...)"),
    ],
)
def test_a_field_of_another_name_is_answered_with_ours(name: str, hint: str) -> None:
    """No spelling resembles it, and a list of 30 fields does not help."""
    with pytest.raises(ScenarioError) as caught:
        Scenario.of({name: 3}, where="kafka_scenario: ")
    assert str(caught.value) == f"kafka_scenario: unknown field {name!r}: {hint}"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"backlog": -1}, "backlog: invalid quantity -1: must be a finite number of at least 0"),
        (
            {"consumers": 1, "consume": "after"},
            "backlog cannot be combined with consume='after', because consumers must catch up while "
            "producers write; remove one of them",
        ),
        (
            {},
            "nothing reads the backlog; set consumers=1 or more, or set topic and watch_group (or output_topic) to "
            "measure an application",
        ),
        (
            {"consumers": 1, "topic": "orders"},
            "nothing reads the backlog; consumers of an existing topic start at its end, so remove topic, or set topic "
            "and watch_group",
        ),
        ({"producers": 0, "topic": "orders", "consumers": 1}, "producers=0 writes nothing; remove backlog"),
    ],
)
def test_a_backlog_that_nobody_can_catch_up_with_is_refused(fields: dict[str, Any], told: str) -> None:
    """It would be written for nothing."""
    with pytest.raises(ScenarioError, match=re.escape(told)):
        Scenario.of({"backlog": "500k records", **fields})


def test_without_producers_what_exists_is_read() -> None:
    """There is no window that a rate or a duration could fill, and its baseline reads it again."""
    scenario = Scenario.of({"producers": 0, "topic": "orders", "consumers": 2})
    assert (scenario.consume, scenario.duration, scenario.records) == ("after", None, None)
    assert {name.partition(".")[0] for name in scenario.metrics()} == {"consume", "e2e"}
    of_topic = {"partitions", "replication_factor", "topic_config"}
    assert read_again(scenario.model_dump(mode="json", exclude=of_topic)) == scenario


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"topic": None}, "producers=0 only reads an existing topic; set topic, and consumers=1 or more"),
        ({"consumers": 0}, "producers=0 only reads an existing topic; set topic, and consumers=1 or more"),
        (
            {"rate": 100, "duration": "5 s", "record_size": 10},
            "producers=0 writes nothing; remove duration, record_size, rate, or set producers=1 or more",
        ),
        ({"watch_group": "billing"}, "producers=0 writes nothing; remove watch_group, or set producers=1 or more"),
    ],
)
def test_fields_of_records_are_refused_without_producers(fields: dict[str, Any], told: str) -> None:
    """They would say nothing of what is read."""
    with pytest.raises(ScenarioError, match=re.escape(told)):
        Scenario.of({"producers": 0, "topic": "orders", "consumers": 1, **fields})


def test_the_tag_is_the_last_header_of_what_goes_through_an_application() -> None:
    """Its place in an encoded record is known then, and values are left as they are: shorter ones will do, too."""
    scenario = Scenario.of({**THROUGH, "headers": {"trace": "1"}, "record_size": 5})
    assert scenario.all_headers == [("trace", b"1"), ("kafkaperf-tag", bytes(16))]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"topic": None},
            "output_topic 'orders-enriched' requires topic; set it to the topic that the application reads",
        ),
        ({"topic": "orders-enriched"}, "output_topic 'orders-enriched' is the same as topic"),
        ({"consumers": 0}, "output_topic 'orders-enriched' requires consumers; set consumers=1 or more"),
        ({"consume": "after"}, "output_topic 'orders-enriched' requires consume='live', not consume='after'"),
        (
            {"transaction_size": 10, "abort_ratio": 0.1},
            "output_topic 'orders-enriched' cannot be combined with abort_ratio",
        ),
        ({"headers": {"kafkaperf-tag": "1"}}, "the name 'kafkaperf-tag' is reserved for the plugin"),
        ({"dead_letter_topic": "orders"}, "dead_letter_topic 'orders' is the same as topic or output_topic"),
        ({"dead_letter_topic": "__dead"}, "must not start with '__'"),
        ({"output_topic": None, "identify": UNWRAPPED}, "identify requires output_topic"),
        ({"identify": lambda record: record.value}, "must be a module-level function"),
        ({"identify": UNWRAPPED, "record_size": 5}, "record_size 5 B is too small for consumers"),
    ],
)
def test_what_cannot_go_through_an_application_is_refused(fields: dict[str, Any], told: str) -> None:
    """Each error names what was given and what to do."""
    with pytest.raises(ScenarioError, match=re.escape(told)):
        Scenario.of({**THROUGH, **fields})


def test_a_function_that_workers_cannot_import_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --import-mode=importlib a test's module is not on Python's path; a worker would die of it."""
    module = types.ModuleType("test_nowhere")
    exec("def tag(record): return record.value[:16]", module.__dict__)  # noqa: S102 - a module without a file
    monkeypatch.setitem(sys.modules, "test_nowhere", module)
    with pytest.raises(
        ScenarioError, match="workers cannot import tag from test_nowhere: the module is not on Python's"
    ):
        Scenario.of({**THROUGH, "identify": module.tag})


SECRET_HEADERS = {"Authorization": "Bearer abcdefghijkl", "trace": "Basic YWJjOmRlZg==", "x-api-key": "k1"}


@pytest.mark.parametrize("name", SECRET_HEADERS)
def test_a_header_that_may_be_secret_is_stored_as_a_hash(name: str) -> None:
    """Baselines are committed, and reports go to many people; another value is another workload all the same."""
    given = {"source": "orders", **SECRET_HEADERS}
    scenario = Scenario(headers=given)
    stored = scenario.model_dump(mode="json")["headers"]

    assert scenario.headers == given
    assert stored["source"] == "orders"
    assert re.fullmatch(r"\*\*\* \(SHA-256 [0-9a-f]{8}\)", stored[name])
    assert Scenario(headers={name: given[name]}).model_dump(mode="json")["headers"][name] == stored[name]
    assert Scenario(headers={name: f"{given[name]}1"}).model_dump(mode="json")["headers"][name] != stored[name]
    for value in (given, stored):
        assert format_field("headers", value) == str(stored)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"partitions": 6},
            "partitions cannot be combined with topic 'orders', because the plugin did not create it and never changes "
            "existing topics; remove it, or remove topic to use a new topic",
        ),
        (
            {"topic_config": {}, "replication_factor": 1},
            "replication_factor, topic_config cannot be combined with topic 'orders', because the plugin did not "
            "create it and never changes existing topics; remove them, or remove topic to use a new topic",
        ),
    ],
)
def test_an_existing_topic_keeps_its_properties(fields: dict[str, Any], text: str) -> None:
    """Silently ignored partitions would make another workload of the test."""
    scenario = Scenario.of({"topic": "orders", **fields})  # fine if the plugin creates the topic
    with pytest.raises(ScenarioError) as caught:
        scenario.refuse_topic_properties()
    assert str(caught.value) == text
    Scenario.of({"topic": "orders"}).refuse_topic_properties()
    Scenario.of(fields).refuse_topic_properties()
