"""What producers send, when, and to where: exact, on a simulated clock."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import numpy as np
import pytest
from aiokafka import errors
from aiokafka.errors import RequestTimedOutError
from aiokafka.partitioner import murmur2
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_kafkaperf.core.units import NS_PER_S
from pytest_kafkaperf.load.engines.aiokafka.clients import batches_in_flight
from pytest_kafkaperf.load.engines.aiokafka.keyed_producer import KeyedProducer, KeySource
from pytest_kafkaperf.load.engines.aiokafka.producers import ProducerSetup, first_of
from pytest_kafkaperf.load.engines.aiokafka.templates import Templates
from pytest_kafkaperf.load.ledger import Batch
from pytest_kafkaperf.load.payload import Payload
from pytest_kafkaperf.load.schedule import Schedule, records_of_producer
from pytest_kafkaperf.scenarios.payloads import parse_keys
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.simulation import MS, START_NS, Sent, Simulation

BATCH = {"client": "batch"}
KEYED = {"client": "batch", "key": "uniform:1000"}
SINGLE = {"client": "record"}
KINDS = [pytest.param(BATCH, id="batch"), pytest.param(KEYED, id="keyed"), pytest.param(SINGLE, id="single")]
BATCHED = KINDS[:2]
MIXED = {"20 B": 0.8, "2 KiB": 0.2}
EXAMPLE: dict[str, Any] = {
    "rate": 5000,
    "records": 50,
    "warmup": 0,
    "linger": "2 ms",
    "batch_size": 1000,
    "record_size": MIXED,
    "producers": 2,
    "transaction_size": None,
}


def simulated(fields: dict[str, Any], **conditions: Any) -> Simulation:
    """A scenario whose records all have tags, and whose values are made quickly."""
    return Simulation(
        scenario=Scenario.of({"consumers": 1, "warmup": "100 ms", "payload": "zeros"} | fields), **conditions
    )


def schedule_of(scenario: Scenario, number: int = 0) -> Schedule:
    assert scenario.rate is not None
    return Schedule.of(scenario.rate, start_ns=START_NS, producer=number, producers=scenario.producers)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "load",
    [
        {"rate": 20, "duration": "1 s"},
        {"rate": 1000, "duration": "1 s"},
        {"rate": 200_000, "duration": "20 ms", "warmup": "10 ms"},
        {"rate": 1000, "records": 300, "producers": 3},
        {"rate": "100 -> 2000 records/s over 1 s", "duration": "1 s"},
    ],
    ids=lambda load: f"{load['rate']}",
)
def test_an_open_loop_sends_each_record_once_and_in_time(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any], load: dict[str, Any]
) -> None:
    """Due times are the schedule's; none is skipped, and none waits for longer than the linger."""
    simulation = simulated(kind | load, number=1 if load.get("producers") else 0)
    report = simulation.run(monkeypatch)
    schedule = schedule_of(simulation.scenario, simulation.number)

    first = schedule.first_after(START_NS - round(simulation.scenario.warmup * NS_PER_S) - 1)
    length_s = simulation.scenario.duration
    stop = 100 if length_s is None else schedule.first_after(START_NS + round(length_s * NS_PER_S) - 1)
    assert sorted(simulation.indexes) == list(range(first, stop))
    for one in simulation.sent:
        assert one.dues_ns == [schedule.due_ns(index) for index in one.indexes]
        assert one.dues_ns[-1] <= one.at_ns
        assert one.at_ns - one.dues_ns[0] <= (0 if kind is SINGLE else 5 * MS)
    assert (report.sent, report.acknowledged, report.missing, report.failed) == (stop, stop, 0, 0)
    assert (report.late, report.behind, report.disordered) == (0, 0, 0)
    assert (report.latency.total, report.delay.total, report.delay.max_ns) == (stop, stop, 0)
    assert report.latency.max_ns <= (2 if kind is SINGLE else 7) * MS
    assert simulation.visible == stop - first == sum(report.acknowledged_by_partition.values())


@pytest.mark.parametrize("kind", BATCHED)
@pytest.mark.parametrize(
    ("rate", "linger", "records"),
    [(2000, 0, 1000), (2000, 0.02, 1000), (100_000, 0.02, 5000), (1_000_000, 0.02, 5000)],
)
def test_a_batch_leaves_when_it_is_full_or_has_lingered(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any], rate: int, linger: float, records: int
) -> None:
    """Neither before, which would make more requests than Kafka's own producer, nor after."""
    load = {"rate": rate, "records": records, "linger": f"{linger} s", "partitions": 3, "warmup": 0, "record_size": 100}
    simulation = simulated(kind | load, latency_ns=lambda _: 1)
    simulation.run(monkeypatch)
    capacity = max(len(one.indexes) for one in simulation.sent)

    lasts = {one.partition: one for one in simulation.sent}.values()
    for one in simulation.sent:
        lingered_ns = one.at_ns - one.dues_ns[0]
        assert len(one.indexes) <= capacity
        if len(one.indexes) < capacity and one not in lasts:
            assert lingered_ns == linger * NS_PER_S
        assert lingered_ns <= linger * NS_PER_S
    if rate == 1_000_000:
        assert capacity > 100
        assert sum(len(one.indexes) == capacity for one in simulation.sent) >= 5000 // capacity - 3


@pytest.mark.parametrize("key", ["uniform:50", "zipf:50", "sequential"])
@pytest.mark.parametrize("load", [{"rate": 50_000}, {}], ids=["open", "closed"])
def test_a_record_with_a_key_goes_to_its_keys_partition_in_order(
    monkeypatch: pytest.MonkeyPatch, key: str, load: dict[str, Any]
) -> None:
    """Whatever its batch waits for: order by key is what people use keys for."""
    fields = {"key": key, "partitions": 7, "records": 5000, "producers": 2} | load
    simulation = simulated(fields, latency_ns=lambda one: (1 + 3 * one.partition) * MS)
    report = simulation.run(monkeypatch)

    keys = KeySource(parse_keys(key), producer=0, producers=2, seed=1)
    first = min(simulation.indexes)
    indexes = np.arange(first, max(simulation.indexes) + 1)
    expected = dict(zip(indexes.tolist(), keys.next(indexes).tolist(), strict=True))
    assert sorted(simulation.indexes) == sorted(expected)
    for one in simulation.sent:
        encoded = [expected[index].to_bytes(8, "big", signed=True) for index in one.indexes]
        assert one.keys == encoded
        assert {(murmur2(each) & 0x7FFFFFFF) % 7 for each in encoded} == {one.partition}
    for partition in range(7):
        there = [index for one in simulation.sent if one.partition == partition for index in one.indexes]
        assert there == sorted(there)
    assert (report.sent, report.acknowledged, report.disordered) == (2500, 2500, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_loop_measures_exactly_the_asked_records_after_the_warm_up(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    """And keeps no more on their way than the client sends at once, and one to follow."""
    simulation = simulated(kind | {"records": 4001, "partitions": 3, "warmup": "20 ms"})
    if kind is SINGLE:  # its client bounds what is on its way, which the simulation's does not
        simulation = simulated(kind | {"records": 4001, "warmup": 0})
    report = simulation.run(monkeypatch)

    assert simulation.indexes[0] == 0
    assert sorted(simulation.indexes) == list(range(len(simulation.indexes)))
    assert (report.sent, report.acknowledged, report.latency.total, report.missing) == (4001, 4001, 4001, 0)
    assert report.bytes == 4001 * (108 if kind is KEYED else 100)
    assert (report.delay.total, report.late) == (0, 0)
    assert sum(report.acknowledged_by_partition.values()) == simulation.visible == len(simulation.indexes)
    if kind is not SINGLE:
        assert len(simulation.indexes) > 4001
        assert {one.partition for one in simulation.sent} == {0, 1, 2}
        assert simulation.most_in_flight == batches_in_flight(simulation.scenario) + 1


@pytest.mark.parametrize("kind", BATCHED)
def test_a_closed_loop_ends_with_its_window(monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]) -> None:
    """Records that were sent in it are measured, whenever they are acknowledged."""
    simulation = simulated(kind | {"duration": "50 ms", "warmup": "20 ms", "record_size": 1000})
    report = simulation.run(monkeypatch)

    assert report.first_due_ns is not None
    assert report.last_ack_ns is not None
    assert START_NS <= report.first_due_ns <= START_NS + 2 * MS
    assert START_NS + 48 * MS <= report.last_ack_ns <= START_NS + 54 * MS
    assert report.sent == report.acknowledged == report.latency.total < len(simulation.indexes)
    assert report.latency.max_ns <= 9 * MS


def slow(one: Sent) -> int:
    """A second from the beginning of the window on."""
    return NS_PER_S if one.at_ns >= START_NS else MS


@pytest.mark.parametrize("kind", BATCHED)
@pytest.mark.parametrize("linger", [0.005, 0.5])
def test_a_cluster_that_is_too_slow_is_not_the_generators_fault(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any], linger: float
) -> None:
    """Every record is sent once there is room, its whole wait counts, and nobody calls the generator late."""
    load = {"rate": 4000, "duration": "2 s", "partitions": 2, "batch_size": 1000, "linger": f"{linger} s"}
    simulation = simulated(kind | load, latency_ns=slow)
    report = simulation.run(monkeypatch)

    assert sorted(simulation.indexes) == list(range(-400, 8000))
    assert (report.sent, report.acknowledged, report.missing) == (8000, 8000, 0)
    assert (report.late, report.behind) == (0, 0)
    assert report.sent_late > 4000
    assert report.latency.total == report.delay.total == 8000
    assert report.latency.max_s > 40
    assert simulation.most_in_flight == batches_in_flight(simulation.scenario) + 1


def test_a_partition_without_room_does_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full buffer would, and is far away: here one of seven leaders is gone for a second."""
    load = {"key": "uniform:1M", "rate": 7000, "duration": "1 s", "partitions": 7, "warmup": 0, "batch_size": 1000}
    simulation = simulated(load, latency_ns=lambda one: NS_PER_S if one.partition == 3 else MS)
    report = simulation.run(monkeypatch)

    waits_ns = {True: 0, False: 0}
    for one in simulation.sent:
        waits_ns[one.partition == 3] = max(waits_ns[one.partition == 3], one.at_ns - one.dues_ns[0])
    assert waits_ns[False] <= 5 * MS
    assert waits_ns[True] > NS_PER_S
    assert (report.acknowledged, report.late, report.behind) == (7000, 0, 0)


@pytest.mark.parametrize("kind", [*BATCHED, pytest.param(KEYED | {"key": "zipf:3"}, id="three keys")])
def test_a_load_that_is_given_up_accounts_for_each_record_due(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    """Sent or missing, never both and never neither; those due have a latency."""
    load = {"rate": 4000, "duration": "2 s", "partitions": 2, "batch_size": 1000}
    given_up_ns = START_NS + NS_PER_S + 3 * MS
    simulation = simulated(kind | load, latency_ns=slow, give_up_ns=given_up_ns)
    report = simulation.run(monkeypatch)

    sent = [index for index in simulation.indexes if index >= 0]
    due = schedule_of(simulation.scenario).first_after(given_up_ns)
    assert len(set(sent)) == len(sent) == report.sent == report.acknowledged < due
    assert report.missing == 8000 - len(sent)
    assert report.latency.total == due
    missed = [index for index in range(due) if index not in set(sent)]
    waited_ns = [given_up_ns - schedule_of(simulation.scenario).due_ns(index) for index in missed]
    assert report.delay.sum_ns >= sum(waited_ns)
    assert (report.late, report.behind) == (0, 0)


@pytest.mark.parametrize("kind", BATCHED)
@pytest.mark.parametrize("load", [{"rate": 1_000_000}, {}], ids=["open", "closed"])
@pytest.mark.parametrize("sizes", [{"100 B": 0.9, "10 KiB": 0.1}, {"20 B": 0.99, "200 KiB": 0.01}], ids=str)
@pytest.mark.parametrize("number", [1, 3])
def test_mixed_sizes_come_through_whatever_they_begin_with(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any], load: dict[str, Any], sizes: dict[str, float], number: int
) -> None:
    """Batches of one large record and of hundreds of small ones follow each other."""
    fields = {"record_size": sizes, "records": 20_000, "producers": 4, "linger": "1 s", "warmup": 0}
    simulation = simulated(kind | load | fields, number=number)
    report = simulation.run(monkeypatch)

    assert sorted(simulation.indexes) == list(range(5000))
    assert report.acknowledged == 5000
    large = max(size for one in simulation.sent for size in one.sizes)
    share = min(sizes.values())
    counted = sum(size == large for one in simulation.sent for size in one.sizes)
    assert abs(counted - 5000 * share) <= 5 * (5000 * share) ** 0.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("load", [{"rate": 20_000, "records": 1000}, {"records": 1000}], ids=["open", "closed"])
@pytest.mark.parametrize("size", [1, 30, 300, 5000])
def test_transactions_hold_their_records_until_they_end(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any], load: dict[str, Any], size: int
) -> None:
    """No record is between two of them, and a record's latency includes its commit."""
    fields = {"transaction_size": size, "abort_ratio": 0.25, "warmup": 0}
    simulation = simulated(kind | load | fields)
    report = simulation.run(monkeypatch)

    transactions = -(-1000 // size)
    ends = simulation.told[1::2]
    assert simulation.told[0::2] == ["begin"] * transactions
    assert (len(ends), ends.count("abort")) == (transactions, transactions // 4)
    assert report.acknowledged + report.aborted == report.sent == 1000
    aborted = [number for number, end in enumerate(ends) if end == "abort"]
    assert report.aborted == sum(min(size, 1000 - number * size) for number in aborted)
    assert report.latency.total == report.acknowledged
    assert sum(report.markers_by_partition.values()) >= transactions
    assert report.failed == 0
    if report.acknowledged:
        assert report.latency.max_s >= 0.005


@pytest.mark.parametrize("kind", KINDS)
def test_the_time_that_commits_take_is_not_the_generators(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    """A coordinator that takes 300 ms is a slow cluster: high latency, and a valid round."""
    load = {"rate": 2000, "duration": "2 s", "transaction_size": 500, "warmup": 0}
    report = simulated(kind | load, commit_ns=300 * MS).run(monkeypatch)

    assert (report.sent, report.acknowledged, report.late, report.behind) == (4000, 4000, 0, 0)
    assert report.latency.max_s > 0.5


@pytest.mark.parametrize("kind", BATCHED)
def test_a_batch_that_fails_aborts_its_transaction_only(monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]) -> None:
    """The others are committed; nothing is counted twice."""

    def error(one: Sent) -> RequestTimedOutError | None:
        return RequestTimedOutError() if 250 in one.indexes else None

    load = {"rate": 2000, "records": 1000, "transaction_size": 100, "warmup": 0}
    simulation = simulated(kind | load, error=error)
    report = simulation.run(monkeypatch)

    (failed,) = [one for one in simulation.sent if 250 in one.indexes]
    assert simulation.told[1::2].count("abort") == 1
    assert report.failed == report.unknown == len(failed.indexes)
    assert [indexes.tolist() for indexes in report.unknown_indexes] == [failed.indexes]
    assert report.aborted == 100 - len(failed.indexes)
    assert report.acknowledged == 900


@pytest.mark.parametrize("kind", [*KINDS, pytest.param(KEYED | {"record_size": MIXED}, id="mixed")])
@pytest.mark.parametrize("load", [{}, {"linger": "200 ms"}], ids=str)
def test_a_generator_that_stands_still_is_late_with_what_was_due_meanwhile(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any], load: dict[str, Any]
) -> None:
    """There was room all along: the first 400 ms of 500 are more than it may be late, less what it lingers for."""
    simulation = simulated({"rate": 1000, "duration": "2 s"} | kind | load)
    simulation.stall(START_NS + NS_PER_S // 2, NS_PER_S // 2)
    report = simulation.run(monkeypatch)

    lingers_ms = 0 if kind is SINGLE else round(simulation.scenario.linger * 1000)
    assert 395 - lingers_ms <= report.late <= 405 + lingers_ms
    assert (report.sent, report.acknowledged, report.behind) == (2000, 2000, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_that_stands_still_is_late_with_the_rest_of_its_transaction(
    monkeypatch: pytest.MonkeyPatch, kind: dict[str, Any]
) -> None:
    """The next one begins after that: what it holds had no room before, whoever is to blame. It is enough to tell."""
    simulation = simulated({"rate": 1000, "duration": "2 s", "transaction_size": 400} | kind)
    simulation.stall(START_NS + NS_PER_S // 2, NS_PER_S // 2)

    assert 100 < simulation.run(monkeypatch).late <= 405


workloads = st.fixed_dictionaries(
    {
        "rate": st.sampled_from([None, 100, 5000, 300_000]),
        "records": st.sampled_from([1, 50, 1000]),
        "warmup": st.sampled_from([0, "10 ms"]),
        "linger": st.sampled_from([0, "2 ms", "300 ms"]),
        "batch_size": st.sampled_from([1, 1000, 16 << 10]),
        "record_size": st.sampled_from([16, 100, 3000]) | st.just(MIXED),
        "partitions": st.integers(1, 5),
        "producers": st.integers(1, 3),
        "key": st.sampled_from(["none", "uniform:3", "zipf:1000", "sequential"]),
        "idempotence": st.booleans(),
        "transaction_size": st.sampled_from([None, None, 1, 70, 400]),
    }
)


@given(
    fields=workloads,
    latencies_ms=st.lists(st.sampled_from([1, 20, 900]), min_size=1, max_size=5),
    failing=st.sampled_from([0, 0, 7]),
    give_up_s=st.none() | st.sampled_from([-0.005, 0.05, 1]),
    number=st.integers(0, 2),
)
@example(  # a batch of fewer records than the one before, whose records were no full batch until then
    fields=EXAMPLE | {"rate": 100, "warmup": "10 ms", "linger": "300 ms", "partitions": 2, "key": "uniform:3"},
    latencies_ms=[1],
    failing=0,
    give_up_s=1,
    number=0,
)
@example(  # room that comes while a transaction ends
    fields=EXAMPLE | {"records": 1000, "batch_size": 1, "partitions": 4, "key": "zipf:1000", "transaction_size": 70},
    latencies_ms=[20, 900],
    failing=0,
    give_up_s=None,
    number=1,
)
@example(  # given up while a transaction ends
    fields=EXAMPLE | {"rate": 100, "batch_size": 1, "partitions": 1, "key": "uniform:3", "transaction_size": 1},
    latencies_ms=[20],
    failing=0,
    give_up_s=0.05,
    number=0,
)
@settings(max_examples=25)
def test_any_load_accounts_for_each_record(
    fields: dict[str, Any], latencies_ms: list[int], failing: int, give_up_s: float | None, number: int
) -> None:
    """Whatever is asked for, however the cluster answers, whenever it ends: once sent or missing, and in order."""
    if fields["transaction_size"] is not None:
        fields = fields | {"idempotence": True}
    order = itertools.count(1)
    simulation = simulated(
        fields,
        number=number % fields["producers"],
        latency_ns=lambda _: latencies_ms[next(order) % len(latencies_ms)] * MS,
        error=lambda one: RequestTimedOutError() if failing and one.indexes[0] % failing == 3 else None,
        give_up_ns=None if give_up_s is None else START_NS + round(give_up_s * NS_PER_S),
    )
    with pytest.MonkeyPatch.context() as monkeypatch:
        report = simulation.run(monkeypatch)
    scenario = simulation.scenario
    asked = records_of_producer(scenario.records or 0, simulation.number, scenario.producers)

    assert len(set(simulation.indexes)) == len(simulation.indexes)
    for partition in range(scenario.partitions):
        there = [index for one in simulation.sent if one.partition == partition for index in one.indexes]
        assert there == sorted(there)
    assert simulation.most_in_flight <= batches_in_flight(scenario) + 1
    assert report.sent + report.missing == asked
    measured_failures = asked - report.missing - report.acknowledged - report.aborted
    assert 0 <= measured_failures <= report.failed
    assert (report.failed > 0) >= (measured_failures > 0)
    located = sum(report.acknowledged_by_partition.values())
    assert located + report.failed == len(simulation.indexes)
    assert report.disordered == report.late == report.behind == 0
    if scenario.rate is not None:
        schedule = schedule_of(scenario, simulation.number)
        assert sum(index >= 0 for index in simulation.indexes) == report.sent
        waited = report.latency.total - report.acknowledged - report.failed_in_window - report.aborted_by_failure
        began_ns = START_NS - round(scenario.warmup * NS_PER_S)
        given_up_ns = max(simulation.give_up_ns or 0, began_ns)
        due = min(asked, max(0, schedule.first_after(given_up_ns))) if report.missing else asked
        assert waited == max(0, due - report.sent)
    if give_up_s is None and not failing:
        assert (report.missing, report.failed) == (0, 0)
    assert simulation.told[0::2] == ["begin"] * -(-len(simulation.told) // 2)


def test_an_answer_that_comes_before_the_producer_sleeps_wakes_it() -> None:
    """The answer may be the next thing that the event loop does: a partition would wait for the next one in vain."""

    scenario = Scenario.of(KEYED)
    templates = Templates(Payload(scenario, seed=1))
    setup = ProducerSetup(scenario=scenario, topic="t", templates=templates, seed=1, on_visible=lambda _: None)

    async def run() -> None:
        one = KeyedProducer(None, 0, setup)
        asyncio.get_running_loop().call_soon(one.abandon)
        await first_of(asyncio.sleep(60), one._change())  # noqa: SLF001 - an order that no simulation makes

    asyncio.run(asyncio.wait_for(run(), 5))


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (errors.MessageSizeTooLargeError(), 0),
        (errors.RequestTimedOutError(), 1),
        (errors.KafkaConnectionError(), 1),
        (errors.NotEnoughReplicasError(), 1),  # the last of several attempts: an earlier one may be in the log
    ],
)
def test_what_the_broker_has_not_refused_may_be_in_the_log(error: errors.KafkaError, unknown: int) -> None:
    """An audit has to know its name."""
    setup = ProducerSetup(
        scenario=Scenario.of(KEYED),
        topic="t",
        templates=Templates(Payload(Scenario.of(KEYED), seed=1)),
        seed=1,
        on_visible=lambda _: None,
    )
    producer = KeyedProducer(None, 0, setup)
    batch = Batch(
        partition=None, indexes=np.array([7]), measured=1, measured_bytes=1, dues_ns=None, closing_ns=None, sent_ns=1
    )
    producer.ledger.enter(batch)
    producer._ended(batch, None, error)  # noqa: SLF001 - as the client reports it
    report = producer.ledger.report

    assert (report.failed, report.unknown, report.failures) == (1, unknown, {type(error).__name__: 1})
