"""Nothing changes anything, and no foreign page gets in."""

from __future__ import annotations

import pytest

from gpudiag.agent.exporters.app import create_app
from gpudiag.agent.exporters.view import Snapshots
from tests.agent.exporters.client import Client
from tests.agent.exporters.fake_view import FakeView

PATHS = (
    "/",
    "/fragment",
    "/metrics",
    "/healthz",
    "/readyz",
    "/api/v1/findings",
    "/api/v1/series",
    "/api/v1/actions",
    "/api/v1/probes",
    "/runbooks/thermal-throttle",
    "/static/style.css",
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_only_reading_is_allowed(client: Client, path: str, method: str) -> None:
    assert client.request(method, path).status_code == 405


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9440", "localhost.evil.example"])
def test_a_rebound_name_is_refused(client: Client, host: str) -> None:
    answer = client.get("/api/v1/findings", headers={"Host": host})
    assert answer.status_code == 421
    assert "use localhost" in answer.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9440", "[::1]", "[::1]:9"])
def test_loopback_names_are_answered(client: Client, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_any_name_where_the_operator_listens_on_the_network(view: FakeView) -> None:
    client = Client(create_app(Snapshots(view), hosts=None), base_url="http://node7:9440")
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("path", ["/", "/metrics", "/nowhere"])
def test_security_headers(client: Client, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
