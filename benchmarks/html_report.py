"""Time to write and to open an HTML report: `python benchmarks/html_report.py [TESTS]`; needs Chromium.

Opening runs from the start of the navigation to the end of the page's load event, by the browser's own clock. Each
result is the median of five runs, each in a new browser.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from pytest_kafkaperf.core.files import write_report
from pytest_kafkaperf.reports.html.html_report import html_page
from tests.support import results
from tests.support.browser import Browser, chromium

_TIMES = 5
_LOADED = "performance.getEntriesByType('navigation')[0].loadEventEnd"
_BOUND_S = 3


def main(tests: int) -> None:
    """Print one line for each result."""
    simulated = results.many(tests)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        written_s = []
        for _ in range(_TIMES):
            began_s = time.monotonic()
            write_report(path, html_page(results.run_of(simulated)), kind="html")
            written_s.append(time.monotonic() - began_s)
        opened_s = []
        for _ in range(_TIMES):
            with chromium() as driver:
                browser = Browser(driver)
                browser.open(path)
                browser.wait_for(f"{_LOADED} > 0")
                opened_s.append(browser.ask(_LOADED) / 1000)
        print(f"{tests} tests, {path.stat().st_size / 2**20:.1f} MiB")
        print(f"written in {statistics.median(written_s):.2f} s")
        print(f"opened in {statistics.median(opened_s):.2f} s (from {min(opened_s):.2f} to {max(opened_s):.2f} s)")
        print(f"the bound is {_BOUND_S} s: {'kept' if statistics.median(opened_s) <= _BOUND_S else 'NOT kept'}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
