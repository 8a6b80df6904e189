import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from gpudiag.agent.running import child
from tests.running import PATIENCE


def python(code):
    return [sys.executable, "-c", code]


@pytest.mark.parametrize(("code", "given"), [(0, 0), (7, 7), (-9, 137), (-15, 143)])
def test_the_code_a_shell_would_give(code, given):
    assert child.exit_code(code) == given


def test_the_child_gets_its_exit_code_through():
    assert child.run(python("raise SystemExit(7)"), os.environ)[1] == 7


def test_the_childs_signal_is_known():
    _, code = child.run(python("import os; os.kill(os.getpid(), 9)"), os.environ)
    assert code == -9


# A process of its own: here other threads, which block no signal, could be given it.
PARENT = """
import os, sys
from gpudiag.agent.running import child
sys.exit(child.run([sys.executable, "-c", sys.argv[1]], os.environ)[1])
"""


def test_a_signal_goes_on_to_the_child():
    code = "import signal as s; s.signal(s.SIGUSR1, lambda *_: exit(5)); print('up', flush=True)"
    code += "\nwhile True: s.pause()"
    with subprocess.Popen([*python(PARENT), code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == b"up\n"
        parent.send_signal(signal.SIGUSR1)
        assert parent.wait(PATIENCE) == 5


def test_the_child_does_not_inherit_the_blocked_signals():
    code = "import signal as s; exit(len(s.pthread_sigmask(s.SIG_BLOCK, [])))"
    assert child.run(python(code), os.environ)[1] == len(
        signal.pthread_sigmask(signal.SIG_BLOCK, [])
    )


def test_the_parents_mask_is_as_before():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with pytest.raises(FileNotFoundError):
        child.run(["/no/such/command"], os.environ)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_the_agent_is_told(tmp_path):
    path = tmp_path / "agent.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as agent:
        agent.bind(str(path))
        agent.listen()
        before = time.time()
        child.tell(path, 42, -9, job="llama", name="python")
        connection, _ = agent.accept()
        with connection:
            packet = json.loads(connection.recv(9999))
    assert before <= packet.pop("time") <= time.time()
    assert packet == {"kind": "exit", "pid": 42, "code": -9, "job": "llama", "name": "python"}


def test_where_no_agent_is_nobody_is_told(tmp_path):
    child.tell(tmp_path / "none", 42, 0, job="", name="")


def test_the_environment_keeps_what_was_set(tmp_path):
    given = {"PYTHONPATH": "/a:/b", "GPUDIAG_JOB": "mine"}
    found = child.environment(given, ["python", "train.py"], tmp_path)
    assert found["PYTHONPATH"].endswith("/running:/a:/b")
    assert (found["GPUDIAG_JOB"], found["GPUDIAG_SOCKET"]) == ("mine", str(tmp_path))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["python", "/x/train.py", "--lr", "1"], "train"),
        (["torchrun", "--nproc-per-node", "2", "pretrain.py"], "pretrain"),
        (["/opt/bin/accelerate", "launch", "-m", "x"], "accelerate"),
    ],
)
def test_the_jobs_name(words, name):
    assert child.job_name(words) == name


def test_a_death_that_another_thread_was_told_of_is_seen_all_the_same(monkeypatch):
    real, over = signal.sigtimedwait, threading.Event()

    def late(waited, seconds):
        time.sleep(0.3)
        return real(waited, seconds)

    monkeypatch.setattr(signal, "sigtimedwait", late)
    other = threading.Thread(target=over.wait)
    other.start()
    # One that is not seen would be waited for without end.
    assert child.run(["false"], os.environ)[1] == 1
    over.set()
    other.join()
