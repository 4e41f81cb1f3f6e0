"""The HTML report as a browser shows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pytest_kafkaperf.core.text import printable
from tests.support import results
from tests.support.browser import Browser
from tests.support.report_pages import written

pytestmark = pytest.mark.pages

MARKUP = "<b>&lt;</b></script><img src=x onerror=window.hacked=1><a href='javascript:window.hacked=1'>x</a>\u2028'\""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report in which everything that a user can write has markup in it."""
    return written(tmp_path_factory.mktemp("hostile"), results.hostile(MARKUP))


_DRAWN = """[...document.querySelectorAll('.plot')].map((plot) => {
  const right = (each) => each.getBoundingClientRect().right;
  return {
    title: plot.querySelector('svg').getAttribute('aria-label'),
    paths: plot.querySelectorAll('g path').length,
    labels: plot.querySelectorAll('text.y, span.x').length,
    width: plot.querySelector('svg').getBoundingClientRect().width,
    beyond: Math.max(...[...plot.querySelectorAll('g, text, span')].map(right)) - right(plot.closest('main')),
  };
})"""


def _flawed(browser: Browser) -> list[Any]:
    """The charts in which something is missing, or that are wider than the page."""
    return [
        chart
        for chart in browser.ask(_DRAWN)
        if not chart["paths"] or chart["labels"] < 4 or chart["width"] < 200 or chart["beyond"] > 0
    ]


@pytest.mark.parametrize("width_px", [375, 1280])
def test_every_chart_is_drawn_and_nothing_is_fetched(browser: Browser, whole: Path, width_px: int) -> None:
    """A chart that stays empty looks like a cluster that did nothing; a report may be read without a network."""
    browser.open(whole, width_px=width_px)
    browser.open_all()
    assert browser.ask("document.querySelectorAll('.plot').length") > 60
    assert _flawed(browser) == []
    assert browser.ask("performance.getEntriesByType('resource').map((each) => each.name)") == []
    assert browser.ask("document.documentElement.scrollWidth") == width_px


def test_the_charts_are_there_without_scripts(browser: Browser, whole: Path, tmp_path: Path) -> None:
    """Some CI servers forbid scripts in the files that they keep."""
    page = tmp_path / "page.html"
    page.write_text(re.sub("script-src '[^']*'", "script-src 'none'", whole.read_text(encoding="utf-8")), "utf-8")
    browser.open(page)
    assert browser.ask("document.querySelectorAll('.sweep .plot').length") == 8
    assert len(browser.messages()) == 1  # the script that the policy forbids


def test_labels_stay_within_the_chart_and_do_not_cover_each_other(browser: Browser, whole: Path) -> None:
    """On a phone the room is small, and half a number is a wrong number."""
    browser.open(whole, width_px=375)
    browser.open_all()
    clipped = """[...document.querySelectorAll('.plot')].flatMap((plot) => {
      const box = plot.closest('figure').getBoundingClientRect();
      const places = (selector) => [...plot.querySelectorAll(selector)].map((each) => each.getBoundingClientRect());
      const inside = (own) => own.left >= box.left - 1 && own.right <= box.right + 1 && own.bottom <= box.bottom + 1;
      const apart = (own, at, all) => all.every((each, other) => other <= at || each.left > own.right - 1);
      const below = places('span.x');
      const good = [...below, ...places('text.y')].every(inside) && below.every(apart);
      return good ? [] : [plot.querySelector('svg').getAttribute('aria-label')];
    })"""
    assert browser.ask(clipped) == []


@pytest.mark.parametrize("width_px", [375, 1280])
def test_what_users_write_is_shown_and_never_run(browser: Browser, hostile: Path, width_px: int) -> None:
    """A test's id, a topic, a reason, a broker's name: they come from anywhere."""
    browser.open(hostile, width_px=width_px)
    browser.open_all()
    assert browser.ask("window.hacked") is None
    assert browser.ask("document.querySelectorAll('main img, .plot a').length") == 0
    texts = browser.ask("document.querySelector('main').innerText")
    assert texts.count(printable(MARKUP)) > 15
    labels = browser.ask("[...document.querySelectorAll('.plot span, .legend li')].map((each) => each.textContent)")
    assert {"file:<b>&lt;</b></scr...", "<b>&lt;</b></script><...", "events"} <= set(labels)
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
                page: of('body', 'backgroundColor'), text: of('body', 'color'), axis: of('.sweep text', 'fill'),
              };
            })()""")
        )

    browser.open(whole, dark=True)
    browser.do("document.querySelector('.sweep').scrollIntoView()")
    dark = colours()
    fill = "getComputedStyle(document.querySelector('.sweep text')).fill"
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
        browser.wait_for(f"{test}.open && {test}.getBoundingClientRect().top < innerHeight")
        browser.do(f"{test}.open = false")


def test_a_long_report_opens_with_few_tests_expanded(browser: Browser, tmp_path: Path) -> None:
    """The browser lays out only what is open; `benchmarks/html_report.py` measures how long it takes."""
    path = written(tmp_path, results.many(200))
    browser.open(path)
    browser.wait_for("document.readyState === 'complete'")
    assert browser.ask("document.querySelectorAll('details.test').length") == 200
    assert browser.ask("document.querySelectorAll('details.test[open]').length") <= 5
    browser.do("location.hash = '#test-150'")
    browser.wait_for("document.getElementById('test-150').open")


def test_on_paper_every_test_is_open_and_every_chart_drawn(browser: Browser, tmp_path: Path) -> None:
    """A reader of paper cannot open anything; and the page is as it was when that is done."""
    path = written(tmp_path, [results.regression(), *results.sizes()])
    browser.open(path, dark=True)
    browser.do("dispatchEvent(new Event('beforeprint'))")
    assert browser.ask("document.querySelectorAll('details:not([open])').length") == 0
    browser.do("dispatchEvent(new Event('afterprint'))")
    assert browser.ask("document.querySelectorAll('details[open]').length") == 1
    browser.print_media(width_px=680)
    browser.open_all()
    assert _flawed(browser) == []
    assert browser.ask("document.documentElement.scrollWidth") == 680
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.pdf().startswith(b"%PDF-")
