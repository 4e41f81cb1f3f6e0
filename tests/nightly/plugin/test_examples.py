"""The examples that the shorter run leaves out."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.examples import REPOSITORIES, run_experiment
from tests.support.project import ROOT, Project, copied_example, inherited

COMMAND_TIMEOUT_S = 300


@pytest.fixture
def quickstart(tmp_path: Path) -> Project:
    return copied_example("quickstart", tmp_path)


def test_the_quickstart_passes_on_a_broker_that_starts_by_itself(quickstart: Project) -> None:
    """No Docker, no Java, nothing to configure, and within 40 s where the machine is not busy."""
    run = quickstart.run()
    assert run.status == pytest.ExitCode.OK, run.out
    assert run.verdicts == {"test_producer_sla": "PASSED", "test_end_to_end_sla": "PASSED"}
    assert {test["cluster"]["provider"] for test in run.report["tests"]} == {"local"}


@pytest.mark.parametrize(
    "nodeid",
    [
        "test_placement.py",
        "test_socket_buffers.py::test_socket_buffers[16-1 KiB]",
        "test_consumers.py::test_consumers[2]",
        "test_failover.py",
    ],
)
def test_an_experiment_runs(tmp_path: Path, nodeid: str) -> None:
    """Properties of a topic and of a broker, a backlog, and a failover."""
    run_experiment(nodeid, tmp_path)


@pytest.mark.timeout(2 * COMMAND_TIMEOUT_S + 60)
@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_is_green_in_two_commands_from_a_clone(name: str, tmp_path: Path) -> None:
    """Those of its README, with an environment of its own; of the last commit."""
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "clone"], check=True, timeout=COMMAND_TIMEOUT_S)
    folder = tmp_path / "clone" / "examples" / name
    block = re.search(r"```sh\n(.+?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    install, test = block[1].splitlines()
    for command in (install, test):
        subprocess.run(["bash", "-c", command], cwd=folder, env=inherited(), check=True, timeout=COMMAND_TIMEOUT_S)
