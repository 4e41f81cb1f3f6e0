"""Names and texts that others choose go through every report: shown whole, and nothing of them acts."""

from __future__ import annotations

import functools
import html.parser
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import pytest_kafkaperf
from pytest_kafkaperf.core.errors import BaselineError
from pytest_kafkaperf.core.text import printable
from pytest_kafkaperf.load.controller import Progress
from pytest_kafkaperf.plugin import benchmarks
from pytest_kafkaperf.plugin.console import RoundLines
from pytest_kafkaperf.reports.ci import annotate, command, junit_properties, metrics_text
from pytest_kafkaperf.reports.columns import Paper
from pytest_kafkaperf.reports.compare import compare_reports, read_report
from pytest_kafkaperf.reports.headline import failure_of
from pytest_kafkaperf.reports.html.html_report import html_page
from pytest_kafkaperf.reports.json_report import json_text
from pytest_kafkaperf.reports.markdown import markdown
from pytest_kafkaperf.reports.terminal import render_baseline, render_compared, summary_lines
from pytest_kafkaperf.reports.writing import append_history, history_lines
from pytest_kafkaperf.runner.result import Ending, Result
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.baseline_file import BaselineRecord
from pytest_kafkaperf.verdict.baseline_store import BaselineStore
from tests.support import results
from tests.support.hostile_names import NAMES, hostile
from tests.support.patience import PATIENCE_S
from tests.support.project import PLAIN
from tests.support.results import ending, rounds

ROOT = Path(pytest_kafkaperf.__file__).parents[1]
EACH = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
PAPER = Paper()


def ends(one: Result, name: str) -> dict[str, Ending]:
    return {one.nodeid: ending(one.nodeid, "failed", name)}


# Each report as text, and what is read in it


def terminal(one: Result, name: str, _: Path, *, colour: bool = False) -> str:
    run = results.run_of([one], endings=ends(one, name), environment_keys=("ci",), orphans=(one.nodeid,))
    return "\n".join(summary_lines(run, Paper(colour=colour), verbose=True, failures=False))


def progress(_: Result, name: str, __: Path) -> str:
    written: list[str] = []
    lines = RoundLines(f"test_x[{name}]", Scenario(), written.append, metrics=())
    lines.update("", 1, Progress(phase="done", elapsed_s=1.0, acknowledged=1))
    lines.close()
    return "\n".join(written)


def failure(one: Result, _: str, __: Path) -> str:
    return str(failure_of(one, strict=False))


def page(_: Result, name: str, __: Path) -> str:
    return page_of(name)


@functools.cache
def page_of(name: str) -> str:
    given = name or "x"  # what is not known is left out
    page = html_page(results.run_of([hostile(name)], commit=given, environment={"key": given}, plugin=given))
    return re.sub("<script>.*?</script>", "", page, flags=re.DOTALL)  # ours


def summary(one: Result, name: str, _: Path) -> str:
    down = ending(f"tests/test_y.py::test_y[{name}]", "error", name)
    return markdown(results.run_of([one], endings={**ends(one, name), down.nodeid: down}))


def github(one: Result, name: str, _: Path) -> str:
    found = annotate(results.run_of([one], root=ROOT, endings=ends(one, name)), workspace=ROOT)
    return "\n".join([command("warning", "kafkaperf", name), *found])


def gitlab(one: Result, _: str, __: Path) -> str:
    return metrics_text([one])


def report(one: Result, name: str, _: Path) -> str:
    environment = {"key": name, "kafka": name}
    run = results.run_of(
        [one], endings=ends(one, name), errors=(name,), created="now", plugin=name, environment=environment
    )
    return json_text(run, exit_status=1)


def history(one: Result, name: str, folder: Path) -> str:
    path = folder / "history.jsonl"
    lines = history_lines(one, plugin=name, commit=name, environment=name)
    append_history(path, lines)
    return path.read_text(encoding="ascii")


def shown(one: Result, name: str, folder: Path) -> str:
    record = BaselineRecord.of_trial(
        nodeid=one.nodeid,
        environment="ci",
        scenario={"topic": name},
        fingerprint={"kafka": name},
        created="2025-01-31T12:00:00+00:00",
        rounds=rounds(),
        commit=name,
    )
    store = BaselineStore(folder / "baselines")
    path = store.save(record)
    assert store.load("ci", one.nodeid) == record
    return "\n".join(render_baseline(record, Path("x.json"), PAPER)) if path else ""


def compared(one: Result, name: str, folder: Path) -> str:
    path = folder / "report.json"
    path.write_text(report(one, name, folder), encoding="ascii")
    again = read_report(path)
    (test,) = compare_reports(again, again, tolerance_ratio=0.1).tests
    return "\n".join(render_compared(test, PAPER))


def benchmarked(one: Result, _: str, __: Path) -> str:
    class Fixture:
        extra_info: dict[str, Any]

        def __init__(self) -> None:
            self.extra_info = {}

        def pedantic(self, target: Callable[[], object], *, rounds: int) -> object:
            return [target() for _ in range(rounds)]

    fixture = Fixture()
    benchmarks.record_rounds(one, fixture, benchmarks.LoadClock())
    return json.dumps({**fixture.extra_info, "name": one.nodeid}, allow_nan=False)


class Page(html.parser.HTMLParser):
    """Its elements, and all text that is seen in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = ""
        self._script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._script = tag in ("script", "style")
        if tag != "wbr":  # a longer name has more places to break
            self.elements.append(" ".join([tag, *(name for name, _ in attrs)]))

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - the parser gives it
        self._script = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._script else data


def rendered(text: str) -> Page:
    return Page(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))


def told(line: str) -> str:
    """What GitHub's runner reads of a command."""
    text = line.replace("%3A", ":").replace("%2C", ",").replace("%0D", "\r").replace("%0A", "\n")
    return text.replace("%25", "%")


def samples(text: str) -> list[Any]:
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return [sample for family in families for sample in family.samples]


def keys(document: Any) -> Any:
    """What a program finds in it, whatever it is called."""
    if isinstance(document, dict):
        return {key: keys(value) for key, value in document.items()}
    return [keys(each) for each in document] if isinstance(document, list) else type(document).__name__


def texts(document: Any) -> list[str]:
    if isinstance(document, dict):
        return [text for value in document.values() for text in texts(value)]
    return [text for each in document for text in texts(each)] if isinstance(document, list) else [str(document)]


@dataclass(frozen=True, kw_only=True)
class Report:
    """How a report is written and read."""

    write: Callable[[Result, str, Path], str]
    read: Callable[[str], str]
    shape: Callable[[str], object]
    """What must be the same whatever the names are."""
    keep: str = ""
    """What its texts have between words: it says them in its own lines."""
    exact: bool = False
    """Programs read it: names are in it as they are."""


def metric_rows(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if re.match(r"  (produce|errors)", line)]


REPORTS = {
    "terminal": Report(write=terminal, read=str, shape=metric_rows),
    "progress": Report(write=progress, read=str, shape=lambda text: len(text.splitlines())),
    "failure": Report(write=failure, read=str, shape=metric_rows, keep="\t\n"),
    "html": Report(write=page, read=lambda text: Page(text).text, shape=lambda text: Page(text).elements),
    "markdown": Report(
        write=summary, read=lambda text: rendered(text).text, shape=lambda text: rendered(text).elements
    ),
    "github": Report(write=github, read=told, shape=lambda text: [line.partition(" ")[0] for line in text.split("\n")]),
    "gitlab": Report(
        write=gitlab,
        read=lambda text: unquote(samples(text)[0].labels["test"], errors="surrogatepass"),
        shape=lambda text: [sample.name for sample in samples(text)],
        exact=True,
    ),
    "json": Report(
        write=report,
        read=lambda text: "\n".join(texts(json.loads(text))),
        shape=lambda text: keys(json.loads(text)),
        exact=True,
    ),
    "history": Report(
        write=history,
        read=lambda text: "\n".join(texts(json.loads(text))),
        shape=lambda text: keys(json.loads(text)),
        exact=True,
    ),
    "show": Report(write=shown, read=str, shape=metric_rows),
    "compare": Report(write=compared, read=str, shape=metric_rows),
    "benchmark": Report(
        write=benchmarked,
        read=lambda text: str(json.loads(text)["name"]),
        shape=lambda text: keys(json.loads(text)),
        exact=True,
    ),
}


@functools.cache
def plain_shape(kind: str) -> object:
    how = REPORTS[kind]
    with tempfile.TemporaryDirectory() as folder:
        return how.shape(how.write(hostile("plain"), "plain", Path(folder)))


def squeezed(text: str) -> str:
    return "".join(text.split())


@EACH
@pytest.mark.parametrize("kind", REPORTS)
def test_a_name_is_read_as_it_is_and_changes_nothing_else(kind: str, name: str, tmp_path: Path) -> None:
    """Markup, escapes and line breaks are text like any other; what cannot be seen is shown by its number."""
    how = REPORTS[kind]
    text = how.write(hostile(name), name, tmp_path)
    assert {each for each in set(text) if each != printable(each)} <= {"\n", "\t"}
    assert text.encode().decode() == text
    if how.exact:
        assert name in how.read(text)
    else:
        assert squeezed(printable(name, keep=how.keep)) in squeezed(how.read(text))
    assert how.shape(text) == plain_shape(kind)


@EACH
def test_colour_in_the_terminal_is_ours_alone(name: str, tmp_path: Path) -> None:
    """A name's own escapes could hide the verdict next to it."""
    coloured, plain = (terminal(hostile(name), name, tmp_path, colour=colour) for colour in (True, False))
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()


@EACH
def test_the_page_has_no_script_but_ours(name: str) -> None:
    """However a name ends an element, a comment or a string."""
    text = page_of(name)
    assert text.count("<script") == text.count("</script") == 0


def test_metrics_of_all_names_are_read_by_gitlab() -> None:
    """One line that it cannot read is no report at all; and no two tests have the same name there."""
    text = metrics_text([hostile(name) for name in NAMES.values()])
    lines = [shlex.split(re.sub("#.*$", "", line)) for line in text.split("\n")]
    named = [words[0] for words in lines if len(words) == 2]
    assert len(set(named)) == len(named) == len(samples(text))


# JUnit, which pytest writes


@pytest.fixture(scope="module")
def junit(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, ElementTree.Element]:
    """A test case for each name, with the properties and the failure of its result."""
    folder = tmp_path_factory.mktemp("junit")
    (folder / "test_names.py").write_text(
        "import pytest\n"
        "from pytest_kafkaperf.reports.headline import failure_of\n"
        "from pytest_kafkaperf.reports.ci import junit_properties\n"
        "from tests.support.hostile_names import NAMES, hostile\n"
        "@pytest.mark.parametrize('number', range(len(NAMES)))\n"
        "def test_each(request, number):\n"
        "    result = hostile([*NAMES.values()][number])\n"
        "    request.node.user_properties += junit_properties(result)\n"
        "    pytest.fail(failure_of(result, strict=False), pytrace=False)\n"
    )
    command = [sys.executable, "-m", "pytest", *PLAIN, "-q"]
    command += ["--junitxml=junit.xml", "test_names.py"]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join(filter(None, (str(ROOT), environment.get("PYTHONPATH"))))
    done = subprocess.run(
        [*command, f"--rootdir={folder}"],
        cwd=folder,
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    tests = ElementTree.parse(folder / "junit.xml").iter("testcase")  # noqa: S314 - our own file
    return dict(zip(NAMES.values(), tests, strict=True))


@EACH
def test_junit_has_the_properties_of_each_name(junit: Mapping[str, ElementTree.Element], name: str) -> None:
    """XML has no place for most control characters: pytest writes them by their number, before 9.1 many others, too."""
    found = [(each.attrib["name"], each.attrib["value"]) for each in junit[name].iter("property")]
    expected = [(key, str(value)) for key, value in junit_properties(hostile(name))]
    assert [key for key, _ in found] == [key for key, _ in expected]
    beyond = "\U00010000-\U0010ffff" if pytest.version_tuple >= (9, 1) else ""
    illegal = re.compile(f"[^\t\n\r -~\u00a0-\ud7ff\ue000-\ufffd{beyond}]")
    for (key, value), (_, given) in zip(found, expected, strict=True):
        if not illegal.search(given):
            assert (key, value) == (key, given)
    assert junit[name].find("failure") is not None


# Files


def test_each_name_has_a_baseline_of_its_own_inside_the_folder(tmp_path: Path) -> None:
    """On a file system that ignores case, too: names of tests and of their files are those of anyone."""
    store = BaselineStore(tmp_path / "kept" / "baselines")
    names = [*NAMES.values(), "PLAIN", "Plain", "con", "a" * 150, "a" * 151]
    nodeids = {f"tests/{file}.py::test_x[{name}]" for file, name in itertools.product(names, names) if "/" not in file}
    nodeids |= {f"{file}::{name}" for file in ("..", "../../x.py", "/etc/x.py", "a//b.py", "./x.py") for name in names}
    paths = {nodeid: store.path("ci", nodeid) for nodeid in nodeids}
    inside = os.path.realpath(store.folder)
    assert {os.path.commonpath([inside, os.path.realpath(path)]) for path in paths.values()} == {inside}
    assert all(len(part.encode()) <= 150 for path in paths.values() for part in path.relative_to(store.folder).parts)
    by_test = {(*nodeid.partition("::")[::2],) for nodeid in nodeids}
    assert len({str(path).casefold() for path in paths.values()}) == len(by_test)


@pytest.mark.parametrize("where", ["ci", "ci/test_a.py"])
def test_a_link_leads_no_baseline_out_of_the_folder(tmp_path: Path, where: str) -> None:
    """A change that somebody proposes may hold links, and CI writes as another user."""
    store = BaselineStore(tmp_path / "baselines")
    (tmp_path / "elsewhere").mkdir()
    link = store.folder / where
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "elsewhere")
    record = BaselineRecord.of_trial(
        nodeid="test_a.py::test_b",
        environment="ci",
        scenario={},
        fingerprint={},
        created="2025-01-31T12:00:00+00:00",
        rounds=rounds(),
    )
    with pytest.raises(BaselineError) as caught:
        store.save(record)
    assert str(caught.value) == (
        f"{store.path('ci', 'test_a.py::test_b')} was not written, because it is outside the baseline folder "
        f"{store.folder}; remove the link"
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_folder_of_baselines_may_be_a_link(tmp_path: Path) -> None:
    """A cache of CI, say: it is the one that was named."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "baselines").symlink_to(tmp_path / "cache")
    shown(hostile("plain"), "plain", tmp_path)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["ci"]
