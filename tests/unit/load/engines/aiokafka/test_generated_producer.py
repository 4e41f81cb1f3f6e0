"""Records of payload functions and with identities, as a producer sends them: exact, on a simulated clock."""

from __future__ import annotations

import collections
import itertools
import random
from typing import Any

import numpy as np
import pytest
from aiokafka.errors import RequestTimedOutError
from aiokafka.partitioner import murmur2

from pytest_kafkaperf.core.errors import LoadError
from pytest_kafkaperf.load.generation import INDEXES, Generator, Identifier, first_records, unchanged
from pytest_kafkaperf.load.identity import NO_NONCE
from pytest_kafkaperf.load.schedule import Schedule, records_of_producer
from pytest_kafkaperf.scenarios.payloads import Generated, Record
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.simulation import MS, START_NS, Sent, Simulation

SEED = 1
"""The simulation's."""
THROUGH: dict[str, Any] = {"topic": "topic", "output_topic": "out", "partitions": 3}


def value(index: int, source: random.Random) -> dict[str, Any]:
    """A value of one of several sizes."""
    return {"id": index, "text": "x" * source.randrange(100)}


def whole(index: int, source: random.Random) -> Record:
    """A record with a key of any length, and a header."""
    number = source.randrange(1000)
    return Record(value=f"{index}", key=f"{number:x}", headers={"trace": f"{index % 7}"})


def some(index: int, _: random.Random) -> Record:
    """A record of which every third one has a key."""
    return Record(value=f"{index}", key=None if index % 3 else f"{index}")


def growing(index: int, _: random.Random) -> bytes:
    """Values of which the later ones are much larger."""
    return bytes(10 if index % INDEXES < 200 else 10_000)


def alike(_: int, __: random.Random) -> dict[str, Any]:
    """A value without the field that should identify it."""
    return {"number": 1}


def simulated(function: Any, /, **fields: Any) -> Simulation:
    return Simulation(
        scenario=Scenario.of({"consumers": 1, "warmup": "20 ms", "payload": function, "partitions": 3} | fields)
    )


def expected(scenario: Scenario, count: int) -> list[Any]:
    assert isinstance(scenario.payload, Generated)
    return Generator(scenario.payload, unchanged, load=SEED, producers=scenario.producers).take(count)


def by_origin(sent: list[Sent]) -> list[tuple[bytes | None, bytes, list[tuple[str, bytes]]]]:
    """Return all records in the order of their indexes, without their tags."""
    rows = [row for one in sent for row in zip(one.indexes, one.keys, one.values, one.headers, strict=True)]
    return [(key, content, headers[:-1]) for _, key, content, headers in sorted(rows)]


LOADS = [
    pytest.param({"rate": 10_000, "records": 300}, id="open"),
    pytest.param({"records": 300, "warmup": "4 ms", "batch_size": 1000}, id="closed"),
    pytest.param({"rate": 10_000, "records": 300, "producers": 2}, id="two producers"),
    pytest.param({"records": 300, "transaction_size": 50}, id="transactions"),
]


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("function", [value, whole, some])
def test_each_record_is_sent_once_as_the_function_made_it(
    monkeypatch: pytest.MonkeyPatch, function: Any, load: dict[str, Any]
) -> None:
    """In a new load, the records are those of the generator, with a tag after the function's headers."""
    simulation = simulated(function, **load)
    report = simulation.run(monkeypatch)
    made = expected(simulation.scenario, len(simulation.indexes))

    assert by_origin(simulation.sent) == [(one.key, one.value, one.headers) for one in made]
    first = min(simulation.indexes)
    assert sorted(simulation.indexes) == list(range(first, first + len(made)))
    assert {headers[-1][0] for one in simulation.sent for headers in one.headers} == {"kafkaperf-tag"}
    window = records_of_producer(300, 0, simulation.scenario.producers)
    assert (report.acknowledged, report.failed, report.missing, report.disordered) == (window, 0, 0, 0)
    assert report.bytes == sum(len(one.key or b"") + len(one.value) for one in made[-window:])
    assert report.generated >= len(made)


@pytest.mark.parametrize("load", LOADS)
def test_a_key_of_the_function_decides_the_partition(monkeypatch: pytest.MonkeyPatch, load: dict[str, Any]) -> None:
    """As in Kafka's own producer, and the order of a key's records is kept."""
    simulation = simulated(whole, **load)
    simulation.run(monkeypatch)
    for one in simulation.sent:
        assert {(murmur2(key or b"") & 0x7FFFFFFF) % 3 for key in one.keys} == {one.partition}
    for partition in range(3):
        indexes = [index for one in simulation.sent if one.partition == partition for index in one.indexes]
        assert indexes == sorted(indexes)


def test_records_without_keys_fill_one_batch_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of a few records for each partition would be another load (KIP-480)."""
    simulation = simulated(value, records=3000, warmup=0, batch_size=2000)
    simulation.run(monkeypatch)
    counts = collections.Counter(len(one.indexes) for one in simulation.sent)
    (most, often), *_ = counts.most_common()
    assert often >= len(simulation.sent) - 3
    assert most > 10
    assert {one.partition for one in simulation.sent} == {0, 1, 2}


def test_records_are_due_by_the_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function takes no part in when a record is sent, and none waits for longer than the linger."""
    simulation = simulated(some, rate=2000, records=500)
    report = simulation.run(monkeypatch)
    schedule = Schedule.of(2000, start_ns=START_NS, producer=0, producers=1)
    for one in simulation.sent:
        assert one.dues_ns == [schedule.due_ns(index) for index in one.indexes]
        assert 0 <= one.at_ns - one.dues_ns[-1] <= one.at_ns - one.dues_ns[0] <= 5 * MS
    assert (report.late, report.behind, report.delay.max_ns) == (0, 0, 0)


def test_headers_of_the_scenario_follow_those_of_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tag is the last one."""
    simulation = simulated(whole, records=10, warmup=0, headers={"source": "test"})
    simulation.run(monkeypatch)
    names = {tuple(name for name, _ in headers) for one in simulation.sent for headers in one.headers}
    assert names == {("trace", "source", "kafkaperf-tag")}


@pytest.mark.parametrize("producers", [1, 2])
def test_a_pools_records_are_sent_in_turns(monkeypatch: pytest.MonkeyPatch, producers: int) -> None:
    """The function is called for the pool only, and keys and headers are sent along."""
    simulation = simulated({"function": whole, "pool": 7}, records=100, warmup=0, producers=producers)
    report = simulation.run(monkeypatch)
    pool = first_records(Generated(function=whole), 7)
    turns = itertools.islice(itertools.cycle(pool), 0, None, producers)
    made = list(itertools.islice(turns, 100 // producers))
    assert by_origin(simulation.sent) == [(one.key, one.value, one.headers) for one in made]
    assert (report.acknowledged, report.generated) == (100 // producers, 0)


def test_a_pool_of_values_is_sent_in_batches_with_one_tag(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without consumers, a tag for each record would only make the load larger."""
    simulation = simulated({"function": value, "pool": 7}, records=100, warmup=0, consumers=0, headers={"a": "b"})
    report = simulation.run(monkeypatch)
    pool = first_records(Generated(function=value), 7)
    for one in simulation.sent:
        names = [[name for name, _ in headers] for headers in one.headers]
        assert names == [["a", "kafkaperf-tag"], *[["a"]] * (len(names) - 1)]
        assert set(one.values) <= {record.value for record in pool}
    firsts = [one.indexes[0] for one in simulation.sent]
    assert sorted(firsts) == list(itertools.accumulate([0, *(len(one.indexes) for one in simulation.sent[:-1])]))
    assert (report.acknowledged, sum(len(one.values) for one in simulation.sent)) == (100, 100)


def test_keys_of_the_scenario_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function may leave keys to the scenario; each load has other ones."""
    simulation = simulated(value, records=50, warmup=0, key="sequential")
    simulation.run(monkeypatch)
    assert [key for key, _, _ in by_origin(simulation.sent)] == [
        (INDEXES + index).to_bytes(8, "big") for index in range(50)
    ]


def test_a_record_must_not_have_two_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is unclear which of them the application expects."""
    with pytest.raises(LoadError) as caught:
        simulated(whole, records=10, key="sequential").run(monkeypatch)
    told = f"payload: {__name__}.whole returned a record with a key, but key=sequential is set; remove key"
    assert str(caught.value) == told


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize(
    ("function", "fields"),
    [
        (value, {"identify": "json:id"}),
        ("random", {"identify": "key", "key": "sequential", "record_size": {"5 B": 1, "50 B": 1}}),
    ],
    ids=["function", "values"],
)
def test_each_acknowledged_record_is_known_by_its_identity(
    monkeypatch: pytest.MonkeyPatch, function: Any, fields: dict[str, Any], load: dict[str, Any]
) -> None:
    """Records carry no tag, and are kept as 16 bytes each, with the time at which they were due."""
    simulation = simulated(function, **THROUGH | fields | load)
    report = simulation.run(monkeypatch)
    identifier = Identifier(simulation.scenario.identify.input, NO_NONCE)
    records = [
        Record(value=content, key=key)
        for one in simulation.sent
        for key, content in zip(one.keys, one.values, strict=True)
    ]
    found = np.concatenate(report.identities)

    assert {tuple(headers) for one in simulation.sent for headers in one.headers} == {()}
    assert sorted(found[:, 0].tolist()) == sorted(identifier.hash_of(one) or 0 for one in records)
    assert np.unique(found[:, 0]).size == len(records) >= report.acknowledged
    assert int((found[:, 1] >= START_NS).sum()) == report.acknowledged
    if simulation.scenario.rate is not None:
        schedule = Schedule.of(10_000, start_ns=START_NS, producer=0, producers=simulation.scenario.producers)
        first = schedule.first_after(START_NS - 20 * MS - 1)
        assert sorted(found[:, 1].tolist()) == [schedule.due_ns(first + place) for place in range(len(records))]


def test_a_record_without_an_answer_is_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may come out of the application, and is not lost if it does not."""
    simulation = simulated(value, **THROUGH, identify="json:id", records=300, warmup=0, batch_size=2000)
    simulation.error = lambda one: RequestTimedOutError() if one.partition == 1 else None
    report = simulation.run(monkeypatch)
    known, unknown = np.concatenate(report.identities)[:, 0], np.concatenate(report.unknown_identities)
    assert (known.size, unknown.size) == (report.acknowledged, report.unknown)
    assert np.unique(np.concatenate([known, unknown])).size == 300
    assert report.unknown > 0


def test_no_output_is_expected_from_an_aborted_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed batch aborts the records before it, which the application does not read."""
    fields = {"identify": "json:id", "records": 300, "warmup": 0, "transaction_size": 100, "batch_size": 2000}
    simulation = simulated(value, **THROUGH | fields)
    simulation.error = lambda _: RequestTimedOutError() if len(simulation.sent) == 3 else None
    report = simulation.run(monkeypatch)
    assert report.aborted_by_failure > 0
    assert sum(map(len, report.identities)) == report.acknowledged


def test_an_input_record_without_an_identity_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its output could never be assigned."""
    with pytest.raises(LoadError) as caught:
        simulated(alike, **THROUGH, identify="json:id", records=10).run(monkeypatch)
    assert str(caught.value) == (
        "identify: json:id found nothing in an input record with the key None and the value b'{\"number\":1}'; each "
        "record must have an identity"
    )


def test_a_batch_is_not_larger_than_a_broker_accepts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first records of a function may be much smaller than the later ones."""
    simulation = simulated(growing, records=2000, warmup=0)
    simulation.run(monkeypatch)
    assert max(sum(one.sizes) for one in simulation.sent) < 1_000_000


def test_a_slow_function_does_not_carry_a_warm_up_record_into_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Consumers count by the due time; one more record than the producer counted would hide a loss."""
    simulation = simulated(value, records=300, warmup="4 ms")
    take = Generator.take

    def slow(self: Generator[Any], count: int) -> list[Any]:
        simulation.now_ns += 3 * MS
        return take(self, count)

    monkeypatch.setattr(Generator, "take", slow)
    report = simulation.run(monkeypatch)
    measured = [due for one in simulation.sent for due in one.dues_ns if due >= START_NS]
    assert len(measured) == report.acknowledged == 300
