"""Sweeps: which tests lie on one line, and over what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.reports.html.sweeps import Sweep, find_sweeps, function_of
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.scenarios.scenario import Scenario
from tests.support.results import bare_result

TEST = "tests/perf/test_x.py::test_y"


def _test(name: object, scenario: Scenario, **parameters: Any) -> Result:
    return bare_result(nodeid=f"{TEST}[{name}]", scenario=scenario, parameters=parameters)


def _found(*fields: dict[str, Any]) -> Sweep | None:
    return next(iter(find_sweeps(_test(number, Scenario.of(each)) for number, each in enumerate(fields))), None)


def _shape(sweep: Sweep | None) -> Any:
    if sweep is None:
        return None
    lines = {name: [label for label in sweep.labels if label in line] for name, line in sweep.lines.items()}
    return sweep.field, sweep.line_field, lines


@pytest.mark.parametrize(
    ("nodeid", "function"),
    [
        ("test_x.py::test_y[1-2]", "test_x.py::test_y"),
        ("a[b]/test_x.py::TestA::test_y[c::d[e]]", "a[b]/test_x.py::TestA::test_y"),
        ("test_x.py::test_y", None),
        ("a[b]/test_x.py::test_y", None),
    ],
)
def test_the_function_is_what_stands_before_the_parameters(nodeid: str, function: str | None) -> None:
    """Brackets in a folder's name, and colons in a parameter's, are common."""
    assert function_of(nodeid) == function


@pytest.mark.parametrize(
    ("fields", "shape"),
    [
        ([{"record_size": 10_240}, {"record_size": 100}], ("record_size", None, {"": ["100 B", "10 KiB"]})),
        ([{"compression": "zstd"}, {"compression": None}], ("compression", None, {"": ["zstd", "none"]})),
        (
            [{"topic_config": {}}, {"topic_config": {"flush.messages": 1}}],
            ("topic_config", None, {"": ["none", "flush.messages=1"]}),
        ),
        ([{"acks": "all"}, {"acks": 1}, {"acks": 0}], ("acks", None, {"": ["0", "1", "all"]})),
        ([{"idempotence": True}, {"idempotence": False}], ("idempotence", None, {"": ["True", "False"]})),
        (
            [{"rate": 1000, "producers": 1}, {"rate": 1000, "producers": 2}, {"rate": 2000, "producers": 1}],
            ("rate", "producers", {"1": ["1k records/s", "2k records/s"], "2": ["1k records/s"]}),
        ),
        (
            [{"acks": acks, "partitions": count} for acks in (1, "all") for count in (1, 6)],
            ("partitions", "acks", {"1": ["1", "6"], "all": ["1", "6"]}),
        ),
        # Each rate has its own number of producers: one line.
        (
            [{"rate": 1000, "producers": 1}, {"rate": 2000, "producers": 2}, {"rate": 3000, "producers": 2}],
            ("rate", None, {"": ["1k records/s", "2k records/s", "3k records/s"]}),
        ),
        # Idempotence follows from it, and `rounds` says nothing of the load.
        (
            [{"transaction_size": None, "rounds": 3}, {"transaction_size": 100}],
            ("transaction_size", None, {"": ["100 records", "none"]}),
        ),
        (
            [{"rate": "1k -> 2k records/s over 3 s"}, {"rate": 500}],
            ("rate", None, {"": ["500 records/s", "1k -> 2k records/s over 3 s"]}),
        ),
    ],
)
def test_tests_that_differ_in_one_or_two_fields_are_a_sweep(fields: list[dict[str, Any]], shape: Any) -> None:
    """More values make the axis; numbers come before text."""
    assert _shape(_found(*fields)) == shape


@pytest.mark.parametrize(
    "fields",
    [
        [{"acks": 1}],
        [{"acks": 1}, {"acks": 1}],
        [{"acks": 1}, {"acks": "all"}, {"acks": "all"}],
        [{"acks": 1, "rate": 5, "producers": 1}, {"acks": "all", "rate": 6, "producers": 2}],
    ],
)
def test_others_are_none(fields: list[dict[str, Any]]) -> None:
    """One point is no line, two tests on one point differ in something else, three fields are no picture."""
    assert _found(*fields) is None


def test_functions_do_not_mix() -> None:
    """Two tests may go over the same field."""
    one, other = Scenario(acks=1), Scenario(acks="all")
    nodeids = ("a.py::test_a[1]", "a.py::test_b[1]", "a.py::test_a[2]", "a.py::test_b[2]", "a.py::test_c")
    scenarios = (one, one, other, other, other)
    tests = [bare_result(nodeid=nodeid, scenario=each) for nodeid, each in zip(nodeids, scenarios, strict=True)]
    sweeps = find_sweeps(tests)
    assert [(sweep.function, [test.nodeid for test in sweep.lines[""].values()]) for sweep in sweeps] == [
        ("a.py::test_a", ["a.py::test_a[1]", "a.py::test_a[2]"]),
        ("a.py::test_b", ["a.py::test_b[1]", "a.py::test_b[2]"]),
    ]


@pytest.mark.parametrize(
    ("name", "values", "labels"),
    [
        ("security", [None, "sasl_scram+tls"], ("none", "sasl_scram+tls")),
        ("config", [{}, {"num.io.threads": 1}], ("none", "num.io.threads=1")),
        (
            "config",
            [{"plugin.password": "a"}, {"plugin.password": "b", "x": 1}],
            ("plugin.password=***", "plugin.password=***, x=1"),
        ),
        ("way_ms", [2, 0], ("0", "2")),
        ("timeout", [200, 100], ("100", "200")),  # perhaps in milliseconds
    ],
)
def test_parameters_that_are_no_field_of_the_scenario_make_a_sweep(
    name: str, values: list[Any], labels: tuple[str, ...]
) -> None:
    """A field of the cluster, or what a fixture of the tests is told."""
    (sweep,) = find_sweeps(_test(value, Scenario(), **{name: value}) for value in values)
    assert (sweep.field, sweep.labels) == (name, labels)


def test_a_parameter_that_names_what_two_fields_say_does_not_hide_their_sweep() -> None:
    """`parametrize("case", ...)` and a call that turns it into fields."""
    fields = [{"record_size": 10, "rate": 5}, {"record_size": 20, "rate": 3}]
    (sweep,) = find_sweeps(_test(number, Scenario.of(each), case=number) for number, each in enumerate(fields))
    assert _shape(sweep) == _shape(_found(*fields))


@given(st.sets(st.tuples(st.sampled_from([1, 2, 5, 50]), st.sampled_from([None, "lz4", "zstd", "gzip"])), max_size=16))
def test_every_test_of_a_sweep_stands_in_it_once(pairs: set[tuple[int, str | None]]) -> None:
    """None is left out, and none is shown twice."""
    given_ = sorted(pairs, key=str)
    sweep = _found(*({"producers": producers, "compression": codec} for producers, codec in given_))
    assert (sweep is None) == (len(pairs) < 2)
    if sweep is None:
        return
    shown = [test.nodeid for line in sweep.lines.values() for test in line.values()]
    assert sorted(shown) == sorted(f"{TEST}[{number}]" for number in range(len(pairs)))
    assert set(sweep.labels) == {label for line in sweep.lines.values() for label in line}
