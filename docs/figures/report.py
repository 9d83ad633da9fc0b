"""A picture of the report that ``make demo`` leaves: its first tab, 1,200 pixels wide, in Chromium.

Needs ``demo/report.html`` (``make demo``), Chromium and chromedriver (``make .browser``).
"""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver

PAGE = Path(__file__).resolve().parents[2] / "demo" / "report.html"
WIDTH = 1200


class Screenshot:
    """The whole page as it stands; saved as a figure is."""

    def __init__(self, page: Path) -> None:
        if not page.exists():
            raise FileNotFoundError(f"{page} is not there: run `make demo` first")
        self.page = page

    def savefig(self, path: Path, **_: Any) -> None:
        """Write the picture."""
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
            options.add_argument(flag)
        with webdriver.Chrome(
            options=options, service=webdriver.ChromeService(shutil.which("chromedriver"))
        ) as browser:
            screen = {"width": WIDTH, "height": 800, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            browser.get(self.page.as_uri())
            tall = browser.execute_script("return document.documentElement.scrollHeight")
            area = {"x": 0, "y": 0, "width": WIDTH, "height": tall, "scale": 1}
            shot = browser.execute_cdp_cmd("Page.captureScreenshot", {"clip": area, "captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(shot["data"]))


figure = Screenshot(PAGE)
