"""Every block of code in READMEs and guide: what a reader copies must work as it stands there."""

from __future__ import annotations

import argparse
import configparser
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pytest_kafkaperf.core.errors import UsageError
from pytest_kafkaperf.plugin.cli import make_parser, parse_arguments
from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.plugin.options import OPTIONS, key_of
from tests.support.project import Project
from tests.unit.docs.pages import OPTION_NAMES, PAGES, ROOT, Block, blocks

INI_KEYS = {key_of(name) for name, option in OPTIONS.items() if option.place != "command line"}
LANGUAGES = (None, "console", "ini", "json", "python", "sh", "text", "toml", "yaml")
OTHERS = (
    *(
        "gh",
        "git",
        "mkdocs",
        "trend/bin/pip",
        "../before/.venv/bin/pip",
        "pip",
        "pytest-benchmark",
        "python",
        "python3",
    ),
    *(".", "cat", "cd", "cp", "dask", "mkdir", "sed"),
)
"""Programs that are not ours: that their words are right, nobody checks."""
REPOSITORY = (
    r"https://(?:github\.com/pytest-kafkaperf/pytest-kafkaperf/(?:blob|tree)|"
    r"raw\.githubusercontent\.com/pytest-kafkaperf/pytest-kafkaperf)/main/"
)
"""Addresses of files of this project, on the branch main."""


def each(*languages: str | None) -> pytest.MarkDecorator:
    """Run a test for every block of those languages."""
    found = blocks(*languages)
    assert found
    return pytest.mark.parametrize("block", found, ids=str)


def test_every_block_says_what_it_is() -> None:
    """A block that nothing checks is wrong some day."""
    assert [str(block) for block in blocks() if block.language not in LANGUAGES] == []


def test_tests_are_collected(tmp_path: Path) -> None:
    """The first hour of a reader: all fields, metrics and limits of each page are read as pytest reads them.

    A block goes to the file that its first line names, or to one of its own.
    """
    project = Project(tmp_path)
    expected = 0
    for number, block in enumerate(blocks("python")):
        named = re.match(r"# (\S+\.py)\n", block.text)
        if not (named or "def test_" in block.text):
            continue  # a script: its own test runs it
        folder = str(block.page.relative_to(ROOT).with_suffix("")).replace("/", "-")
        file = Path(folder, named[1] if named else f"test_{number}.py")
        project.write(str(file), block.text)
        for samples in re.findall(r'"file:([^"]+)"', block.text):
            project.write(str(file.with_name(samples)), "{}\n")
        expected += len(re.findall(r"^(?:async )?def test_", block.text, re.MULTILINE))
    run = project.run("--collect-only", "-q", "--import-mode=importlib", reports=False)
    assert run.status == pytest.ExitCode.OK, run.out
    collected = {line.partition("[")[0] for line in run.out.splitlines() if "::" in line}
    assert len(collected) == expected, run.out


@each("python")
def test_python_can_be_read(block: Block) -> None:
    """Also what is no test."""
    compile(block.text, str(block), "exec", dont_inherit=True)


@each("sh", "console", None)
def test_commands_have_the_options_that_there_are(block: Block, request: pytest.FixtureRequest) -> None:
    """Words of pytest and of kafkaperf are read as these read them, values included."""
    commands = list(block.commands)
    assert commands
    for words in commands:
        match Path(words[0]).name, words[1:]:
            case ("pytest", arguments) | ("python", ["-m", "pytest", *arguments]):
                read_pytest(request.config, arguments)
            case "kafkaperf", arguments:
                read_pytest(request.config, parse_arguments(make_parser(), arguments).options)
            case _:
                assert words[0].removeprefix(".venv/bin/") in OTHERS


@pytest.mark.parametrize(
    "command",
    ["pytest --kafka-clutser=local", "cd x && pytest -q --kafka-compare=local:newest", "kafkaperf import a.txt"],
)
def test_a_wrong_command_would_be_found(command: str, request: pytest.FixtureRequest) -> None:
    """The check itself works."""
    block = Block(page=ROOT / "README.md", line=1, language="sh", text=f"{command}  # as readers do\n")
    with pytest.raises((AssertionError, UsageError)):
        test_commands_have_the_options_that_there_are(block, request)


def read_pytest(config: pytest.Config, arguments: list[str]) -> None:
    """Read a command line of pytest, and what it asks of us."""
    update = "--kafka-update-baselines"
    given = [f"{update}=replace" if word == update else word for word in arguments]
    parser = config._parser  # noqa: SLF001 - pytest has no public way to read a command line
    found, unknown = parser.parse_known_and_unknown_args(given, argparse.Namespace())
    assert unknown == []
    options = {name: getattr(found, key_of(name), None) for name in OPTION_NAMES}
    read_settings(options, {}, invocation_folder=ROOT, root=ROOT)


@each("yaml")
def test_yaml_can_be_read(block: Block) -> None:
    """A tab or a colon in the wrong place fails the reader's first pipeline."""
    assert YAML(typ="safe").load(block.text) is not None


@each("toml", "ini")
def test_settings_have_the_keys_that_there_are(block: Block) -> None:
    """pytest passes over a key that it does not know, unless it is told not to."""
    given = set(_pytest_settings(block))
    assert {key for key in given if key.startswith("kafka")} <= INI_KEYS


def _pytest_settings(block: Block) -> Mapping[str, object]:
    if block.language == "toml":
        document = tomllib.loads(block.text)
        options: Mapping[str, object] = document.get("tool", {}).get("pytest", {})
        return options.get("ini_options", options)  # type: ignore[return-value]
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(block.text)
    return dict(parser["pytest"]) if "pytest" in parser else {}


@each("json")
def test_json_can_be_read(block: Block) -> None:
    """Programs are written after it."""
    json.loads(block.text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_options_that_there_are(page: Path) -> None:
    """In sentences and tables, too."""
    named = set(re.findall(r"--kafka-([a-z]+(?:-[a-z]+)*)", page.read_text(encoding="utf-8")))
    assert named <= set(OPTION_NAMES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """In the repository, where MkDocs does not look; pictures are made by the project and may be missing before."""
    assert [link for link in _links(page) if not _leads(page, link)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_addresses_in_the_repository_lead_somewhere(page: Path) -> None:
    """Nothing else notices that a file behind an absolute link has moved."""
    paths = re.findall(rf"{REPOSITORY}([^\s)\"]+)", page.read_text(encoding="utf-8"))
    assert [path for path in paths if not _leads(ROOT / "README.md", path)] == []


def test_the_readme_has_absolute_links() -> None:
    """PyPI shows the page without the files next to it."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    assert len(re.findall(REPOSITORY, text)) > 20
    assert [target for target in targets if not target.startswith("https://")] == []


def _links(page: Path) -> Iterator[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    yield from (link for link in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", text) if "://" not in link)


def _leads(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
