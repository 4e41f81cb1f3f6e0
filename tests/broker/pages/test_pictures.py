"""What people see besides the page: the terminal, and the summary of a job."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from rich.console import Console
from rich.text import Text

from pytest_kafkaperf.reports.columns import Paper
from pytest_kafkaperf.reports.latency_curve import latency_curve
from pytest_kafkaperf.reports.markdown import markdown
from pytest_kafkaperf.reports.terminal import render_latency_curve
from tests.support.browser import Browser
from tests.support.results import capacity, endings, one_of_each, run_of, table

pytestmark = pytest.mark.pages

_FRAME = """<!doctype html><meta charset="utf-8"><title>summary</title><style>
body { font: 14px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 24px auto; padding: 0 16px; color: #1f2328 }
table { border-collapse: collapse } td, th { border: 1px solid #d1d9e0; padding: 6px 13px }
code { background: #eff1f3; padding: .2em .4em; border-radius: 6px; font-size: 85% }
</style><body>"""
"""About as GitHub shows it."""


def test_the_summary_of_a_job_is_a_table_with_reasons(
    browser: Browser, picture: Callable[[str], Path], tmp_path: Path
) -> None:
    """It is rendered as GitHub renders it: CommonMark, tables, and HTML for what folds."""
    results = one_of_each()
    page = tmp_path / "summary.html"
    rendered = (
        MarkdownIt("commonmark", {"html": True})
        .enable("table")
        .render(markdown(run_of(results, endings=endings(results))))
    )
    page.write_text(f"{_FRAME}{rendered}", encoding="utf-8")
    browser.open(page)
    rows = browser.ask("document.querySelectorAll('table:first-of-type tbody tr').length")
    assert rows >= len(results)
    assert browser.ask("[...document.querySelectorAll('td')].some((cell) => cell.innerText.includes('|--'))") is False
    assert browser.ask("document.querySelectorAll('details').length") > 0
    browser.picture(picture("job-summary.png"))


@pytest.mark.parametrize("width", [80, 140])
def test_the_terminal(browser: Browser, picture: Callable[[str], Path], tmp_path: Path, width: int) -> None:
    """As wide as terminals open, and as wide as a screen."""
    results = one_of_each()
    shown = table(results, endings(results), width, colour=True)
    curve = latency_curve(capacity())
    assert curve is not None
    shown += f"\n\n{render_latency_curve(curve, Paper(width=width, colour=True))}"
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(Text.from_ansi(shown))
    page = tmp_path / "terminal.html"
    drawn = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title="pytest tests/perf"), flags=re.DOTALL)
    page.write_text(f"<!doctype html><title>terminal</title><body>{drawn}")  # without fonts from the network
    browser.open(page, width_px=1280)
    assert browser.ask("document.querySelectorAll('svg text').length") > 50
    browser.picture(picture(f"terminal-{width}.png"))
