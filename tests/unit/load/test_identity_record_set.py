"""Sets of records: as Python's own, in two bits a record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.load.identity import RecordSet

CHUNK = 1 << 14
indexes = st.integers(-3, 3) | st.integers(CHUNK - 3, CHUNK + 3) | st.integers(-(2**47), 2**47 - 1)
names = st.builds(lambda producer, index: (producer << 48) + index, st.integers(0, 2) | st.just(2**15 - 1), indexes)
records = st.lists(st.tuples(names, st.booleans()), max_size=50)


@given(first=records, second=records, others=st.lists(names))
def test_it_holds_what_a_set_of_python_holds(
    first: list[tuple[int, bool]], second: list[tuple[int, bool]], others: list[int]
) -> None:
    """The warm-up is not measured; each member of a group has a set of its own."""
    sets, expected = [], []
    for part in (first, second):
        found, known = RecordSet(), dict[int, bool]()
        for name, measured in part:
            assert found.add(name, measured=measured) == (name not in known)
            known.setdefault(name, measured)
        assert found.measured() == sum(known.values())
        sets.append(found)
        expected.append({name for name, measured in known.items() if measured})

    both = RecordSet.union(sets)
    assert both.measured() == len(expected[0] | expected[1])
    for name in (*others, *(name for name, _ in (*first, *second))):
        assert both.has_measured(name) == (name in expected[0] | expected[1])
    assert [one.measured() for one in sets] == [len(one) for one in expected]
