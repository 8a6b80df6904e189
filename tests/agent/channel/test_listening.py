import os
import socket
import stat

import pytest

from gpudiag.agent.channel.listening import listen, peer_of, socket_path
from gpudiag.probes.errors import GpudiagError, UsageError


def test_the_folder_is_made_and_only_the_group_may_connect(tmp_path):
    path = tmp_path / "new" / "agent.sock"
    with listen(path, str(os.getgid())):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_a_socket_left_behind_is_replaced(tmp_path):
    path = tmp_path / "agent.sock"
    listen(path).close()
    assert path.is_socket()
    with listen(path):
        pass


def test_two_agents_do_not_share_one(tmp_path):
    path = tmp_path / "agent.sock"
    with listen(path), pytest.raises(GpudiagError, match="another agent listens"):
        listen(path)


def test_a_file_in_the_way_is_left_alone(tmp_path):
    path = tmp_path / "agent.sock"
    path.write_text("mine")
    with pytest.raises(GpudiagError, match="in the way"):
        listen(path)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("name", ["x" * 200, "file/agent.sock"])
def test_a_path_that_cannot_be_says_what_to_do(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(GpudiagError, match="GPUDIAG_SOCKET"):
        listen(tmp_path / name)


def test_an_unknown_group_is_named(tmp_path):
    with pytest.raises(UsageError, match="no-such-group"):
        listen(tmp_path / "agent.sock", "no-such-group")


def test_the_kernel_vouches_for_the_peer():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with one, other:
        assert peer_of(one) == (os.getpid(), os.getuid(), os.getgid())


@pytest.mark.parametrize(
    ("environ", "uid", "path"),
    [
        ({}, 0, "/run/gpudiag/agent.sock"),
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, 7, "/run/user/7/gpudiag/agent.sock"),
        ({"XDG_RUNTIME_DIR": "/run/user/0"}, 0, "/run/gpudiag/agent.sock"),
        ({"GPUDIAG_SOCKET": "/s"}, 7, "/s"),
    ],
)
def test_where(environ, uid, path):
    assert str(socket_path(environ, uid)) == path
