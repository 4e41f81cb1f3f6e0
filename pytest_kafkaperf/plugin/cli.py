"""The `kafkaperf` command: creates a first test, imports and shows baselines, compares reports, and finds changes.

Exit status: 0 on success, 1 if a comparison of two reports fails, 2 for a usage error or if nothing was comparable.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Never

from pytest_kafkaperf.clusters.auto import resolve
from pytest_kafkaperf.clusters.target import WORDS, parse_target
from pytest_kafkaperf.core.environment import default_environment_key, differences
from pytest_kafkaperf.core.errors import KafkaPerfError, UnitError, UsageError
from pytest_kafkaperf.core.metrics import CATALOGUE, HEADLINES
from pytest_kafkaperf.core.text import file_of, printable
from pytest_kafkaperf.core.units import Unit, counted, parse
from pytest_kafkaperf.plugin.conclusion import NOT_JUDGED
from pytest_kafkaperf.plugin.options import OPTIONS
from pytest_kafkaperf.plugin.starter import NEXT_STEPS, WORKFLOW_STEPS, start
from pytest_kafkaperf.reports import terminal
from pytest_kafkaperf.reports.columns import Paper
from pytest_kafkaperf.reports.compare import compare_reports, read_report
from pytest_kafkaperf.reports.history import find_change_points
from pytest_kafkaperf.reports.tool_runs import ToolRun, notes_on, origin, read_runs, rounds_of
from pytest_kafkaperf.verdict.baseline_file import BaselineRecord
from pytest_kafkaperf.verdict.baseline_store import BaselineStore, read_baseline

_STANDARD_INPUT = "-"
_DONE = 0
_FAILED = 2
_INTERRUPTED = 130
_EXAMPLE = "tests/perf/test_orders.py::test_ingest"


class _Parser(argparse.ArgumentParser):
    """A parser that reports errors the same way as the rest of the command."""

    def error(self, message: str) -> Never:
        raise UsageError(f"{message}; see {self.prog} --help")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    try:
        parser = make_parser()
        given = parse_arguments(parser, arguments)
        output: _Output = given.run(given, terminal.standard_output())
    except KafkaPerfError as error:
        _complain(str(error))
        return _FAILED
    except KeyboardInterrupt:
        return _INTERRUPTED
    lines, status = output
    _print(lines)
    return status


def parse_arguments(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments; their `options` are further pytest options, which only `bisect` accepts.

    Raises:
        UsageError: an argument is invalid.

    """
    given, others = parser.parse_known_args(arguments)
    if others and given.run is not _bisect:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    given.options = others
    return given


def _print(lines: Iterable[str]) -> None:
    """Write to standard output; escape characters that its encoding does not support, and ignore a closed pipe."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
    except BrokenPipeError:
        # Otherwise, Python flushes standard output again when it exits, and fails.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


_Output = tuple[list[str], int]
"""The lines to print, and the exit status."""


def make_parser() -> argparse.ArgumentParser:
    """Return the command-line parser."""
    parser = _Parser(prog="kafkaperf", description="Manage baselines and reports of pytest-kafkaperf.")
    version = importlib.metadata.version("pytest-kafkaperf")
    parser.add_argument("--version", action="version", version=f"kafkaperf {version}", help="show the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser(
        "init",
        help="write a first test",
        description=(
            "Write a first test that passes as it is, and pytest settings for it, into the current folder, which "
            "should be the root folder of your repository. Either --service or --cluster is required. Existing files "
            "are not changed; if you already have a file with pytest settings, the command prints the lines to add to "
            "it."
        ),
    )
    _add_audiences(command)
    command.set_defaults(run=_init)

    command = commands.add_parser(
        "import",
        help="create a baseline from the output of other tools",
        description=(
            "Read the output of kafka-producer-perf-test and kafka-consumer-perf-test, and write it as the baseline "
            "of a test. Each run in the output becomes a round; runs of both tools are combined. Because imported "
            "results show no noise, comparisons with them use only the ratio."
        ),
    )
    command.add_argument(
        "files", nargs="+", metavar="FILE", help="file with the output of a tool, or - for standard input"
    )
    command.add_argument(
        "--test", required=True, metavar="NODEID", help=f"the test that gets the baseline, for example {_EXAMPLE}"
    )
    folder = OPTIONS["baselines"].default
    command.add_argument(
        "--dir", type=Path, default=Path(folder), metavar="DIR", help=f"folder of the baseline files; default: {folder}"
    )
    command.add_argument(
        "--environment", metavar="NAME", help="environment, as in --kafka-environment; default: this machine's"
    )
    command.add_argument(
        "--cluster",
        default="auto",
        metavar=f"{'|'.join(WORDS)}|HOST:PORT",
        help="cluster of the test, as in --kafka-cluster; part of the default environment's name",
    )
    command.add_argument("--force", action="store_true", help="replace the baseline even if it was measured")
    command.set_defaults(run=_import)

    command = commands.add_parser("show", help="show the contents of baselines")
    command.add_argument(
        "paths",
        nargs="*",
        type=Path,
        metavar="BASELINE",
        help=f"baseline files, or folders that contain them; default: {folder}",
    )
    command.set_defaults(run=_show)

    command = commands.add_parser(
        "diff",
        help="compare two JSON reports",
        description=(
            "Judge the tests in HEAD with BASE as their baseline. Tests are judged by their relative thresholds in "
            "HEAD. A test without relative thresholds regresses if its throughput or latency is worse by more than "
            "--tolerance. Exit status 0: no test in HEAD is worse, even if some are INCONCLUSIVE or exist only in "
            "HEAD. 10: the same, but every test is INCONCLUSIVE. 1: a test in HEAD is REGRESSED against BASE, VIOLATED "
            "or INVALID, or its own code or a fixture failed, or a test in BASE has no measurement in HEAD. 2: the "
            "reports have no test in common, or an argument or a file is invalid."
        ),
    )
    command.add_argument("base", type=Path, metavar="BASE", help="JSON report to compare with (--kafka-report=json)")
    command.add_argument("head", type=Path, metavar="HEAD", help="JSON report to judge")
    command.add_argument(
        "--tolerance", default="10%", help="tolerance for tests without relative thresholds; default: 10%%"
    )
    command.set_defaults(run=_compare)

    command = commands.add_parser(
        "bisect",
        help="find the commit that made a test slower",
        description="Compare commits with GOOD side by side, as --kafka-compare does, until the first slower commit is "
        "found. A commit whose test is INCONCLUSIVE or INVALID is skipped. Further options are passed to pytest.",
    )
    command.add_argument("revisions", metavar="GOOD..BAD", help="two commits, branches or tags")
    command.add_argument("test", metavar="TEST", help=f"the test to run, for example {_EXAMPLE}")
    command.add_argument(
        "--setup", metavar="COMMAND", help="shell command that installs each commit, as in --kafka-compare-setup"
    )
    command.set_defaults(run=_bisect)

    command = commands.add_parser("trend", help="find change points in a history file, with Apache Otava (extra trend)")
    command.add_argument("history", type=Path, metavar="HISTORY", help="file written by --kafka-report=history")
    command.add_argument("--metric", help="metric to look at; default: throughput, latency and capacity")
    command.add_argument("--test", default="", metavar="TEXT", help="only tests whose node ID contains this text")
    command.set_defaults(run=_trend)
    return parser


def _add_audiences(command: argparse.ArgumentParser) -> None:
    audience = command.add_mutually_exclusive_group(required=True)
    audience.add_argument(
        "--service",
        dest="audience",
        action="store_const",
        const="service",
        help="test the SLA of a service that reads and writes Kafka topics",
    )
    audience.add_argument(
        "--cluster",
        dest="audience",
        action="store_const",
        const="cluster",
        help="compare a workload on two Kafka versions or settings",
    )
    command.add_argument("--workflow", action="store_true", help="write a GitHub Actions workflow as well")


def _init(given: argparse.Namespace, _: Paper) -> _Output:
    started = start(Path(), given.audience, workflow=given.workflow)
    lines = [f"written: {path}" for path in started.written]
    lines += [f"already exists, not changed: {path}" for path in started.kept]
    missing = started.missing
    if missing is not None:
        lines += [f"add to {missing.file}, under {missing.section}:", *(f"  {line}" for line in missing.lines)]
    texts = [*NEXT_STEPS[given.audience], *(WORKFLOW_STEPS[given.audience] if given.workflow else ())]
    steps = [f"{number}. {step}" for number, step in enumerate(texts, start=1)]
    return [*lines, "", "next steps:", *steps], _DONE


def _import(given: argparse.Namespace, paper: Paper) -> _Output:
    provider = resolve(parse_target(given.cluster, option="--cluster"))
    environment = given.environment or default_environment_key(provider.name)
    store = BaselineStore(given.dir)
    path = store.path(environment, _nodeid(given.test))
    runs = [run for file in given.files for run in _runs(file)]
    rounds = rounds_of(runs)
    old = store.load(environment, given.test)
    if old is not None and old.imported is None and not given.force:
        raise UsageError(
            f"{path} is a measured baseline with {counted(len(old.trials), 'trial')}, which is more reliable than "
            "imported results; use --force to replace it"
        )
    record = BaselineRecord.of_trial(
        nodeid=given.test,
        environment=environment,
        scenario={},
        fingerprint={},
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        rounds=rounds,
        imported=origin(runs),
    )
    counts = Counter((run.file, run.tool) for run in runs)
    notes = notes_on(runs)
    file = file_of(given.test)
    if not os.path.exists(file):  # noqa: PTH110 - a Path raises where a name is too long
        notes.append(f"{file} does not exist here; run the command in pytest's root folder, where node ids start")
    store.save(record)
    return [
        *(printable(f"{name}: {counted(number, 'run')} of {tool}") for (name, tool), number in counts.items()),
        *terminal.render_metrics(rounds, paper, names=CATALOGUE),
        *(line for note in notes for line in terminal.render_note(f"note: {note}", paper)),
        printable(f"written: {path}"),
    ], _DONE


def _nodeid(text: str) -> str:
    file, separator, name = text.partition("::")
    if not (file and separator and name):
        raise UsageError(f"--test {text}: must be a node id as pytest prints it, for example {_EXAMPLE}")
    return text


def _runs(file: str) -> list[ToolRun]:
    if file == _STANDARD_INPUT:
        return read_runs(sys.stdin.buffer.read(), file="standard input")
    try:
        return read_runs(Path(file).read_bytes(), file=Path(file).name)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from None


def _show(given: argparse.Namespace, paper: Paper) -> _Output:
    lines: list[str] = []
    for path in (file for given_path in given.paths or [_default_folder()] for file in _files(given_path)):
        try:
            record = read_baseline(path)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise UsageError(f"cannot read baseline {path}: {error.strerror}") from None
        lines += ["", *terminal.render_baseline(record, path, paper)]
    return lines[1:], _DONE


def _default_folder() -> Path:
    """Return the default baseline folder in the current folder.

    Raises:
        UsageError: the baseline folder does not exist.

    """
    folder = Path(OPTIONS["baselines"].default)
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder} here; run the command in pytest's root folder, give the path of your "
            "baselines, or create baselines with pytest --kafka-update-baselines"
        )
    return folder


def _files(path: Path) -> list[Path]:
    """Return the baseline files at a path, in alphabetical order."""
    if not os.path.isdir(path):  # noqa: PTH112 - a Path raises where a name is too long
        return [path]
    found = sorted(path.rglob("*.json"))
    if not found:
        raise UsageError(f"{path} contains no baselines; create them with pytest --kafka-update-baselines")
    return found


def _compare(given: argparse.Namespace, paper: Paper) -> _Output:
    tolerance_ratio = _tolerance(given.tolerance)
    base, head = read_report(given.base), read_report(given.head)
    compared = compare_reports(base, head, tolerance_ratio=tolerance_ratio)
    lines = [
        printable(f"{name}: {path}, {report.created}, environment {report.key}")
        for name, path, report in (("base", given.base, base), ("head", given.head, head))
    ]
    changed = differences(base.fingerprint, head.fingerprint)
    if changed:
        lines += terminal.render_note(f"changed: {', '.join(each.shown() for each in changed)}", paper)
    for test in (*compared.tests, *(each for each in compared.new if each.fails)):
        lines += ["", *terminal.render_compared(test, paper)]
    ranges = terminal.explain_range([check for test in compared.tests for check in test.checks])
    lines += ["", *terminal.wrapped(ranges, paper)] if ranges else []
    rest = terminal.render_unmatched(compared)
    status = int(compared.fails) if compared.tests else _FAILED
    if compared.judges_nothing and not compared.fails:
        status = NOT_JUDGED
    return [*lines, *([""] if rest else []), *rest], status


def _bisect(given: argparse.Namespace, _: Paper) -> _Output:
    from pytest_kafkaperf.plugin.bisect_revisions import find_commit  # noqa: PLC0415 - imports the load engine

    def say(line: str) -> None:
        _print([line])

    found = find_commit(given.revisions, given.test, setup=given.setup, options=given.options, say=say)
    return [f"the first slower commit is {found}"], _DONE


def _trend(given: argparse.Namespace, paper: Paper) -> _Output:
    metrics = [given.metric] if given.metric else HEADLINES
    found = find_change_points(given.history, metrics=metrics, test=given.test, say=_complain)
    return terminal.render_changes(found, paper), _DONE


def _complain(problem: str) -> None:
    sys.stderr.write(f"kafkaperf: {printable(problem)}\n")


def _tolerance(text: str) -> float:
    try:
        ratio = parse(text, Unit.RATIO)
    except UnitError as error:
        raise UsageError(f"--tolerance {text}: {error}") from None
    if ratio >= 1:
        raise UsageError(f"--tolerance {text}: must be less than 100%, for example 10%")
    return ratio
