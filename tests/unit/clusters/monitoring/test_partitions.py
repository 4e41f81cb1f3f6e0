"""What happened to partitions: their leaders and replicas, told in few words."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_kafkaperf.clusters.monitoring.partitions import MAX_EVENTS, PartitionState, events

S = 10**9


def _state(leaders: Mapping[int, int | None], thin: Mapping[int, tuple[int, ...]] | None = None) -> PartitionState:
    return {part: (leader, (thin or {}).get(part, (1, 2, 3)), (1, 2, 3)) for part, leader in leaders.items()}


ALL = {0: 1, 1: 2, 2: 3, 3: 1, 4: 1, 5: 3}


@pytest.mark.parametrize(
    ("states", "texts"),
    [
        ([], []),
        ([(0.0, _state(ALL)), (1.0, _state(ALL)), (2.0, {})], []),
        (
            [(0.0, _state(ALL)), (3.2, _state({**ALL, 4: 2}))],
            ["at 3.2 s: 1 partition (4): leader moved from broker 1 to 2"],
        ),
        (
            [(0.0, _state(ALL)), (3.2, _state({**ALL, 0: 2, 3: 3, 4: 2}))],
            ["at 3.2 s: 3 partitions (0, 3, 4): leader moved from broker 1 to 2, 3"],
        ),
        (
            [(0.0, _state(ALL)), (3.2, _state({**ALL, 0: None, 3: None})), (4.0, _state({**ALL, 0: None, 3: 2}))],
            [
                "at 3.2 s: 2 partitions (0, 3): leader moved from broker 1 to none",
                "at 4.0 s: 1 partition (3): leader moved from broker none to 2",
            ],
        ),
        (
            [(-1.5, _state(ALL, {4: (1,)})), (3.2, _state(ALL, {4: (1, 2), 5: (3,)})), (8.9, _state(ALL))],
            ["2 of 6 partitions under-replicated from 1.5 s before the start to 8.9 s"],
        ),
        (
            [(0.0, _state(ALL)), (3.2, _state(ALL, {4: (1,)})), (4.0, {0: (1, (1,), (1,))})],
            ["1 of 6 partitions under-replicated from 3.2 s onward"],
        ),
        (
            [
                (0.0, _state(ALL, {1: (2,)})),
                (1.0, _state(ALL)),
                (2.0, _state({**ALL, 0: 2}, {1: (2,)})),
                (3.0, _state(ALL)),
            ],
            [
                "1 of 6 partitions under-replicated from 0.0 s to 1.0 s",
                "at 2.0 s: 1 partition (0): leader moved from broker 1 to 2",
                "1 of 6 partitions under-replicated from 2.0 s to 3.0 s",
                "at 3.0 s: 1 partition (0): leader moved from broker 2 to 1",
            ],
        ),
    ],
)
def test_events_tell_what_happened_to_partitions(states: list[tuple[float, PartitionState]], texts: list[str]) -> None:
    """A rise in latency has a reason, and this is often it."""
    found = events([(round((7 + at_s) * S), state) for at_s, state in states], 7 * S)
    assert [str(notice) for _, notice in found] == texts


def test_events_of_ten_thousand_partitions_stay_short() -> None:
    """A warning must be readable."""
    count = 10_000
    states = [
        (i * S, {part: ((part + i) % 7, (1,) if i % 2 else (1, 2), (1, 2)) for part in range(count)}) for i in range(20)
    ]

    texts = [str(notice) for _, notice in events(states, 0)]

    assert len(texts) == MAX_EVENTS
    assert texts[:2] == [
        "at 1.0 s: 10000 partitions (0, 1, 2, 3, 4, ...): leader moved from broker 0, 1, 2, 3, 4, ... to "
        "0, 1, 2, 3, 4, ...",
        "10000 of 10000 partitions under-replicated from 1.0 s to 2.0 s",
    ]
    assert texts[-1] == "and 24 more such events until 19.0 s"
    assert max(map(len, texts)) < 160
