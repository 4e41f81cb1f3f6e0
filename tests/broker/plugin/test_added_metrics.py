"""Metrics that a test records itself, from its thresholds to the reports, on a real broker."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.project import INI, Project

TEST = """
@pytest.mark.kafka_scenario(rate="300 records/s", duration="300 ms", warmup="100 ms", partitions=2, rounds=5)
@pytest.mark.kafka_threshold("app.rows >= 3 rows/s", "app.rows >= baseline - 20%")
def test_rows(kafka_perf):
    asked = []

    def rows():
        asked.append({rows})
        return {rows}

    kafka_perf.add_metric("app.rows", rows, unit="rows/s", better="higher")
    result = kafka_perf()
    assert str(result["app.rows"]) == "{rows} rows/s"
    assert len(asked) >= 5  # a trial that a busy machine invalidated is measured again
"""
KINDS = ("html", "markdown", "gitlab", "history")


def test_a_metric_of_a_tests_own_is_judged_and_reported_as_any_other(project: Project, on_broker: str) -> None:
    """Each round has one value; a service that writes half the rows is a regression."""
    reports = [f"--kafka-report={kind}:{kind}.txt" for kind in KINDS]
    first = project.test(TEST.format(rows=10)).run_steadily(on_broker, "--kafka-update-baselines", *reports)
    assert first.status == 0, first.out
    (test,) = first.report["tests"]
    values = [10] * 5
    assert test["metrics"]["app.rows"] == {"unit": "rows/s", "better": "higher", "values": values, "value": 10}
    (text,) = first.baselines.values()
    assert [one["app.rows"] for one in json.loads(text)["trials"][0]["rounds"]] == values
    written = [Path(project.folder, f"{kind}.txt").read_text(encoding="utf-8") for kind in KINDS]
    names = ["app.rows", "app.rows", "kafka_app_rows_rows_per_s", "app.rows"]
    assert [name in text for name, text in zip(names, written, strict=True)] == [True] * len(KINDS)

    second = project.test(TEST.format(rows=5)).run_steadily(on_broker, "--kafka-no-confirm")
    (test,) = second.report["tests"]
    assert [check["verdict"] for check in test["checks"]] == ["PASSED", "REGRESSED"], second.out
    assert "got slower: app.rows 5 rows/s, was 10 rows/s (-50%" in second.out


MISSPELT = "\nkafka_thresholds =\n    errors == 0\n    app.rowz >= 3\n"
FAST = '@pytest.mark.kafka_scenario(rate="300 records/s", duration="200 ms", warmup="0 s", partitions=1, rounds=1)\n'
TWO = f"""
{FAST}def test_rows(kafka_perf):
    kafka_perf.add_metric("app.rows", 10, unit="rows", better="higher")
    kafka_perf()

{FAST}def test_other(kafka_perf):
    kafka_perf()

def test_unit():
    pass
"""
UNJUDGED = (
    "kafka_thresholds: 'app.rowz >= 3' was never judged, because no test measures app.rowz; did you mean 'app.rows'?"
)


def test_a_threshold_of_the_ini_file_that_no_test_judged_is_shown(project: Project, on_broker: str) -> None:
    """Only after a run of all tests is it known that none of them records the metric."""
    project.write("pytest.ini", f"{INI}{MISSPELT}").test(TWO)
    run = project.run_steadily(on_broker)
    assert (run.status, UNJUDGED in run.out) == (0, True), run.out
    assert run.out.count("was never judged") == 1


def test_a_threshold_that_no_test_judged_fails_a_strict_run(project: Project, on_broker: str) -> None:
    """The gate that somebody declared does not exist."""
    project.write("pytest.ini", f"{INI}{MISSPELT}").test(TWO)
    run = project.run_steadily(on_broker, "--kafka-strict")
    assert (run.status == 0, f"ERROR: {UNJUDGED}" in run.out) == (False, True), run.out
    assert run.report["errors"] == [UNJUDGED]


def test_a_test_that_was_skipped_may_be_the_one_that_judges(project: Project, on_broker: str) -> None:
    """It may need what this machine lacks."""
    project.write("pytest.ini", f"{INI}{MISSPELT}").test(f"{TWO}\n@pytest.mark.skip\ndef test_last(kafka_perf): ...\n")
    run = project.run(on_broker)
    assert (run.status, "was never judged" in run.out) == (0, False), run.out
