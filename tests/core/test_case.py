"""One perf test as its markers declare it: what needs the folder of its file, or the whole of its declaration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.case import Case, Mark, read_case
from pytest_kafkaperf.errors import ScenarioError
from pytest_kafkaperf.samples import Samples
from pytest_kafkaperf.settings import read_settings


def case_of(folder: Path, *thresholds: str, **fields: Any) -> Case:
    marks = [Mark(name="kafka_scenario", args=(), kwargs=fields)]
    if thresholds:
        marks.append(Mark(name="kafka_threshold", args=thresholds, kwargs={}))
    settings = read_settings({}, {}, [], invocation_folder=folder, root=folder)
    return read_case("test_perf.py::test_it", marks, {}, settings, folder=folder)


def test_parameters_of_the_cluster_are_those_that_count(tmp_path: Path) -> None:
    """A chart over numbers of brokers that the command line has made one would show what never was."""
    settings = read_settings({"brokers": "3"}, {}, [], invocation_folder=tmp_path, root=tmp_path)
    parameters = {"brokers": 1, "security": None, "way_ms": 2, "acks": 1}
    case = read_case("test_perf.py::test_it[1]", [], parameters, settings, folder=tmp_path)
    assert case.parameters == {"brokers": 3, "security": None, "way_ms": 2}
    assert (case.spec.brokers, case.scenario.acks) == (3, 1)


def test_samples_are_found_from_the_folder_of_the_test(tmp_path: Path) -> None:
    """Tests run from anywhere; a baseline says the same on every machine."""
    (tmp_path / "orders.jsonl").write_text("{}\n")
    scenario = case_of(tmp_path, payload="file:orders.jsonl").scenario

    assert scenario.payload == Samples(file="orders.jsonl")
    assert scenario.payload.path == str(tmp_path / "orders.jsonl")
    assert scenario.model_dump(mode="json")["payload"] == {"file": "orders.jsonl", "delimiter": "\n"}


def test_a_call_finds_samples_as_a_marker_does(tmp_path: Path) -> None:
    """`kafka_perf(payload=...)` stands in the same file."""
    (tmp_path / "orders").write_text("x")
    payload = case_of(tmp_path).with_overrides({"payload": "file:orders"}).scenario.payload
    assert isinstance(payload, Samples)
    assert payload.path == str(tmp_path / "orders")


def test_samples_that_are_not_there_are_refused_with_the_path(tmp_path: Path) -> None:
    """At collection, before a cluster starts."""
    with pytest.raises(ScenarioError) as caught:
        case_of(tmp_path, payload="file:data/orders")
    assert str(caught.value) == (
        f"kafka_scenario: payload: cannot read the samples {str(tmp_path / 'data' / 'orders')!r}: "
        "No such file or directory; a relative path starts at the folder of the test's file"
    )


def test_an_absolute_path_is_taken_as_it_is(tmp_path: Path) -> None:
    """The advice on relative ones would mislead."""
    with pytest.raises(ScenarioError) as caught:
        case_of(tmp_path / "tests", payload=f"file:{tmp_path / 'orders'}")
    assert str(caught.value) == (
        f"kafka_scenario: payload: cannot read the samples {str(tmp_path / 'orders')!r}: No such file or directory"
    )


@pytest.mark.parametrize("name", [".", "a\0b"])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    """A folder, or a name that no system has."""
    with pytest.raises(ScenarioError, match="kafka_scenario: payload: cannot read the samples"):
        case_of(tmp_path, payload=f"file:{name}")


def test_an_empty_file_of_samples_is_refused(tmp_path: Path) -> None:
    """It would send nothing at all."""
    (tmp_path / "orders").touch()
    with pytest.raises(ScenarioError) as caught:
        case_of(tmp_path, payload="file:orders")
    assert str(caught.value) == (
        f"kafka_scenario: payload: the file of samples {str(tmp_path / 'orders')!r} is empty; "
        "write one sample or more to it"
    )


@pytest.mark.parametrize(
    ("limit", "fields", "reason"),
    [
        ("e2e.latency.p99 <= 5 ms", {}, "it needs consumers=1 or more"),
        ("consume.throughput >= 1 records/s", {}, "it needs consumers=1 or more"),
        ("lag.max <= 5", {"consumers": 1, "consume": "backlog"}, "it needs consume='live'"),
        ("e2e.latency.p99 <= 5 ms", {"consumers": 1, "consume": "backlog"}, "it needs consume='live'"),
        ("produce.delay.p99 <= 5 ms", {}, "it needs a rate"),
        ("reordered == 0", {"acks": 0}, "it needs acks=1 or acks='all'"),
        (
            "reordered == 0",
            {"topic": "in", "output_topic": "out", "consumers": 1},
            "an application may hand records to other partitions; leave output_topic or the limit out",
        ),
    ],
)
def test_a_limit_on_what_is_not_measured_is_refused_with_what_it_needs(
    tmp_path: Path, limit: str, fields: dict[str, Any], reason: str
) -> None:
    """A limit that nothing is compared with would pass for ever."""
    with pytest.raises(ScenarioError) as caught:
        case_of(tmp_path, limit, **fields)
    name = limit.split(maxsplit=1)[0]
    assert str(caught.value) == f"threshold {limit!r}: {name} is not measured here; {reason}"
