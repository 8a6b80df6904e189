import pytest

from gpudiag.agent.serving import address
from gpudiag.probes.errors import UsageError


@pytest.mark.parametrize(
    ("listen", "host", "port"),
    [("127.0.0.1:9440", "127.0.0.1", 9440), ("[::1]:1", "::1", 1)],
)
def test_addresses(listen, host, port):
    assert address(listen) == (host, port)


@pytest.mark.parametrize(
    "listen", ["x", ":", "9441", ":80", "a:-1", "a:70000", "a:\u00b2", "a:" + "9" * 5000]
)
def test_what_is_no_address_is_refused(listen):
    with pytest.raises(UsageError, match="write HOST:PORT"):
        address(listen)
