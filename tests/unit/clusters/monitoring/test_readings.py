"""What brokers did: counters through restarts and windows, metrics, curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.clusters.monitoring.readings import Readings, Use
from pytest_kafkaperf.clusters.monitoring.tracks import Sample

S = 10**9


def _samples(*readings: tuple[float, Mapping[str, float]]) -> list[Sample]:
    return [Sample(at_ns=round(at_s * S), readings=read) for at_s, read in readings]


def _steady(reading: str, per_s: float, *, first_s: float = -2, last_s: float = 12) -> list[Sample]:
    """A counter that rises evenly, read once a second, a bit off the grid."""
    count = int(last_s - first_s) + 1
    return _samples(*((first_s + i + 0.3, {reading: 1000 + per_s * i}) for i in range(count)))


def _metrics(samples: Mapping[int, Sequence[Sample]], start_s: float = 0, end_s: float = 10) -> dict[str, float]:
    return Readings.of(samples).metrics(start_ns=round(start_s * S), end_ns=round(end_s * S))


def test_rates_are_of_all_brokers_and_the_busiest_broker_stands_out() -> None:
    """Readings never fall on the edges of a window: counters are interpolated there."""
    found = _metrics({1: _steady("cpu_s", 0.5), 2: _steady("cpu_s", 1.5), 3: _steady("disk_written_bytes", 1e6)})

    assert found == pytest.approx({"broker.cpu": 2.0, "broker.cpu.max": 1.5, "broker.disk.write": 1e6})


def test_the_busiest_second_is_found() -> None:
    """A mean over the window hides a core that was full for a second."""
    at = [(float(i), {"cpu_s": float(max(0, min(i - 4, 1)))}) for i in range(11)]

    found = _metrics({1: _samples(*at)})

    assert found == pytest.approx({"broker.cpu": 0.1, "broker.cpu.max": 1.0})


def test_the_busiest_second_is_never_below_the_mean() -> None:
    """A shorter last second is left out, even if only then the broker was busy."""
    at = [(i / 10, {"cpu_s": max(0.0, i / 10 - 1)}) for i in range(20)]

    found = _metrics({1: _samples(*at)}, end_s=1.9)

    assert found == pytest.approx({"broker.cpu": 0.9 / 1.9, "broker.cpu.max": 0.9 / 1.9})


def test_what_no_broker_gives_is_absent() -> None:
    """A value of 0 would pass every limit."""
    assert _metrics({}) == {}
    assert _metrics({1: []}) == {}
    assert _metrics({1: _steady("cpu_s", 1, first_s=-20, last_s=-10)}) == {}
    assert _metrics({1: _steady("isr_shrinks", 1, first_s=-20, last_s=-10)}) == {}
    assert _metrics({1: _samples((5, {"cpu_s": 7.0}))}) == {}


def _probed(kind: str, reading: str, *failed: int) -> list[Sample]:
    """One broker's readings of a kind, once a second from 0 to 10 s; some fail."""
    return [Sample(at_ns=at * S, kind=kind, readings={} if at in failed else {reading: float(at)}) for at in range(11)]


@pytest.mark.parametrize("failed", [range(11), range(8, 11), (2, 7)], ids=["all", "the last", "some"])
def test_a_metric_of_brokers_that_were_not_all_read_is_left_out(failed: Sequence[int]) -> None:
    """The metrics of those that answered would pass a limit, and the busiest may be the one that did not."""
    samples = {
        1: [*_probed("ProcessProbe", "cpu_s"), *_probed("ExporterProbe", "isr_shrinks")],
        2: [*_probed("ProcessProbe", "cpu_s"), *_probed("ExporterProbe", "isr_shrinks", *failed)],
    }
    readings = Readings.of(samples)
    window = {"start_ns": 0, "end_ns": 10 * S}

    partly = readings.partly_read(**window)
    assert [*partly] == [(2, "ExporterProbe")]
    assert readings.without({"ExporterProbe"}).metrics(**window) == {"broker.cpu": 2.0, "broker.cpu.max": 1.0}
    assert partly[2, "ExporterProbe"] == pytest.approx(1 - _gap_s(failed) / 10)


def _gap_s(failed: Sequence[int]) -> int:
    """Return the seconds that touch a failed reading."""
    return sum(second in failed or second + 1 in failed for second in range(10))


def test_a_reading_that_failed_once_leaves_enough_of_a_window() -> None:
    """A busy exporter misses one now and then, and counters go on meanwhile."""
    readings = Readings.of({1: _probed("ExporterProbe", "isr_shrinks", 4)})
    assert readings.partly_read(start_ns=0, end_ns=10 * S) == {}


def test_a_window_that_is_read_in_part_has_the_mean_of_that_part() -> None:
    """The last reading comes up to a second before the window's end."""
    assert _metrics({1: _steady("cpu_s", 0.5, first_s=2, last_s=8)})["broker.cpu"] == pytest.approx(0.5)


def test_memory_is_the_most_of_all_brokers_at_one_time() -> None:
    """Two that take turns need less than the sum of what each needs at most."""
    one = _samples(*((i + 0.5, {"memory_bytes": 100.0 if i == 3 else 10.0}) for i in range(10)))
    two = _samples(*((i + 0.5, {"memory_bytes": 50.0 if i == 6 else 20.0}) for i in range(10)))

    assert _metrics({1: one, 2: two}) == {"broker.memory": 120.0}


def test_a_broker_that_is_gone_holds_no_memory() -> None:
    """Its last reading stands for a moment only."""
    one = _samples(*((i + 0.5, {"memory_bytes": 100.0}) for i in range(3)))
    two = _samples(*((i + 0.5, {"memory_bytes": 10.0 + 50.0 * (i > 5)}) for i in range(10)))

    assert _metrics({1: one, 2: two}, 3.6, 10) == {"broker.memory": 110.0}
    assert _metrics({1: one, 2: two}, 4.6, 10) == {"broker.memory": 60.0}


def test_a_request_takes_what_it_took_in_the_window_over_all_brokers() -> None:
    """Kafka's mean is over the life of the broker, slow start included."""
    one = _samples(
        (0, {"produce_total_requests": 100.0, "produce_total_s": 24.0}),
        (10, {"produce_total_requests": 1100.0, "produce_total_s": 25.0}),
    )
    two = _samples(
        (0, {"produce_total_requests": 0.0, "produce_total_s": 0.0}),
        (10, {"produce_total_requests": 3000.0, "produce_total_s": 9.0}),
    )

    assert _metrics({1: one, 2: two}) == pytest.approx({"broker.produce.time": 10 / 4000})


def test_parts_of_requests_have_their_names() -> None:
    """The catalogue knows them by these."""
    parts = ("total", "queue", "local", "remote", "send")
    names = [f"{request}_{part}" for request in ("produce", "fetch") for part in parts]
    samples = _samples(
        *((at, {f"{name}_{what}": at for name in names for what in ("s", "requests")}) for at in (0, 10))
    )

    assert _metrics({1: samples}) == pytest.approx(
        {
            f"broker.{request}.{part}": 1.0
            for request in ("produce", "fetch")
            for part in ("time", "queue", "local", "remote", "send")
        }
    )


def test_no_request_has_no_time() -> None:
    """0 s would be the best of all."""
    readings = {"fetch_total_requests": 100.0, "fetch_total_s": 24.0}

    assert _metrics({1: _samples((0, readings), (10, readings))}) == {}


def test_a_sum_that_dips_is_no_restart() -> None:
    """Mean and count are not read at one instant: the sum made of them may fall a little."""
    samples = _samples(
        (0, {"produce_total_requests": 100.0, "produce_total_s": 24.0}),
        (5, {"produce_total_requests": 100.0, "produce_total_s": 23.9}),
        (10, {"produce_total_requests": 200.0, "produce_total_s": 24.2}),
    )

    assert _metrics({1: samples}) == pytest.approx({"broker.produce.time": 0.002})


def test_handlers_are_as_idle_as_those_of_the_busiest_broker() -> None:
    """The mean over brokers hides the one that is the limit."""
    assert _metrics({1: _steady("request_handler_idle_s", 0.9), 2: _steady("request_handler_idle_s", 0.2)}) == (
        pytest.approx({"broker.handlers.idle": 0.2})
    )


def test_the_controllers_handlers_are_taken_off() -> None:
    """Before 4.3 a broker that is a controller, too, counts both pools in one meter: 1.2 of 2 is 0.2 of its own."""
    samples = [
        Sample(at_ns=each.at_ns, readings={**each.readings, "request_handler_pools": 2.0})
        for each in _steady("request_handler_idle_s", 1.2)
    ]

    assert _metrics({1: samples}) == pytest.approx({"broker.handlers.idle": 0.2})


def test_isr_shrinks_at_the_edges_are_not_missed() -> None:
    """Rare events are whole: none is cut in two by interpolation."""
    samples = _samples(*((i + 0.5, {"isr_shrinks": float(5 + (i >= 10))}) for i in range(-2, 13)))

    assert _metrics({1: samples}) == {"broker.isr_shrinks": 1.0}
    assert _metrics({1: samples}, 0, 9) == {"broker.isr_shrinks": 0.0}


def test_under_replicated_partitions_are_summed_over_brokers() -> None:
    """Each leader counts its own."""
    one = _samples(*((i, {"under_replicated": float(i == 4)}) for i in range(10)))
    two = _samples(*((i + 0.4, {"under_replicated": 2.0 * (i in (4, 5))}) for i in range(10)))

    assert _metrics({1: one, 2: two}) == {"broker.under_replicated": 3.0}


def test_a_restarted_broker_begins_its_counters_again() -> None:
    """5 s down, then a new process: what it shows is added, and being down is not being busy."""
    before = [(i, {"cpu_s": 100.0 + i, "request_handler_idle_s": 50 + 0.8 * i}) for i in range(4)]
    after = [(i, {"cpu_s": 2.0 + i - 8, "request_handler_idle_s": 0.5 + 0.6 * (i - 8)}) for i in range(8, 11)]

    found = _metrics({1: _samples(*before, *after)})

    assert found["broker.cpu"] == pytest.approx((3 + 2 + 2) / 10)
    assert found["broker.handlers.idle"] == pytest.approx((3 * 0.8 + 2 * 0.6) / 5)


def test_a_counter_that_falls_a_little_is_no_restart() -> None:
    """Two readings at almost the same time may be told in the wrong order, or a process has lost a child."""
    samples = _samples((0, {"cpu_s": 60.0}), (2.002, {"cpu_s": 62.002}), (2.01, {"cpu_s": 62.0}), (10, {"cpu_s": 70.0}))

    assert _metrics({1: samples})["broker.cpu"] == pytest.approx(1.0)


def test_a_restart_is_seen_by_any_counter_and_counts_once() -> None:
    """Busy again, a broker's requests may soon be more than before; its CPU seconds come from another probe."""
    samples = _samples(
        (0.0, {"cpu_s": 20.0}),
        (0.1, {"produce_total_requests": 10.0, "produce_total_s": 8.0}),
        (5.0, {"cpu_s": 3.0}),
        (5.1, {"produce_total_requests": 500.0, "produce_total_s": 1.0}),
        (10.0, {"cpu_s": 4.0}),
        (10.1, {"produce_total_requests": 1000.0, "produce_total_s": 2.0}),
    )
    swapped = _samples(
        (0.0, {"produce_total_requests": 10.0, "produce_total_s": 8.0}),
        (0.1, {"cpu_s": 20.0}),
        (5.0, {"produce_total_requests": 5.0, "produce_total_s": 1.0}),
        (5.1, {"cpu_s": 3.0}),
        (10.0, {"produce_total_requests": 10.0, "produce_total_s": 2.0}),
        (10.1, {"cpu_s": 4.0}),
    )

    assert _metrics({1: samples}, 0, 10.1)["broker.cpu"] == pytest.approx(4 / 10)
    assert _metrics({1: samples}, 0, 10.1)["broker.produce.time"] == pytest.approx(2 / 1000)
    assert _metrics({1: swapped}, 0, 10.1)["broker.produce.time"] == pytest.approx(2 / 10)
    assert _metrics({1: swapped}, 0, 10.1)["broker.cpu"] == pytest.approx(4 / 10)


def test_the_machines_network_goes_on_while_a_broker_restarts() -> None:
    """Bytes of loopback count from the start of the machine."""
    samples = _samples(
        (0, {"cpu_s": 20.0, "network_in_bytes": 1e9}),
        (5, {"cpu_s": 1.0, "network_in_bytes": 1e9 + 50}),
        (10, {"cpu_s": 2.0, "network_in_bytes": 1e9 + 100}),
    )

    assert _metrics({1: samples})["broker.network.in"] == pytest.approx(10)


def test_what_other_programs_took_is_what_is_left_of_the_machine() -> None:
    """A neighbour explains a slow round, where its results alone would blame the cluster."""
    machine = [
        Sample(at_ns=at * S, readings={"machine_cpu_s": 100 + 1.8 * at, "own_cpu_s": 0.1 * at, "machine_cores": 2.0})
        for at in range(11)
    ]
    broker = [Sample(at_ns=at * S, readings={"cpu_s": 0.5 * at}) for at in range(11)]
    readings = Readings.of({"machine": machine, 1: broker})
    assert readings.strangers(start_ns=0, end_ns=10 * S, workers_s=4.0) == pytest.approx((0.8, 2))
    assert readings.strangers(start_ns=0, end_ns=10 * S, workers_s=40.0) == (0.0, 2)
    assert Readings.of({1: broker}).strangers(start_ns=0, end_ns=10 * S, workers_s=4.0) is None
    assert "broker.cpu" in readings.metrics(start_ns=0, end_ns=10 * S)


def test_each_broker_has_its_own_use() -> None:
    """The report tells which one was busy."""
    samples = {
        1: [*_steady("cpu_s", 0.5), *_steady("memory_bytes", 1.0)],
        2: _steady("memory_bytes", 0.0),
        3: _steady("network_in_bytes", 7.0),
    }

    uses = Readings.of(samples).uses(0, 10 * S)

    assert uses == {
        1: Use(cpu_cores=0.5, cpu_max_cores=0.5, memory_max_bytes=1011.0),
        2: Use(cpu_cores=None, cpu_max_cores=None, memory_max_bytes=1000.0),
    }


readings = st.lists(
    st.tuples(st.integers(1, 3 * S), st.integers(0, 1000), st.booleans()),
    min_size=2,
    max_size=30,
)
"""Of a counter: nanoseconds since the last reading, what was added since, and whether the broker began again."""


@given(readings, st.integers(-(10**9), 40 * S), st.integers(1, 40 * S))
def test_interpolation_and_restarts_agree_with_a_slow_obvious_version(
    steps: list[tuple[int, int, bool]], start_ns: int, length_ns: int
) -> None:
    """The obvious: each nanosecond between two readings has an even share of what was counted between them."""
    at_ns, shown, known = 0, 1000.0, []
    samples = [Sample(at_ns=0, readings={"disk_read_bytes": shown})]
    for pause_ns, added, again in steps:
        at_ns, before_ns = at_ns + pause_ns, at_ns
        rise = float(added)
        seen = again and rise < 0.9 * shown  # otherwise nobody can tell
        shown = rise if seen else shown + rise
        known.append((before_ns, at_ns, rise))
        samples.append(Sample(at_ns=at_ns, readings={"disk_read_bytes": shown}))
    end_ns = start_ns + length_ns
    total, read_ns = 0.0, 0
    for begin_ns, stop_ns, rise in known:
        shared_ns = max(0, min(stop_ns, end_ns) - max(begin_ns, start_ns))
        total += rise * shared_ns / (stop_ns - begin_ns)
        read_ns += shared_ns

    found = Readings.of({1: samples}).metrics(start_ns=start_ns, end_ns=end_ns)

    if read_ns == 0:
        assert found == {}
    else:
        assert found["broker.disk.read"] * read_ns / S == pytest.approx(total, rel=1e-6, abs=1e-3)


@given(readings, st.randoms(use_true_random=False))
def test_the_order_of_samples_does_not_matter(steps: list[tuple[int, int, bool]], random: object) -> None:
    """Each probe has a thread of its own."""
    at_ns, samples = 0, []
    for pause_ns, shown, _ in steps:
        at_ns += pause_ns
        samples.append(Sample(at_ns=at_ns, readings={"cpu_s": float(shown), "memory_bytes": float(shown)}))
    mixed = list(samples)
    random.shuffle(mixed)  # type: ignore[attr-defined]

    window = {"start_ns": 0, "end_ns": at_ns}
    assert Readings.of({1: mixed}).metrics(**window) == Readings.of({1: samples}).metrics(**window)


@given(readings)
def test_nothing_is_ever_negative(steps: list[tuple[int, int, bool]]) -> None:
    """Whatever a counter shows: a broker neither gives CPU time back nor unwrites."""
    at_ns, samples = 0, []
    for pause_ns, shown, _ in steps:
        at_ns += pause_ns
        readings = ("cpu_s", "network_in_bytes", "isr_shrinks", "request_handler_idle_s", "fetch_send_s")
        samples.append(Sample(at_ns=at_ns, readings={**dict.fromkeys(readings, shown), "fetch_send_requests": at_ns}))

    found = Readings.of({1: samples})

    assert all(value >= 0 for value in found.metrics(start_ns=0, end_ns=at_ns).values())
    curves = found.curves(start_ns=0, first_ns=0, end_ns=at_ns)["brokers"].get("1", {})
    assert all(value is None or value >= 0 for curve in curves.values() for value in curve)


def test_curves_begin_with_the_warm_up_and_show_gaps() -> None:
    """They are laid over those of the load: the same seconds, counted from the round's start."""
    at = (0.5, 1.5, 2.5, 7.5, 8.5)
    samples = _samples(*((98 + each, {"cpu_s": 0.5 * each, "memory_bytes": each}) for each in at))

    found = Readings.of({1: samples, 2: []}).curves(start_ns=100 * S, first_ns=98 * S, end_ns=108 * S)

    assert found == {
        "interval_s": 1,
        "first_s": -2.0,
        "brokers": {
            "1": {
                "cpu": pytest.approx([0.5] * 3 + [None] * 4 + [0.5, 0.5, None]),
                "memory": [0.5, 1.5, 2.5, 2.5, 2.5, None, None, 7.5, 8.5, 8.5],
            }
        },
    }


def test_curves_have_no_more_than_600_intervals() -> None:
    """A report of a day's soak must stay readable."""
    samples = _samples(*((float(i), {"cpu_s": i / 2, "memory_bytes": float(i)}) for i in range(2000)))

    found = Readings.of({1: samples}).curves(start_ns=100 * S, first_ns=0, end_ns=1999 * S)

    assert (found["interval_s"], found["first_s"]) == (4, -100.0)
    assert found["brokers"]["1"]["cpu"] == pytest.approx([0.5] * 500)
    assert found["brokers"]["1"]["memory"] == [float(min(4 * i + 3, 1999)) for i in range(500)]


def test_every_curve_has_the_same_length() -> None:
    """A plot has one time axis."""
    names = ("cpu_s", "disk_read_bytes", "memory_bytes", "request_handler_idle_s", "produce_total_s")
    samples = [each for name in names for each in _steady(name, 0.5)]
    samples += _steady("produce_total_requests", 100)

    found = Readings.of({1: samples}).curves(start_ns=0, first_ns=-2 * S, end_ns=math.floor(9.5 * S))

    curves = found["brokers"]["1"]
    assert set(curves) == {"cpu", "disk.read", "memory", "handlers.idle", "produce.time"}
    assert {len(curve) for curve in curves.values()} == {12}
    assert curves["produce.time"][1:] == pytest.approx([0.005] * 11)


def test_the_cpu_time_of_a_window_is_that_of_all_brokers_and_unknown_unless_its_edges_were_read() -> None:
    """A cost from half a window would be half of the cost."""

    def broker(*cpu_s: float) -> list[Sample]:
        return [Sample(at_ns=round((1 + place) * S), readings={"cpu_s": each}) for place, each in enumerate(cpu_s)]

    both = Readings.of({1: broker(5.0, 6.0, 8.0), 2: broker(0.0, 0.5, 1.0)})
    assert both.cpu_s(start_ns=1 * S, end_ns=3 * S) == pytest.approx(4.0)
    assert both.cpu_s(start_ns=round(1.5 * S), end_ns=2 * S) == pytest.approx(0.5 + 0.25)
    assert both.cpu_s(start_ns=S // 2, end_ns=2 * S) is None
    assert both.cpu_s(start_ns=2 * S, end_ns=4 * S) is None
    assert Readings.of({1: broker(5.0, 6.0), 2: []}).cpu_s(start_ns=1 * S, end_ns=2 * S) == pytest.approx(1.0)
    assert Readings.of({}).cpu_s(start_ns=0, end_ns=S) is None
