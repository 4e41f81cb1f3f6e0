"""The file of the HTML report: whole or not at all, by itself, and without a way for text to become markup."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import importlib.resources
import importlib.util
import re
from typing import Any

import pytest

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.spans import Span
from pytest_kafkaperf.reports.headline import failure_of
from pytest_kafkaperf.reports.html.html_report import check_installed, html_page
from pytest_kafkaperf.reports.remedy import command_for
from pytest_kafkaperf.runner.result import Ending
from pytest_kafkaperf.verdict.outcome import Verdict
from tests.support import results
from tests.support.problems import problem_told

MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\u2028'\"&lt;"


@pytest.fixture(scope="module")
def page() -> str:
    """A report in which everything that a user can write has markup in it."""
    hostile = results.hostile(MARKUP)
    return html_page(results.run_of(hostile, commit=MARKUP, environment={"key": MARKUP}, plugin=MARKUP))


def test_only_our_own_scripts_are_in_the_page_and_may_run(page: str) -> None:
    """A test's id, a topic or a broker's message must not run in the browser of who reads the report."""
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', page)
    assert re.findall(r"'sha256-(.*?)'", policy) == digests
    assert policy.startswith("default-src 'none'; ")
    assert len(digests) == 1


def test_markup_of_users_is_text(page: str) -> None:
    """In elements, in attributes, and in the charts."""
    own = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "alert(1)" in own
    assert "<img" not in own
    assert "\u2028" not in own
    assert "<script" not in own


def test_a_page_is_small_and_needs_nothing_else() -> None:
    """It is kept for each run of CI, and opened from a mail or an artifact."""
    page = html_page(results.run_of(results.many(20)))
    assert len(page.encode()) < 1_000_000
    assert re.findall(r"""(?:src|href)=(?!"#)|url\(|@import|//\w+\.\w+/""", page) == []


def test_a_run_without_a_test_makes_a_page() -> None:
    """CI keeps the file that it was told of."""
    assert "No perf test ran." in html_page(results.run_of([]))


def test_a_test_that_could_not_run_says_why() -> None:
    """It has no round, no value and no chart."""
    page = html_page(results.run_of([results.nothing("the cluster is gone")]))
    assert "the cluster is gone" in page
    assert "<figure" not in page


def _text_of(page: str) -> str:
    """The text of the first test's card above its tables."""
    card = page[page.index('id="test-1"') :]
    text = re.sub(r"<.*?>", "", card[card.index("</summary>") : card.index("<h3>")].replace("<li", "\n<li"))
    return html.unescape("\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip()))


def test_a_failing_test_starts_with_the_same_sentence_as_its_failure_message() -> None:
    """Whoever comes from the log or the comment finds the place at once."""
    result = results.regression()
    sentence, changed, confirmed, next_step = str(failure_of(result, strict=False)).splitlines()
    assert _text_of(html_page(results.run_of([result]))).startswith(
        "\n".join(
            [
                sentence,
                changed.strip().replace(":", "", 1),
                confirmed.strip().replace(":", "", 1),
                f"next step {next_step.strip()}",
            ]
        )
    )


def test_an_invalid_test_starts_with_its_first_problem_and_lists_the_others() -> None:
    """Repeated, a problem would look like two."""
    problems = [problem_told(ProblemKind.CLUSTER_ERROR, text) for text in ("broker 1 is gone; restart it", "no leader")]
    invalid = dataclasses.replace(results.regression(), verdict=Verdict.INVALID, problems=tuple(problems), changed=())
    text = _text_of(html_page(results.run_of([invalid])))
    assert text.splitlines()[:2] == [
        "test_orders_ingest could not be measured: broker 1 is gone (and 1 more)",
        "next step restart it",
    ]
    assert "problem no leader" in text
    assert text.count("broker 1 is gone") == 1


def test_a_passing_test_starts_with_its_values() -> None:
    """There is nothing to explain."""
    page = html_page(results.run_of([results.side_by_side()]))
    assert _text_of(page) == "10 trials of 5 rounds, side by side with a live baseline"


def test_tests_that_only_one_side_has_are_listed() -> None:
    """A renamed or deleted test would lose its gate unseen."""
    page = html_page(results.run_of([results.side_by_side()], removed=("a.py::test_gone",)))
    assert "removed by this change, with their thresholds: <code>a.py::test_gone</code>" in page


def test_a_calibration_is_told_instead_of_limits() -> None:
    """The values of the terminal's table."""
    page = html_page(results.run_of([results.calibration()]))
    cells = re.findall(r'data-label="(.*?)">(.*?)</td>', page[page.index("Noise between trials") :])
    assert cells[:6] == [
        ("within", "3.2%"),
        ("between", "4.1%"),
        ("tolerance", "+10%"),
        ("suspected", "1 of 5"),
        ("can detect", "+16%"),
    ]


def test_what_fails_stands_first() -> None:
    """In a report of 200 tests nobody looks for it."""
    tests = [results.failover(), results.regression(), results.side_by_side()]
    page = html_page(results.run_of(tests)).replace("<wbr>", "")
    names = re.findall(r'<a href="#test-\d">.*?::(\w+)</a>|<a href="#test-\d">(\w+)</a>', page)
    assert ["".join(name) for name in names] == ["test_orders_ingest", "test_failover", "test_upgrade"]
    assert re.findall(r'id="(test-\d)" open', page) == ["test-1"]


def test_the_overview_shows_what_the_thresholds_judged() -> None:
    """The first trial's values differ from those of the fresh trials, which decided."""
    page = html_page(results.run_of([results.regression()]))
    shown, judged = (re.findall(rf'data-label="{name}">(.*?)</td>', page) for name in ("p99", "measured"))
    assert shown[0] in judged


def test_the_overview_shows_what_a_test_that_only_reads_has_received() -> None:
    """It has no throughput of producers, and no latency."""
    read = results.result("test_read", measured=[{"consume.throughput": 5000.0}])
    page = html_page(results.run_of([read]))
    assert re.search(r">\s*5k\s*<", page)


def test_what_is_not_installed_is_said_before_any_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after an hour of it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UsageError) as caught:
        check_installed()
    assert str(caught.value) == "--kafka-report=html needs jinja2: pip install 'pytest-kafkaperf[html]'"


def test_the_report_says_what_was_found() -> None:
    """The values stand in the page itself: they can be read without a chart."""
    page = html_page(results.run_of([results.regression(), results.side_by_side()]))
    text = re.sub(r"<wbr>|<script.*?</script>", "", page)
    for expected in (
        "<title>Kafka performance: 1 REGRESSED, 1 PASSED</title>",
        "2026-08-15 09:41 UTC",
        "3c806ae92d5b",
        "linux-x86_64-amd-epyc-9454p-2c-local",
        "4.0.0 (local)",
        "5 rounds, 3 fresh trials, baseline of 5 trials",
        "10 trials of 5 rounds, side by side with a live baseline",
        "<b>changed</b> <span>Kafka 4.2.1 → 4.3.1, Java openjdk 17.0.15 → openjdk 21.0.8",
        "produce.latency.p99 &lt;= baseline + 20%",
        "confirmed by 3 fresh trials: ",
        "baseline: openjdk 17.0.15",
        "pytest tests/perf/test_orders.py::test_orders_ingest --kafka-cluster=local &#39;--kafka-duration=10 s&#39;",
    ):
        assert expected in text


def test_the_command_runs_the_test_as_it_was_run() -> None:
    """Quoted for a shell; what says nothing of the measurement is left out, and so are passwords."""
    options = {
        "cluster": "auto:4.1.0",
        "duration": "10 s",
        "quick-compiler": "true",
        "json": "report.json",
        "compare": "local:4.0.0",
        "compare-config": "a=1\nb=x y\nplugin.password=hunter2",
    }
    result = results.drawn_result("a.py::test_x[it's $HOME]", before=None, now=results.Behaviour())
    assert command_for(dataclasses.replace(result, options=options)) == (
        "pytest 'a.py::test_x[it'\"'\"'s $HOME]' --kafka-cluster=local:4.1.0 --kafka-quick-compiler "
        "'--kafka-duration=10 s' "
        "--kafka-compare=local:4.0.0 --kafka-compare-config=a=1 '--kafka-compare-config=b=x y' "
        "'--kafka-compare-config=plugin.password=***'"
    )


def test_the_command_names_a_running_cluster() -> None:
    """Its values are not those of brokers that the plugin starts."""
    options = {"cluster": "k1:9092,k2:9092"}
    result = results.external()
    assert command_for(dataclasses.replace(result, options=options)) == (
        "pytest tests/perf/test_orders.py::test_cluster --kafka-cluster=k1:9092,k2:9092"
    )


def test_a_verdict_has_its_colour() -> None:
    """One that the style sheet does not know would stand there as plain text."""
    style = importlib.resources.files("pytest_kafkaperf.reports.html").joinpath("page.css").read_text(encoding="utf-8")
    assert [verdict for verdict in Verdict if f".v-{verdict.replace(' ', '-')}" not in style] == []


def test_each_test_has_its_duration_its_way_to_the_verdict_and_the_rate_of_what_came_out() -> None:
    """An application that writes 38 of 200 records a second must not look as if it kept up."""
    slow = dataclasses.replace(results.regression(), spans={Span.WINDOW: 161.0})
    metrics = {"produce.throughput": 200.0, "consume.throughput": 38.0}
    behind = results.result("test_app", "errors == 0", measured=[{**metrics, "errors": 0.0}])
    page = html_page(results.run_of([slow, behind]))
    assert 'REGRESSED</span> <small class="dim">confirmed in 3 fresh trials</small></td>' in page
    assert 'data-label="duration">2m41s</td>' in page
    assert '<p class="dim">2m41s: 5 rounds, 3 fresh trials' in page
    assert 'data-label="records/s">38 of 200</td>' in page
    head = re.findall(r"<th [^>]*>(.*?)</th>", page[page.index('<table class="checks">') :])[:6]
    assert head == ["threshold", "measured", "rounds", "baseline", "change (range)", "verdict"]
    assert "5.99 ms allowed; confirmed by 3 fresh trials" in page
    assert page.count('<tr class="reason">') == 2  # of the two thresholds that are not met


def test_the_page_of_a_red_run_is_not_green() -> None:
    """A test can pass its thresholds and fail by its own code, or fail before it measured anything."""
    passed, other = (
        dataclasses.replace(results.regression(), nodeid=f"test_a.py::{name}", verdict=Verdict.PASSED)
        for name in ("test_green", "test_red")
    )

    def ending(nodeid: str, outcome: Any, reason: str | None) -> Ending:
        return Ending(nodeid=nodeid, outcome=outcome, reason=reason, file="test_a.py", line=1)

    endings = [
        ending(passed.nodeid, "passed", None),
        ending(other.nodeid, "failed", "AssertionError: 3 rows are missing"),
        ending("test_a.py::test_none", "error", "no broker"),
    ]
    run = results.run_of([passed, other], endings={one.nodeid: one for one in endings})
    page = html_page(run).replace("<wbr>", "")
    assert page.index("test_red") < page.index("test_green")
    assert '<small class="dim">failed, ' in page
    assert "AssertionError: 3 rows are missing" in page
    assert "<b>1</b> not measured" in page
    assert "test_a.py::test_none: no broker" in page
