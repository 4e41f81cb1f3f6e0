"""The examples and the README: what users run first must work as it stands there."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.plugin.conftest import Project

ROOT = Path(__file__).parents[2]


@pytest.fixture
def quickstart(tmp_path: Path) -> Project:
    """The quickstart as a user has it: copied to a folder of one's own, with its baselines."""
    folder = tmp_path / "quickstart"
    shutil.copytree(ROOT / "examples" / "quickstart", folder)
    return Project(folder)


@pytest.mark.broker
@pytest.mark.slow
def test_the_quickstart_passes_on_a_broker_that_starts_by_itself(quickstart: Project) -> None:
    """No Docker, no Java, nothing to configure."""
    run = quickstart.run("--kafka-cluster=local")
    assert run.status == pytest.ExitCode.OK, run.out
    assert list(run.verdicts) == ["test_producer_sla", "test_end_to_end_sla", "test_throughput_guard"]
    assert run.verdicts["test_producer_sla"] == run.verdicts["test_end_to_end_sla"] == "PASSED"
    assert {test["cluster"]["provider"] for test in run.report["tests"]} == {"local"}


@pytest.mark.broker
def test_the_committed_baseline_of_another_machine_never_gates(quickstart: Project) -> None:
    """Figures of two machines say nothing about each other: the change is shown and does not count."""
    run = quickstart.run(
        "--kafka-cluster=local", "-k", "guard", "--kafka-rounds=2", "--kafka-environment=somewhere-else"
    )
    assert run.verdicts == {"test_throughput_guard": "INCONCLUSIVE"}, run.out
    assert "no baseline for environment 'somewhere-else'" in run.out
    (check,) = run.report["tests"][0]["checks"]
    assert check["change"] is not None


def test_readme_tests_are_collected(project: Project) -> None:
    """A README that shows what does not work costs its readers their first hour."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    for number, block in enumerate(blocks):
        project.write(f"test_readme_{number}.py", block)
    run = project.run("--collect-only", "-q", "--kafka-cluster=127.0.0.1:9092", reports=False)
    assert run.status == pytest.ExitCode.OK, run.out


def test_the_readme_names_every_option(project: Project) -> None:
    """What is not in the README does not exist for its readers."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    options = re.findall(r"--kafka-[a-z-]+", project.run("--help", reports=False).out)
    assert options
    assert [option for option in dict.fromkeys(options) if option not in readme] == []
