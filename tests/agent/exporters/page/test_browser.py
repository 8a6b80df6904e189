"""The page in a real browser: it renews itself, breaks no policy, is used by keys, fits a phone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By

from gpudiag.agent.exporters.app import create_app
from gpudiag.agent.exporters.server import make_server
from gpudiag.agent.exporters.view import Snapshots
from tests.agent.exporters.fake_view import FakeView
from tests.browser import WIDTHS, as_wide_as, browser, console, reachable, tabbed
from tests.running import wait_for
from tests.tools import needs

pytestmark = needs("chromedriver", "chromium-driver")


class Improving(FakeView):
    """A view on which everything is well as soon as `well` is set."""

    well = False

    def generation(self) -> int:
        if self.well:
            self.found = [msgspec.structs.replace(f, state="resolved") for f in self.found]
            self.version += 1
        return self.version


@pytest.fixture
def improving(view: FakeView) -> Improving:
    return Improving(view.time, view.readings, view.found, blind=view.blind, states=view.states)


@pytest.fixture
def url(improving: Improving) -> Iterator[str]:
    server = make_server(create_app(Snapshots(improving)), "127.0.0.1", 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


def test_it_renews_itself_and_breaks_no_policy(
    url: str, improving: Improving, tmp_path: Path
) -> None:
    with browser(tmp_path) as driver:
        driver.get(url)
        assert "Nothing known is wrong" not in driver.page_source
        improving.well = True
        wait_for(lambda: "Nothing known is wrong" in driver.page_source)
        assert console(driver) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_sideways(url: str, tmp_path: Path, width: int) -> None:
    with browser(tmp_path, width) as driver:
        for page in ("", "runbooks/", "runbooks/gpu-xid", "runbooks/pictures/"):
            driver.get(url + page)
            assert as_wide_as(driver) == width, page
        seen = "return [...document.images].map((one) => one.complete && one.naturalWidth > 0)"
        shown = driver.execute_script(seen)
        assert shown
        assert all(shown)
        assert console(driver) == []


def test_keys_reach_everything_in_its_order_and_are_seen_to(url: str, tmp_path: Path) -> None:
    with browser(tmp_path) as driver:
        driver.get(url)
        # It would put new elements in the place of those that were found.
        driver.execute_script("document.getElementById('pause').click()")
        expected = reachable(driver)
        stops = tabbed(driver, len(expected))
        assert [element.text for element, _ in stops] == [element.text for element in expected]
        assert all(seen for _, seen in stops)


def test_keys_unfold_a_finding_and_pause_the_page(url: str, tmp_path: Path) -> None:
    with browser(tmp_path) as driver:
        driver.get(url)
        pause = driver.find_element(By.ID, "pause")
        pause.send_keys(Keys.SPACE)
        assert pause.get_attribute("aria-pressed") == "true"
        summary = driver.find_element(By.TAG_NAME, "summary")
        details = summary.find_element(By.XPATH, "..")
        before = details.get_attribute("open")
        summary.send_keys(Keys.ENTER)
        assert details.get_attribute("open") != before
