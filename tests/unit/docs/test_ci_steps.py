"""The shell steps of the examples for CI, run by bash: against a fake GitHub with the real `gh`, and against git."""

from __future__ import annotations

import html
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from pytest_kafkaperf.reports.markdown import markdown
from tests.support.github_api import BOT, GitHub, github
from tests.support.repository import git
from tests.support.results import endings, one_of_each, run_of
from tests.support.workflows import expand, is_true, read_workflow, run_step

CI = Path(__file__).parents[3] / "examples" / "ci"
COMMENT, GATE = CI / "github-pull-request-comment.yml", CI / "github-pull-request.yml"
BASELINE, NIGHTLY = CI / "github-baseline.yml", CI / "github-nightly.yml"
MARK = "<!-- pytest-kafkaperf -->"
needs_gh = pytest.mark.skipif(shutil.which("gh") is None, reason="no gh: apt-get install gh")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[GitHub]:
    with github(tmp_path) as found:
        yield found


# the comment


def comment(api: GitHub, folder: Path, report: str, *, head: str = "fork:faster", sha: str = "5eb561a") -> int:
    """Run the step as after a run that wrote this report; return its exit status."""
    (folder / "report").mkdir(parents=True, exist_ok=True)
    (folder / "report" / "comment.md").write_text(f"{report}\n", encoding="utf-8")
    return comment_on(api, folder, head=head, sha=sha)


def comment_on(api: GitHub, folder: Path, *, head: str = "fork:faster", sha: str = "5eb561a") -> int:
    variables = {"GH_TOKEN": "token", "HEAD": head, "SHA": sha, "RUN": "https://github.com/team/orders/actions/runs/1"}
    return run_step(COMMENT, "Create the comment, or edit it", folder, {**api.environment, **variables}).returncode


def body(report: str, *, sha: str = "5eb561a") -> str:
    link = "[charts and all values](https://github.com/team/orders/actions/runs/1)"
    return f"{MARK}\nWritten by the code of {sha}; {link}\n\n{report}\n"


@needs_gh
def test_a_comment_is_created_once_and_then_edited(api: GitHub, tmp_path: Path) -> None:
    """A comment for each push would bury the discussion. Those of others stay, also one that looks alike."""
    api.add_pull(7, branch="faster", sha="5eb561a", owner="fork")
    others = ["Nice!", f"{MARK}\nmine", "Why?", "Hm."]
    for text in others:
        api.add_comment(text, by="someone")
    assert comment(api, tmp_path / "first", "slower") == 0
    assert comment(api, tmp_path / "second", "as fast") == 0
    api.pulls.clear()
    api.add_pull(7, branch="faster", sha="94b2b8f", owner="fork")
    assert comment(api, tmp_path / "third", "faster", sha="94b2b8f") == 0
    assert [(each["user"]["login"], each["body"]) for each in api.comments] == [
        *(("someone", text) for text in others),
        (BOT, body("faster", sha="94b2b8f")),
    ]
    assert api.changes == ["POST issues/7/comments", "PATCH issues/comments/1004", "PATCH issues/comments/1004"]


@needs_gh
def test_a_report_of_an_older_push_writes_no_comment(api: GitHub, tmp_path: Path) -> None:
    """The run of the newer push will; a merged pull request needs none."""
    api.add_pull(7, branch="faster", sha="94b2b8f", owner="fork")
    assert comment(api, tmp_path / "old", "slower") == 0
    assert comment(api, tmp_path / "closed", "slower", head="fork:merged") == 0
    assert api.changes == []


@needs_gh
@pytest.mark.parametrize("branch", ["$(touch${IFS}run)", "`touch run`", "a;touch run", "a'\"b&head=team:other", "--jq"])
def test_nothing_that_a_fork_writes_is_run(api: GitHub, tmp_path: Path, branch: str) -> None:
    """Its report and the name of its branch are data: they reach GitHub as text."""
    report = "$(touch run) ${{ github.token }}\n::set-output name=x::y\n'\"\n%s"
    api.add_pull(7, branch=branch, sha="5eb561a", owner="fork")
    folder = tmp_path / "hostile"
    assert comment(api, folder, report, head=f"fork:{branch}") == 0
    assert [each["body"] for each in api.comments] == [body(report)]
    assert {each.name for each in folder.rglob("*")} == {"report", "comment.md"}


INLINE = (
    "open: <details><summary>open me</summary>",
    "<code><a href=//evil.example>charts</a>",
    "&lt;img src=x>&#x3c;b>&#060;i>",
    "[charts and all values](https://evil.example)\n\n[charts and all values]: //evil.example",
    "![](//evil.example/seen.png)",
    "<https://evil.example>",
    "thanks @maintainer, &#64;maintainer, &#x40;maintainer, &commat;maintainer, &#064;maintainer",
)


@needs_gh
@pytest.mark.parametrize("forged", ["<!-- hidden", "```", "~~~\nWritten by the code of 94b2b8f", "\n\n".join(INLINE)])
def test_a_forged_report_hides_nothing_and_calls_nobody(api: GitHub, tmp_path: Path, forged: str) -> None:
    """A test of a fork can write any report. Readers must see whose code did, and click no link of a stranger."""
    api.add_pull(7, branch="faster", sha="5eb561a", owner="fork")
    assert comment(api, tmp_path / "forged", f"{forged}\n\n{forged}") == 0
    (written,) = (each["body"] for each in api.comments)
    mark, who, report = MarkdownIt("commonmark").render(written).split("\n", maxsplit=2)
    assert (mark, who.partition(";")[0]) == (MARK, "<p>Written by the code of 5eb561a")
    assert set(re.findall(r"<([\w!]+)", report)) <= {"p", "code"}
    assert re.findall(r"@\w", html.unescape(report)) == []
    assert "://" not in written.split("\n", maxsplit=2)[2]


@needs_gh
def test_a_forged_fold_hides_nothing_but_itself(api: GitHub, tmp_path: Path) -> None:
    """The report has folds in lines of their own; whose code wrote them stands before."""
    api.add_pull(7, branch="faster", sha="5eb561a", owner="fork")
    fold = "<details><summary>All is well</summary>"
    assert comment(api, tmp_path / "fold", f"{fold}\n<details open>\n{fold}<b>") == 0
    (written,) = (each["body"] for each in api.comments)
    assert written == body(f"{fold}\n&lt;details open>\n&lt;details>&lt;summary>All is well&lt;/summary>&lt;b>")


@needs_gh
def test_a_link_in_an_artifact_is_not_followed(api: GitHub, tmp_path: Path) -> None:
    """It would publish a file of the machine, for example the variables of a process."""
    api.add_pull(7, branch="faster", sha="5eb561a", owner="fork")
    (tmp_path / "secret").write_text("password")
    (tmp_path / "linked" / "report").mkdir(parents=True)
    (tmp_path / "linked" / "report" / "comment.md").symlink_to(tmp_path / "secret")
    assert comment_on(api, tmp_path / "linked") == 1
    assert api.comments == []


@needs_gh
def test_a_comment_is_as_short_as_github_wants_it(api: GitHub, tmp_path: Path) -> None:
    """A comment of more than 65,536 characters is refused; all values are in the artifact."""
    api.add_pull(7, branch="faster", sha="5eb561a", owner="fork")
    results = one_of_each()
    report = markdown(
        run_of(results, endings=endings(results)), run_url="https://github.com/team/orders/actions/runs/1"
    )
    assert comment(api, tmp_path / "usual", report) == 0
    shown, values, _ = report.partition("<details><summary>All values")
    assert (api.comments[-1]["body"], values != "") == (f"{body(shown)[:-1]}", True)
    assert "<details><summary>Other thresholds</summary>\n" in shown
    assert comment(api, tmp_path / "long", "é" * 10**6) == 0
    assert 30_000 < len(api.comments[-1]["body"]) < 65_536


# the label that accepts a slower pull request

PUSH = {"action": "synchronize", "pull_request": {"labels": [{"name": "accept-slower"}]}}
ACCEPT = {"action": "labeled", "label": {"name": "accept-slower"}}
OTHER = {"action": "labeled", "label": {"name": "accept-slower-please"}}


def gate_of(event: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the job of the gate and the context that it sees."""
    return read_workflow(GATE)["jobs"]["base-against-head"], {"event": event, "ref": "refs/pull/7/merge"}


ACCEPTS = ["--kafka-accept=regressed"]


@pytest.mark.parametrize(("event", "accepts"), [(PUSH, []), ({"action": "opened"}, []), (ACCEPT, ACCEPTS)])
def test_the_label_accepts_only_in_the_run_that_it_starts(
    tmp_path: Path, event: Mapping[str, Any], accepts: list[str]
) -> None:
    """Somebody accepted the code that was there, not what is pushed later."""
    job, github = gate_of(event)
    assert is_true(job["if"], github)
    assert expand(job["name"], github) == "base-against-head"
    (step,) = (each for each in job["steps"] if each.get("name") == "Compare base and head")
    variables = {name: expand(text, github) for name, text in step["env"].items()}
    given = arguments_of_pytest(tmp_path, {**variables, "KAFKA_VERSION": "4.4.0"})
    assert [each for each in given if each == "" or "accept" in each] == accepts
    assert "continue-on-error" not in step


def arguments_of_pytest(tmp_path: Path, variables: Mapping[str, str]) -> list[str]:
    """Run the step of the gate with a pytest that lists its arguments."""
    stub = tmp_path / "bin" / "pytest"
    stub.parent.mkdir()
    stub.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    stub.chmod(0o755)
    (tmp_path / "work").mkdir()
    found = {"PATH": f"{stub.parent}:{os.environ['PATH']}", **variables}
    done = run_step(GATE, "Compare base and head", tmp_path / "work", found)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


def test_a_run_for_another_label_neither_passes_nor_cancels_the_gate() -> None:
    """A skipped job counts as passed: under the name of the required check, any label would unlock the merge."""
    job, other = gate_of(OTHER)
    assert not is_true(job["if"], other)
    assert expand(job["name"], other) != "base-against-head"
    group = read_workflow(GATE)["concurrency"]["group"]
    push, accept, another = (expand(group, gate_of(event)[1]) for event in (PUSH, ACCEPT, OTHER))
    assert push == accept != another


# baselines


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A repository on GitHub with the branches main and slower."""
    folder = tmp_path / "origin"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "kafka-baselines").mkdir()
    (folder / "kafka-baselines" / "test_orders.json").write_text("1")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=Begin")
    git(folder, "branch", "slower")
    git(folder, "checkout", "--quiet", "--detach")  # a branch that is checked out cannot be pushed to
    return folder


def commit_baselines(api: GitHub, origin: Path, folder: Path, values: str, *, branch: str = "") -> int:
    """Run the step as in a clone of the branch, after these values were measured; return its exit status."""
    git(origin, "clone", "--quiet", f"--branch={branch or 'main'}", str(origin), str(folder))
    measured_file(folder, "test_orders.json").write_text(values)
    (folder / "other.txt").touch()
    return commit_measured(api, folder, branch=branch)


def measured_file(clone: Path, name: str) -> Path:
    """Return the path of a file in the artifact that the job in this clone downloads."""
    path = clone.with_suffix(".runner") / "kafka-baselines" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def commit_measured(api: GitHub, clone: Path, *, branch: str = "") -> int:
    surroundings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GH_TOKEN": "token"}
    event = {"NUMBER": "7" if branch else "", "BRANCH": branch, "DEFAULT_BRANCH": "main"}
    runner = {"RUNNER_TEMP": str(clone.with_suffix(".runner"))}
    variables = {**api.environment, **surroundings, **event, **runner}
    return run_step(BASELINE, "Commit the baselines", clone, variables).returncode


def values_of(origin: Path, branch: str) -> str:
    return git(origin, "show", f"{branch}:kafka-baselines/test_orders.json")


@needs_gh
def test_baselines_are_one_pull_request(api: GitHub, origin: Path, tmp_path: Path) -> None:
    """Each night replaces the last one's, as long as nobody has merged it."""
    for values in ("2", "3"):
        assert commit_baselines(api, origin, tmp_path / values, values) == 0
        assert values_of(origin, "kafka-baseline") == values
    assert values_of(origin, "main") == "1"
    assert git(origin, "diff", "--name-only", "main", "kafka-baseline") == "kafka-baselines/test_orders.json"
    assert (api.changes, [each["head"]["ref"] for each in api.pulls]) == (["POST pulls"], ["kafka-baseline"])


@needs_gh
def test_the_label_of_a_pull_request_commits_its_results_to_its_branch(
    api: GitHub, origin: Path, tmp_path: Path
) -> None:
    """The reviewer sees the cost next to the cause, and can add the label again."""
    api.labels.append("accept-baseline")
    assert commit_baselines(api, origin, tmp_path / "accepted", "2", branch="slower") == 0
    assert (values_of(origin, "slower"), values_of(origin, "main")) == ("2", "1")
    assert (api.changes, api.labels) == (["DELETE issues/7/labels/accept-baseline"], [])


@needs_gh
def test_baselines_are_committed_only_onto_the_commit_that_was_measured(
    api: GitHub, origin: Path, tmp_path: Path
) -> None:
    """A push after the label has code that nobody has measured, and perhaps nobody has read."""
    api.labels.append("accept-baseline")
    clone = tmp_path / "late"
    git(origin, "clone", "--quiet", "--branch=slower", str(origin), str(clone))
    measured_file(clone, "test_orders.json").write_text("2")
    git(origin, "checkout", "--quiet", "slower")
    git(origin, "commit", "--quiet", "--allow-empty", "--message=Even slower")
    git(origin, "checkout", "--quiet", "--detach")
    assert commit_measured(api, clone, branch="slower") != 0
    assert (values_of(origin, "slower"), api.changes, api.labels) == ("1", [], ["accept-baseline"])


@needs_gh
def test_only_baselines_are_committed(api: GitHub, origin: Path, tmp_path: Path) -> None:
    """The code under test makes the artifact: hooks, links and other files in it reach neither git nor the commit."""
    clone = tmp_path / "hostile"
    git(origin, "clone", "--quiet", "--branch=main", str(origin), str(clone))
    hook = f"#!/bin/sh\ntouch {tmp_path}/run\n"
    for name, text in {
        "new/test_new.json": "2",
        ".git/config": f"[core]\nfsmonitor = touch {tmp_path}/run\n",
        ".git/hooks/pre-commit": hook,
        "nested/.git/hooks/pre-commit": hook,
        "conftest.py": "raise SystemExit",
        ".gitattributes": "* text",
    }.items():
        measured_file(clone, name).write_text(text)
        measured_file(clone, name).chmod(0o755)
    (tmp_path / "secret").write_text("password")
    measured_file(clone, "linked.json").symlink_to(tmp_path / "secret")
    assert commit_measured(api, clone) == 0
    assert git(origin, "diff", "--name-only", "main", "kafka-baseline") == "kafka-baselines/new/test_new.json"
    assert not (tmp_path / "run").exists()


@needs_gh
def test_equal_baselines_make_no_commit(api: GitHub, origin: Path, tmp_path: Path) -> None:
    """A pull request without a change cannot be opened."""
    assert commit_baselines(api, origin, tmp_path / "equal", "1") == 0
    assert (api.changes, git(origin, "branch", "--list", "kafka-baseline")) == ([], "")


HEAD = "5eb561a0" + "0" * 32
DETACHED = {"CI_COMMIT_SHA": HEAD}
MERGED_RESULTS = {"CI_COMMIT_SHA": "1" * 40, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": HEAD}


@pytest.mark.parametrize(
    ("label", "accepts"),
    [("accept-slower-5eb561a0", ACCEPTS), ("accept-slower-94b2b8f1", []), ("accept-slower", []), ("", [])],
)
@pytest.mark.parametrize("commits", [DETACHED, MERGED_RESULTS], ids=["detached", "merged"])
def test_gitlab_accepts_the_commit_that_the_label_names(
    tmp_path: Path, label: str, accepts: list[str], commits: Mapping[str, str]
) -> None:
    """Somebody accepted the code that was there, not what is pushed later."""
    stub = tmp_path / "bin"
    stub.mkdir()
    (stub / "git").write_text("#!/bin/sh\n")
    (stub / "pytest").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    for program in stub.iterdir():
        program.chmod(0o755)
    job = read_workflow(CI / "gitlab-ci.yml")["kafka-performance"]
    done = run_gitlab(
        tmp_path,
        job["script"],
        {"PATH": f"{stub}:{os.environ['PATH']}", "CI_MERGE_REQUEST_LABELS": f"bug,{label},later", **commits},
    )
    given = done.stdout.split("\n")[:-1]
    assert [each for each in given if each == "" or "accept" in each] == accepts
    assert "allow_failure" not in str(job)


def run_gitlab(folder: Path, script: list[str], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the commands of a job."""
    command = ["bash", "-e", "-c", "\n".join(script)]
    done = subprocess.run(
        command, cwd=folder, env=dict(variables), check=False, timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done


def test_gitlab_opens_a_merge_request_with_the_baselines_that_were_measured(origin: Path, tmp_path: Path) -> None:
    """By options of the push: a job has no other way without a program of GitLab's. It uses no other file."""
    git(origin, "config", "receive.advertisePushOptions", "true")
    hook = origin / ".git" / "hooks" / "pre-receive"
    hook.write_text(f'#!/bin/sh\necho "$GIT_PUSH_OPTION_0 $GIT_PUSH_OPTION_1" > "{tmp_path}/options"\n')
    hook.chmod(0o755)
    measured = git(origin, "rev-parse", "main")
    git(origin, "checkout", "--quiet", "main")
    git(origin, "commit", "--quiet", "--allow-empty", "--message=Later")
    git(origin, "checkout", "--quiet", "--detach")
    project = tmp_path / "project"
    hooks = project / ".git" / "hooks"
    (project / "kafka-baselines").mkdir(parents=True)
    hooks.mkdir(parents=True)
    (project / "kafka-baselines" / "test_orders.json").write_text("2")
    (project / "kafka-baselines" / "conftest.py").write_text("raise SystemExit")
    (project / "kafka-baselines" / "linked.json").symlink_to("/etc/passwd")
    (hooks / "pre-commit").write_text(f"#!/bin/sh\ntouch {tmp_path}/run\n")
    (hooks / "pre-commit").chmod(0o755)
    surroundings = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{origin}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://kafka-baseline:secret@gitlab.example/team/orders.git",
        "CI_SERVER_HOST": "gitlab.example",
        "CI_PROJECT_PATH": "team/orders",
        "CI_COMMIT_SHA": measured,
        "CI_COMMIT_BRANCH": "main",
        "CI_COMMIT_REF_SLUG": "main",
        "KAFKA_BASELINE_TOKEN": "secret",
    }
    run_gitlab(project, read_workflow(CI / "gitlab-ci.yml")["kafka-baseline-commit"]["script"], surroundings)
    assert values_of(origin, "kafka-baseline-main") == "2"
    assert git(origin, "rev-parse", "kafka-baseline-main^") == measured
    assert git(origin, "diff", "--name-only", measured, "kafka-baseline-main") == "kafka-baselines/test_orders.json"
    assert (tmp_path / "options").read_text() == "merge_request.create merge_request.target=main\n"
    assert not (tmp_path / "run").exists()


def test_gitlab_adds_a_trial_each_night() -> None:
    """Made again each night, the baseline would have one day for ever."""
    job = read_workflow(CI / "gitlab-ci.yml")["kafka-baseline"]
    nightly, by_hand = job["rules"]
    assert nightly == {
        "if": '$CI_PIPELINE_SOURCE == "schedule"',
        "variables": {"HOW": "--kafka-update-baselines=add"},
    }
    assert (by_hand["when"], job["variables"]) == ("manual", {"HOW": "--kafka-calibrate=5 --kafka-update-baselines"})
    assert job["script"][0].endswith(" $HOW\n")


# change points


def trend(tmp_path: Path, program: str) -> tuple[int, str]:
    """Run the step where `python -m venv` makes an environment with this command kafkaperf."""
    stub = tmp_path / "bin" / "python"
    stub.parent.mkdir()
    stub.write_text(
        '#!/bin/sh\nmkdir -p "$3/bin"\ncd "$3/bin"\n'
        f"printf '#!/bin/sh\\n' > pip\nprintf '#!/bin/sh\\n{program}\\n' > kafkaperf\nchmod +x pip kafkaperf\n"
    )
    stub.chmod(stub.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "work").mkdir()
    variables = {
        "PATH": f"{stub.parent}:{os.environ['PATH']}",
        "RUNNER_TEMP": str(tmp_path / "temp folder"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    status = run_step(NIGHTLY, "Look for change points", tmp_path / "work", variables).returncode
    summary = tmp_path / "summary.md"
    return status, summary.read_text() if summary.exists() else ""


def test_change_points_are_in_the_summary(tmp_path: Path) -> None:
    """Nobody opens the log of a green job."""
    assert trend(tmp_path, 'echo "$*"') == (0, "```text\ntrend kafka-history.jsonl\n```\n")


def test_a_trend_that_failed_fails_its_step(tmp_path: Path) -> None:
    """Not the job: the step may fail, and says why."""
    assert trend(tmp_path, "exit 2") == (2, "")
