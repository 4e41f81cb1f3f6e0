"""The table in the terminal, whole, as its readers see it."""

# ruff: noqa: E501, RUF001 - lines as they are shown
from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.environment import differences
from pytest_kafkaperf.core.notices import Notice, Remark
from pytest_kafkaperf.core.problems import Cause, Problem
from pytest_kafkaperf.core.units import Quantity, RelativeChange, Unit
from pytest_kafkaperf.reports.columns import Paper, mark_of
from pytest_kafkaperf.reports.markdown import markdown
from pytest_kafkaperf.reports.terminal import summary_lines, wrapped, wrapped_overview
from pytest_kafkaperf.reports.wording import count_verdicts, failure_next_to, how_of, names_of, rows_of
from pytest_kafkaperf.runner.result import Result
from pytest_kafkaperf.verdict.outcome import Verdict
from pytest_kafkaperf.verdict.reasons import Obstacle, ObstacleKind, Reason
from tests.support.problems import event_told, notice_told
from tests.support.results import (
    bare_result,
    ending,
    endings,
    one_of_each,
    result,
    rounds,
    run_of,
    side_by_side,
    table,
    trial_at,
)

ROOT = Path(__file__).parents[3]

EXPECTED_80 = """\
✓ PASSED        test_ingest
  threshold                                 measured  baseline  change     range
  ✓ produce.latency.p99 <= baseline + 20%    12.1 ms   12.1 ms      0%    -8…+9%
  ✓ produce.throughput >= baseline - 10%     52.3k/s   52.3k/s      0%    -8…+9%
  ✓ errors == 0                                    0
✗ REGRESSED     test_slow[1 KiB-acks=all]
  ✗ produce.latency.p99 <= baseline + 20%    18.1 ms   12.1 ms    +50%  +38…+63%
      14.5 ms allowed; changed: Kafka 4.0.0 → 4.1.1, broker setting
      num.io.threads (default) → 16
  ✓ e2e.latency.p99 <= max(baseline + 20%, 5 ms)
                                             18.9 ms   17.2 ms    +10%   +1…+20%
      slower, but within the limit
  ✓ produce.throughput >= baseline - 10%     52.3k/s   52.3k/s      0%    -8…+9%
  intended? accept it with: pytest 'tests/perf/test_orders.py::test_slow[1
    KiB-acks=all]' --kafka-cluster=local --kafka-calibrate=2
    --kafka-update-baselines
  other change (no threshold): produce.latency.p50 +32% (2.1 ms → 2.8 ms)
✗ VIOLATED      test_sla
  ✗ produce.latency.p99 <= 10 ms             12.1 ms
      median of 5 rounds, from 11.9 ms to 12.3 ms
  ✓ produce.throughput >= 50k records/s      52.3k/s
? INCONCLUSIVE  test_new                    no baseline for this test
  ? produce.throughput >= baseline - 10%     52.3k/s
      compare with this branch's base (--kafka-compare=git:merge-base), or
      measure one: pytest tests/perf/test_orders.py::test_new
      --kafka-cluster=local --kafka-update-baselines
✗ INVALID       test_lost_broker
  round 1: no record was acknowledged for 15 s while 300 were outstanding: the
    cluster is down
✓ PASSED        test_counts
    produce.throughput                       52.3k/s
    produce.latency.p50                       2.1 ms
    produce.latency.p99                      12.1 ms
    e2e.latency.p99                          17.2 ms
  ✓ errors == 0, lost == 0                         0
  warning: broker 2 left at 1.2 s
· MEASURED      test_bare                   no threshold
    produce.throughput                       52.3k/s
    produce.latency.p50                       2.1 ms
    produce.latency.p99                      12.1 ms
    e2e.latency.p99                          17.2 ms"""

EXPECTED_140 = """\
✓ PASSED        test_ingest
  threshold                                       measured     rounds  baseline  change     range  can detect
  ✓ produce.latency.p99 <= baseline + 20%          12.1 ms  11.9–12.3   12.1 ms      0%    -8…+9%        +24%
  ✓ produce.throughput >= baseline - 10%           52.3k/s  51.3–53.3   52.3k/s      0%    -8…+9%        -13%
  ✓ errors == 0                                          0
  scenario: defaults
✗ REGRESSED     test_slow[1 KiB-acks=all]
  ✗ produce.latency.p99 <= baseline + 20%          18.1 ms  17.8–18.5   12.1 ms    +50%  +38…+63%        +24%
      14.5 ms allowed; +50.0% against the baseline; the threshold is +20.0%; noise can explain up to +11.6% (baseline of 10 days); changed:
      Kafka 4.0.0 → 4.1.1, broker setting num.io.threads (default) → 16
  ✓ e2e.latency.p99 <= max(baseline + 20%, 5 ms)   18.9 ms  18.5–19.3   17.2 ms    +10%   +1…+20%        +24%
      slower, but within the limit
  ✓ produce.throughput >= baseline - 10%           52.3k/s  51.3–53.3   52.3k/s      0%    -8…+9%        -13%
  intended? accept it with: pytest 'tests/perf/test_orders.py::test_slow[1 KiB-acks=all]' --kafka-cluster=local --kafka-calibrate=2
    --kafka-update-baselines
  other change (no threshold): produce.latency.p50 +32% (2.1 ms → 2.8 ms)
  scenario: defaults
✗ VIOLATED      test_sla
  ✗ produce.latency.p99 <= 10 ms                   12.1 ms  11.9–12.3                                 10.6 ms
      median of 5 rounds, from 11.9 ms to 12.3 ms
  ✓ produce.throughput >= 50k records/s            52.3k/s  51.3–53.3                                 47.3k/s
  scenario: defaults
? INCONCLUSIVE  test_new                          no baseline for this test
  ? produce.throughput >= baseline - 10%           52.3k/s  51.3–53.3
      compare with this branch's base (--kafka-compare=git:merge-base), or measure one: pytest tests/perf/test_orders.py::test_new
      --kafka-cluster=local --kafka-update-baselines
  scenario: defaults
✗ INVALID       test_lost_broker
  round 1: no record was acknowledged for 15 s while 300 were outstanding: the cluster is down
  scenario: defaults
✓ PASSED        test_counts
    produce.throughput                             52.3k/s  51.3–53.3
    produce.latency.p50                             2.1 ms  2.06–2.14
    produce.latency.p99                            12.1 ms  11.9–12.3
    e2e.latency.p99                                17.2 ms  16.9–17.5
  ✓ errors == 0, lost == 0                               0
  warning: broker 2 left at 1.2 s
  scenario: defaults
· MEASURED      test_bare                         no threshold
    produce.throughput                             52.3k/s  51.3–53.3
    produce.latency.p50                             2.1 ms  2.06–2.14
    produce.latency.p99                            12.1 ms  11.9–12.3
    e2e.latency.p99                                17.2 ms  16.9–17.5
  scenario: defaults"""


def shown(width: int, **style: Any) -> str:
    results = one_of_each()
    return table(results, endings(results), width, **style)


def test_at_80_columns_the_threshold_is_the_row() -> None:
    """The width that terminals open with, and that CI logs have: what was declared, measured, and why it failed."""
    assert shown(80) == EXPECTED_80


def test_the_reference_shows_this_table_and_explains_its_signs() -> None:
    """A table that has changed would be explained by one that nobody sees."""
    page = (ROOT / "docs" / "reference" / "thresholds-and-results.md").read_text(encoding="utf-8")
    page = page.split("\n## The table in the terminal\n")[1]
    shown = page.partition("```text\n")[2].partition("```")[0]
    assert shown.count("\n") > 30
    assert EXPECTED_80.startswith(shown)
    rows = {line[3]: line for line in page.splitlines() if line.startswith("| `")}
    assert [verdict for verdict in Verdict if f"`{verdict}`" not in rows[mark_of(verdict)]] == []


def test_at_140_columns_and_with_v_nothing_is_left_out() -> None:
    """The rounds, the minimum detectable change, the whole reason and the scenario."""
    assert shown(140, verbose=True) == EXPECTED_140


@pytest.mark.parametrize(
    ("width", "head"),
    [
        (140, "threshold measured rounds baseline change range can detect"),
        (90, "threshold measured rounds baseline change range"),
        (80, "threshold measured baseline change range"),
        (72, "threshold measured baseline change"),
        (60, "threshold measured change"),
        (50, "threshold measured"),
        (20, "threshold measured"),
    ],
)
def test_columns_go_one_after_the_other_where_it_is_narrow(width: int, head: str) -> None:
    """The threshold and its verdict stay in any case, and so does what was measured."""
    lines = shown(width, verbose=True).splitlines()
    assert next(" ".join(line.split()) for line in lines if line.startswith("  threshold")) == head
    assert [line for line in lines if line.startswith("  ✗ produce.latency.p99 <= baseline + 20%")]
    if width >= 50:
        assert max(map(len, lines)) <= width


def test_columns_that_nothing_would_stand_in_are_left_out() -> None:
    """Without a baseline the table is as narrow as what it says."""
    bare = result("test_sla", "produce.latency.p99 <= 10 ms", measured=rounds()[:1])
    assert (
        table([bare], {}, 100)
        == """\
✗ VIOLATED  test_sla
  threshold                       measured
  ✗ produce.latency.p99 <= 10 ms   11.9 ms
      median of 1 round, each 11.9 ms"""
    )


def test_files_of_the_same_name_keep_their_folders() -> None:
    """Two tests of one name could not be told apart."""
    nodeids = ("orders/test_topic.py::test_ingest", "billing/test_topic.py::test_ingest")
    assert names_of([bare_result(trial_at(1), nodeid=each) for each in nodeids]) == dict(
        zip(nodeids, nodeids, strict=True)
    )


def test_a_baseline_of_another_environment_is_not_printed() -> None:
    """It is of another machine: next to the value, it would be read as a comparison."""
    one = result("test_x", "produce.throughput >= baseline - 10%", baseline=rounds(produce__throughput=2))
    why = Obstacle(ObstacleKind.OTHER_ENVIRONMENT, {"environment": "laptop", "known": "'ci'"})
    baseline = dataclasses.replace(one.baseline, obstacle=why)
    checks = tuple(
        dataclasses.replace(check, outcome=Verdict.INCONCLUSIVE, reasons=(Reason.of(why),)) for check in one.checks
    )
    one = dataclasses.replace(one, verdict=Verdict.INCONCLUSIVE, baseline=baseline, checks=checks)
    assert (
        table([one], {})
        == """\
? INCONCLUSIVE  test_x
  no baseline for environment 'laptop' (there is one for 'ci')
  threshold                               measured     rounds
  ? produce.throughput >= baseline - 10%   52.3k/s  51.3–53.3
      measure a new baseline: pytest tests/perf/test_orders.py::test_x
      --kafka-cluster=local --kafka-update-baselines"""
    )


def test_all_changes_of_the_scenario_are_printed() -> None:
    """They were cut off after the first one, as if they were advice."""
    one = result("test_x", "produce.throughput >= baseline - 10%")
    obstacle = Obstacle(ObstacleKind.OTHER_SCENARIO, {"changes": "acks: all -> 1; rounds: 5 -> 3"})
    checks = tuple(dataclasses.replace(check, reasons=(Reason.of(obstacle),)) for check in one.checks)
    one = dataclasses.replace(one, baseline=dataclasses.replace(one.baseline, obstacle=obstacle), checks=checks)
    assert "  the scenario differs from the baseline's (acks: all -> 1; rounds: 5 -> 3)\n" in table([one], {})


def test_a_change_by_a_factor_is_a_factor() -> None:
    """`+100341.8%` is a number that nobody reads."""
    one = result(
        "test_x", "e2e.latency.p99 <= baseline + 20%", baseline=rounds(), measured=rounds(e2e__latency__p99=1004)
    )
    assert " 17.2 ms   ×1004  ×924…×1091" in table([one], {})


def test_what_changed_is_shown_of_a_test_that_passes_although_it_moved_much() -> None:
    """Half as slow again within a wide tolerance is worth a look; a change within noise is not."""
    limit, changed = "produce.latency.p99 <= baseline + 80%", differences({"kafka": "4.0.0"}, {"kafka": "4.1.1"})
    moved = result("test_x", limit, baseline=rounds(), measured=rounds(produce__latency__p99=1.47), changed=changed)
    same = result("test_x", limit, baseline=rounds(), changed=changed)
    assert "  changed: Kafka 4.0.0 → 4.1.1" in table([moved], {}).splitlines()
    assert "changed" not in table([same], {})


def test_a_warning_stands_there_once_whatever_its_numbers_are() -> None:
    """Each round has its own counts; the JSON report has them all."""
    repeated = (Notice(Remark.RECORDS_FAILED, {"failed": number, "failures": ""}) for number in (2, 4, 5))
    loud = result("test_x", "errors == 0", warnings=(*repeated, notice_told("broker 2 left")))
    assert [line for line in table([loud], {}).splitlines() if "warning" in line] == [
        "  warning: 2 records failed (and 2 more like this)",
        "  warning: broker 2 left",
    ]


def test_what_was_done_on_purpose_is_shown_with_v_or_after_a_failure() -> None:
    """A planned restart is in every healthy run; it comes once for all rounds of both sides."""
    done = ((1.5, "sink stopped"), (1.6, "sink stopped"), (2.5, "sink started"))
    events = [event_told(at_s, text).notice for at_s, text in done]
    told = (*events, events[0].of_other_side(), notice_told("broker 2 left"))
    restarted = result("test_x", "errors == 0", warnings=told)
    failed = dataclasses.replace(restarted, verdict=Verdict.VIOLATED)
    planned = [
        "  at 1.5 s: sink stopped (and 1 more like this)",
        "  at 2.5 s: sink started",
        "  the baseline: at 1.5 s: sink stopped",
    ]
    unplanned = "  warning: broker 2 left"
    assert table([restarted], {}).splitlines()[-2:] == ["  ✓ errors == 0                 0", unplanned]
    assert table([restarted], {}, verbose=True).splitlines()[-5:-1] == [*planned, unplanned]
    assert table([failed], {}).splitlines()[-4:] == [*planned, unplanned]


@pytest.mark.parametrize(
    ("limit", "line"),
    [
        ("app.delay.p99 <= 2 s", []),
        ("e2e.latency.p99 <= 1 s", []),
        ("app.delay.p99 <= 700 ms", ["  warning: application times include the group's commit interval of 250 ms"]),
    ],
)
def test_a_commit_interval_matters_only_near_a_threshold(limit: str, line: list[str]) -> None:
    """Every run with a watched group has one."""
    notice = Notice(Remark.COMMIT_INTERVAL, {"interval": Quantity(0.25, Unit.SECONDS)})
    one = result("test_x", limit, measured=[{limit.partition(" ")[0]: 0.4}], warnings=(notice,))
    assert [text for text in table([one], {}).splitlines() if "commit interval" in text] == line


def test_the_table_does_not_repeat_what_a_failure_message_shows() -> None:
    """pytest prints that message right above; without it, nothing is lost."""
    slow, gone = one_of_each()[1], one_of_each()[4]
    ended = Problem(Cause.APPLICATION_ENDED, {"reason": "shop exited", "log": "Traceback:\n  x()"})
    gone = dataclasses.replace(gone, problems=(ended,))
    ends = {each.nodeid: ending(each.nodeid, "failed", by_verdict=True) for each in (slow, gone)}
    texts = ("changed: ", "intended? accept it with: ", "the end of its log:", "Traceback")
    run = run_of([slow, gone], endings=ends)
    below, alone = (
        "\n".join(summary_lines(run, Paper(), verbose=False, failures=failures)) for failures in (True, False)
    )
    assert [text for text in texts if text in below] == []
    assert "shop exited" in below
    assert [text for text in texts if text in alone] == [*texts]


def test_a_crash_explains_why_values_are_missing() -> None:
    """The row shows that there is no value, and the problem above it shows why."""
    gone = result("test_x", "e2e.latency.p99 <= 1 s", measured=[{}], problems=["broker lost"])
    ended = Problem(Cause.APPLICATION_ENDED, {"reason": "shop exited"})
    crashed = dataclasses.replace(gone, problems=(ended,))
    assert ["is missing in round" in table([each], {}) for each in (gone, crashed)] == [True, False]


def test_an_accepted_or_expected_failure_keeps_its_lines() -> None:
    """No failure message shows them."""
    slow = one_of_each()[1]
    ends = {slow.nodeid: ending(slow.nodeid, "xfailed", by_verdict=True)}
    lines = summary_lines(run_of([slow], endings=ends), Paper(), verbose=False, failures=True)
    assert "intended? accept it with: " in "\n".join(lines)


def test_the_range_is_explained_once() -> None:
    """Against a stored baseline, it also has the noise of days; side by side, each end may miss in 5% of tests."""

    def explained(*results: Result) -> list[str]:
        lines = summary_lines(run_of(results), Paper(width=200), verbose=False, failures=True)
        return [line for line in lines if line.startswith("range: ")]

    live, stored = side_by_side(), one_of_each()[0]
    assert explained(live, live) == ["range: where the true change lies, with at least 90% confidence"]
    assert explained(stored) == ["range: where the true change lies, with 95% confidence, on other days as well"]
    assert explained(live, stored) == [
        "range: where the true change lies: side by side, with at least 90% confidence; against a stored baseline, with "
        "95% confidence, on other days as well"
    ]
    assert explained(one_of_each()[2]) == []


def test_a_re_tested_row_says_where_its_values_are_from() -> None:
    """The stored baseline has other values, and rows that were not re-tested still show those."""
    equal = side_by_side()
    check = dataclasses.replace(equal.checks[1], outcome=Verdict.REGRESSED, rerun=True)
    slow = dataclasses.replace(equal, verdict=Verdict.REGRESSED, checks=(check,))
    assert rows_of(slow, verbose=False)[0].why.endswith(" allowed; values from the re-test")


def test_a_slowdown_that_persisted_is_not_called_cleared() -> None:
    """Both pass, but the values of the further trials were as bad as those of the first one."""
    stored = one_of_each()[0]
    check = dataclasses.replace(stored.checks[0], outcome=Verdict.PASSED, rerun=True, trials=())
    over = dataclasses.replace(
        stored, verdict=Verdict.PASSED, checks=(check,), trials=(stored.trials[0],) * 3, warnings=()
    )
    values = {"metric": check.metric, "change": RelativeChange(-0.3), "where": "with unchanged brokers"}
    slower = dataclasses.replace(over, warnings=(Notice(Remark.MACHINE_SLOWER, values),))
    undecided = dataclasses.replace(over, checks=(dataclasses.replace(check, outcome=Verdict.INCONCLUSIVE),))
    confirmed = dataclasses.replace(over, checks=(dataclasses.replace(check, outcome=Verdict.REGRESSED),))
    assert how_of(over) == "re-tested in 2 fresh trials: cleared"
    assert how_of(undecided) == "re-tested in 2 fresh trials: undecided"
    assert how_of(confirmed) == "confirmed in 2 fresh trials"
    assert how_of(slower) == "re-tested in 2 fresh trials: the machine is slower"


def test_the_line_above_the_table_breaks_between_its_parts() -> None:
    """`baseline: 3` at the end of a line, and `trials` below it, are read twice."""
    parts = [
        "Kafka 4.3.1 local",
        "env linux-x86_64-intel-xeon-6-167-1-2c-local",
        "baseline: 3 trials",
        "2 tests, 6m35s",
    ]
    assert wrapped_overview(parts, Paper(width=80)) == [
        "Kafka 4.3.1 local | env linux-x86_64-intel-xeon-6-167-1-2c-local",
        "    baseline: 3 trials | 2 tests, 6m35s",
    ]
    assert wrapped_overview(parts, Paper(width=140)) == [" | ".join(parts)]


def test_tests_are_counted_by_verdict_below_the_table() -> None:
    """What could not be decided is no silent green."""
    assert count_verdicts([each.verdict for each in one_of_each()]) == (
        "1 invalid, 1 regressed, 1 violated, 1 measured, 2 passed, 1 inconclusive"
    )


def test_a_test_that_failed_before_it_measured_is_counted() -> None:
    """pytest counts it as well, and the two numbers would differ."""
    ends = {
        "a.py::test_setup": ending("a.py::test_setup", "error", "no such command"),
        "a.py::test_skipped": ending("a.py::test_skipped", "skipped", "not today"),
    }
    run = run_of([result("test_ok", "errors == 0")], endings=ends)
    lines = summary_lines(run, Paper(), verbose=False, failures=True)
    assert lines[-1] == "1 passed, 1 not measured"


def test_a_test_that_failed_for_another_reason_says_so_next_to_its_verdict() -> None:
    """A green verdict on a test that pytest shows as failed would puzzle."""
    passed, strict = result("test_ok", "errors == 0"), result("test_new", "produce.throughput >= baseline")
    ends = {
        passed.nodeid: ending(passed.nodeid, "error", "no room"),
        strict.nodeid: ending(strict.nodeid, "failed", "INCONCLUSIVE: produce.throughput 1k/s"),
    }
    lines = table([passed, strict], ends).splitlines()
    assert [" ".join(line.split()) for line in lines if line.startswith(("✓", "?"))] == [
        "✓ PASSED test_ok error",
        "? INCONCLUSIVE test_new failed, no baseline for this test",
    ]


def test_a_failure_of_the_tests_own_code_is_told_by_its_cause_not_by_its_text() -> None:
    """An assertion of the user may begin like a verdict."""
    strict, text = result("test_new", "produce.throughput >= baseline"), "INCONCLUSIVE: produce.throughput 1k/s"
    assert failure_next_to(strict, ending(strict.nodeid, "failed", text, by_verdict=True)) == []
    assert failure_next_to(strict, ending(strict.nodeid, "failed", text)) == [text]


def test_a_long_name_is_folded_and_nothing_of_it_lost() -> None:
    """Parametrised tests have names longer than a terminal."""
    name = f"test_sizes[{'x' * 100}]"
    text = table([result(name, "errors == 0")], {}, 60)
    assert name in re.sub(r"\s+", "", text)
    assert max(map(len, text.splitlines())) <= 60


def test_a_broken_threshold_is_red_and_without_colour_there_is_no_escape() -> None:
    """NO_COLOR is pytest's to read: here it is `colour=False`."""
    line = next(line for line in shown(80, colour=True).splitlines() if "✗ \x1b[0mproduce.latency.p99 <= base" in line)
    assert line.startswith("\x1b[1;31m  ✗ \x1b[0m")
    assert "\x1b[1;31m   18.1 ms\x1b[0m" in line
    assert "\x1b" not in shown(80)
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown(80, colour=True)) == shown(80)


def test_a_value_close_to_its_limit_is_shown_with_more_digits() -> None:
    """`25 ms` next to `<= 25 ms` would look like a bug."""
    close = result("test_sla", "produce.latency.p99 <= 25 ms", measured=[{"produce.latency.p99": 0.02504}])
    (row,) = rows_of(close)
    assert (row.measured, row.threshold) == ("25.04 ms", "produce.latency.p99 <= 25 ms")


def test_counts_alone_leave_room_for_the_headlines() -> None:
    """Whoever checks errors only still wants to see how fast it was."""
    first, *others = (row.threshold for row in rows_of(result("test_counts", "errors == 0")))
    assert first == "produce.throughput"
    assert others == ["produce.latency.p50", "produce.latency.p99", "e2e.latency.p99", "errors == 0"]


def test_long_notes_are_wrapped_with_an_indent() -> None:
    """A line that the terminal breaks in a word is hard to read."""
    note = "test_slow: changed against the baseline: kafka: 4.0.0 -> 4.1.1, config.num.io.threads: not set -> 16, µ"
    assert wrapped([note, "short"], Paper(width=60)) == [
        "test_slow: changed against the baseline: kafka: 4.0.0 ->",
        "    4.1.1, config.num.io.threads: not set -> 16, µ",
        "short",
    ]


def test_the_spread_has_its_own_units_where_those_of_the_median_would_mislead() -> None:
    """Nobody reads `980 to 1.02` as 4%; rounds that look alike have no spread."""
    values = [0.00098, 0.00099, 0.001, 0.00101, 0.00102]
    measured = [{"produce.latency.p99": value, "produce.throughput": 4998.0} for value in values]
    (latency, throughput) = rows_of(
        result("test_it", "produce.latency.p99 <= 10 ms", "produce.throughput >= 1 records/s", measured=measured)
    )
    assert (latency.measured, latency.rounds) == ("1 ms", "980 µs–1.02 ms")
    assert (throughput.measured, throughput.rounds) == ("4998/s", "")


def test_a_value_that_is_too_small_to_be_measured_is_shown_as_an_upper_bound() -> None:
    """A dash next to a check mark would look as if nothing had been judged."""
    one = result("test_restart", "app.rebalance.pause <= 5 s", measured=[{"app.rebalance.pause": 0.6}])
    (check,) = one.checks
    one = dataclasses.replace(one, checks=(dataclasses.replace(check, is_upper_bound=True),))
    assert [row.measured for row in rows_of(one)] == ["≤ 600 ms"]


@pytest.mark.parametrize(("limited", "lower"), [(3, True), (2, False)])
def test_a_throughput_that_the_generator_limits_is_a_lower_bound(limited: int, *, lower: bool) -> None:
    """Kafka took all that there was. Most rounds decide, because the median does."""
    one = result("test_flood", "produce.throughput >= baseline - 10%", "produce.latency.p99 <= 1 s")
    trials = [
        dataclasses.replace(
            trial,
            rounds=tuple(
                dataclasses.replace(each, limited_by_generator=number < limited)
                for number, each in enumerate(trial.rounds)
            ),
        )
        for trial in one.trials
    ]
    one = dataclasses.replace(one, trials=tuple(trials))
    mark = "≥ " if lower else ""
    assert [row.measured for row in rows_of(one)] == [f"{mark}52.3k/s", "12.1 ms"]
    assert f"<code>produce.throughput</code> | {mark}52.3k/s | -10% |" in markdown(run_of([one]))
    assert ("≥ 52.3k/s" in table([one], {})) == lower
