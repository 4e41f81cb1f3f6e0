"""Tests that depend on the machine's speed: the default run leaves them out, and CI runs them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_what_the_default_run_leaves_out_runs_in_ci_one_by_one() -> None:
    """A marker that nothing selects would hide the tests for ever."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    left_out = settings["addopts"][settings["addopts"].index("-m") + 1]
    marker = left_out.removeprefix("not ")
    assert [each.partition(":")[0] for each in settings["markers"]].count(marker) == 1
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(rf"-m pytest -m {marker}\b([^\")]*)", script) == [" tests/unit", ""]  # fast, and everything
