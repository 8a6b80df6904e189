from __future__ import annotations

import base64

import pytest

from gpudiag.agent.history.access import access
from gpudiag.probes.errors import UsageError


def test_a_file_wins_over_the_environment_and_is_stripped(tmp_path):
    (tmp_path / "token").write_text("from-file\n")
    environment = {"GPUDIAG_PROMETHEUS_TOKEN": "from-env"}
    found = access("http://p:9090/", environment, token_file=tmp_path / "token")
    assert found.headers == {"Authorization": "Bearer from-file"}
    assert access("http://p:9090", environment).headers["Authorization"] == "Bearer from-env"


def test_basic_and_tenant_headers(tmp_path):
    (tmp_path / "headers").write_text("X-Scope-OrgID: team a\n\nX-Other:b:c\n")
    found = access(
        "p", {"GPUDIAG_PROMETHEUS_BASIC": "me:pass:word"}, header_file=tmp_path / "headers"
    )
    assert found.headers == {
        "X-Scope-OrgID": "team a",
        "X-Other": "b:c",
        "Authorization": "Basic " + base64.b64encode(b"me:pass:word").decode(),
    }


def test_secrets_are_not_in_its_text():
    found = access("p", {"GPUDIAG_PROMETHEUS_TOKEN": "s3cret"})
    assert "s3cret" not in repr(found)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("prom", "http://prom"),
        ("https://mimir/prometheus/", "https://mimir/prometheus"),
        ("http://[::1]:9090/api/v1", "http://[::1]:9090"),
    ],
)
def test_addresses_as_people_write_them(url, address):
    assert access(url, {}).url == address


@pytest.mark.parametrize(
    "url",
    ["http://me:s3cret@p:9090", "ftp://p", "http://", "http://p:port", "http://p?x=1", "http://["],
)
def test_what_is_no_address_is_refused_without_its_password(url):
    with pytest.raises(UsageError) as said:
        access(url, {})
    assert "s3cret" not in str(said.value)


@pytest.mark.parametrize(
    "environment",
    [
        {"GPUDIAG_PROMETHEUS_TOKEN": "s3cret", "GPUDIAG_PROMETHEUS_BASIC": "a:s3cret"},
        {"GPUDIAG_PROMETHEUS_BASIC": "s3cret"},
        {"GPUDIAG_PROMETHEUS_HEADERS": "s3cret"},
        {"GPUDIAG_PROMETHEUS_TOKEN": "s3cret\x01more"},
        {"GPUDIAG_PROMETHEUS_TOKEN": "s3crét"},
    ],
)
def test_credentials_that_cannot_be_sent_are_refused_without_showing_them(environment):
    with pytest.raises(UsageError) as said:
        access("p", environment)
    assert "s3cr" not in str(said.value)


def test_tls_files_that_are_none_are_named(tmp_path):
    (tmp_path / "c.pem").write_text("no certificate")
    with pytest.raises(UsageError, match="--cert"):
        access("https://p", {}, cert=tmp_path / "c.pem").context()
    with pytest.raises(UsageError, match="--key needs --cert"):
        access("https://p", {}, key=tmp_path / "c.pem")
