"""HTML reports for a browser to open."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.reports.html.html_report import html_page
from pytest_kafkaperf.runner.result import Result
from tests.support import results


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A regression, a failover, a comparison side by side, and two sweeps."""
    tests = [
        results.regression(),
        results.failover(),
        results.side_by_side(),
        *results.sizes(),
        *results.codecs(),
        results.capacity(),
        results.nothing("cannot reach 127.0.0.1:9092 within 10 s"),
    ]
    return written(tmp_path_factory.mktemp("whole"), tests)


def written(folder: Path, tests: Sequence[Result], **changes: Any) -> Path:
    """Write the report of these results into a folder."""
    path = folder / "report.html"
    path.write_text(html_page(results.run_of(tests, **changes)), encoding="utf-8")
    return path
