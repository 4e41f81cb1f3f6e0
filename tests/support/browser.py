"""A headless Chromium for all tests of pages, driven by selenium."""

from __future__ import annotations

import base64
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from selenium import webdriver

_FLAGS = ("--headless=new", "--hide-scrollbars", "--disable-dev-shm-usage")
PICTURES = "PYTEST_KAFKAPERF_PICTURES"
"""Environment variable: a folder to keep pictures of the pages in."""


class Browser:
    """One window; `open` gives it a page, a width and a colour scheme."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self._driver = driver

    def open(self, path: Path, *, width_px: int = 1280, dark: bool = False) -> None:
        self._resize(width_px)
        self.prefer(dark=dark)
        self.messages()  # of the page before this one
        self._driver.get("about:blank")
        self._driver.get(path.as_uri())

    def prefer(self, *, dark: bool) -> None:
        """The colour scheme that the system tells."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [scheme]})

    def print_media(self, *, width_px: int) -> None:
        """Lay the page out for paper of that width."""
        self._resize(width_px)
        self._driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})

    def _resize(self, width_px: int) -> None:
        size = {"width": width_px, "height": 900, "deviceScaleFactor": 1, "mobile": width_px < 500}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def ask(self, script: str) -> Any:
        """The value of a JavaScript expression."""
        return self._driver.execute_script(f"return ({script});")

    def do(self, script: str) -> None:
        self._driver.execute_script(script)

    def wait_for(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not self.ask(expression):
            assert time.monotonic() < deadline_s, f"not true within {PATIENCE_S} s: {expression}"
            time.sleep(0.02)

    def messages(self) -> list[str]:
        """What stands in the console."""
        entries: list[dict[str, str]] = self._driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries]

    def open_all(self) -> None:
        """Open every test."""
        self.do("document.querySelectorAll('details').forEach((each) => (each.open = true))")

    def picture(self, path: Path, *, most_px: int = 6000) -> None:
        """Of the whole page, as far down as that."""
        width, height = self.ask("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height, most_px), "scale": 1}
        shot = self._driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip})
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self) -> bytes:
        printed = self._driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
        return base64.b64decode(printed["data"])


def chromium() -> webdriver.Chrome:
    """A headless Chromium; skips where there is none."""
    from selenium import webdriver  # noqa: PLC0415 - most runs open no page

    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium with its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    # Chromium's sandbox refuses to run as root, as CI does; what is opened here is our own.
    for flag in (*_FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))


@pytest.fixture(scope="session")
def _browser() -> Iterator[Browser]:
    with chromium() as driver:
        yield Browser(driver)


@pytest.fixture
def browser(_browser: Browser) -> Iterator[Browser]:
    """The browser; a page that complained fails its test, whatever that was about."""
    yield _browser
    assert _browser.messages() == []


@pytest.fixture
def picture(tmp_path: Path) -> Callable[[str], Path]:
    """Where a picture of that name goes."""
    folder = Path(os.environ.get(PICTURES, tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return lambda name: folder / name
