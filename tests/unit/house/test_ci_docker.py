"""The script `.ci/docker`, with fake Docker and apt: it changes a machine only if somebody agrees."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_kafkaperf.clusters.target import DEFAULT_VERSION
from tests.support.patience import PATIENCE_S

_SCRIPT = Path(__file__).parents[3] / ".ci/docker"
_TOOLS = ("bash", "cat", "dirname", "sed", "timeout", "tr")
_PUBLIC = f"apache/kafka:{DEFAULT_VERSION}"
_STAND_IN = f"localhost/kafkaperf-stand-in/{_PUBLIC}"


@dataclass(frozen=True)
class _Machine:
    """A folder with all programs that the script finds, and a log of what they were asked to do."""

    folder: Path

    @classmethod
    def make(cls, folder: Path, *, engine: bool, images: tuple[str, ...] = ()) -> _Machine:
        """A machine without a registry; apt installs the engine."""
        machine = cls(folder)
        (folder / ".ci").mkdir()
        (folder / "bin").mkdir()
        shutil.copy(_SCRIPT, folder / ".ci/docker")
        target = folder / "pytest_kafkaperf/clusters/target.py"
        target.parent.mkdir(parents=True)
        target.write_text(f'DEFAULT_VERSION = "{DEFAULT_VERSION}"\n', encoding="utf-8")
        for tool in _TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (folder / "bin" / tool).symlink_to(found)
        machine.program("bin/id", "echo 0")
        machine.program("bin/apt-get", f'echo "apt-get $*" >>{folder}/log; >{folder}/engine')
        known = " ".join(f'"{image}") ;;' for image in images)
        machine.program(
            "bin/docker",
            f'case "$1" in info) test -e {folder}/engine ;; image) case "$3" in {known} *) exit 1 ;; esac ;;'
            f' pull) echo "pull $3" >>{folder}/log; exit 1 ;; esac',
        )
        machine.program(".ci/stand-in-image", f'echo "build $2" >>{folder}/log')
        if engine:
            (folder / "engine").touch()
        return machine

    def program(self, path: str, text: str) -> None:
        (self.folder / path).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (self.folder / path).chmod(0o755)

    def run(self, *words: str, answer: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the script, at a terminal if there is an answer."""
        ours, theirs = pty.openpty()
        try:
            os.write(ours, (answer or "").encode())
            return subprocess.run(
                ["bash", self.folder / ".ci/docker", *words],
                env={"PATH": str(self.folder / "bin"), **variables},
                stdin=subprocess.DEVNULL if answer is None else theirs,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        finally:
            os.close(ours)
            os.close(theirs)

    @property
    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


@pytest.mark.parametrize(
    ("answer", "variables", "installs"),
    [
        (None, {}, False),
        (None, {"CI": "true"}, True),
        (None, {"KAFKAPERF_INSTALL": "yes"}, True),
        ("n\n", {"CI": "true"}, False),  # `.ci/run` sets CI for contributors, too
        ("y\n", {}, True),
    ],
)
def test_an_engine_is_installed_only_if_somebody_agrees(
    answer: str | None,
    variables: dict[str, str],
    installs: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    """A contributor's machine is not a machine of CI."""
    machine = _Machine.make(tmp_path, engine=False, images=(_PUBLIC,))
    ran = machine.run(answer=answer, **variables)
    assert any(line.startswith("apt-get install") for line in machine.log) == installs
    assert (ran.returncode == 0) == installs, ran.stderr
    if not installs:
        assert "start Docker, or set KAFKAPERF_INSTALL=yes" in ran.stderr


@pytest.mark.parametrize(
    ("images", "log", "prefix"),
    [
        ((_PUBLIC,), [], ""),
        ((_STAND_IN,), [], "localhost/kafkaperf-stand-in/\n"),
        ((), [f"pull {_PUBLIC}", f"build {_STAND_IN}"], "localhost/kafkaperf-stand-in/\n"),
    ],
)
def test_the_stand_in_never_has_the_name_of_the_public_image(
    images: tuple[str, ...], log: list[str], prefix: str, tmp_path: Path
) -> None:
    """A contributor's own containers of that name must run the public image."""
    machine = _Machine.make(tmp_path, engine=True, images=images)
    assert machine.run(CI="true").returncode == 0
    assert machine.log == log
    assert machine.run("prefix").stdout == prefix
