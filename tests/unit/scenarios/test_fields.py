"""Values of fields as people read them."""

from __future__ import annotations

import pytest

from pytest_kafkaperf.scenarios.fields import format_field
from pytest_kafkaperf.scenarios.payloads import Samples
from pytest_kafkaperf.scenarios.scenario import Scenario


def test_a_field_is_written_with_its_unit() -> None:
    """A changed scenario is told field by field."""
    told = [format_field("linger", 0.0125), format_field("acks", 1), format_field("records", 12_345)]
    assert told == ["12.5 ms", "1", "12.345k records"]


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("rate", "1k -> 50k records/s over 30 s", "1k -> 50k records/s over 30 s"),
        ("rate", ["1 record/s for 60 s", 5000], "1 records/s for 60 s, 5k records/s"),
        ("record_size", {"10 KiB": 1, "100 B": 9}, "100 B: 90%, 10 KiB: 10%"),
        ("payload", "zeros", "zeros"),
        ("key", "zipf:1k:2", "zipf:1000:2.0"),
    ],
)
def test_a_field_is_written_alike_from_a_scenario_and_from_its_dump(name: str, value: object, told: str) -> None:
    """A baseline holds the dump, a report the scenario."""
    scenario = Scenario.of({name: value})
    assert format_field(name, getattr(scenario, name)) == told
    assert format_field(name, scenario.model_dump(mode="json")[name]) == told


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({}, "content unknown"),
        ({"size_bytes": None, "sha256": None}, "content unknown"),
        ({"size_bytes": "2", "sha256": 1}, "content unknown"),
        ({"size_bytes": 2, "sha256": "0123456789abcdef"}, "2 B, SHA-256 0123456789ab"),
    ],
)
def test_a_dumped_file_of_samples_is_written_with_its_content(content: dict[str, object], told: str) -> None:
    """Two files of one name differ by nothing else."""
    dumped = {"file": "orders", "delimiter": ";", **content}
    assert format_field("payload", dumped) == f"file:orders, delimiter ';' ({told})"
    assert format_field("payload", Samples(file="orders", delimiter=";")) == "file:orders, delimiter ';'"


def test_a_field_that_cannot_be_is_written_as_it_is() -> None:
    """A baseline may have been changed by hand; that is no reason to stop."""
    told = [format_field("rate", [{"a": 1}]), format_field("record_size", {"x": 1}), format_field("payload", {"y": 1})]
    assert told == ["[{'a': 1}]", "{'x': 1}", "{'y': 1}"]
