"""The import of the hooks without pytest's importer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_kafkaperf import plugin
from pytest_kafkaperf.plugin import entry_point


def test_a_module_that_fails_is_imported_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, the next import would get half a module, and its error would hide the first one."""
    monkeypatch.setattr(plugin, "__path__", [*plugin.__path__, str(tmp_path)])
    (tmp_path / "half.py").write_text("NAME = 'half'\n1 / 0\n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            entry_point._imported("half")  # noqa: SLF001
    assert "pytest_kafkaperf.plugin.half" not in sys.modules
    assert not hasattr(plugin, "half")
