"""Chromium without a window, for the tests of the page's script."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic",
)  # fmt: skip
"""A browser that asks nothing from the network by itself."""


def missing() -> str:
    """What is missing to run one; empty where nothing is."""
    try:
        import axe_core_python  # noqa: F401
        import selenium  # noqa: F401
    except ImportError as error:
        return f"the package {error.name} is missing"
    names = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(names)} is missing" if names else ""


@contextmanager
def chromium(folder: Path) -> Iterator[Any]:
    """A driver; tests are skipped where there is none, and fail in CI.

    Args:
        folder: an empty one, for its profile.
    """
    why = missing()
    if why:
        if os.environ.get("CI"):
            pytest.fail(f"{why}: CI must run the script of the page")
        pytest.skip(f"{why}: the script of the page does not run here")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (*QUIET, f"--user-data-dir={folder}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or ""))
    driver.set_page_load_timeout(120)
    driver.set_script_timeout(120)
    try:
        yield driver
    finally:
        driver.quit()


class Shown:
    """A page, a file or an address, in a browser of some width, light or dark."""

    def __init__(self, driver: Any, page: Path | str, width: int = 1400, *, dark: bool = False) -> None:
        self.driver = driver
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme, still]})
        driver.get("about:blank")
        driver.get_log("browser")
        driver.get_log("performance")
        driver.get(page if isinstance(page, str) else page.as_uri())

    def js(self, code: str, *values: Any) -> Any:
        """What a piece of script returns."""
        return self.driver.execute_script(code, *values)

    def all(self, css: str) -> list[Any]:
        """Elements that are shown."""
        return [one for one in self.driver.find_elements("css selector", css) if one.is_displayed()]

    def one(self, css: str) -> Any:
        """The only element of a selector."""
        [found] = self.driver.find_elements("css selector", css)
        return found

    def texts(self, css: str) -> list[str]:
        """Texts of elements that are shown."""
        return [one.text for one in self.all(css)]

    def complaints(self) -> list[str]:
        """What the console says."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened, those inside of it left out."""
        found = []
        for entry in self.driver.get_log("performance"):
            if '"Network.requestWillBeSent"' in entry["message"]:
                import json

                url = json.loads(entry["message"])["message"]["params"]["request"]["url"]
                if not url.startswith(("data:", "about:")):
                    found.append(url)
        return found

    def violations(self) -> list[str]:
        """Rules of accessibility that the page breaks, with the first element of each."""
        import axe_core_python

        self.js((Path(axe_core_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
        failed = "(e) => done([{id: String(e), nodes: []}])"
        code = f"const done = arguments[0]; axe.run().then((r) => done(r.violations), {failed});"
        found = self.driver.execute_async_script(code)
        return [f"{one['id']}: {one['nodes'][0]['html'][:200] if one['nodes'] else ''}" for one in found]
