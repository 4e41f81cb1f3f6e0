"""The command `kafkaperf init`: what it writes, and what it leaves alone."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.target import DEFAULT_VERSION, Local, parse_target
from pytest_kafkaperf.plugin.cli import main
from pytest_kafkaperf.plugin.options import OPTIONS, key_of
from tests.support.patience import PATIENCE_S
from tests.support.schemas import check
from tests.unit.docs.pages import OPTION_NAMES

ROOT = Path(__file__).parents[3]
SERVICE = [
    "pytest.ini",
    "tests/perf/example_service.py",
    "tests/perf/orders.jsonl",
    "tests/perf/test_service_sla.py",
]
CLUSTER = ["pytest.ini", "tests/perf/test_cluster_change.py"]
WORKFLOW = ".github/workflows/kafka-performance.yml"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root folder of a repository, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("audience", "written", "steps"),
    [
        (
            "--service",
            SERVICE,
            [
                "change the lines of tests/perf/test_service_sla.py that end in a comment",
                "replace the lines of tests/perf/orders.jsonl with lines of your real input",
                "delete tests/perf/example_service.py, which stands in for your service",
                "run: pytest tests/perf",
            ],
        ),
        (
            "--cluster",
            CLUSTER,
            [
                "change the lines of tests/perf/test_cluster_change.py that end in a comment",
                "run: pytest tests/perf",
            ],
        ),
    ],
)
def test_it_writes_a_test_and_says_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str], audience: str, written: list[str], steps: list[str]
) -> None:
    """Whoever has just installed the plugin needs no page."""
    assert main(["init", audience]) == 0
    assert files(folder) == written
    out = capsys.readouterr().out
    assert out.splitlines() == [
        *(f"written: {name}" for name in written),
        "",
        "next steps:",
        *(f"{number}. {step}" for number, step in enumerate(steps, start=1)),
    ]
    named = {name for step in steps for name in re.findall(r"tests/perf/\S+\w", step)}
    assert named <= {*written}


def test_it_changes_no_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be called again for the workflow, or where there is a file with one of the names."""
    own = folder / "tests" / "perf" / "orders.jsonl"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    assert main(["init", "--service"]) == 0
    before = {name: (folder / name).read_bytes() for name in files(folder)}
    assert main(["init", "--service", "--workflow"]) == 0
    assert {name: (folder / name).read_bytes() for name in before} == before
    assert files(folder) == sorted([WORKFLOW, *SERVICE])
    assert own.read_text() == "mine"
    first, second = capsys.readouterr().out.split("written: pytest.ini")[1].split("\nwritten: .github")
    assert "already exists, not changed: tests/perf/orders.jsonl" in first
    assert [line for line in second.splitlines() if line.startswith("already exists")] == [
        f"already exists, not changed: {name}" for name in SERVICE[1:]
    ]


@pytest.mark.parametrize(
    ("name", "content", "section", "line"),
    [
        ("pyproject.toml", "[tool.pytest]\nminversion = '9'\n", "[tool.pytest]", 'kafka_cluster = "local"'),
        ("pyproject.toml", "[tool.pytest.ini_options]\n", "[tool.pytest.ini_options]", 'kafka_cluster = "local"'),
        ("pytest.toml", "", "[pytest]", 'kafka_cluster = "local"'),
        ("pytest.ini", "", "[pytest]", "kafka_cluster = local"),
        ("tox.ini", "[pytest]\n", "[pytest]", "kafka_cluster = local"),
        ("setup.cfg", "[tool:pytest]\n", "[tool:pytest]", "kafka_cluster = local"),
    ],
)
def test_it_prints_the_lines_for_an_existing_file(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, section: str, line: str
) -> None:
    """A pytest.ini would take the place of the settings there."""
    (folder / name).write_text(content)
    assert main(["init", "--service"]) == 0
    assert files(folder) == sorted([name, *SERVICE[1:]])
    assert (folder / name).read_text() == content
    assert f"add to {name}, under {section}:\n  {line}\n" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["pyproject.toml", "tox.ini", "setup.cfg"])
def test_a_file_without_settings_of_pytest_is_none_of_its_files(folder: Path, name: str) -> None:
    """Then a pytest.ini replaces nothing."""
    (folder / name).write_text("[build-system]\n")
    assert main(["init", "--service"]) == 0
    assert files(folder) == sorted([name, *SERVICE])


def test_lines_that_are_there_are_not_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The user has chosen other values; a longer name or a comment is no value."""
    others = 'kafka_compare_config = ["num.io.threads=1"]\n# kafka_compare = "local:4.0.0"\n'
    (folder / "pyproject.toml").write_text(f'[tool.pytest]\nkafka_cluster = "docker"\n{others}')
    assert main(["init", "--cluster"]) == 0
    assert capsys.readouterr().out.splitlines()[1:3] == [
        "add to pyproject.toml, under [tool.pytest]:",
        '  kafka_compare = "local:4.1.0"',
    ]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "one of the arguments --service --cluster is required; see kafkaperf init --help"),
        (
            ["--service", "--cluster"],
            "argument --cluster: not allowed with argument --service; see kafkaperf init --help",
        ),
        (
            ["--service"],
            "cannot write tests/perf/example_service.py: tests/perf is not a folder; move or rename it",
        ),
    ],
)
def test_what_cannot_be_written_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    """It says what to do."""
    (folder / "tests").mkdir()
    (folder / "tests" / "perf").touch()
    assert main(["init", *arguments]) == 2
    assert capsys.readouterr().err == f"kafkaperf: {problem}\n"


def test_the_settings_are_keys_of_the_plugin_and_versions_that_there_are(folder: Path) -> None:
    """A wrong one would be the first thing that a new user sees."""
    assert main(["init", "--cluster"]) == 0
    ini = configparser.ConfigParser()
    ini.read(folder / "pytest.ini")
    settings = dict(ini["pytest"])
    assert {*settings} <= {key_of(name) for name in OPTIONS}
    assert settings["kafka_cluster"] == f"local:{DEFAULT_VERSION}"
    other = parse_target(settings["kafka_compare"], option="kafka_compare")
    assert isinstance(other, Local)
    assert other.version != DEFAULT_VERSION


@pytest.mark.usefixtures("folder")
def test_the_code_is_as_users_write_it() -> None:
    """Their linter sees it next."""
    for audience in ("--service", "--cluster"):
        assert main(["init", audience]) == 0
    linter = [sys.executable, "-m", "ruff"]
    rules = ["--isolated", "--line-length=120", "--no-cache"]
    for command in (["check", "--select=E,F,I,B,UP,SIM,RUF"], ["format", "--check"]):
        done = subprocess.run(
            [*linter, *command, *rules, "tests"], capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("audience", "compares"), [("--service", True), ("--cluster", False)])
def test_the_workflow_is_what_github_reads_and_like_the_examples(
    folder: Path, audience: str, *, compares: bool
) -> None:
    """The same pinned actions, this version of the plugin, and existing options.

    A service is compared with its base, and the comment workflow can show the result; the clusters to compare are in
    the ini file.
    """
    assert main(["init", audience, "--workflow"]) == 0
    done = check(folder / WORKFLOW, "--builtin-schema=vendor.github-workflows")
    assert done.exit_code == 0, done.output
    text = (folder / WORKFLOW).read_text()
    example = (ROOT / "examples" / "orders-service" / ".github" / "workflows" / "ci.yml").read_text()
    uses = re.compile(r"uses: (\S+ # \S+)")
    assert {*uses.findall(text)} <= {*uses.findall(example)}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert f"'pytest-kafkaperf[local]=={version}'" in text
    assert {*re.findall(r"--kafka-([a-z-]+)", text)} <= {*OPTION_NAMES}
    assert ("--kafka-compare=git:merge-base" in text) is compares
    assert ("fetch-depth: 0" in text) is compares
    comment = (ROOT / "examples" / "ci" / "github-pull-request-comment.yml").read_text(encoding="utf-8")
    assert "name: kafka-comment" in comment
    assert "comment.md" in comment
    assert ("name: kafka-comment" in text and "comment/comment.md" in text) is compares
