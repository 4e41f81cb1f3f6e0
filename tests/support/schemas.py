"""Checks of files by the public schemas that `check-jsonschema` brings along."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result


def check(path: Path, *options: str) -> Result:
    """Run `check-jsonschema` on a file, in this process; starting another takes longer than the check."""
    from check_jsonschema import main  # noqa: PLC0415 - slow to import

    return CliRunner().invoke(main, [*options, str(path)])
