"""The page in a real browser: it renews itself, keeps what was unfolded, breaks no policy."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path

import msgspec
import pytest

from gpudiag.agent.exporters.app import create_app
from gpudiag.agent.exporters.page.page import Page
from gpudiag.agent.exporters.server import make_server
from gpudiag.agent.exporters.view import Snapshots
from tests.agent.exporters.fake_view import FakeView
from tests.tools import needs

pytestmark = needs("chromium", "chromium")

CHROMIUM = (
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--enable-logging=stderr",
    "--hide-scrollbars",
)


class Improving(FakeView):
    """A view on which everything is well from the third look on."""

    looks = 0

    def generation(self) -> int:
        self.looks += 1
        if self.looks == 3:
            self.found = [msgspec.structs.replace(f, state="resolved") for f in self.found]
            self.version += 1
        return self.version


@pytest.fixture
def url(view: FakeView) -> Iterator[str]:
    improving = Improving(
        view.time, view.readings, view.found, blind=view.blind, states=view.states
    )
    server = make_server(create_app(Snapshots(improving)), "127.0.0.1", 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


def browse(url: str, profile: Path, *flags: str) -> tuple[str, str]:
    command = [*CHROMIUM, f"--user-data-dir={profile}", *flags, "--dump-dom", url]
    seen = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return seen.stdout, seen.stderr


def test_it_renews_itself_and_breaks_no_policy(url: str, tmp_path: Path) -> None:
    dom, log = browse(url, tmp_path, "--virtual-time-budget=7000")
    assert "Nothing known is wrong" in dom
    assert "Pause updates" in dom
    assert "CONSOLE" not in log


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_sticks_out_sideways(view: FakeView, tmp_path: Path, width: int) -> None:
    style = files("gpudiag.agent.exporters.page").joinpath("style.css").read_text()
    html = re.sub("<link[^>]*>", f"<style>{style}</style>", Page(Snapshots(view)).whole())
    # A frame, because a headless window is never narrower than 500 px.
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<iframe width={width} height=900 frameborder=0 srcdoc="{escape(html)}"></iframe>'
        "<script>onload = () => { document.body.innerHTML = 'as wide as '"
        " + frames[0].document.documentElement.scrollWidth }</script>"
    )
    dom, _ = browse(frame.as_uri(), tmp_path / "profile", "--window-size=1400,900")
    assert f"as wide as {width}<" in dom
