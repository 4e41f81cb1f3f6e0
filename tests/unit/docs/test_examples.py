"""The examples are collected as they stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.examples import REPOSITORIES
from tests.support.project import ROOT, copied_example


def test_every_experiment_is_collected(tmp_path: Path) -> None:
    """Each marker of each is read and checked then; whoever copies one gets no error."""
    run = copied_example("experiments", tmp_path).run("--collect-only", "-q", "--kafka-cluster=local", reports=False)
    assert run.status == pytest.ExitCode.OK, run.out
    files = {path.name for path in (ROOT / "examples" / "experiments").glob("test_*.py")}
    assert len(files) == 14
    assert {line.partition("::")[0] for line in run.out.splitlines() if "::" in line} == files
    folders = ("-o", "kafka_log_dirs=/a,/b", "test_disk.py")
    again = copied_example("experiments", tmp_path / "again")
    assert "test_disk.py::test_disk[/a]" in again.run("--collect-only", "-q", *folders, reports=False).out


@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_is_complete(name: str) -> None:
    """Whoever copies it needs nothing else."""
    folder = ROOT / "examples" / name
    package = f"src/{name.replace('-', '_')}"
    parts = ("README.md", "pyproject.toml", package, "tests/unit", "tests/perf", ".github/workflows/ci.yml")
    assert [part for part in parts if not (folder / part).exists()] == []


@pytest.mark.parametrize(
    ("page", "file"),
    [
        ("sla-of-a-service", "orders-service/tests/perf/test_orders.py"),
        ("sla-of-a-sink", "orders-sink/tests/perf/test_sink.py"),
        ("sla-of-a-sink", "orders-service/tests/perf/test_archive.py"),
    ],
)
def test_a_page_has_the_file_of_the_repository(page: str, file: str) -> None:
    """The repository's tests are run; a copy that differs is not."""
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    _, _, path = file.partition("/")
    assert f"```python\n# {path}\n{(ROOT / 'examples' / file).read_text(encoding='utf-8')}```\n" in text
