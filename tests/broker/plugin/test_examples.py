"""The examples: what users run first must work as it stands there. For README and guide see `tests/unit/docs`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.project import Project

ROOT = Path(__file__).parents[3]


def copied(name: str, folder: Path) -> Project:
    """An example as a user has it: in a folder of one's own, with its baselines."""
    shutil.copytree(ROOT / "examples" / name, folder / name)
    return Project(folder / name)


@pytest.fixture
def quickstart(tmp_path: Path) -> Project:
    return copied("quickstart", tmp_path)


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.extended
def test_the_quickstart_passes_on_a_broker_that_starts_by_itself(quickstart: Project) -> None:
    """No Docker, no Java, nothing to configure."""
    run = quickstart.run("--kafka-cluster=local")
    assert run.status == pytest.ExitCode.OK, run.out
    assert list(run.verdicts) == ["test_producer_sla", "test_end_to_end_sla", "test_throughput_guard"]
    assert run.verdicts["test_producer_sla"] == run.verdicts["test_end_to_end_sla"] == "PASSED"
    assert {test["cluster"]["provider"] for test in run.report["tests"]} == {"local"}


@pytest.mark.broker
def test_the_committed_baseline_of_another_machine_never_gates(quickstart: Project, on_broker: str) -> None:
    """Figures of two machines say nothing about each other: the change is shown and does not count."""
    run = quickstart.run(on_broker, "-k", "guard", "--kafka-rounds=2", "--kafka-environment=somewhere-else")
    assert run.verdicts == {"test_throughput_guard": "INCONCLUSIVE"}, run.out
    assert "no baseline for environment 'somewhere-else'" in run.out
    (check,) = run.report["tests"][0]["checks"]
    assert check["change"] is not None


@pytest.mark.broker
@pytest.mark.slow
def test_the_application_keeps_its_promise_and_a_slower_one_does_not(tmp_path: Path) -> None:
    """The example guards a service through its two topics; the same test, of a service whose lookups take 0.2 s."""
    project = copied("app", tmp_path)
    slow = (project.folder / "test_performance.py").read_text(encoding="utf-8")
    project.write(
        "test_slow.py", slow.replace("service()", 'service("--lookup-ms", "200")').replace("test_an", "test_a")
    )
    run = project.run("--kafka-cluster=local", "--kafka-rounds=1", "--kafka-duration=2 s", "--kafka-preheat=1 s")
    assert run.verdicts == {
        "test_an_order_is_out_within_half_a_second": "PASSED",
        "test_a_order_is_out_within_half_a_second": "VIOLATED",
    }, run.out
    before, after = (test["metrics"] for test in run.report["tests"])
    assert (before["lost"]["median"], after["lost"]["median"]) == (0, 0)
    assert 0.17 < after["e2e.latency.p50"]["median"] - before["e2e.latency.p50"]["median"] < 0.4


def test_every_experiment_is_collected(tmp_path: Path) -> None:
    """Each marker of each is read and checked then; whoever copies one gets no error."""
    run = copied("experiments", tmp_path).run("--collect-only", "-q", "--kafka-cluster=local", reports=False)
    assert run.status == pytest.ExitCode.OK, run.out
    files = {path.name for path in (ROOT / "examples" / "experiments").glob("test_*.py")}
    assert len(files) == 14
    assert {line.partition("::")[0] for line in run.out.splitlines() if "::" in line} == files
    assert (
        "test_disk.py::test_disk[/a]"
        in copied("experiments", tmp_path / "again")
        .run("--collect-only", "-q", "--kafka-cluster=local", "--kafka-log-dirs=/a,/b", "test_disk.py", reports=False)
        .out
    )


@pytest.mark.broker
@pytest.mark.slow
@pytest.mark.parametrize(
    "nodeid",
    [
        "test_durability.py",
        *(
            pytest.param(nodeid, marks=pytest.mark.extended)
            for nodeid in (
                "test_placement.py",
                "test_socket_buffers.py::test_socket_buffers[16-1 KiB]",
                "test_consumers.py::test_consumers[2]",
                "test_failover.py",
            )
        ),
    ],
)
def test_an_experiment_runs(tmp_path: Path, nodeid: str) -> None:
    """Those that do what the others do not: a proxy, a topic's and a broker's properties, a backlog, a failover."""
    run = copied("experiments", tmp_path).run("--kafka-cluster=local", "--kafka-rounds=1", nodeid)
    assert run.status == pytest.ExitCode.OK, run.out
    assert set(run.verdicts.values()) == {"PASSED"}
