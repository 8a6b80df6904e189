"""A vLLM as its metric page and health show it, in a process of its own: busy, and hung on SIGUSR1.

    python -m tests.fakevllm PORT [SECONDS-UNTIL-IT-LISTENS]

It is always full: more requests wait than run. Until the signal its passes and tokens go on; after
it they stand still while requests pile up, and health goes on to answer 200. SIGUSR2 ends the hang.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OF = '{engine="0",model_name="m"}'


class Engine:
    def __init__(self) -> None:
        self.began = time.monotonic()
        self.hung_at: float | None = None

    def hang(self, *_: object) -> None:
        self.hung_at = time.monotonic() - self.began

    def go_on(self, *_: object) -> None:
        if self.hung_at is not None:
            self.began, self.hung_at = time.monotonic() - self.hung_at, None

    def page(self) -> str:
        passed = time.monotonic() - self.began
        worked = passed if self.hung_at is None else self.hung_at
        lines = [
            f"vllm:num_requests_running{OF} 8",
            f"vllm:num_requests_waiting{OF} {40 + int(passed - worked)}",
            f"vllm:kv_cache_usage_perc{OF} 0.98",
            f"vllm:iteration_tokens_total_count{OF} {100 * worked}",
            f"vllm:generation_tokens_total{OF} {800 * worked}",
        ]
        return "\n".join(lines) + "\n"


def main() -> None:
    engine = Engine()
    signal.signal(signal.SIGUSR1, engine.hang)
    signal.signal(signal.SIGUSR2, engine.go_on)
    time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = engine.page().encode() if self.path == "/metrics" else b""
            self.send_response(200 if self.path in ("/metrics", "/health") else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while True:
        time.sleep(60.0)


if __name__ == "__main__":
    main()
