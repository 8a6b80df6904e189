"""Addresses of servers in the configuration: what is wrong with one, in words."""

from __future__ import annotations

from urllib.parse import urlsplit

WANTED = "such as http://127.0.0.1:8000"


def fault(url: str) -> str:
    """Empty for `http(s)://host[:port][/path]`; a password or a query belongs elsewhere."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        return f"url: {error}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"give it a name and a url {WANTED}"
    if parts.username or parts.password:
        return "url: no password in it; name a file or a variable in its key or headers"
    if parts.query or parts.fragment:
        return "url: only the server's address, without a query"
    return ""
