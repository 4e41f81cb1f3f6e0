"""The script `.ci/too_slow.py`: the tests that it finds can be run again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TESTS = """
import pytest

@pytest.mark.parametrize("name", ["a b", "x::y/z", "plain"])
def test_load(name):
    if name != "plain":
        pytest.skip("this machine is too slow for the load of this test: 4 records were late")

def test_docker():
    pytest.skip("no Docker daemon")
"""


def run(folder: Path, *words: str) -> str:
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_node_ids_of_tests_that_were_skipped_by_load_are_printed(tmp_path: Path) -> None:
    """Pytest accepts them, whatever their parameters contain."""
    (tmp_path / "tests/load").mkdir(parents=True)
    (tmp_path / "tests/load/test_a.py").write_text(TESTS, encoding="utf-8")
    pytest_command = (
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--junitxml=junit.xml",
        "--rootdir=.",
    )
    run(tmp_path, *pytest_command)
    found = run(tmp_path, str(ROOT / ".ci/too_slow.py"), "junit.xml").splitlines()
    assert found == [f"tests/load/test_a.py::test_load[{name}]" for name in ("a b", "x::y/z")]
    assert "2 skipped" in run(tmp_path, *pytest_command, *found)


def test_nothing_is_printed_if_no_test_was_skipped_by_load(tmp_path: Path) -> None:
    """The script `.ci/run` then runs nothing again."""
    (tmp_path / "junit.xml").write_text("<testsuites/>", encoding="utf-8")
    assert run(tmp_path, str(ROOT / ".ci/too_slow.py"), "junit.xml").strip() == ""
