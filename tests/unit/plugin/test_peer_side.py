"""The options of the other revision's pytest process."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest

from pytest_kafkaperf.plugin.option_values import read_settings
from pytest_kafkaperf.plugin.peer_side import peer_options
from pytest_kafkaperf.runner.checkout import Checkout
from pytest_kafkaperf.runner.peer import Peer
from pytest_kafkaperf.runner.settings import parse_revision


@pytest.mark.parametrize("disable_autoload", ["", "1"])
def test_the_plugin_reads_markers_there(
    pytester: pytest.Pytester, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disable_autoload: str
) -> None:
    """Even if pytest loads only the plugins that the command line contains; loading it twice changes nothing."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", disable_autoload)
    pytester.makepyfile(
        test_perf="import pytest\n\n@pytest.mark.kafka_scenario(acs=1)\ndef test_one(kafka_perf): ...\n"
    )
    config = pytester.parseconfig("-p", "kafkaperf")
    options = peer_options(config, read_settings({}, {}, invocation_folder=tmp_path, root=tmp_path))
    revision = parse_revision("path:other", start=tmp_path)
    assert revision is not None
    there = Checkout(root=pytester.path, python=sys.executable, commit=None)
    with contextlib.closing(Peer(revision, there, options, files=["test_perf.py"], root=tmp_path)) as other:
        assert "unknown field 'acs'" in other.hello()["problems"]["test_perf.py"]
