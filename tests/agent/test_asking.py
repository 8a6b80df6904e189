import socket
import threading

import pytest

from gpudiag.agent.asking import ask
from gpudiag.agent.commands import status
from gpudiag.probes.errors import GpudiagError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: "


@pytest.fixture
def stranger():
    """The address of a server that gives one raw answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answering(raw):
            def one():
                with server.accept()[0] as client:
                    client.recv(65536)
                    client.sendall(raw)

            threading.Thread(target=one, daemon=True).start()
            return f"http://127.0.0.1:{server.getsockname()[1]}"

        yield answering


@pytest.mark.parametrize("raw", [b"", b"hello\r\n\r\n", OK + b"999\r\n\r\n{"])
def test_whoever_speaks_no_http_is_no_agent(stranger, raw):
    with pytest.raises(GpudiagError, match="no agent answers at"):
        ask(stranger(raw), "/metrics")


@pytest.mark.parametrize("url", ["http://x y", "http://127.0.0.1:abc", "http://[::1", "ftp://x"])
def test_an_address_that_is_none_is_named(url):
    with pytest.raises(GpudiagError, match=r"is not an address|no agent answers"):
        ask(url, "/metrics")


@pytest.mark.parametrize("body", [b"[]", b"{}", b"null", b'{"findings":[1]}', b"[" * 100_000])
def test_status_tells_a_stranger_from_an_agent(stranger, body):
    raw = OK + b"%d\r\n\r\n%s" % (len(body), body)
    with pytest.raises(GpudiagError, match="is no gpudiag agent"):
        status.command.main(["--agent", stranger(raw)], standalone_mode=False)
