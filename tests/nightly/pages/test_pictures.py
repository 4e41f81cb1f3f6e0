"""Pictures of the HTML report, as a browser shows it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.browser import Browser

pytestmark = pytest.mark.pages


def test_pictures(browser: Browser, whole: Path, picture: Callable[[str], Path]) -> None:
    """For the README, and for whoever changes the page: desktop and phone, light and dark, and paper."""
    for (name, width_px), dark in itertools.product({"desktop": 1280, "phone": 375}.items(), (False, True)):
        browser.open(whole, width_px=width_px, dark=dark)
        path = picture(f"report-{name}{'-dark' if dark else ''}.png")
        browser.picture(path, most_px=9000)
        assert path.stat().st_size > 100_000
    browser.open(whole)
    picture("report.pdf").write_bytes(browser.pdf())
