"""The `kafkaperf bisect` command: finds the commit that made a test slower, by comparing revisions."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from pytest_kafkaperf.core import supervisor
from pytest_kafkaperf.core.environment import git
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.core.units import Unit, counted, format_quantity, format_ratio
from pytest_kafkaperf.reports.compare import read_report
from pytest_kafkaperf.runner.checkout import (
    Checkout,
    checked_out,
    commit_of,
    installed_from,
    top_folder,
    without_origin,
    worktrees,
)
from pytest_kafkaperf.runner.settings import Revision
from pytest_kafkaperf.verdict.outcome import Verdict

_ANSWERS = {Verdict.REGRESSED: "bad", Verdict.VIOLATED: "bad", Verdict.PASSED: "good", Verdict.IMPROVED: "good"}
"""Git's term for a verdict; a commit with any other verdict is skipped."""
_COMPARISON_TIMEOUT_S = 4 * 3600
"""Maximum duration of pytest for one commit; --kafka-time-budget can set a shorter limit."""
_END_TIMEOUT_S = 60
"""Maximum wait for pytest to stop after SIGTERM if it took too long."""
_FOUND = " is the first bad commit"
_HASH = re.compile(r"\b[0-9a-f]{40,64}\b")


def find_commit(
    revisions: str, nodeid: str, *, setup: str | None, options: Sequence[str], say: Callable[[str], None]
) -> str:
    """Return the first commit that is slower than the good one, as its hash, subject, author and day.

    Args:
        revisions: `GOOD..BAD`, in git's syntax.
        nodeid: the test, with its path relative to the current folder, which must be pytest's root folder.
        setup: shell command that installs each commit, as in `--kafka-compare-setup`; None if not required.
        options: further pytest options.
        say: called for each commit with a line to print.

    Raises:
        UsageError: a commit does not exist, every commit would run the same code, or no single commit was found.

    """
    root = Path.cwd()
    file = file_of(nodeid)
    if "::" not in nodeid or not (root / file).is_file():
        raise UsageError(
            f"kafkaperf bisect: {root} has no test {nodeid}; run the command in pytest's root folder, and give the "
            "test's node id as pytest prints it"
        )
    first, last = _ends(revisions, root)
    top = top_folder(root)
    shared = [name for each in worktrees(root) for name in installed_from(each)]
    if setup is None and shared:
        raise UsageError(
            f"{', '.join(shared)} in this virtual environment is installed from {top} or a worktree of it, so every "
            "commit would run the same code; install each commit separately with --setup='pip install -e .'"
        )

    def checkout(commit: str) -> AbstractContextManager[Checkout]:
        return checked_out(Revision(f"git:{commit}", ref=commit, tests="head"), root, files=[file], setup=setup)

    with checkout(first) as good, tempfile.TemporaryDirectory(prefix="kafkaperf-bisect-") as folder:
        supervisor.remove_later(Path(folder))
        clone = Path(folder, "clone")
        report = Path(folder, "report.json")
        git(root, "clone", "--quiet", "--shared", "--no-checkout", str(top), str(clone))

        def measured(commit: str) -> tuple[str, str]:
            try:
                with checkout(commit) as head:
                    environment = without_origin(os.environ, top, top_folder(head.root))
                    # The user's `addopts` may select other tests. Of several --kafka-report, the last one counts.
                    every = [*_loading(options), "-m", "", "-k", ""]
                    arguments = [nodeid, *every, *options, f"--kafka-report=json:{report}"]
                    answer, why = _compared(head, good, arguments, report, environment)
            except UsageError as error:  # the error comes from the commit's checkout or setup
                answer = "skip"
                why = f"skipped: {error}"
            say(f"{_described(clone, commit)}: {why}")
            return answer, why

        count = int(git(root, "rev-list", "--count", f"{first}..{last}"))
        say(f"{counted(count, 'commit')}, at most {counted(1 + (count - 1).bit_length(), 'comparison')}")
        answer, why = measured(last)
        if answer != "bad":
            raise UsageError(
                f"kafkaperf bisect {revisions}: on this machine, the last commit is not slower than the good one: {why}"
            )
        found = git(clone, "bisect", "start", "--no-checkout", last, first)
        while _FOUND not in found:
            found = _answered(clone, measured(git(clone, "rev-parse", "BISECT_HEAD"))[0])
        return _described(clone, _HASH.findall(found)[0], "%h %s (%an, %ad)")


def _ends(revisions: str, root: Path) -> tuple[str, str]:
    """Return the hashes of the good and the bad commit; raise UsageError if they do not enclose any commits."""
    asked = f"kafkaperf bisect {revisions}"
    good, dots, bad = revisions.partition("..")
    if not dots or not good:
        raise UsageError(f"{asked}: must be two commits, GOOD..BAD")
    first, last = (commit_of(each or "HEAD", root, asked) for each in (good, bad))
    base = git(root, "merge-base", first, last, problem=f"{asked}: the two commits have no common history")
    if base == last:
        raise UsageError(f"{asked}: there is no commit after the good one; give the older commit first")
    if base != first:
        raise UsageError(f"{asked}: {good} is not part of the bad commit's history; use commit {base} instead")
    return first, last


def _described(clone: Path, commit: str, fields: str = "%h %s") -> str:
    return git(clone, "log", "-1", f"--format={fields}", "--date=short", commit)


def _answered(clone: Path, answer: str) -> str:
    """Report a commit's result to git, and return git's output."""
    try:
        return git(clone, "bisect", answer)
    except UsageError as error:  # git's output lists the skipped commits and the slower one
        left = [_described(clone, each) for each in _HASH.findall(str(error))]
        raise UsageError(
            "cannot decide which commit it is, because commits were skipped for the reasons above; it is one of "
            + (", ".join(left) or str(error))
        ) from None


def _printed(ran: subprocess.Popen[str]) -> str | None:
    """Return pytest's output; None if pytest did not finish in time and was stopped."""
    try:
        return ran.communicate(timeout=_COMPARISON_TIMEOUT_S)[0]
    except subprocess.TimeoutExpired:
        ran.terminate()
    try:
        ran.communicate(timeout=_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        ran.kill()  # pytest's supervisor stops everything that pytest started
    return None


def _loading(options: Sequence[str]) -> list[str]:
    """Return the options that load this plugin if pytest loads no plugin on its own, and the user does not load it."""
    given = [os.environ.get("PYTEST_PLUGINS", ""), *options]
    is_loaded = not os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD") or any("kafkaperf" in each for each in given)
    return [] if is_loaded else ["-p", "kafkaperf"]


def _compared(
    head: Checkout, good: Checkout, arguments: Sequence[str], report: Path, environment: Mapping[str, str]
) -> tuple[str, str]:
    """Return git's term for a commit, and the reason."""
    report.unlink(missing_ok=True)
    other = f"--kafka-compare=path:{good.root},python={good.python}"
    # Without pytest's cache plugin, the key would be unknown.
    has_cache = not any(argument.endswith("no:cacheprovider") for argument in arguments)
    cache = [f"-ocache_dir={report.parent}"] if has_cache else []
    with subprocess.Popen(  # noqa: S603 - runs pytest as the user would
        [head.python, "-m", "pytest", f"--rootdir={head.root}", *cache, other, *arguments],
        cwd=head.root,
        env={**environment, "COLUMNS": "1000"},  # pytest truncates reasons to the width
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    ) as ran:
        supervisor.kill_later(ran.pid)
        printed = _printed(ran)
        supervisor.forget(ran.pid)
    if printed is None:
        within = format_quantity(_COMPARISON_TIMEOUT_S, Unit.SECONDS)
        return "skip", f"skipped: the comparison did not finish within {within}"
    tests = read_report(report).tests if report.exists() else ()
    if not tests:
        errors = [line for line in printed.splitlines() if line.startswith(("E ", "ERROR"))]
        reason = re.sub(r"^(ERROR \S+ - |E +)", "", errors[-1]) if errors else "the test did not run"
        return "skip", f"skipped: {reason}"
    if len(tests) > 1:
        return "skip", f"skipped: {len(tests)} tests ran; choose one, with its parameters: {tests[0].nodeid}"
    (test,) = tests
    if test.verdict not in _ANSWERS:
        reasons = (*map(str, test.problems), *map(str, test.notes), "")
        return "skip", f"{test.verdict}: {reasons[0]}"
    failed = [check for check in test.checks if check.verdict.fails]
    changes = ", ".join(f"{each.metric} {format_ratio(each.change)}" for each in failed if each.change is not None)
    return _ANSWERS[test.verdict], f"{test.verdict}: {changes}" if changes else str(test.verdict)
