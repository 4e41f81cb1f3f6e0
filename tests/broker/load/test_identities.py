"""Applications that build new records: what comes out is joined with what went in, record by record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_kafkaperf.clusters.cluster import Cluster
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.generated import keyed_order, order, reference
from tests.support.relays import DEAD, DUE, MIDDLE, OUT, THROUGH, Start
from tests.support.rounds import run_scenario
from tests.support.topic_log import read_log

if TYPE_CHECKING:
    from tests.support.rounds import Load

BY_FIELD: dict[str, Any] = {"payload": order, "identify": {"input": "json:id", "output": "json:ref"}}
WAYS = {
    "fields": BY_FIELD,
    "key": {"payload": keyed_order, "identify": "key"},
    "function": {"payload": order, "identify": reference},
}


@pytest.mark.parametrize("fields", WAYS.values(), ids=list(WAYS))
def test_one_lost_and_one_doubled_record_are_found(
    broker: Cluster, load: Load, relay: Start, fields: dict[str, Any]
) -> None:
    """Their numbers agree by chance, and all others are timed once."""
    relay("--rebuild", "--lose", str(MIDDLE), "--repeat", str(MIDDLE + 1))
    ran = load(broker, **{**THROUGH, **fields})
    assert (ran.faults, ran.metrics["lost"], ran.metrics["duplicated"]) == ([], 1, 1)
    assert ran.metrics["app.output_ratio"] == 1 - 1 / DUE
    assert sum(part.latency.total for part in ran.consumed) == DUE - 1
    assert 0 < ran.metrics["e2e.latency.p50"] < 5


def test_several_workers_and_groups_agree(broker: Cluster, load: Load, relay: Start) -> None:
    """Each group gets every record, in parts."""
    relay("--rebuild")
    ran = load(broker, **{**THROUGH, **BY_FIELD, "consumers": 2, "consumer_groups": 2, "producers": 2})
    assert (ran.faults, ran.metrics["lost"], ran.metrics["duplicated"]) == ([], 0, 0)
    assert sum(part.latency.total for part in ran.consumed) == 2 * DUE


@pytest.mark.parametrize(
    ("expect", "copies", "found"),
    [
        (2, 2, {"lost": 0, "duplicated": 0, "app.output_ratio": 1.0}),
        (2, 1, {"lost": DUE, "duplicated": 0, "app.output_ratio": 0.5}),
        ("0..3", 2, {"lost": 0, "duplicated": 0, "app.output_ratio": 1.0}),
        ("0..1", 2, {"lost": 0, "duplicated": DUE, "app.output_ratio": 1.0}),
        (0, 1, {"lost": 0, "duplicated": DUE, "app.output_ratio": None}),
    ],
)
def test_the_number_of_outputs_may_be_another_one(
    broker: Cluster, load: Load, relay: Start, expect: int | str, copies: int, found: dict[str, float | None]
) -> None:
    """What is missing and what is too much is counted in output records."""
    relay("--rebuild", "--copies", str(copies))
    ran = load(broker, **{**THROUGH, **BY_FIELD, "expect": expect})
    assert ran.faults == []
    assert {name: ran.metrics.get(name) for name in found} == found


def test_a_wrong_output_field_is_shown_next_to_the_fields_of_the_output(
    broker: Cluster, load: Load, relay: Start
) -> None:
    """A typing error is obvious then."""
    relay("--rebuild")
    ran = load(broker, **{**THROUGH, **BY_FIELD, "identify": {"input": "json:id", "output": "json:reff"}})
    (problem,) = ran.round.problems
    assert problem.kind is ProblemKind.NO_OUTPUT
    assert problem.text.startswith(
        f"no input record has the same identity (input json:id, output json:reff) as what arrived in {OUT!r} ("
    )
    assert " records, the first of which has a key of " in problem.text
    assert " B and the JSON fields 'ref'): " in problem.text


def test_records_that_repeat_cannot_be_identified(broker: Cluster, load: Load, relay: Start) -> None:
    """The output could belong to any of them."""
    relay("--rebuild")
    ran = load(broker, **{**THROUGH, "key": "uniform:5", "identify": "key"})
    assert [problem.kind for problem in ran.round.problems] == [ProblemKind.IDENTITIES]


def test_dead_letters_are_counted(broker: Cluster, load: Load, relay: Start) -> None:
    """They are lost to the output, but not silently."""
    relay("--rebuild", "--reject", str(MIDDLE), "--dead-letters", DEAD)
    ran = load(broker, **{**THROUGH, **BY_FIELD, "dead_letter_topic": DEAD})
    assert (ran.faults, ran.metrics["lost"], ran.metrics["app.dead_letters"]) == ([], 1, 1)


@pytest.mark.parametrize("fields", [{"payload": keyed_order}, {"payload": {"function": order, "pool": 7}}])
def test_values_of_a_payload_function_are_left_as_they_are(broker: Cluster, relay: Start, fields: Any) -> None:
    """An application that validates its input must get valid input; only a header tells the plugin which is which."""
    relay()
    scenario = Scenario.of({**THROUGH, **fields, "rounds": 1})
    (one,) = run_scenario(scenario, broker)
    assert one.problems == ()
    assert (one.metrics["lost"], one.metrics["duplicated"]) == (0, 0)
    records = list(read_log(broker.bootstrap_servers, OUT).records)
    assert {tuple(sorted(json.loads(record.value))) for record in records} == {("id", "item", "number")}
    assert all("kafkaperf-tag" in dict(record.headers) for record in records)
