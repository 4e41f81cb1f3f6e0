"""What GitHub Actions is told: commands that its runner reads, and a summary that keeps its limit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from pytest_kafkaperf.reports.ci import annotate, append_summary, command, run_url
from pytest_kafkaperf.reports.markdown import LIMIT_BYTES
from tests.support.problems import notice_told
from tests.support.results import FILE, ending, endings, one_of_each, result, rounds, run_of

ROOT = Path("/home/ci/repository")


def level(line: str) -> str:
    return line.removeprefix("::").partition(" ")[0]


def title(line: str) -> str:
    """Of a command, as GitHub shows it."""
    return line.partition("title=")[2].partition("::")[0].replace("%3A", ":")


def test_a_command_is_escaped_as_the_runner_reads_it() -> None:
    """A line break would end the command, a comma the file, a colon the properties."""
    nasty = command("error", "100%: a,b", "50%\r\n::x:, y", file="a,b:c/%.py", line=3)
    assert nasty == "::error file=a%2Cb%3Ac/%25.py,line=3,title=100%25%3A a%2Cb::50%25%0D%0A::x:, y"


def test_a_line_that_is_not_known_is_left_out() -> None:
    """Line 0 would be an error of its own."""
    assert command("warning", "t", "m", file="a.py") == "::warning file=a.py,title=t::m"


def test_what_failed_is_an_error_and_what_is_to_know_a_warning_the_gravest_first() -> None:
    """GitHub shows the first ten."""
    results = one_of_each()
    ends = endings(results)
    ends["a.py::test_down"] = ending("a.py::test_down", "error", "127.0.0.1:1 is not ready")
    ends["a.py::test_left_out"] = ending("a.py::test_left_out", "skipped", "not now")
    found = annotate(run_of(results, root=ROOT, endings=ends), workspace=ROOT)
    assert [(level(each), title(each)) for each in found] == [
        ("error", "a.py::test_down: not measured"),
        ("error", "test_orders.py::test_lost_broker: INVALID"),
        ("error", "test_orders.py::test_sla: VIOLATED"),
        ("error", "test_orders.py::test_slow[1 KiB-acks=all]: REGRESSED"),
        ("warning", "test_orders.py::test_new: INCONCLUSIVE"),
        ("warning", "test_orders.py::test_counts: PASSED"),
    ]


def test_the_message_says_why() -> None:
    """The headline of a test that did not pass, or what pytest reports where its own code failed."""
    new, loud, broken = (
        result("test_new", "errors <= 1", "produce.throughput >= baseline"),
        result("test_loud", warnings=(notice_told("w"),)),
        result("test_broken", "produce.latency.p99 <= 10 ms"),
    )
    ends = {
        broken.nodeid: ending(broken.nodeid, "failed", "Failed: test_broken...", by_verdict=True),
        new.nodeid: ending(new.nodeid, "passed"),
        loud.nodeid: ending(loud.nodeid, "failed", "AssertionError: 1 == 2"),
    }
    found = annotate(run_of([new, loud, broken], root=ROOT, endings=ends), workspace=None)
    assert [each.split("::", 2)[2] for each in found] == [
        "test_broken broke its limit: produce.latency.p99 12.1 ms, allowed <= 10 ms",
        "AssertionError: 1 == 2",
        "test_new could not be decided: no baseline for this test%0A"
        "  compare with this branch's base (--kafka-compare=git:merge-base), or measure one: "
        f"pytest {new.nodeid} --kafka-cluster=local --kafka-update-baselines",
    ]


def test_a_failure_that_is_expected_is_a_warning() -> None:
    """The job is green; the change shows it nevertheless."""
    slow = result(
        "test_x", "produce.latency.p99 <= baseline", baseline=rounds(), measured=rounds(produce__latency__p99=2)
    )
    (found,) = annotate(
        run_of([slow], root=ROOT, endings={slow.nodeid: ending(slow.nodeid, "xfailed")}), workspace=ROOT
    )
    assert (level(found), title(found)) == ("warning", "test_orders.py::test_x: REGRESSED")


@pytest.mark.parametrize(
    ("file", "root", "workspace", "shown"),
    [
        (FILE, "/w/r", "/w/r", FILE),
        (FILE, "/w/r/service", "/w/r", f"service/{FILE}"),
        ("../shared/test_x.py", "/w/r/service", "/w/r", "shared/test_x.py"),
        (FILE, "/w/r", None, FILE),
        (FILE, "/w/r", "/elsewhere", FILE),
        ("/opt/suite/test_x.py", "/w/r", "/w/r", "/opt/suite/test_x.py"),
    ],
)
def test_files_are_those_of_the_repository(file: str, root: str, workspace: str | None, shown: str) -> None:
    """Pytest's root folder may be one of a service in it."""
    one = result("test_x", "errors == 1")
    ends = {one.nodeid: ending(one.nodeid, "failed", "no")}
    object.__setattr__(ends[one.nodeid], "file", file)
    place = None if workspace is None else Path(workspace)
    (found,) = annotate(run_of([one], root=Path(root), endings=ends), workspace=place)
    assert found.startswith(f"::error file={shown},line=7,")


def test_ten_of_each_are_printed_and_the_rest_counted() -> None:
    """More would not be shown, and the log says that there are more."""
    results = [
        result(f"test_{number}", "errors == 1" if number < 12 else "produce.throughput >= baseline")
        for number in range(23)
    ]
    lines = annotate(run_of(results, root=ROOT, endings=endings(results)), workspace=ROOT)
    assert [line.partition(" ")[0] for line in lines] == [
        *["::error"] * 10,
        "kafkaperf:",
        *["::warning"] * 10,
        "kafkaperf:",
    ]
    assert lines[10] == "kafkaperf: 2 more errors are not annotated, because GitHub shows at most 10 of each step"
    assert all("\n" not in line for line in lines)


def test_the_summary_is_added_to_what_other_programs_wrote(tmp_path: Path) -> None:
    """They share the file."""
    path = tmp_path / "summary"
    path.write_text("of another program")
    results = one_of_each()
    assert append_summary(path, run_of(results, endings=endings(results))) is None
    assert path.read_text(encoding="utf-8").startswith(
        "of another program\n### ❌ 1 of 7 Kafka tests could not be measured"
    )


@pytest.mark.parametrize("taken", [LIMIT_BYTES - 20_000, LIMIT_BYTES - 5_000])
def test_what_others_wrote_counts_against_the_limit(tmp_path: Path, taken: int) -> None:
    """GitHub shows neither when both together are too long."""
    path = tmp_path / "summary"
    path.write_bytes(b"x" * taken)
    results = [result(f"test_{number}", "errors == 0") for number in range(100)]
    assert append_summary(path, run_of(results, endings=endings(results))) is None
    assert taken < path.stat().st_size <= LIMIT_BYTES


@pytest.mark.parametrize(
    ("variables", "url"),
    [
        (
            {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "team/orders", "GITHUB_RUN_ID": "1"},
            "https://github.com/team/orders/actions/runs/1",
        ),
        ({"CI_JOB_URL": "https://gitlab.example/team/orders/-/jobs/2"}, "https://gitlab.example/team/orders/-/jobs/2"),
        ({"GITHUB_SERVER_URL": "https://github.com", "CI": "true"}, None),
    ],
)
def test_the_page_of_the_run_is_known_on_github_and_gitlab(variables: dict[str, str], url: str | None) -> None:
    """A comment links to it."""
    assert run_url(variables) == url


def test_a_summary_that_cannot_be_written_is_told_and_nothing_more(tmp_path: Path) -> None:
    """It never changes a verdict."""
    full = tmp_path / "full"
    full.write_bytes(b"x" * LIMIT_BYTES)
    assert append_summary(full, run_of([])) == "cannot add to the job summary: 1,048,576 of 1,048,576 bytes are in use"
    assert append_summary(tmp_path, run_of([])) == f"cannot write the job summary {tmp_path}: Is a directory"


def test_a_note_on_a_test_that_passed_is_no_warning() -> None:
    """Such as the time that a comparison took; each test would have one."""
    quiet, loud = (result(name, notes=(notice_told("took 134 s"),)) for name in ("test_quiet", "test_loud"))
    loud = dataclasses.replace(loud, warnings=(notice_told("w"),))
    results = [quiet, loud]
    (line,) = annotate(run_of(results, root=ROOT, endings=endings(results)), workspace=ROOT)
    assert (title(line), line.rpartition("::")[2]) == ("test_orders.py::test_loud: MEASURED", "w")
