"""The HTML report as a browser shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kafkaperf.core.text import printable
from tests.support import results
from tests.support.browser import Browser
from tests.support.report_pages import written

pytestmark = pytest.mark.pages

MARKUP = "<b>&lt;</b></script><img src=x onerror=window.hacked=1><a href='javascript:window.hacked=1'>x</a>\u2028'\""
FIRST_SCREEN_CHARTS = 8
"""A report opens fast, however long it is, because no more than this is drawn before anybody scrolls."""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in which everything that a user can write has markup in it."""
    return written(tmp_path_factory.mktemp("hostile"), results.hostile(MARKUP))


_DRAWN = """[...document.querySelectorAll('.chart')].map((chart) => ({
  title: chart.parentElement.querySelector('strong').innerText,
  wanted: chart.data.length,
  drawn: chart.querySelectorAll('.scatterlayer > .trace, .boxlayer > .trace').length,
  marks: chart.querySelectorAll('.trace path').length,
  width: chart.querySelector('svg.main-svg').getBoundingClientRect().width - chart.clientWidth,
}))"""


@pytest.mark.parametrize("width_px", [375, 1280])
def test_every_chart_is_drawn_and_nothing_is_fetched(browser: Browser, whole: Path, width_px: int) -> None:
    """A chart that stays empty looks like a cluster that did nothing; a report may be read without a network."""
    browser.open(whole, width_px=width_px)
    browser.read_all()
    charts = browser.ask(_DRAWN)
    assert len(charts) > 60
    assert [chart for chart in charts if chart["drawn"] != chart["wanted"] or not chart["marks"]] == []
    assert {chart["width"] for chart in charts} == {0}
    assert browser.ask("performance.getEntriesByType('resource').map((each) => each.name)") == []
    assert browser.ask("document.documentElement.scrollWidth") == width_px


def test_axes_keep_their_labels_within_the_chart(browser: Browser, whole: Path) -> None:
    """On a phone the room is small, and half a number is a wrong number."""
    browser.open(whole, width_px=375)
    browser.read_all()
    clipped = """[...document.querySelectorAll('.chart')].flatMap((chart) => {
      const box = chart.getBoundingClientRect();
      return [...chart.querySelectorAll('.xtick text, .ytick text, .g-xtitle text, .g-ytitle text, .legendtext')]
        .filter((text) => {
          const own = text.getBoundingClientRect();
          return own.left < box.left - 1 || own.right > box.right + 1 || own.bottom > box.bottom + 1;
        })
        .map((text) => text.textContent);
    })"""
    assert browser.ask(clipped) == []


@pytest.mark.parametrize("width_px", [375, 1280])
def test_what_users_write_is_shown_and_never_run(browser: Browser, hostile: Path, width_px: int) -> None:
    """A test's id, a topic, a reason, a broker's name: they come from anywhere."""
    browser.open(hostile, width_px=width_px)
    browser.read_all()
    assert browser.ask("window.hacked") is None
    assert browser.ask("document.querySelectorAll('main img, .chart a').length") == 0
    texts = browser.ask("document.querySelector('main').innerText")
    assert texts.count(printable(MARKUP)) > 15
    labels = browser.ask("[...document.querySelectorAll('.chart text')].map((text) => text.textContent)")
    assert {"file:<b>&lt;</b></scr...", "<b>&lt;</b></script><..."} <= set(labels)
    events = browser.ask(
        "[...document.querySelectorAll('.chart')].flatMap((each) => each.data).map((each) => each.name)"
    )
    assert "events" in events
    assert browser.ask("document.documentElement.scrollWidth") == width_px


def test_the_page_follows_the_colour_scheme(browser: Browser, whole: Path) -> None:
    """Dark text on a dark page, in the page or in its charts, is what is forgotten first."""

    def colours() -> dict[str, float]:
        return dict(
            browser.ask("""(() => {
              const parts = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map(Number);
              const light = (colour) => parts(colour).reduce((sum, each) => sum + each, 0) / 765;
              const of = (selector, name) => light(getComputedStyle(document.querySelector(selector))[name]);
              return {
                page: of('body', 'backgroundColor'), text: of('body', 'color'), axis: of('.sweep .xtick text', 'fill'),
              };
            })()""")
        )

    browser.open(whole, dark=True)
    browser.do("document.querySelector('.sweep').scrollIntoView()")
    browser.wait_for("document.querySelector('.sweep .xtick text')")
    dark = colours()
    fill = "getComputedStyle(document.querySelector('.sweep .xtick text')).fill"
    before = browser.ask(fill)
    browser.prefer(dark=False)  # at sunrise, the page being open
    browser.wait_for(f"{fill} !== {before!r}")
    light = colours()
    assert (dark["page"] < 0.15, dark["text"] > 0.5, dark["axis"] > 0.5) == (True, True, True)
    assert (light["page"] > 0.95, light["text"] < 0.5, light["axis"] < 0.5) == (True, True, True)


def test_a_link_opens_its_test(browser: Browser, whole: Path) -> None:
    """The table is the way in: also when the same link is followed again."""
    browser.open(whole)
    test = "document.getElementById('test-4')"
    assert browser.ask(f"{test}.open") is False
    for _ in range(2):
        browser.do("document.querySelector('a[href=\"#test-4\"]').click()")
        browser.wait_for(f"{test}.open && {test}.querySelector('.chart[data-drawn]')")
        browser.do(f"{test}.open = false")


def test_a_long_report_draws_only_what_is_seen(browser: Browser, tmp_path: Path) -> None:
    """This is why 200 tests open at once; `benchmarks/html_report.py` tells how long it takes."""
    path = written(tmp_path, results.many(200))
    browser.open(path)
    browser.wait_for("document.readyState === 'complete'")
    assert browser.ask("document.querySelectorAll('details.test').length") == 200
    assert browser.ask("document.querySelectorAll('details.test[open]').length") <= 5
    assert browser.ask("document.querySelectorAll('[data-drawn]').length") <= FIRST_SCREEN_CHARTS
    browser.do("document.getElementById('test-150').open = true; location.hash = '#test-150'")
    browser.wait_for("document.querySelector('#test-150 .chart[data-drawn]')")
    assert browser.ask("document.querySelectorAll('[data-drawn]').length") <= 2 * FIRST_SCREEN_CHARTS


def test_on_paper_every_test_is_open_and_every_chart_drawn(browser: Browser, tmp_path: Path) -> None:
    """A reader of paper cannot open anything; and the page is as it was when that is done."""
    path = written(tmp_path, [results.regression(), *results.sizes()])
    browser.open(path, dark=True)
    browser.do("dispatchEvent(new Event('beforeprint'))")
    assert browser.ask("document.querySelectorAll('details:not([open])').length") == 0
    charts = browser.ask(_DRAWN)
    assert [chart for chart in charts if chart["drawn"] != chart["wanted"] or chart["width"]] == []
    assert browser.ask("Math.max(...[...document.querySelectorAll('.chart')].map((each) => each.clientWidth))") <= 680
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    browser.do("dispatchEvent(new Event('afterprint'))")
    assert browser.ask("document.querySelectorAll('details[open]').length") == 1
    assert browser.ask("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    assert browser.pdf().startswith(b"%PDF-")
