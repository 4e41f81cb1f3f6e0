"""The summary in Markdown: whole texts, what is escaped, and what is left out of a long one."""

# ruff: noqa: E501, RUF001 - lines as they are shown
from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from pytest_kafkaperf.core.environment import Change, Part, commit_change, commits
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.reports.markdown import LIMIT_BYTES, markdown
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.runner.settings import Revision
from pytest_kafkaperf.verdict.baseline_file import BaselineRounds
from pytest_kafkaperf.verdict.outcome import Ungated
from tests.support.problems import notice_told, problem_told
from tests.support.results import FILE, Behaviour, drawn_result, ending, endings, one_of_each, result, rounds, run_of

RENDERER = MarkdownIt("commonmark", {"html": True}).enable("table")

EXPECTED = """\
### ❌ 1 of 2 Kafka tests is slower than its baseline

| Test | Metric | Baseline | This run | Change | Allowed |
| --- | --- | --: | --: | --: | --: |
| <code>test_slow&#91;1 KiB-acks=all&#93;</code> | <code>produce.latency.p99</code> | 12.1 ms | 18.1 ms | +50% (+38…+63%) | +20% |

Changed: <code>Kafka 4.0.0 → 4.1.1</code>, <code>broker setting num.io.threads (default) → 16</code>

#### ❌ <code>test_slow&#91;1 KiB-acks=all&#93;</code>

- other changes, without a threshold: produce.latency.p50 +32% (2.1 ms → 2.8 ms)
- intended? accept it with: <code>pytest 'tests/perf/test_orders.py::test_slow&#91;1 KiB-acks=all&#93;' --kafka-cluster=local --kafka-calibrate=2 --kafka-update-baselines</code>

<details><summary>Other thresholds</summary>

| Test | Metric | Baseline | This run | Change | Allowed |
| --- | --- | --: | --: | --: | --: |
| <code>test_slow&#91;1 KiB-acks=all&#93;</code> | <code>e2e.latency.p99</code> | 17.2 ms | 18.9 ms | +10% (+1…+20%) | ≤ max(baseline + 20%, 5 ms) |
| <code>test_slow&#91;1 KiB-acks=all&#93;</code> | <code>produce.throughput</code> | 52.3k/s | 52.3k/s | 0% (-8…+9%) | -10% |
| <code>test_ingest</code> | <code>produce.latency.p99</code> | 12.1 ms | 12.1 ms | 0% (-8…+9%) | +20% |
| <code>test_ingest</code> | <code>produce.throughput</code> | 52.3k/s | 52.3k/s | 0% (-8…+9%) | -10% |
| <code>test_ingest</code> | <code>errors</code> | – | 0 | – | 0 |

</details>

<details><summary>All values, by test</summary>

##### <code>tests/perf/test_orders.py::test_slow&#91;1 KiB-acks=all&#93;</code>

- local, Kafka 4.1.1; 5 rounds, 1 trial
- scenario: defaults
- produce.latency.p99 &#60;= baseline + 20%: REGRESSED, +50.0% against the baseline; the threshold is +20.0%; noise can explain up to +11.6% (baseline of 10 days)

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
    assert markdown(run_of([])) == "### ⚠️ No Kafka test ran\n"


def test_tests_of_one_side_alone_are_listed() -> None:
    """Renaming a test would otherwise remove its gate, and nobody would see it."""
    new = result("test_new", "produce.latency.p99 <= baseline + 20%", ungated=Ungated.NEW_TEST)
    new = dataclasses.replace(new, baseline=BaselineRounds(ungated=Ungated.NEW_TEST))
    removed = [f"tests/test_a.py::test_{number}|" for number in range(22)]
    text = markdown(run_of([new], endings=endings([new]), removed=tuple(removed)))
    head, _, rest = text.partition("\n\n- ")
    assert head == "### ✅ 1 Kafka test was only measured"
    added, gone, _ = rest.split("\n", 2)
    assert added == f"new, so only absolute thresholds are judged: <code>{new.nodeid}</code>"
    first = "<code>tests/test_a.py::test_0&#124;</code>"
    assert gone.startswith(f"- removed by this change, with their thresholds: {first}, ")
    assert gone.endswith("test_19&#124;</code>, <code>2 more</code>")
    assert "| <code>test_new</code> | <code>produce.latency.p99</code> | 12.1 ms | +20%, not judged |\n" in text


def test_what_measured_nothing_and_what_failed_otherwise_stands_there() -> None:
    """The summary must not be green where the job is red."""
    good = result("test_ok", "errors == 0")
    ends = {
        good.nodeid: ending(good.nodeid, "failed", "AssertionError: 3 orders\nare missing"),
        "a.py::test_down": ending("a.py::test_down", "error", "127.0.0.1:1 is not ready"),
        "a.py::test_left_out": ending("a.py::test_left_out", "skipped", "no time"),
    }
    text = markdown(run_of([good], endings=ends))
    assert (
        text.partition("<details>")[0]
        == """\
### ❌ 1 of 3 Kafka tests could not be measured, 1 failed, 1 was skipped

- 1 test was skipped: <code>a.py::test_left_out</code>

#### ❌ <code>a.py::test_down</code> could not be measured

- 127.0.0.1:1 is not ready

#### ❌ <code>test_ok</code> failed

- AssertionError: 3 orders are missing

"""
    )


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
    assert html.count(f"<code>tests/perf/test_orders.py::{shown}</code>") == 1
    assert "<code>image &lt;b&gt;a|b&lt;/b&gt;</code>" in html
    assert "warning: | `x` &lt;i&gt;" in html
    assert not {"<script", "<a ", "<img", "<em>", "<strong>", "<b>", "<i>"} & set(html.split())
    assert all(line.count("<td") in (0, 3, 4) for line in html.replace("<tr>", "\n<tr>").split("</tr>"))


FOLDED = "40 of 40 explanations, 40 of 40 tests' other thresholds, 40 of 40 tests' values"


@pytest.mark.parametrize(
    ("limit_bytes", "missing"),
    [
        (30_000, "24 of 40 tests' values"),
        (14_000, "1 of 40 explanations, 40 of 40 tests' other thresholds, 40 of 40 tests' values"),
        (5_000, f"8 of 40 tests, 1 of 1 lists of changes, {FOLDED}"),
        (1_000, f"40 of 40 tests, 1 of 1 lists of changes, {FOLDED}"),
    ],
)
def test_what_does_not_fit_is_left_out_folded_parts_first(limit_bytes: int, missing: str) -> None:
    """GitHub shows nothing at all of a summary that is too long."""
    limits = "produce.latency.p99 <= baseline", "errors == 0"
    slow = result("test_slow", *limits, baseline=rounds(), measured=rounds(produce__latency__p99=2))
    slow = dataclasses.replace(slow, changed=(Change("image a", None, None, Part.BROKERS),))
    results = [dataclasses.replace(slow, nodeid=f"{FILE}::test_{number}[ü]") for number in range(40)]
    text = markdown(run_of(results, endings=endings(results)), limit_bytes=limit_bytes)
    assert len(text.encode()) <= max(limit_bytes, 1_000)
    assert text.endswith(f"\nLeft out, because a summary is limited to {limit_bytes:,} bytes: {missing}.\n")
    assert text.startswith("### ❌ 40 Kafka tests are slower than their baselines\n")


def test_thousands_of_tests_keep_githubs_limit() -> None:
    """1 MiB for each step."""
    results = [result(f"test_{number}[{'ü' * 200}]", "errors == 0", "lost == 0") for number in range(600)]
    text = markdown(run_of(results, endings=endings(results)))
    assert LIMIT_BYTES * 0.99 < len(text.encode()) <= LIMIT_BYTES


def test_the_gravest_stand_first() -> None:
    """They are read, and they are what is kept of a long table."""
    results = one_of_each()
    text = markdown(run_of(results, endings=endings(results)))
    words = "could not be measured, 1 broke its limit, 1 is slower than its baseline, 1 could not be decided"
    assert text.startswith(f"### ❌ 1 of 7 Kafka tests {words}\n")
    values = [line.partition("::")[2] for line in text.splitlines() if line.startswith("##### ")]
    ranked = ["test_lost_broker", "test_sla", "test_slow", "test_new", "test_ingest", "test_counts", "test_bare"]
    assert [re.split("[&<]", name)[0] for name in values] == ranked


def test_a_failure_that_is_expected_is_no_failure() -> None:
    """Xfail is how a team says that it knows."""
    slow = result(
        "test_slow", "produce.latency.p99 <= baseline", baseline=rounds(), measured=rounds(produce__latency__p99=2)
    )
    text = markdown(run_of([slow], endings={slow.nodeid: ending(slow.nodeid, "xfailed", "known")}))
    assert text.startswith("### ⚠️ 1 Kafka test is slower than its baseline (xfailed)\n")
    assert "#### ⚠️ <code>test_slow</code> (xfailed)\n" in text


CHANGED = (*commit_change("d0e1f3e", "cf541ca"), *commits(["commit cf541ca Prices: round a -> b"]))


def against_base(name: str, p50_s: float, *, further: int = 9, **fields: Any) -> Result:
    """A test of a pull request, side by side with the base."""
    found = drawn_result(
        f"tests/perf/test_orders.py::{name}",
        before=None,
        now=Behaviour(p50_s=p50_s),
        side_by_side=Behaviour(p50_s=0.00205),
        limits=("produce.latency.p50 <= baseline + 20%", "lost == 0"),
        fresh=further,
        **fields,
    )
    base = Revision("git:merge-base", ref="merge-base", commit="d0e1f3ea")
    return dataclasses.replace(found, revision=base, changed=CHANGED)


DOWN = problem_told(ProblemKind.CLUSTER_ERROR, "no record was acknowledged for 15 s while 300 were outstanding")


COMMENT = """\
### ❌ 1 of 4 Kafka tests could not be measured, 1 is slower than the base d0e1f3e, 1 could not be decided

| Test | Metric | Base | This PR | Change | Allowed |
| --- | --- | --: | --: | --: | --: |
| <code>test_orders</code> | <code>produce.latency.p50</code> | 2.04 ms | 3.13 ms | +53% (+48…+59%) | +20% |
| <code>test_payments&#91;lz4&#93;</code> | <code>produce.latency.p50</code> | 2.05 ms | 2.52 ms | +23% (+8…+39%) | +20% |

Changed: <code>commit d0e1f3e → cf541ca</code>, <code>commit cf541ca Prices: round a -&#62; b</code>

#### ❌ test_refunds could not be measured: no record was acknowledged for 15 s while 300 were outstanding

#### ❌ <code>test_orders</code>

- confirmed: 10 side-by-side trials
- intended? add the label accept-slower, or pass <code>--kafka-accept=regressed</code>

#### ⚠️ test_payments&#91;lz4&#93; could not be decided: undecided after 2 side-by-side trials with noise of 3.1%

- reduce the noise: <code>pytest 'tests/perf/test_orders.py::test_payments&#91;lz4&#93;' --kafka-cluster=local '--kafka-duration=10 s' --kafka-quick-compiler</code>

<details><summary>Other thresholds</summary>

| Test | Metric | Base | This PR | Change | Allowed |
| --- | --- | --: | --: | --: | --: |
| <code>test_orders</code> | <code>lost</code> | – | 0 | – | 0 |
| <code>test_payments&#91;lz4&#93;</code> | <code>lost</code> | – | 0 | – | 0 |
| <code>test_billing</code> | <code>produce.latency.p50</code> | 2.05 ms | 2.09 ms | +1.9% (-3…+8%) | +20% |
| <code>test_billing</code> | <code>lost</code> | – | 0 | – | 0 |

</details>

"""


def test_a_comment_on_a_pull_request_explains_what_did_not_pass() -> None:
    """What failed, by how much and what to do is open; what passed is folded. What all tests share is said once."""
    results = [
        against_base("test_orders", 0.0031),
        against_base("test_payments[lz4]", 0.00255, further=1),
        against_base("test_billing", 0.00205),
        against_base("test_refunds", 0.002, problems=[DOWN]),
    ]
    text = markdown(run_of(results, endings=endings(results)), run_url="https://ci.example/runs/1?a=b")
    head, _, rest = text.partition("<details><summary>All values, by test</summary>\n")
    assert head == COMMENT
    assert rest.endswith("\n</details>\n\n[Open this run to start it again](https://ci.example/runs/1?a=b)\n")


def test_tests_that_passed_are_folded() -> None:
    """The headline is all that most pull requests need. The two tests differ from the base in the same way."""
    results = [against_base(name, 0.00205) for name in ("test_billing", "test_orders")]
    text = markdown(run_of(results, endings=endings(results)), run_url="https://ci.example/runs/1")
    assert text.startswith(
        "### ✅ 2 Kafka tests passed, compared with the base d0e1f3e\n\n"
        "Changed: <code>commit d0e1f3e → cf541ca</code>, <code>commit cf541ca Prices: round a -&#62; b</code>\n\n"
        "<details><summary>All thresholds</summary>\n\n"
        "| Test | Metric | Base | This PR | Change | Allowed |\n"
    )
    assert text.endswith("\n[Open this run](https://ci.example/runs/1)\n")


def test_changes_that_differ_are_listed_by_test() -> None:
    """A test with another image, for example."""
    one, other = against_base("test_a", 0.0031), against_base("test_b", 0.00205)
    other = dataclasses.replace(other, changed=(Change("image a", None, None, Part.BROKERS),))
    text = markdown(run_of([one, other], endings=endings([one, other])))
    assert (
        "- changed in <code>test_a</code>: <code>commit d0e1f3e → cf541ca</code>, "
        "<code>commit cf541ca Prices: round a -&#62; b</code>\n"
        "- changed in <code>test_b</code>: <code>image a</code>\n\n"
    ) in text


def test_a_test_that_was_interrupted_after_its_load_is_not_green() -> None:
    """Its own assertions did not run."""
    one = result("test_one", "errors == 0")
    interrupted = Ending(nodeid=one.nodeid, outcome="not run", reason="", file="", line=None)
    assert markdown(run_of([one], endings={one.nodeid: interrupted})).startswith("### ⚠️")
