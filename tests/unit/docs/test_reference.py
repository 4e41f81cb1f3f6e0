"""Reference pages match the code, and files match their reference pages."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

import pytest_kafkaperf
from docs import generate
from pytest_kafkaperf.clusters.monitoring.readings import Use
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.spec import ClusterSpec
from pytest_kafkaperf.core.metrics import CATALOGUE
from pytest_kafkaperf.core.problems import ProblemKind
from pytest_kafkaperf.core.spans import Span
from pytest_kafkaperf.plugin.options import OPTIONS
from pytest_kafkaperf.reports.compare import Report
from pytest_kafkaperf.reports.json_report import json_schema, json_text
from pytest_kafkaperf.reports.span_table import REMEDIES
from pytest_kafkaperf.runner.result import MetricValues, Result
from pytest_kafkaperf.runner.warmup import WarmUp, WarmUpEnd
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.other_changes import OtherChange
from tests.support import results
from tests.support.report_schema import validate_report
from tests.support.results import ending

ROOT = Path(__file__).parents[3]
FILES = ROOT / "docs" / "reference" / "files.md"


@pytest.mark.parametrize("page", generate.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_what_the_code_says(page: Path) -> None:
    """`python docs/generate.py` writes it again."""
    text = page.read_text(encoding="utf-8")
    assert generate.fill(text) == text, "run: python docs/generate.py"


@pytest.mark.parametrize("path", generate.schemas(), ids=lambda path: str(path.name))
def test_a_schema_is_what_the_code_says(path: Path) -> None:
    """Each release has these files attached."""
    assert path.read_text(encoding="utf-8") == generate.schemas()[path], "run: python docs/generate.py"


def test_the_reference_has_every_option_and_every_ini_key(request: pytest.FixtureRequest) -> None:
    """What is not on reference pages does not exist for its readers."""
    page = (ROOT / "docs" / "reference" / "options.md").read_text(encoding="utf-8")
    parser = request.config._parser  # noqa: SLF001 - pytest lists its options nowhere else
    (group,) = [group for group in parser._groups if group.name == "kafkaperf"]  # noqa: SLF001 - as above
    named = [*(name for option in group.options for name in option.names()), *parser._inidict]  # noqa: SLF001 - as above
    ours = [name for name in named if name.startswith(("--kafka-", "kafka_"))]
    assert len(ours) > len(OPTIONS)
    assert [name for name in ours if not re.search(rf"{name}(?![\w-])", page)] == []


def test_all_that_can_be_made_of_the_code_is_on_a_page_once() -> None:
    """A part that no page asks for is not read by anybody."""
    texts = "".join(page.read_text(encoding="utf-8") for page in generate.pages())
    assert sorted(re.findall(r"<!-- generated: (\S+) -->", texts)) == sorted(generate.BLOCKS)


@pytest.mark.parametrize("model", [Scenario, ClusterSpec])
def test_every_field_says_what_it_means(model: type[BaseModel]) -> None:
    """The reference has nothing else to say of it."""
    assert set(model.model_fields) <= set(generate.docstrings(model))


def test_what_the_generator_adds_is_about_what_there_is() -> None:
    """A field or a metric that was renamed would lose its text unseen."""
    assert set(generate.TEXTS) <= {*Scenario.model_fields, *Recipe.model_fields}
    assert [start for start in generate.CONDITIONS if not any(name.startswith(start) for name in CATALOGUE)] == []


def test_the_api_page_has_every_public_name_once() -> None:
    """A name that is missing there does not exist for its readers."""
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: pytest_kafkaperf\.(\w+)$", page, re.MULTILINE)) == pytest_kafkaperf.__all__


@pytest.mark.parametrize("model", [Result, MetricValues])
def test_every_attribute_of_a_result_has_a_docstring(model: type) -> None:
    """The API page is made from them: whoever looks at `dir(result)` finds each name there."""
    members = [name for name, value in vars(model).items() if inspect.isfunction(value) or isinstance(value, property)]
    described = {*generate.docstrings(model), *(name for name in members if inspect.getdoc(getattr(model, name)))}
    public = {name for name in [*vars(model), *model.__annotations__] if not name.startswith("_")}
    assert public - described == set()


@pytest.mark.parametrize(
    ("where", "without"),
    [
        ("with a `rate`", {"consumers": 1}),
        ("with `consumers`", {"rate": 1000}),
        ("with `consumers`, `consume='live'`", {"rate": 1000, "consumers": 1, "consume": "after"}),
        ("unless `acks=0`", {"rate": 1000, "acks": 0}),
        ("with a `watch_group`", {"rate": 1000, "consumers": 1}),
    ],
)
def test_metrics_are_absent_where_the_reference_says_so(where: str, without: dict[str, Any]) -> None:
    """Of a scenario that lacks just this; what consumers bring goes with them."""
    full = Scenario.of({"rate": 1000, "consumers": 1, "topic": "orders", "watch_group": "billing"})
    lost = {generate.condition_of(name) for name in {*full.metrics()} - {*Scenario.of(without).metrics()}}
    kept = {generate.condition_of(name) for name in Scenario.of(without).metrics()}
    assert where in lost
    assert where not in kept
    assert {"always"} <= kept


def test_always_means_always() -> None:
    """The poorest scenario has these metrics and no others."""
    always = [name for name in CATALOGUE if generate.condition_of(name) == "always"]
    assert list(Scenario.of({"acks": 0}).metrics()) == always


def test_links_out_of_the_guide_lead_to_its_copies() -> None:
    """What lies next to `docs/` in the repository lies below it in the site."""
    text = "[a](../../benchmarks/README.md#x) [b](../tutorial.md) [c](limits.md)"
    assert generate.inside(text, "how-to/ci.md") == "[a](../benchmarks/README.md#x) [b](../tutorial.md) [c](limits.md)"
    assert generate.inside("[d](../CHANGELOG.md)", "index.md") == "[d](CHANGELOG.md)"
    assert generate.inside("[e](docs/tutorial.md)", "CHANGELOG.md") == "[e](tutorial.md)"
    assert generate.inside("[f](../docs/tutorial.md)", "benchmarks/README.md") == "[f](../tutorial.md)"


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """A report that has something in every part."""
    moved = OtherChange(metric="client.cpu_per_record", observed=1.5, baseline=1.0, change=0.5, better=False)
    regression = results.regression()
    warm_up = WarmUp(end=WarmUpEnd.IDLE, took_s=2.1, shares=({"1": 0.4},))
    used = Use(cpu_cores=0.5, cpu_max_cores=0.9, memory_max_bytes=4e8)
    opening, *others = regression.trials[0].rounds
    rounds = (dataclasses.replace(opening, uses={"1": used}), *others)
    first = dataclasses.replace(regression.trials[0], rounds=rounds, warm_ups=(warm_up,))
    trials = (first, *regression.trials[1:])
    tests = [
        dataclasses.replace(regression, trials=trials, other_changes=(moved,), spans=dict.fromkeys(Span, 1.5)),
        results.failover(),
        results.side_by_side(),
        results.calibration(),
        results.external(),
        results.capacity(),
        results.nothing("connection refused"),
    ]
    run = results.run_of(
        tests,
        endings={"a.py::test_down": ending("a.py::test_down", "error", "127.0.0.1:1 is not ready")},
        environment={"key": "ci", "kafka": "4.1.1"},
    )
    document: dict[str, Any] = json.loads(json_text(run, exit_status=1))
    return document


def test_the_reference_has_every_kind_of_problem() -> None:
    """Scripts compare them, so none may be missing and none may be made up."""
    documented = re.findall(r"^\| `([^`]+)` \|", _section("Kinds of problems"), re.MULTILINE)
    assert documented == list(ProblemKind)


def test_the_reference_explains_every_span() -> None:
    """A reader who wants a faster test looks up the longest one; the terminal gives the same advice."""
    page = (ROOT / "docs" / "reference" / "thresholds-and-results.md").read_text(encoding="utf-8")
    section = page.split("\n## Where the time goes\n")[1]
    assert dict(re.findall(r"^\| `([^`]+)` \| .* \| (.*?) ?\|$", section, re.MULTILINE)) == REMEDIES
    assert list(REMEDIES) == list(Span)


def test_the_schema_has_every_field_of_the_report(report: dict[str, Any]) -> None:
    """Programs are written after it: no field more, no field less. The pages show what the schema has."""
    schema = json_schema()
    named = {"Report": schema, **schema["$defs"]}
    validate_report(report)
    assert set(_fields(report, schema)) == {
        (name, field) for name, each in named.items() for field in each.get("properties", {})
    }


def test_the_schemas_hold_for_what_is_written(report: dict[str, Any]) -> None:
    """A schema that refuses our own files is worth nothing."""
    folder = ROOT / "docs" / "reference"
    of_reports, of_baselines = (
        json.loads((folder / f"{name}.schema.json").read_text(encoding="utf-8")) for name in ("report", "baseline")
    )
    jsonschema.validate(report, of_reports)
    for name in ("measured", "imported"):
        path = ROOT / "tests" / "nightly" / "fuzz" / "corpus" / "baselines" / f"{name}.json"
        jsonschema.validate(json.loads(path.read_text(encoding="utf-8")), of_baselines)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**report, "tests": [{}]}, of_reports)


def test_what_a_comparison_reads_is_in_the_report(report: dict[str, Any]) -> None:
    """The schema speaks of these fields only."""
    assert Report.model_validate(report).tests


def _section(heading: str) -> str:
    """Of the page about files."""
    text = FILES.read_text(encoding="utf-8")
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def _fields(value: Any, schema: dict[str, Any], name: str = "Report") -> Iterator[tuple[str, str]]:
    """Yield the fields of a document, each after the name of the object in the schema that describes it."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        schema = json_schema()["$defs"][name]
    if value is not None and "anyOf" in schema:
        yield from _fields(value, schema["anyOf"][0])
    elif isinstance(value, list):
        yield from (found for each in value for found in _fields(each, schema.get("items", {})))
    elif isinstance(value, dict):
        for field, each in value.items():
            described = schema.get("properties", {})
            if field in described:
                yield name, field
            yield from _fields(each, described.get(field, schema.get("additionalProperties", {})), name)


def _told() -> list[str]:
    """Return the texts of the plugin that headings and tables of the guide quote."""
    index = (ROOT / "docs" / "reference" / "error-index.md").read_text(encoding="utf-8")
    symptoms = (ROOT / "docs" / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
    lines = [line for line in symptoms.splitlines() if line.startswith(("### ", "| `"))]
    quoted = [text for line in lines for text in re.findall(r"`([^`]+)`", line.partition("` |")[0] + "`")]
    return [*re.findall(r"^### `(.+)`$", index, re.MULTILINE), *quoted]


@pytest.mark.parametrize("text", _told())
def test_a_problem_is_told_in_the_words_of_the_code(text: str) -> None:
    """Readers look for what they have seen."""
    package = ROOT / "pytest_kafkaperf"
    words = re.escape(text).replace(r"\ ", r"(?: |\s*\"\s*\n\s*f?\")")
    assert any(re.search(words, path.read_text(encoding="utf-8")) for path in package.rglob("*.py"))
