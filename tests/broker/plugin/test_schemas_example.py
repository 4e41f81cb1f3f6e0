"""The example with a schema registry, which is skipped where its packages or the registry are missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.examples import BRIEF
from tests.support.project import Project, Run, copied_example

FORGETFUL = (
    "                    producer.produce(",
    "                    if message.offset() % 100 == 50:\n                        continue\n",
)
"""A line of the service, and what makes the service lose every hundredth order of each partition."""


@pytest.fixture
def example(tmp_path: Path) -> Project:
    for module in ("fastavro", "confluent_kafka.schema_registry.avro", "confluent_kafka.schema_registry.protobuf"):
        pytest.importorskip(module, exc_type=ImportError)
    project = copied_example("schemas", tmp_path)
    source = (project.folder / "test_schemas.py").read_text(encoding="utf-8")
    patient, count = re.subn(r"(e2e\.latency\.p\d+ <=) \d+ ms", r"\1 60 s", source)  # other tests run at the same time
    assert count, source
    project.write("test_schemas.py", patient)
    return project


def measured(example: Project, *arguments: str) -> Run:
    """Run the example; skip the test if the registry cannot be had."""
    run = example.run_steadily(*BRIEF, "-rs", *arguments)
    if reason := re.search(r"SKIPPED .*(Apicurio Registry .* cannot be downloaded.*)", run.out):
        pytest.skip(reason[1])
    return run


def test_records_with_schemas_are_produced_and_recognized(example: Project) -> None:
    """Others can read every record, and the service loses none."""
    run = measured(example)
    assert run.status == pytest.ExitCode.OK, run.out
    assert run.verdicts == {"test_avro_orders": "PASSED", "test_protobuf_orders": "PASSED"}, run.out
    for test in run.report["tests"]:
        assert (test["metrics"]["lost"]["value"], test["metrics"]["duplicated"]["value"]) == (0, 0), run.out


def test_lost_orders_are_noticed_in_values_with_schemas(example: Project) -> None:
    """The header is gone: only the ids in the values show it."""
    line, before = FORGETFUL
    source = (example.folder / "service.py").read_text(encoding="utf-8")
    assert line in source
    example.write("service.py", source.replace(line, before + line))
    run = measured(example, "-k", "avro")
    (test,) = run.report["tests"]
    assert test["verdict"] == "VIOLATED", run.out
    assert [check["expression"] for check in test["checks"] if check["verdict"] == "VIOLATED"] == ["lost == 0"], run.out
    assert test["metrics"]["lost"]["value"] > 0
