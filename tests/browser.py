"""A real headless Chromium, used as a person would: by keys, as wide as a desk or a phone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome, ChromeOptions, ChromeService, Keys
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.remote.webelement import WebElement

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars")
QUIET = ("--disable-background-networking", "--disable-component-update", "--disable-sync")

WIDTHS = (1280, 390)
"""Pixels: a desk and a phone."""

# What a person can come to by keys, in the order of the page; within closed details nothing is.
_REACHABLE = """
return [...document.querySelectorAll('a[href], button, summary, [tabindex="0"]')]
  .filter((e) => e.checkVisibility());
"""
_STANDS_OUT = """
const style = getComputedStyle(arguments[0]);
return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0;
"""


@contextmanager
def browser(profile: Path, width: int = 1280) -> Iterator[Chrome]:
    """A browser with a window of `width` pixels and a new profile."""
    options = ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (*FLAGS, *QUIET, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options, ChromeService("/usr/bin/chromedriver"))
    try:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield driver
    finally:
        driver.quit()


def console(driver: Chrome) -> list[str]:
    """What the page wrote to the console: errors, policies broken, resources not found."""
    entries: list[dict[str, Any]] = driver.get_log("browser")
    return [entry["message"] for entry in entries]


def as_wide_as(driver: Chrome) -> int:
    """Pixels that the page needs sideways."""
    return int(driver.execute_script("return document.documentElement.scrollWidth"))


def reachable(driver: Chrome) -> list[WebElement]:
    """What can be focused, in the order of the page."""
    return list(driver.execute_script(_REACHABLE))


def tabbed(driver: Chrome, stops: int) -> list[tuple[WebElement, bool]]:
    """The elements that as many presses of Tab come to, and whether each is seen to be focused."""
    found = []
    for _ in range(stops):
        ActionChains(driver).send_keys(Keys.TAB).perform()
        element = driver.switch_to.active_element
        found.append((element, bool(driver.execute_script(_STANDS_OUT, element))))
    return found
