"""The command `kafkaperf bisect`: finds the commit that made a test slower, by comparisons of revisions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from pytest_kafkaperf.core.environment import git
from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.core.text import file_of
from pytest_kafkaperf.core.units import format_ratio
from pytest_kafkaperf.runner.checkout import Checkout, checked_out, commit_of, installed_from, top_folder
from pytest_kafkaperf.runner.revision import Revision
from pytest_kafkaperf.verdict.outcome import Verdict

_ANSWERS = {Verdict.REGRESSED: "bad", Verdict.VIOLATED: "bad", Verdict.PASSED: "good", Verdict.IMPROVED: "good"}
"""Git's word for a verdict; other verdicts say nothing about the commit, and it is skipped."""
_FOUND = " is the first bad commit"
_HASH = re.compile(r"\b[0-9a-f]{40}\b")


def find_commit(
    revisions: str, nodeid: str, *, setup: str | None, options: Sequence[str], say: Callable[[str], None]
) -> str:
    """Return the first commit that is slower than the good one: its hash, subject and author.

    Args:
        revisions: `GOOD..BAD`, as git names them.
        nodeid: the test, relative to the current folder, which is pytest's root folder.
        setup: as `--kafka-reference-setup`, for the environment of each commit.
        options: further options of pytest.
        say: called with a line about each commit.

    Raises:
        UsageError: a commit is not there, the code cannot be exchanged, or the commits could not be told apart.

    """
    good, dots, bad = revisions.partition("..")
    if not dots or not good or "::" not in nodeid:
        raise UsageError(f"kafkaperf bisect {revisions} {nodeid}: GOOD..BAD TEST is needed, TEST as pytest prints it")
    root, file = Path.cwd(), file_of(nodeid)
    top = top_folder(root)
    if not (root / file).is_file():
        raise UsageError(f"kafkaperf bisect: there is no file {file} in {root}; run it in pytest's root folder")
    first, last = (commit_of(each or "HEAD", root, f"kafkaperf bisect {revisions}") for each in (good, bad))
    count = int(git(root, "rev-list", "--count", f"{first}..{last}"))
    if not count:
        raise UsageError(f"kafkaperf bisect {revisions}: no commit follows the good one; name the older commit first")
    if setup is None and (installed := installed_from(top)):
        raise UsageError(
            f"this environment has {', '.join(installed)} from {top}, so each commit would be measured with the same "
            "code; give each an environment of its own: --setup='pip install -e .'"
        )

    def checkout(commit: str) -> AbstractContextManager[Checkout]:
        return checked_out(Revision(f"git:{commit}", ref=commit, tests="head"), root, files=[file], setup=setup)

    with checkout(good) as reference, tempfile.TemporaryDirectory(prefix="kafkaperf-bisect-") as folder:
        clone = Path(folder, "clone")
        git(root, "clone", "--quiet", "--shared", "--no-checkout", str(top), str(clone))
        git(clone, "bisect", "start", "--no-checkout", last, first)
        say(f"{count} commits, at most {count.bit_length()} comparisons")
        while True:
            commit = git(clone, "rev-parse", "BISECT_HEAD")
            with checkout(commit) as head:
                answer, why = _compared(head, reference, nodeid, options, Path(folder, "report.json"))
            say(f"{_described(clone, commit)}: {why}")
            found = _answered(clone, answer)
            if _FOUND in found:
                return _described(clone, found.split()[0], "%h %s (%an, %ad)")


def _described(clone: Path, commit: str, fields: str = "%h %s") -> str:
    return git(clone, "log", "-1", f"--format={fields}", "--date=short", commit)


def _answered(clone: Path, answer: str) -> str:
    """Give git the answer about a commit, and return what it says."""
    try:
        return git(clone, "bisect", answer)
    except UsageError as error:  # it lists the commits that were skipped, and the slower one
        left = [_described(clone, each) for each in _HASH.findall(str(error))]
        raise UsageError(
            "no commit can be named, because commits were skipped for the reasons above; it is one of "
            + (", ".join(left) or str(error))
        ) from None


def _compared(
    head: Checkout, reference: Checkout, nodeid: str, options: Sequence[str], report: Path
) -> tuple[str, str]:
    """Return git's word for a commit, and the reason."""
    report.unlink(missing_ok=True)
    other = f"--kafka-reference=path:{reference.root},python={reference.python}"
    command = [head.python, "-m", "pytest", nodeid, f"--rootdir={head.root}", "-p", "no:cacheprovider", other]
    ran = subprocess.run(  # noqa: S603 - pytest, as the user would call it
        [*command, f"--kafka-report=json:{report}", *options],
        cwd=head.root,
        env={**os.environ, "COLUMNS": "1000"},  # pytest cuts reasons to the width
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    tests = json.loads(report.read_text(encoding="utf-8"))["tests"] if report.exists() else []
    if not tests:
        errors = [line for line in ran.stdout.splitlines() if line.startswith(("E ", "ERROR"))]
        reason = re.sub(r"^(ERROR \S+ - |E +)", "", errors[-1]) if errors else "the test did not run"
        return "skip", f"skipped: {reason}"
    verdict = Verdict(tests[0]["verdict"])
    reasons = (*tests[0]["problems"], *tests[0]["notes"], "")
    if verdict not in _ANSWERS:
        return "skip", f"{verdict}: {reasons[0]}"
    failed = [check for check in tests[0]["checks"] if Verdict(check["outcome"]).fails]
    changes = [f"{check['metric']} {format_ratio(check['change'])}" for check in failed if check["change"] is not None]
    return _ANSWERS[verdict], ": ".join(filter(None, [verdict, ", ".join(changes)]))
