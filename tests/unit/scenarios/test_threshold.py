"""Limits: the grammar of `kafka_threshold`."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_kafkaperf.core.errors import ScenarioError
from pytest_kafkaperf.core.metrics import declare, metric
from pytest_kafkaperf.scenarios.threshold import (
    Absolute,
    Extreme,
    Limit,
    Relative,
    Threshold,
    describe_limit,
    limit_value,
    parse_threshold,
)

_P99 = "produce.latency.p99"
_EXAMPLE = "for example 'produce.latency.p99 <= 25 ms' or 'produce.throughput >= baseline - 10%'"


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("25 ms", Absolute(value=0.025)),
        ("0", Absolute(value=0)),
        ("baseline", Relative(factor=1)),
        ("baseline + 20%", Relative(factor=1.2)),
        ("baseline+20 %", Relative(factor=1.2)),
        ("baseline + 0.5%", Relative(factor=1.005)),
        ("baseline + .5%", Relative(factor=1.005)),
        ("baseline + 5000%", Relative(factor=51)),
        (
            "max(baseline + 20%, 5 ms)",
            Extreme(kind="max", parts=(Relative(factor=1.2), Absolute(value=0.005))),
        ),
        ("min ( 5 ms,baseline )", Extreme(kind="min", parts=(Absolute(value=0.005), Relative(factor=1)))),
        ("max(baseline,\n    5 ms)", Extreme(kind="max", parts=(Relative(factor=1), Absolute(value=0.005)))),
        ("max(5 ms, 7 ms)", Absolute(value=0.007)),
        ("min(5 ms, 7 ms)", Absolute(value=0.005)),
        ("max(baseline, baseline + 10%)", Relative(factor=1.1)),
        ("min(baseline, baseline + 10%)", Relative(factor=1)),
    ],
)
def test_every_form_of_a_limit_is_read(limit: str, expected: Limit) -> None:
    """The grammar is a contract with tests outside this project."""
    assert parse_threshold(f"{_P99} <= {limit}").limit == expected


def test_a_threshold_keeps_its_text_its_metric_and_its_operator() -> None:
    """The text is what a failure shows."""
    assert parse_threshold("  produce.throughput>=baseline  -  10% ") == Threshold(
        expression="produce.throughput>=baseline - 10%",
        metric=metric("produce.throughput"),
        operator=">=",
        limit=Relative(factor=0.9),
    )


@pytest.mark.parametrize(
    ("expression", "described"),
    [
        (f"{_P99} <= 25.12345678 ms", "25.1235 ms"),
        (f"{_P99} <= baseline", "baseline"),
        (f"{_P99} <= baseline + 200%", "baseline + 200%"),
        (f"{_P99} < baseline + .5%", "baseline + 0.5%"),
        ("produce.throughput > baseline - 12.5%", "baseline - 12.5%"),
        (f"{_P99} <= min(5 ms,baseline)", "min(5 ms, baseline)"),
    ],
)
def test_a_limit_is_described_as_people_write_it(expression: str, described: str) -> None:
    """Six digits tell one from another."""
    threshold = parse_threshold(expression)
    assert describe_limit(threshold.limit, threshold.metric) == described


def test_three_hundred_characters_are_read() -> None:
    """The bound that the error names is the bound."""
    assert parse_threshold(f"{_P99} <={'5 ms':>278}").limit == Absolute(value=0.005)


def test_a_limit_that_many_tests_have_is_read_once() -> None:
    """Of 500 tests in a run, most have the same ones."""
    expression = "produce.latency.p99 <= 25 ms"
    assert parse_threshold(expression).limit is parse_threshold(expression).limit


@pytest.mark.parametrize("operator", ["<=", "<", ">=", ">", "=="])
def test_every_operator_is_read(operator: str) -> None:
    """`<=` must not be read as `<`."""
    assert parse_threshold(f"errors {operator} 0").operator == operator


@pytest.mark.parametrize(
    ("expression", "needs"),
    [
        (f"{_P99} <= 25 ms", False),
        (f"{_P99} <= max(3 ms, 25 ms)", False),
        (f"{_P99} <= baseline", True),
        (f"{_P99} <= max(baseline, 5 ms)", True),
    ],
)
def test_a_threshold_knows_whether_it_needs_a_baseline(expression: str, *, needs: bool) -> None:
    """Without one, only these are INCONCLUSIVE."""
    assert (parse_threshold(expression).relative is not None) is needs


def test_the_tolerance_is_the_distance_to_the_printed_limit() -> None:
    """`baseline - 10%` prints 0.9 times the baseline, so that is where the verdict turns."""
    assert Relative(factor=0.9).log_tolerance == -math.log(0.9)
    assert Relative(factor=1.2).log_tolerance == math.log(1.2)
    assert Relative(factor=1.0).log_tolerance == 0


_TIMES = "ns, us, µs, ms, s, min, h, for example '250 us', '25 ms', '5 s', '2 min'"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", f"invalid threshold '': must be METRIC OP LIMIT, where OP is one of <= < >= > ==, {_EXAMPLE}"),
        (_P99, f"invalid threshold '{_P99}': must be METRIC OP LIMIT, where OP is one of <= < >= > ==, {_EXAMPLE}"),
        (f"{_P99} = 5 ms", f"invalid threshold '{_P99} = 5 ms': unknown operator '='; use one of <= < >= > =="),
        (f"{_P99} =< 5 ms", f"invalid threshold '{_P99} =< 5 ms': unknown operator '=<'; use one of <= < >= > =="),
        (
            f"1 ms < {_P99} < 5 ms",
            f"invalid threshold '1 ms < {_P99} < 5 ms': must be METRIC OP LIMIT, where OP is one of <= < >= > ==, "
            f"{_EXAMPLE}",
        ),
        (
            f"{_P99} <= 5 ms and lost == 0",
            f"invalid threshold '{_P99} <= 5 ms and lost == 0': these are 2 thresholds; declare them separately: "
            f"'{_P99} <= 5 ms', 'lost == 0'",
        ),
        (
            "errors == 0, lost == 0 && unsent == 0",
            "invalid threshold 'errors == 0, lost == 0 && unsent == 0': these are 3 thresholds; declare them "
            "separately: 'errors == 0', 'lost == 0', 'unsent == 0'",
        ),
        (f"20 ms >= {_P99}", f"invalid threshold '20 ms >= {_P99}': put the metric first: '{_P99} <= 20 ms'"),
        (
            "baseline - 10% < produce.throughput",
            "invalid threshold 'baseline - 10% < produce.throughput': put the metric first: 'produce.throughput > "
            "baseline - 10%'",
        ),
        *(
            (
                f"produce.throughput >= {limit}",
                f"invalid threshold 'produce.throughput >= {limit}': cannot read '{limit}'; write the allowed change "
                "as a percentage, for example 'baseline - 10%'",
            )
            for limit in ("110% of baseline", "0.9 * baseline", "0.9x baseline", "baseline * 0.9", "90%")
        ),
        (5, f"invalid threshold 5: must be text, {_EXAMPLE}"),
        (
            f"{_P99} <= " + "0" * 300,
            (
                f"invalid threshold '{_P99} <= 00000000000000000'...: has 323 characters, but must have at most 300, "
                f"in the form METRIC OP LIMIT, {_EXAMPLE}"
            ),
        ),
        (
            "produce.latency.p98 <= 5 ms",
            (
                "invalid threshold 'produce.latency.p98 <= 5 ms': unknown metric 'produce.latency.p98'; did "
                f"you mean '{_P99}', 'produce.latency.p95' or 'produce.latency.p90'?"
            ),
        ),
        ("error_ratio <= 1", "invalid threshold 'error_ratio <= 1': '1' is 100%; write '1%' or '100%'"),
        (f"{_P99} <= 5", f"invalid threshold '{_P99} <= 5': a time needs a unit: '5 ms' or '5 s'"),
        (
            f"{_P99} <= 5 MiB",
            f"invalid threshold '{_P99} <= 5 MiB': cannot read '5 MiB' as a time; use one of {_TIMES}",
        ),
        (f"{_P99} <= ", f"invalid threshold '{_P99} <= ': cannot read '' as a time; use one of {_TIMES}"),
        (
            f"{_P99} <= baseline + 20",
            (
                f"invalid threshold '{_P99} <= baseline + 20': cannot read 'baseline + 20'; write the "
                "allowed change as a percentage, for example 'baseline + 10%'"
            ),
        ),
        (
            f"{_P99} <= baseline + \u0663%",
            (
                f"invalid threshold '{_P99} <= baseline + ٣%': cannot read 'baseline + ٣%'; write the "
                "allowed change as a percentage, for example 'baseline + 10%'"
            ),
        ),
        (
            "produce.throughput >= baseline + 5%",
            (
                "invalid threshold 'produce.throughput >= baseline + 5%': higher values of "
                "produce.throughput are better; use 'produce.throughput >= baseline - N%'"
            ),
        ),
        (
            "produce.throughput >= baseline - 100%",
            (
                "invalid threshold 'produce.throughput >= baseline - 100%': invalid limit 'baseline - 100%': "
                "must subtract less than 100%"
            ),
        ),
        (
            f"{_P99} <= max(5 ms)",
            (
                f"invalid threshold '{_P99} <= max(5 ms)': 'max(5 ms)': max must have two limits, for example "
                "'max(baseline + 20%, 5 ms)'"
            ),
        ),
        (
            f"{_P99} <= max(1 ms, 2 ms, 3 ms)",
            (
                f"invalid threshold '{_P99} <= max(1 ms, 2 ms, 3 ms)': 'max(1 ms, 2 ms, 3 ms)': max must have "
                "two limits, for example 'max(baseline + 20%, 5 ms)'"
            ),
        ),
        (
            "errors <= baseline",
            (
                "invalid threshold 'errors <= baseline': errors can be zero, so it has no ratio to a "
                "baseline; use an absolute limit, for example 'errors == 0'"
            ),
        ),
        (
            "produce.throughput.steadiness >= baseline - 5%",
            (
                "invalid threshold 'produce.throughput.steadiness >= baseline - 5%': produce.throughput.steadiness can "
                "be zero, so it has no ratio to a baseline; use an absolute limit, for example "
                "'produce.throughput.steadiness >= 90%'"
            ),
        ),
        (
            f"{_P99} >= baseline",
            (
                f"invalid threshold '{_P99} >= baseline': lower values of {_P99} are better; use '{_P99} <= baseline + "
                "N%'"
            ),
        ),
        (
            f"{_P99} <= baseline - 5%",
            (
                f"invalid threshold '{_P99} <= baseline - 5%': lower values of {_P99} are better; use '{_P99} <= "
                "baseline + N%'"
            ),
        ),
        (
            "produce.throughput <= max(baseline, 5k records/s)",
            (
                "invalid threshold 'produce.throughput <= max(baseline, 5k records/s)': higher values of "
                "produce.throughput are better; use 'produce.throughput >= baseline - N%'"
            ),
        ),
        (
            f"{_P99} == baseline",
            (
                f"invalid threshold '{_P99} == baseline': lower values of {_P99} are better; use '{_P99} <= baseline + "
                "N%'"
            ),
        ),
    ],
)
def test_what_is_no_limit_is_refused_with_what_would_be(expression: object, message: str) -> None:
    """The text is all that a user gets at collection."""
    with pytest.raises(ScenarioError) as caught:
        parse_threshold(expression)  # type: ignore[arg-type]
    assert str(caught.value) == message


@given(
    st.one_of(
        st.text(),
        st.lists(
            st.sampled_from(
                [
                    _P99,
                    "errors",
                    "<=",
                    ">=",
                    "==",
                    "<",
                    "max(",
                    "min(",
                    ")",
                    ",",
                    "baseline",
                    "+",
                    "-",
                    "20%",
                    "5 ms",
                    " ",
                ]
            ),
            max_size=10,
        ).map("".join),
    )
)
def test_any_text_is_a_threshold_or_a_scenario_error(text: str) -> None:
    """A traceback at collection would name neither the test nor the mistake."""
    try:
        threshold = parse_threshold(text)
    except ScenarioError as error:
        assert str(error)
    else:
        assert describe_limit(threshold.limit, threshold.metric)


@given(
    st.sampled_from(["{}", "max({}, 5 ms)", "min(7 ms, {})"]),
    st.one_of(
        st.integers(min_value=1, max_value=9999).map(lambda percent: f"baseline + {percent} %"),
        st.integers(min_value=1, max_value=999).map(lambda time: f"{time} ms"),
        st.just("baseline"),
    ),
)
def test_a_described_limit_reads_back_as_itself(form: str, part: str) -> None:
    """What a report prints can be pasted into a marker."""
    limit = parse_threshold(f"{_P99} <= {form.format(part)}").limit
    described = describe_limit(limit, metric(_P99))
    assert parse_threshold(f"{_P99} <= {described}").limit == limit


@pytest.mark.parametrize(
    ("limit", "baseline", "value"),
    [
        ("25 ms", None, 0.025),
        ("baseline + 50%", 0.01, 0.015),
        ("baseline + 50%", None, None),
        ("max(baseline + 50%, 20 ms)", 0.01, 0.02),
        ("min(baseline + 50%, 20 ms)", 0.01, 0.015),
        ("max(baseline + 50%, 20 ms)", None, None),
    ],
)
def test_a_limit_has_a_value_once_the_baseline_is_known(
    limit: str, baseline: float | None, value: float | None
) -> None:
    """A failure shows the value that was to be held."""
    assert limit_value(parse_threshold(f"{_P99} <= {limit}").limit, baseline) == value


@pytest.mark.usefixtures("catalogue")
def test_a_threshold_on_a_metric_of_a_tests_own_is_read_before_that_is_declared() -> None:
    """Collection reads thresholds, and the test declares the metric; by then its unit and direction count."""
    absolute, relative = "app.rows >= 5k rows/s", "app.rows >= baseline - 10%"
    assert [parse_threshold(each).metric.better for each in (absolute, relative)] == ["higher", "higher"]
    assert parse_threshold("app.rows < 3 of anything").metric.better == "lower"
    declare("app.rows", unit="rows/s", better="higher")
    threshold = parse_threshold(absolute)
    assert (threshold.limit, threshold.metric.unit) == (Absolute(value=5000), "rows/s")
    assert describe_limit(threshold.limit, threshold.metric) == "5k rows/s"
    with pytest.raises(ScenarioError) as caught:
        parse_threshold("app.rows <= baseline + 10%")
    assert "higher values of app.rows are better; use 'app.rows >= baseline - N%'" in str(caught.value)
    with pytest.raises(ScenarioError) as caught:
        parse_threshold("app.rows >= 5 ms")
    assert "cannot read '5 ms' as a number of rows/s" in str(caught.value)


def test_a_misspelt_metric_is_not_a_tests_own() -> None:
    """Only names that begin with `app.` are."""
    with pytest.raises(ScenarioError) as caught:
        parse_threshold("app.rows.per-s >= 5")
    assert "must be 'app.' followed by letters, digits and '_'" in str(caught.value)
    with pytest.raises(ScenarioError, match=r"unknown metric 'app.dealy.p99'; did you mean 'app.delay.p99'"):
        parse_threshold("app.dealy.p99 <= 5 ms")
