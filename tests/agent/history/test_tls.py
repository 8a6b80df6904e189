"""A server that shows its own certificate and wants the client's, as real ones do."""

from __future__ import annotations

import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from gpudiag.agent.history.access import access
from gpudiag.agent.history.client import Client
from gpudiag.agent.history.failing import ServerError
from gpudiag.agent.history.transfer import Patience
from tests.promdouble import matrix
from tests.tools import needs

QUICK = Patience(seconds=60.0, silence=60.0, tries=1)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = matrix({"metric": {"__name__": "up"}, "values": [[1, "1"]]}).body
        assert isinstance(body, bytes)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(HTTPServer):
    def handle_error(self, request, client_address):
        """A client that is refused is what is tested: no traceback."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("tls")
    for name in ("server", "client"):
        subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
        files = ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run([*command, *files, *subject], cwd=made, check=True, capture_output=True)
    return made


@pytest.fixture(scope="module")
def url(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    context.load_verify_locations(folder / "client.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    serving.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    serving.join(5)


@needs("openssl", "openssl")
def test_a_client_certificate_opens_the_door(url, folder):
    ca, cert, key = (folder / name for name in ("server.pem", "client.pem", "client.key"))
    client = Client(access(url, {}, ca=ca, cert=cert, key=key), QUICK)
    assert client.instant("up", 1.0).series[0].values.tolist() == [1.0]
    client.close()


@needs("openssl", "openssl")
def test_without_one_or_with_an_unknown_server_it_stays_shut(url, folder):
    for files in ({"ca": folder / "server.pem"}, {}):
        client = Client(access(url, {}, **files), QUICK)
        with pytest.raises(ServerError, match=r"--ca, --cert and --key|not reached"):
            client.instant("up", 1.0)
        client.close()
