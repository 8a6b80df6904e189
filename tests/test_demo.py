"""`make demo` ends at a page that explains a recorded incident."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.running import PATIENCE, free_port, wait_for

ROOT = Path(__file__).parents[1]


@pytest.fixture
def page():
    address = f"127.0.0.1:{free_port()}"
    # -o: the environment that runs this test is there already and must not be made anew.
    demo = ["make", "-o", f"{sys.prefix}/agent", f"VENV={sys.prefix}", f"LISTEN={address}"]
    process = subprocess.Popen([*demo, "SPEED=600", "demo"], cwd=ROOT, start_new_session=True)

    def read():
        try:
            with urlopen(f"http://{address}/", timeout=PATIENCE) as answer:
                return answer.read().decode()
        except OSError:
            return ""

    yield read
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(PATIENCE)


def test_the_page_names_both_faults_with_what_to_do(page):
    text = wait_for(lambda: "XID 48" in page() and "thermally throttled" in page() and page(), 30)
    assert "What to do next" in text
    assert "/runbooks/gpu-xid#xid-48" in text
    assert "Replay" in text
