"""The summary in Markdown: whole texts, what is escaped, and what is left out of a long one."""

# ruff: noqa: E501, RUF001 - lines as they are shown
from __future__ import annotations

import dataclasses

import pytest
from markdown_it import MarkdownIt

from pytest_kafkaperf.core.environment import Change, Part, commit_change, commits
from pytest_kafkaperf.reports.markdown import LIMIT_BYTES, markdown
from pytest_kafkaperf.runner.result import Ending
from pytest_kafkaperf.runner.settings import Revision
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Ungated
from tests.support.problems import notice_told
from tests.support.results import ending, endings, one_of_each, result, rounds, run_of, side_by_side

RENDERER = MarkdownIt("commonmark", {"html": True}).enable("table")

EXPECTED = """\
### ❌ Kafka performance: 1 REGRESSED, 1 PASSED

|  | threshold | measured | rounds | baseline | change (range) |
| --- | --- | --: | --: | --: | --: |
| ❌ REGRESSED | <code>test_slow&#91;1 KiB-acks=all&#93;</code> |  |  |  |  |
| ✗ | <code>produce.latency.p99 &#60;= baseline + 20%</code> | 18.1 ms | 17.8–18.5 | 12.1 ms | +50% (+38…+63%) |
| ✓ | <code>e2e.latency.p99 &#60;= max(baseline + 20%, 5 ms)</code> | 18.9 ms | 18.5–19.3 | 17.2 ms | +10% (+1…+20%) |
| ✓ | <code>produce.throughput &#62;= baseline - 10%</code> | 52.3k/s | 51.3–53.3 | 52.3k/s | 0% (-8…+9%) |
| ✅ PASSED | <code>test_ingest</code> |  |  |  |  |
| ✓ | <code>produce.latency.p99 &#60;= baseline + 20%</code> | 12.1 ms | 11.9–12.3 | 12.1 ms | 0% (-8…+9%) |
| ✓ | <code>produce.throughput &#62;= baseline - 10%</code> | 52.3k/s | 51.3–53.3 | 52.3k/s | 0% (-8…+9%) |
| ✓ | <code>errors == 0</code> | 0 |  |  |  |

#### ❌ REGRESSED: <code>tests/perf/test_orders.py::test_slow&#91;1 KiB-acks=all&#93;</code>

- changed: <code>Kafka 4.0.0 → 4.1.1</code>, <code>broker setting num.io.threads (default) → 16</code>
- <code>produce.latency.p99 &#60;= baseline + 20%</code>: REGRESSED, +50.0% against the baseline, the threshold is +20.0%; noise explains up to +11.6% (baseline of 10 days)
- other change (no threshold): produce.latency.p50 +32% (2.1 ms → 2.8 ms)

<details><summary>All values, by test</summary>

##### <code>tests/perf/test_orders.py::test_slow&#91;1 KiB-acks=all&#93;</code>

- local, Kafka 4.1.1; 5 rounds, 1 trial
- scenario: defaults

| metric | value | rounds |
| --- | --: | --- |
| <code>produce.throughput</code> | 52.3k/s | 51.3k/s, 51.8k/s, 52.3k/s, 52.8k/s, 53.3k/s |
| <code>produce.latency.p50</code> | 2.1 ms | 2.06 ms, 2.08 ms, 2.1 ms, 2.12 ms, 2.14 ms |
| <code>produce.latency.p99</code> | 18.1 ms | 17.8 ms, 18 ms, 18.1 ms, 18.3 ms, 18.5 ms |
| <code>e2e.latency.p99</code> | 18.9 ms | 18.5 ms, 18.7 ms, 18.9 ms, 19.1 ms, 19.3 ms |
| <code>errors</code> | 0 | 0, 0, 0, 0, 0 |
| <code>lost</code> | 0 | 0, 0, 0, 0, 0 |

##### <code>tests/perf/test_orders.py::test_ingest</code>

- local, Kafka 4.1.1; 5 rounds, 1 trial
- scenario: defaults

| metric | value | rounds |
| --- | --: | --- |
| <code>produce.throughput</code> | 52.3k/s | 51.3k/s, 51.8k/s, 52.3k/s, 52.8k/s, 53.3k/s |
| <code>produce.latency.p50</code> | 2.1 ms | 2.06 ms, 2.08 ms, 2.1 ms, 2.12 ms, 2.14 ms |
| <code>produce.latency.p99</code> | 12.1 ms | 11.9 ms, 12 ms, 12.1 ms, 12.2 ms, 12.3 ms |
| <code>e2e.latency.p99</code> | 17.2 ms | 16.9 ms, 17 ms, 17.2 ms, 17.4 ms, 17.5 ms |
| <code>errors</code> | 0 | 0, 0, 0, 0, 0 |
| <code>lost</code> | 0 | 0, 0, 0, 0, 0 |

</details>
"""


def test_a_summary_tells_what_failed_and_folds_the_rest() -> None:
    """Verdicts first, then a table, then why; who wants every value unfolds them."""
    names = ("test_slow", "test_ingest")
    results = [each for each in one_of_each() if each.nodeid.partition("::")[2].startswith(names)]
    assert markdown(run_of(results, endings=endings(results))) == EXPECTED


def test_no_test_is_a_summary_too() -> None:
    """A file that is missing would look like a broken job."""
    assert markdown(run_of([])) == "### ✅ Kafka performance: no tests\n\n"


def test_tests_of_one_side_alone_are_listed() -> None:
    """Renaming a test would otherwise remove its gate, and nobody would see it."""
    new = result("test_new", "produce.latency.p99 <= baseline + 20%", ungated=Ungated.NEW_TEST)
    new = dataclasses.replace(new, baseline=BaselineRounds(ungated=Ungated.NEW_TEST))
    removed = [f"tests/test_a.py::test_{number}|" for number in range(22)]
    text = markdown(run_of([new], endings=endings([new]), removed=tuple(removed)))
    head, _, rest = text.partition("\n\n- ")
    assert head == "### ✅ Kafka performance: 1 MEASURED"
    added, gone, _ = rest.split("\n", 2)
    assert added == f"new, so that only absolute thresholds are judged: <code>{new.nodeid}</code>"
    first = "<code>tests/test_a.py::test_0&#124;</code>"
    assert gone.startswith(f"- removed by this change, with their thresholds: {first}, ")
    assert gone.endswith("test_19&#124;</code>, <code>2 more</code>")
    assert "| ✅ MEASURED | <code>test_new</code> new test, nothing to compare with |" in text
    assert "produce.latency.p99 &#60;= baseline + 20%</code> MEASURED" in text


def test_what_measured_nothing_and_what_failed_otherwise_stands_there() -> None:
    """The summary must not be green where the job is red."""
    good = result("test_ok", "errors == 0")
    ends = {
        good.nodeid: ending(good.nodeid, "failed", "AssertionError: 3 orders\nare missing"),
        "a.py::test_down": ending("a.py::test_down", "error", "127.0.0.1:1 is not ready"),
        "a.py::test_left_out": ending("a.py::test_left_out", "skipped", "no time"),
    }
    text = markdown(run_of([good], endings=ends))
    head = "### ❌ Kafka performance: 1 PASSED, 1 not measured (error), 1 not measured (skipped); "
    assert text.startswith(f"{head}1 of them failed for another reason\n")
    assert "| ❌ not measured (error) | <code>a.py::test_down</code> |" in text
    assert "| ⚠️ not measured (skipped) | <code>a.py::test_left_out</code> |" in text
    assert "| ❌ PASSED (failed) | <code>test_ok</code> |" in text
    assert "- AssertionError: 3 orders are missing\n" in text
    assert "- 127.0.0.1:1 is not ready\n" in text


NASTY = "test_x[a|b`c`<script>alert(1)</script>&amp; *b* __c__ [l](http://x) ![i](y) $z$ \\| ~~d~~ www.example.org]"


def test_a_name_is_shown_as_it_is_whatever_it_holds() -> None:
    """Parameters are text of anyone: pipes end no cell, backticks no code, and nothing becomes HTML or a link."""
    bad = result(
        NASTY,
        "produce.latency.p99 <= 1 ms",
        changed=(Change("image <b>a|b</b>", None, None, Part.BROKERS),),
        warnings=(notice_told("| `x` <i>"),),
    )
    html = RENDERER.render(markdown(run_of([bad], endings=endings([bad]))))
    shown = NASTY.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    assert html.count(f"<code>{shown}</code>") == 1
    assert html.count(f"<code>tests/perf/test_orders.py::{shown}</code>") == 2
    assert "<code>image &lt;b&gt;a|b&lt;/b&gt;</code>" in html
    assert "warning: | `x` &lt;i&gt;" in html
    assert not {"<script", "<a ", "<img", "<em>", "<strong>", "<b>", "<i>"} & set(html.split())
    assert all(line.count("<td") in (0, 3, 6) for line in html.replace("<tr>", "\n<tr>").split("</tr>"))


@pytest.mark.parametrize(
    ("limit_bytes", "missing"),
    [
        (24_000, "25 of 40 tests' values"),
        (12_000, "13 of 40 tests' reasons, 40 of 40 tests' values"),
        (5_000, "14 of 40 tests, 40 of 40 tests' reasons, 40 of 40 tests' values"),
        (1_000, "40 of 40 tests, 40 of 40 tests' reasons, 40 of 40 tests' values"),
    ],
)
def test_what_does_not_fit_is_left_out_folded_parts_first(limit_bytes: int, missing: str) -> None:
    """GitHub shows nothing at all of a summary that is too long."""
    results = [result(f"test_{number}[ü]", "produce.latency.p99 <= 1 ms") for number in range(40)]
    text = markdown(run_of(results, endings=endings(results)), limit_bytes=limit_bytes)
    assert len(text.encode()) <= max(limit_bytes, 1_000)
    assert text.endswith(f"\nLeft out, because a summary is limited to {limit_bytes:,} bytes: {missing}.\n")
    assert text.startswith("### ❌ Kafka performance: 40 VIOLATED\n")


def test_thousands_of_tests_keep_githubs_limit() -> None:
    """1 MiB for each step."""
    results = [result(f"test_{number}[{'ü' * 200}]", "errors == 0", "lost == 0") for number in range(600)]
    text = markdown(run_of(results, endings=endings(results)))
    assert LIMIT_BYTES * 0.99 < len(text.encode()) <= LIMIT_BYTES


def test_the_gravest_stand_first() -> None:
    """They are read, and they are what is kept of a long table."""
    results = one_of_each()
    lines = markdown(run_of(results, endings=endings(results))).splitlines()
    shown = [line.split("|")[1].split()[1] for line in lines if line.startswith(("| ❌", "| ⚠️", "| ✅"))]
    assert shown == ["INVALID", "VIOLATED", "REGRESSED", "INCONCLUSIVE", "MEASURED", "PASSED", "PASSED"]


def test_a_failure_that_is_expected_is_no_failure() -> None:
    """Xfail is how a team says that it knows."""
    slow = result(
        "test_slow", "produce.latency.p99 <= baseline", baseline=rounds(), measured=rounds(produce__latency__p99=2)
    )
    text = markdown(run_of([slow], endings={slow.nodeid: ending(slow.nodeid, "xfailed", "known")}))
    assert text.startswith("### ⚠️ Kafka performance: 1 REGRESSED\n")
    assert "| ⚠️ REGRESSED (xfailed) |" in text


def test_a_comparison_with_a_revision_names_it() -> None:
    """The column has the live baseline's values, not those of a stored one."""
    changed = (*commit_change("e46af78", "cf541ca"), *commits(["commit cf541ca Prices: round a -> b"]))
    one = dataclasses.replace(
        side_by_side(), revision=Revision("git:main", ref="main", commit="cf541ca0"), changed=changed
    )
    text = markdown(run_of([one, dataclasses.replace(one, nodeid="test_other.py::test_other")]))
    assert text.startswith("### ✅ Kafka performance compared with git:main (cf541ca): ")
    assert "| threshold | measured | rounds | baseline |" in text
    told = "changed, and passed: <code>commit e46af78 → cf541ca</code>, <code>commit cf541ca Prices: round a -&#62; b</code>"
    assert text.count(told) == 1


def test_a_test_that_was_interrupted_after_its_load_is_not_green() -> None:
    """Its own assertions did not run."""
    one = result("test_one", "errors == 0")
    interrupted = Ending(nodeid=one.nodeid, outcome="not run", reason="", file="", line=None)
    assert markdown(run_of([one], endings={one.nodeid: interrupted})).startswith("### ⚠️")
