"""The command `kafkaperf`, as its users call it."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_kafkaperf
from pytest_kafkaperf.core.environment import default_environment_key
from pytest_kafkaperf.plugin.cli import main
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from pytest_kafkaperf.verdict.baseline_file import BaselineRecord, Imported
from pytest_kafkaperf.verdict.baseline_store import BaselineStore
from tests.support.json_reports import check, perftest, report
from tests.support.tool_outputs import HEADER, ROW, SAMPLES, SUMMARY

NODEID = "tests/perf/test_orders.py::test_ingest"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def kafkaperf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Call it in a folder of its own, where the test's file is; 80 columns, no terminal."""
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "tests" / "perf").mkdir(parents=True)
    (tmp_path / "tests" / "perf" / "test_orders.py").touch()

    def call(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        return status, *capsys.readouterr()

    return call


def imported(kafkaperf: Command, *files: str | Path, more: tuple[str, ...] = ()) -> tuple[int, str, str]:
    return kafkaperf("import", *map(str, files), "--test", NODEID, "--environment", "ci", *more)


def record(**changes: Any) -> BaselineRecord:
    fields: dict[str, Any] = {
        "nodeid": NODEID,
        "environment": "ci",
        "scenario": {"rate": 5000.0},
        "fingerprint": {"kafka": "4.1.0"},
        "created": "2025-01-31T12:00:00+00:00",
        "rounds": [{"produce.throughput": value} for value in (5000.0, 4000.0, 4500.0)],
        "commit": "0123456789abcdef-dirty",
    }
    return BaselineRecord.of_trial(**{**fields, **changes})


def test_the_command_is_installed_by_its_name() -> None:
    """`pip install` makes it from this line."""
    project = Path(pytest_kafkaperf.__file__).parents[1] / "pyproject.toml"
    if not project.exists():
        pytest.skip("no source tree here")
    assert tomllib.loads(project.read_text())["project"]["scripts"] == {"kafkaperf": "pytest_kafkaperf.plugin.cli:main"}


# import


def test_an_import_tells_what_was_read_and_where_it_is(kafkaperf: Command, tmp_path: Path) -> None:
    """What is to be committed, and what it is worth."""
    status, out, err = imported(kafkaperf, SAMPLES / "producer-4.1.txt", SAMPLES / "consumer-4.3.txt")
    assert (status, err) == (0, "")
    assert out == (
        "producer-4.1.txt: 1 run of kafka-producer-perf-test\n"
        "consumer-4.3.txt: 1 run of kafka-consumer-perf-test\n"
        "  metric                          median            least             most\n"
        "  produce.throughput     99.8k records/s  99.8k records/s  99.8k records/s\n"
        "  produce.bandwidth           9.52 MiB/s       9.52 MiB/s       9.52 MiB/s\n"
        "  produce.latency.mean            940 µs           940 µs           940 µs\n"
        "  produce.latency.p95               3 ms             3 ms             3 ms\n"
        "  produce.latency.p99               8 ms             8 ms             8 ms\n"
        "  produce.latency.p99.9            16 ms            16 ms            16 ms\n"
        "  produce.latency.max             275 ms           275 ms           275 ms\n"
        "  consume.throughput     2.07M records/s  2.07M records/s  2.07M records/s\n"
        "  consume.bandwidth            198 MiB/s        198 MiB/s        198 MiB/s\n"
        "  note: producer-4.1.txt: omitted, because 0 means too small to print:\n"
        "    produce.latency.p50 (line 3)\n"
        "  note: producer-4.1.txt: known only in whole milliseconds, so ratios are\n"
        "    inexact: produce.latency.p95 3 ms, produce.latency.p99 8 ms (line 3)\n"
        "written: kafka-baselines/ci/tests/perf/test_orders.py/test_ingest.json\n"
    )
    found = BaselineStore(tmp_path / "kafka-baselines").comparable("ci", NODEID, {"rate": 5000.0})
    assert (found.imported, found.obstacle) == ("kafka-producer-perf-test and kafka-consumer-perf-test", None)
    assert found.trials == (
        (
            {
                "produce.throughput": 99810.4,
                "produce.bandwidth": 9982443.52,
                "produce.latency.mean": 0.00094,
                "produce.latency.p95": 0.003,
                "produce.latency.p99": 0.008,
                "produce.latency.p99.9": 0.016,
                "produce.latency.max": 0.275,
                "consume.throughput": 2073431.237,
                "consume.bandwidth": 207343111.3728,
            },
        ),
    )


@pytest.mark.parametrize("sample", sorted(SAMPLES.iterdir()), ids=lambda path: path.name)
def test_every_sample_imports(kafkaperf: Command, sample: Path) -> None:
    """And what was imported is read again."""
    assert imported(kafkaperf, sample)[::2] == (0, "")
    status, out, err = kafkaperf("show", "kafka-baselines")
    assert (status, err) == (0, "")
    assert sample.name in " ".join(out.split())


def test_standard_input_is_read(kafkaperf: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sed -n 3p matrix.txt | kafkaperf import - ...` takes one run of several."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SUMMARY.encode())))
    assert imported(kafkaperf, "-")[1].startswith("standard input: 1 run of kafka-producer-perf-test\n")
    assert imported(kafkaperf, "-")[2] == (
        "kafkaperf: standard input: this is not the output of a finished run of kafka-producer-perf-test or "
        "kafka-consumer-perf-test; its first line is ''\n"
    )


def test_the_environment_is_this_machines_with_what_the_test_runs_on(kafkaperf: Command, tmp_path: Path) -> None:
    """As the plugin names it, or the test would not find its baseline."""
    (tmp_path / "run.txt").write_text(SUMMARY)
    for cluster, provider in (("local", "local"), ("docker", "docker"), ("broker:9092", "external")):
        status, _, _ = kafkaperf("import", "run.txt", "--test", NODEID, "--cluster", cluster, "--dir", "kept")
        assert status == 0
        assert BaselineStore(tmp_path / "kept").load(default_environment_key(provider), NODEID) is not None


def test_a_measured_baseline_is_replaced_by_force_only(kafkaperf: Command, tmp_path: Path) -> None:
    """It knows its noise, and the imported one does not."""
    (tmp_path / "run.txt").write_text(SUMMARY)
    store = BaselineStore(tmp_path / "kafka-baselines")
    path = store.save(record())
    before = path.read_bytes()
    status, out, err = imported(kafkaperf, "run.txt")
    assert (status, out) == (2, "")
    assert err == (
        "kafkaperf: kafka-baselines/ci/tests/perf/test_orders.py/test_ingest.json is a measured baseline with "
        "1 trial, which is more reliable than imported results; use --force to replace it\n"
    )
    assert path.read_bytes() == before
    assert imported(kafkaperf, "run.txt", more=("--force",))[0] == 0
    assert imported(kafkaperf, "run.txt")[0] == 0  # an imported one needs no force
    found = store.load("ci", NODEID)
    assert found is not None
    assert found.imported == Imported(tool="kafka-producer-perf-test", files=("run.txt",))


def test_a_test_that_is_not_here_is_imported_all_the_same(kafkaperf: Command, tmp_path: Path) -> None:
    """It may be in another checkout; a slip of the pen is more likely."""
    (tmp_path / "run.txt").write_text(SUMMARY)
    status, out, _ = kafkaperf("import", "run.txt", "--test", "test_a.py::test_b", "--environment", "ci")
    assert status == 0
    assert (
        "  note: test_a.py does not exist here; run the command in pytest's root folder,\n    where node ids start\n"
        in out
    )


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x7fELF\xff", "run.txt: this is not text in UTF-8; give what the tool printed"),
        (
            b"<!DOCTYPE html>\n<html>",
            "run.txt: this is not the output of a finished run of kafka-producer-perf-test or "
            "kafka-consumer-perf-test; its first line is '<!DOCTYPE html>'",
        ),
        (
            SUMMARY.replace("0.94", "NaN").encode(),
            "run.txt: line 1: avg latency is 'NaN', which is not a number such as 1234.5; remove this run, or run the "
            "tool again with LC_ALL=C",
        ),
        (
            f"{SUMMARY}\n{SUMMARY}\n{HEADER}\n{ROW}".encode(),
            "2 runs of kafka-producer-perf-test and 1 run of kafka-consumer-perf-test cannot be combined into rounds; "
            "give as many runs of each tool, or import one tool alone",
        ),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_writes_nothing(
    kafkaperf: Command, tmp_path: Path, content: bytes, problem: str
) -> None:
    """The first thing that a new user sees may be this."""
    (tmp_path / "run.txt").write_bytes(content)
    assert imported(kafkaperf, "run.txt") == (2, "", f"kafkaperf: {problem}\n")
    assert not (tmp_path / "kafka-baselines").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["run.txt", "--test", NODEID], "cannot read run.txt: No such file or directory"),
        (["tests", "--test", NODEID], "cannot read tests: Is a directory"),
        (
            ["run.txt", "--test", "test_orders.py"],
            "--test test_orders.py: must be a node id as pytest prints it, for example "
            "tests/perf/test_orders.py::test_ingest",
        ),
        (
            ["run.txt", "--test", NODEID, "--environment", "../ci"],
            "invalid environment name '../ci': must be at most 100 letters, digits, '.', '_' and '-', "
            "and start with a letter or digit, for example 'ci-large'",
        ),
        (
            ["run.txt", "--test", NODEID, "--cluster", "lokal"],
            "--cluster=lokal: 'lokal' has no port; did you mean 'local' or 'lokal:9092'? valid values: auto[:VERSION], "
            "local[:VERSION], docker[:VERSION or :IMAGE] and HOST:PORT[,HOST:PORT...], such as local:4.0.0, "
            "docker:apache/kafka:4.0.0, "
            "broker1:9092,broker2:9092 or [::1]:9092",
        ),
        (
            ["run.txt"],
            "the following arguments are required: --test; see kafkaperf import --help",
        ),
    ],
)
def test_an_import_that_cannot_be_is_one_line(kafkaperf: Command, arguments: list[str], problem: str) -> None:
    """With what to do, and no traceback."""
    assert kafkaperf("import", *arguments) == (2, "", f"kafkaperf: {problem}\n")


def test_without_a_command_the_usage_is_named(kafkaperf: Command) -> None:
    """Status 2, as every wrong call."""
    assert kafkaperf() == (
        2,
        "",
        "kafkaperf: the following arguments are required: COMMAND; see kafkaperf --help\n",
    )


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    """`kafkaperf show ... | head -1` with a long list."""
    BaselineStore(tmp_path).save(record())
    reading, writing = os.pipe()
    os.close(reading)
    code = "import sys; from pytest_kafkaperf.plugin.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "show", str(tmp_path)],
        stdout=writing,
        stderr=subprocess.PIPE,
        cwd=Path(pytest_kafkaperf.__file__).parents[1],
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_that_lacks_a_letter_gets_its_number(
    kafkaperf: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node ids may hold any; an error about an encoding helps nobody."""
    BaselineStore(tmp_path).save(record(nodeid="test_a.py::test_b[größe]", rounds=[{"produce.latency.p99": 0.0005}]))
    screen = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", screen)
    assert kafkaperf("show", ".")[0] == 0
    assert screen.buffer.getvalue().startswith(b"test_a.py::test_b[gr\\xf6\\xdfe]\n")
    assert b" 500 \\xb5s " in screen.buffer.getvalue()


# show


def test_show_tells_what_a_baseline_holds(kafkaperf: Command, tmp_path: Path) -> None:
    """Trials, and the values that people look at first."""
    path = BaselineStore(tmp_path / "kafka-baselines").save(record())
    expected = (
        "tests/perf/test_orders.py::test_ingest\n"
        "  environment ci, {}\n"
        "  trial                      rounds  commit              source\n"
        "  2025-01-31T12:00:00+00:00       3  0123456789ab-dirty  measured\n"
        "  metric                      median         least          most\n"
        "  produce.throughput  4500 records/s  4k records/s  5k records/s\n"
    )
    shown = "kafka-baselines/ci/tests/perf/test_orders.py/test_ingest.json"
    assert kafkaperf("show", "kafka-baselines") == (0, expected.format(shown), "")
    assert kafkaperf("show", str(path)) == (0, expected.format(path), "")


def test_show_fits_80_columns_and_keeps_names_whole(kafkaperf: Command, tmp_path: Path) -> None:
    """A name that is cut cannot be copied."""
    nodeid = f"tests/perf/test_orders.py::test_ingest[{'x' * 90}]"
    rounds = [{"produce.throughput": 1234567.0, "produce.latency.p99": 0.123456, "e2e.latency.p99": 1.23456}]
    BaselineStore(tmp_path / "kafka-baselines").save(record(nodeid=nodeid, rounds=rounds))
    status, out, _ = kafkaperf("show", "kafka-baselines")
    first, second, *others = out.splitlines()
    assert (status, first) == (0, nodeid)
    assert second.endswith(".json")
    assert max(map(len, others)) <= 80


def test_show_without_arguments_shows_what_is_there(kafkaperf: Command, tmp_path: Path) -> None:
    """Or says how to get something that can be shown."""
    assert kafkaperf("show") == (
        2,
        "",
        "kafkaperf: there is no folder kafka-baselines here; run the command in pytest's root folder, give the path "
        "of your baselines, or create baselines with pytest --kafka-update-baselines\n",
    )
    BaselineStore(tmp_path / "kafka-baselines").save(record())
    assert kafkaperf("show") == kafkaperf("show", "kafka-baselines")


@pytest.mark.parametrize("colour", [True, False])
def test_colour_is_for_terminals_and_can_be_turned_off(
    kafkaperf: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, colour: bool
) -> None:
    """`NO_COLOR` (no-color.org)."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    if not colour:
        monkeypatch.setenv("NO_COLOR", "1")
    BaselineStore(tmp_path / "kafka-baselines").save(record())
    assert (re.search(r"\x1b\[\d*m", kafkaperf("show", "kafka-baselines")[1]) is not None) == colour


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("absent.json", "cannot read baseline absent.json: No such file or directory"),
        ("tests", "tests contains no baselines; create them with pytest --kafka-update-baselines"),
        ("a.json/b.json", "cannot read baseline a.json/b.json: Not a directory"),
        (
            "a.json",
            "baseline a.json is damaged: not JSON: Expecting value: line 1 column 1 (char 0); restore it from version "
            "control, or delete it and make a new one with --kafka-update-baselines",
        ),
    ],
)
def test_what_is_no_baseline_is_one_line(kafkaperf: Command, tmp_path: Path, path: str, problem: str) -> None:
    """Nothing is shown halfway."""
    (tmp_path / "a.json").touch()
    assert kafkaperf("show", path) == (2, "", f"kafkaperf: {problem}\n")


# compare


def written(folder: Path, **reports: Any) -> None:
    for name, content in reports.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


RANGE = "range: where the true change lies, with 95% confidence, on other days as well"


def test_compare_shows_a_regression_and_fails(kafkaperf: Command, tmp_path: Path) -> None:
    """The exit status is what CI reads, the table what people read."""
    written(tmp_path, base=report(perftest()), head=report(perftest(1.5), kafka="4.1.1"))
    assert kafkaperf("diff", "base.json", "head.json") == (
        1,
        "base: base.json, 2025-01-31T12:00:00+00:00, environment ci\n"
        "head: head.json, 2025-01-31T12:00:00+00:00, environment ci\n"
        "  changed: Kafka 4.1.0 → 4.1.1\n"
        "\n"
        "✗ REGRESSED  tests/perf/test_orders.py::test_ingest\n"
        "  threshold                                measured  baseline  change      range\n"
        "  ✗ produce.latency.p99 <= baseline + 10%     15 ms     10 ms    +50%  +10…+105%\n"
        "  produce.latency.p99: +50.0% against the baseline; the threshold is +10.0%;\n"
        "    noise can explain up to +44.0% (baseline of 1 day)\n"
        "\n"
        f"{RANGE}\n"
        "\n"
        "head fails: 1 regressed\n",
        "",
    )


def test_compare_passes_and_names_new_tests(kafkaperf: Command, tmp_path: Path) -> None:
    """Status 0, and nothing unsaid."""
    written(tmp_path, base=report(perftest()), head=report(perftest(), perftest(nodeid="a.py::new")))
    status, out, err = kafkaperf("diff", "base.json", "head.json")
    assert (status, err) == (0, "")
    assert out.splitlines()[3:] == [
        "✓ PASSED  tests/perf/test_orders.py::test_ingest",
        "  threshold                                measured  baseline  change     range",
        "  ✓ produce.latency.p99 <= baseline + 10%     10 ms     10 ms      0%  -27…+37%",
        "",
        RANGE,
        "",
        "only in head: a.py::new",
    ]


def test_compare_fails_for_all_that_failed_in_the_head_run(kafkaperf: Command, tmp_path: Path) -> None:
    """As fast as before, but it lost records, lacks a test, and has another that never ran."""
    checks = [*perftest()["checks"], check("lost == 0", "VIOLATED", "sum of 5 rounds, each 2")]
    bad = perftest(verdict="VIOLATED", pytest_outcome="failed", failed_by_verdict=True, checks=checks)
    error = {"nodeid": "a.py::new", "pytest_outcome": "error", "reason": "no database"}
    skipped = {"nodeid": "a.py::gone", "pytest_outcome": "skipped", "reason": "needs root"}
    new = perftest(nodeid="a.py::own", pytest_outcome="failed", limit=None)
    head = report(bad, new) | {"unmeasured": [error, skipped]}
    written(
        tmp_path, base=report(perftest(), perftest(nodeid="a.py::gone"), perftest(nodeid="a.py::gone_2")), head=head
    )
    status, out, _ = kafkaperf("diff", "base.json", "head.json")
    assert status == 1
    assert out.splitlines()[3:] == [
        "✗ VIOLATED  tests/perf/test_orders.py::test_ingest",
        "  threshold                                measured  baseline  change     range",
        "  ✓ produce.latency.p99 <= baseline + 10%     10 ms     10 ms      0%  -27…+37%",
        "  lost == 0 is VIOLATED in the head report: sum of 5 rounds, each 2",
        "",
        "· MEASURED  a.py::own",
        "  only in the head report",
        "  the test failed in the head run, but not because of its verdict: see the",
        "    output of that run",
        "",
        RANGE,
        "",
        "only in base: a.py::gone (skipped: needs root)",
        "only in base: a.py::gone_2",
        "measured nothing in head: a.py::new (error: no database)",
        "",
        "head fails: 1 violated, 1 failed for another reason, 2 only in base, 1 measured nothing",
    ]


def test_compare_says_when_nothing_was_compared(kafkaperf: Command, tmp_path: Path) -> None:
    """An empty report is no proof of anything."""
    written(tmp_path, base=report(perftest()), head=report())
    status, out, _ = kafkaperf("diff", "base.json", "head.json")
    assert (status, out.splitlines()[-1]) == (2, "nothing was compared: no test is in both reports")


def test_an_obstacle_of_all_limits_is_told_once(kafkaperf: Command, tmp_path: Path) -> None:
    """Six metrics without a limit share one reason."""
    written(tmp_path, base=report(perftest()), head=report(perftest(1.5, limit=None), key="laptop"))
    status, out, _ = kafkaperf("diff", "base.json", "head.json")
    assert status == NOT_JUDGED
    assert out.splitlines()[2:] == [
        "",
        "? INCONCLUSIVE  tests/perf/test_orders.py::test_ingest",
        "  threshold                                measured  baseline  change      range",
        "  ? produce.throughput >= baseline - 10%     1500/s      1k/s    +50%  +10…+105%",
        "  ? produce.latency.p99 <= baseline + 10%     15 ms     10 ms    +50%  +10…+105%",
        "  produce.throughput, produce.latency.p99: the base report is from environment",
        "    'ci', not 'laptop'; the change is shown but not judged",
        "",
        RANGE,
    ]


@pytest.mark.parametrize(("tolerance", "status"), [("10%", 1), ("80 %", 0), ("0.8", 0)])
def test_the_tolerance_is_for_tests_without_limits(
    kafkaperf: Command, tmp_path: Path, tolerance: str, status: int
) -> None:
    """How much worse is too much nobody else has said."""
    written(tmp_path, base=report(perftest()), head=report(perftest(1.7, limit=None)))
    assert kafkaperf("diff", "base.json", "head.json", "--tolerance", tolerance)[0] == status


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["base.json", "absent.json"], "cannot read report absent.json: No such file or directory"),
        (
            ["base.json", "base.json", "--tolerance", "10"],
            "--tolerance 10: must be less than 100%, for example 10%",
        ),
        (
            ["base.json", "base.json", "--tolerance", "few"],
            "--tolerance few: cannot read 'few' as a ratio; use %, for example '30%', '0.3'",
        ),
        (
            ["base.json"],
            "the following arguments are required: HEAD; see kafkaperf diff --help",
        ),
    ],
)
def test_a_comparison_that_cannot_be_is_one_line(
    kafkaperf: Command, tmp_path: Path, arguments: list[str], problem: str
) -> None:
    """Status 2 is no regression."""
    written(tmp_path, base=report(perftest()))
    assert kafkaperf("diff", *arguments) == (2, "", f"kafkaperf: {problem}\n")


def test_the_command_prints_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The first question of each bug report."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (
        0,
        f"kafkaperf {importlib.metadata.version('pytest-kafkaperf')}\n",
    )
