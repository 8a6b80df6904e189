import os
import subprocess
import sys

import pytest

from gpudiag.agent.channel.place import Place, ended, oom_kills, parse_cgroup, parse_stat, place

ID = "0123456789abcdef" * 4
UID = "11111111-2222-3333-4444-555555555555"


@pytest.mark.parametrize(
    ("line", "pod", "container"),
    [
        (
            f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
            f"{UID.replace('-', '_')}.slice/cri-containerd-{ID}.scope",
            UID,
            ID[:12],
        ),
        (f"4:memory:/kubepods/burstable/pod{UID}/{ID}", UID, ID[:12]),
        (f"0::/system.slice/docker-{ID}.scope", "", ID[:12]),
        ("0::/user.slice/user-1000.slice/session-2.scope", "", ""),
    ],
)
def test_cgroups_of_each_kind(line, pod, container):
    assert parse_cgroup(line + "\n") == (pod, container)


def fake(proc, environ=b"", cgroup="0::/job\n"):
    folder = proc / "7"
    folder.mkdir()
    (folder / "cgroup").write_text(cgroup)
    (folder / "environ").write_bytes(environ)
    (folder / "stat").write_text("7 (a) b) S 3 " + "0 " * 4 + "64 " + "0 " * 12 + "555 0\n")


def test_the_pod_by_its_name_on_kubernetes_alone(tmp_path):
    fake(tmp_path, b"KUBERNETES_SERVICE_HOST=10.0.0.1\0HOSTNAME=llama-0\0")
    assert place(7, tmp_path).labels == (("pod", "llama-0"),)


def test_off_kubernetes_there_is_no_pod(tmp_path):
    fake(tmp_path, b"HOSTNAME=box\0")
    assert place(7, tmp_path).labels == ()


def test_a_name_with_brackets_does_not_shift_the_fields(tmp_path):
    fake(tmp_path)
    found = place(7, tmp_path)
    assert (found.parent, found.started) == (3, 555)


def test_a_process_of_another_namespace_has_no_place():
    assert place(0) == Place()


def test_oom_kills_of_its_cgroup(tmp_path):
    fake(tmp_path)
    (tmp_path / "job").mkdir()
    (tmp_path / "job/memory.events").write_text("oom 3\noom_kill 2\noom_group_kill 0\n")
    found = place(7, tmp_path, tmp_path)
    assert found.oom_kills == 2
    assert oom_kills(tmp_path / "none") is None


def test_a_process_that_ends():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    started = place(child.pid).started or 0
    assert not ended(child.pid, started)
    assert ended(child.pid, started - 1)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert ended(child.pid, started)
    child.communicate()
    assert ended(child.pid, started)


def test_one_on_its_way_out_counts_as_ended():
    assert parse_stat("7 (python) R 1 7 7 0 -1 4228100 " + "0 " * 12 + "99").dying
