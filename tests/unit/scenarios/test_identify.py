"""What identifies a record, and how many output records are expected, as users write it."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.scenarios.fields import format_field
from pytest_kafkaperf.scenarios.identify import (
    BY_HEADER,
    ONE,
    Expected,
    Identify,
    Selector,
    parse_expect,
    parse_identify,
)
from pytest_kafkaperf.scenarios.scenario import Scenario

THROUGH: dict[str, Any] = {"topic": "orders", "output_topic": "bills", "consumers": 1}


def order_id(record: Any) -> bytes:
    """A function as a test gives it."""
    found: bytes = record.key
    return found


def order(index: int, random: Any) -> bytes:  # noqa: ARG001 - the signature of a payload function
    """A payload function as a test gives it."""
    return b"%d" % index


NAME = f"{__name__}.order_id"
TAG, KEY = Selector(kind="value"), Selector(kind="key")
FUNCTION = Selector(kind="function", function=order_id)
ID = Selector(kind="json", path=("order", "id"))
FORMS: list[tuple[Any, Selector, str]] = [
    ("header", Selector(kind="header"), "header"),
    ("key", KEY, "key"),
    ("value:16", TAG, "value:16"),
    ("json:id", Selector(kind="json", path=("id",)), "json:id"),
    ("json:order.id", ID, "json:order.id"),
    ("json:lines.0.id", Selector(kind="json", path=("lines", "0", "id")), "json:lines.0.id"),
    (order_id, FUNCTION, NAME),
]


@pytest.mark.parametrize(("written", "selector", "shown"), FORMS, ids=[shown for _, _, shown in FORMS])
def test_one_selector_counts_for_both_sides(written: Any, selector: Selector, shown: str) -> None:
    """Most applications keep an identity where it was."""
    found = parse_identify(written)
    assert found == Identify(input=selector, output=selector)
    assert (found.by_tag, str(found), found.dump()) == (selector.kind in ("header", "value"), shown, shown)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("key", "json:order.id", Identify(input=KEY, output=ID)),
        ("json:order.id", order_id, Identify(input=ID, output=FUNCTION)),
        ("value:16", order_id, Identify(input=TAG, output=FUNCTION)),
        ("header", "header", BY_HEADER),
        ("value:16", "value:16", Identify(input=TAG, output=TAG)),
    ],
)
def test_a_mapping_has_a_selector_for_each_side(before: Any, after: Any, expected: Identify) -> None:
    """An application may rename the field, or move a key into the value."""
    assert parse_identify({"input": before, "output": after}) == expected


def test_two_different_sides_are_shown_and_stored_separately() -> None:
    """A baseline must reveal which side has changed."""
    found = parse_identify({"input": "key", "output": order_id})
    assert str(found) == f"input key, output {NAME}"
    assert found.dump() == {"input": "key", "output": NAME}
    assert [format_field("identify", one) for one in (found, found.dump())] == [str(found)] * 2


@given(st.sampled_from(["key", "json:a.b", "json:a", order_id]), st.sampled_from(["key", "json:a.b", order_id]))
def test_what_was_parsed_stays_as_it_is(before: Any, after: Any) -> None:
    """Scenarios are validated again after they were merged, and travel to workers."""
    found = parse_identify({"input": before, "output": after})
    assert parse_identify(found) == found == pickle.loads(pickle.dumps(found))  # noqa: S301 - our own


_VALID = "must be 'header', 'key', 'json:FIELD', 'value:16' or a function"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("value", f"{_VALID}, not 'value'; for example 'json:order.id'"),
        ("json:", f"{_VALID}, not 'json:'; for example 'json:order.id'"),
        ("json:a..b", f"{_VALID}, not 'json:a..b'; for example 'json:order.id'"),
        (None, f"{_VALID}, not None; for example 'json:order.id'"),
        (16, f"{_VALID}, not 16; for example 'json:order.id'"),
        ({"input": "key", "output": "kye"}, f"{_VALID}, not 'kye'; for example 'json:order.id'"),
        ({"input": "key", "outptu": "key"}, "unknown entry 'outptu': did you mean 'output'?"),
        ({"input": "key"}, "must have the entries 'input' and 'output', but 'output' is missing"),
        ({}, "must have the entries 'input' and 'output', but 'input' is missing"),
        (
            {"input": "key", "output": "header"},
            "output header requires the plugin's tag in the input; set input to 'header' as well",
        ),
        (
            {"input": "value:16", "output": "key"},
            "input value:16 is a tag of 16 bytes, so output must be 'value:16' as well, or a function that returns "
            "these bytes",
        ),
        (
            {"input": "header", "output": "value:16"},
            "output value:16 requires the plugin's tag in the input; set input to 'value:16' as well",
        ),
        (
            {"input": "header", "output": "json:id"},
            "input header is a tag of 16 bytes, so output must be 'header' as well, or a function that returns these "
            "bytes",
        ),
    ],
)
def test_another_form_is_refused(written: Any, told: str) -> None:
    """Each error shows what was given and what is valid."""
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        parse_identify(written)


def test_a_function_that_workers_cannot_import_is_refused() -> None:
    """They import it by its name, which a lambda does not have."""
    told = f"{__name__}.test_a_function_that_workers_cannot_import_is_refused.<locals>.<lambda> must be a module-level"
    with pytest.raises(ValueError, match=re.escape(told)):
        parse_identify(lambda record: record.key)


@pytest.mark.parametrize(
    ("written", "expected", "shown"),
    [
        (1, ONE, "1"),
        ("1", ONE, "1"),
        (0, Expected(0, 0), "0"),
        (100, Expected(100, 100), "100"),
        ("0..3", Expected(0, 3), "0..3"),
        ("0..1", Expected(0, 1), "0..1"),
        (ONE, ONE, "1"),
    ],
)
def test_outputs_are_expected_by_a_number_or_a_range(written: Any, expected: Expected, shown: str) -> None:
    """A filter drops records, and a splitter makes several of one."""
    assert (parse_expect(written), str(expected)) == (expected, shown)


@given(st.integers(0, 100), st.sampled_from(["exact", "range"]))
def test_expected_outputs_are_parsed_as_they_are_shown(most: int, kind: str) -> None:
    """A baseline stores the text."""
    expected = Expected(most, most) if kind == "exact" or not most else Expected(0, most)
    assert parse_expect(str(expected)) == expected


_NUMBER = "must be a whole number from 0 to 100, or a range such as '0..3'"
_RANGE = "a range must start with 0 and end with 1 or more, for example '0..3'"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        *((one, _NUMBER) for one in (-1, 101, 1.5, 2.0, True, None, "", "a", "1..", "..3", "0...3", "0..101", " 1")),
        *((one, _RANGE) for one in ("1..3", "0..0", "3..3")),
    ],
)
def test_another_number_of_outputs_is_refused(written: Any, told: str) -> None:
    """If the least number were above 0, it would be unknown which of the records are lost."""
    with pytest.raises(ValueError, match=f"^{re.escape(told)}$"):
        parse_expect(written)


@pytest.mark.parametrize(
    ("fields", "carried"),
    [
        ({}, "header"),
        ({"payload": order}, "header"),
        ({"identify": "value:16"}, "value"),
        ({"identify": {"input": "value:16", "output": order_id}}, "value"),
        ({"identify": "key", "key": "sequential", "record_size": 1}, "nothing"),
        ({"identify": "json:id", "payload": order, "expect": "0..3"}, "nothing"),
    ],
)
def test_records_carry_a_tag_or_are_joined(fields: dict[str, Any], carried: str) -> None:
    """Records with identities stay as the user made them, so they may even be shorter than a tag."""
    scenario = Scenario.of(THROUGH | fields)
    assert (scenario.tags_in_header, scenario.joins_identities) == (carried == "header", carried == "nothing")


def test_a_payload_function_has_a_tag_in_the_header_even_without_an_application() -> None:
    """Its values must stay unchanged."""
    scenario = Scenario.of({"payload": order, "consumers": 1})
    assert (scenario.tags_in_header, scenario.record_size) == (True, None)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"identify": "json:id", "payload": {"function": order, "pool": 10}},
            "identify='json:id' requires a different identity for each record, but the records of a pool repeat; "
            "remove pool, or set key='sequential' and identify='key'",
        ),
        (
            {"identify": "value:16", "payload": order},
            "identify='value:16' cannot be combined with a payload function, because it would overwrite the start of "
            "each value; use 'header', 'key', 'json:FIELD' or a function",
        ),
        (
            {"expect": 2},
            "expect='2' requires an identity in the records themselves; set identify to 'key', 'json:FIELD' or a "
            "function",
        ),
        (
            {"expect": "0..3", "identify": "value:16"},
            "expect='0..3' requires an identity in the records themselves; set identify to 'key', 'json:FIELD' or a "
            "function",
        ),
        (
            {"identify": "key", "key": "sequential", "backlog": 10},
            "backlog cannot be combined with identify='key', because the backlog's records have the same identities "
            "as the load's; remove one of them",
        ),
        (
            {"identify": "key", "key": "sequential", "client": "record"},
            "identify='key' requires client='batch'; remove client",
        ),
        ({"payload": order, "client": "record"}, "a payload function requires client='batch'; remove client"),
        (
            {"payload": order, "record_size": 10},
            "record_size 10 B cannot be combined with a payload function, which defines the sizes; remove record_size, "
            "or set record_size=None to override another marker",
        ),
        (
            {"output_topic": None, "identify": "key", "expect": 2},
            "identify requires output_topic; set output_topic, or remove identify; expect requires output_topic; set "
            "output_topic, or remove expect",
        ),
    ],
)
def test_what_identities_cannot_be_combined_with_is_refused(fields: dict[str, Any], told: str) -> None:
    """Each error shows what was given and what to do."""
    with pytest.raises(ScenarioError) as caught:
        Scenario.of(THROUGH | fields)
    assert str(caught.value) == told


def test_a_pool_can_have_identities_from_its_keys() -> None:
    """The remedy in the error must work."""
    fields = {"payload": {"function": order, "pool": 10}, "key": "sequential", "identify": "key"}
    assert Scenario.of(THROUGH | fields).joins_identities
