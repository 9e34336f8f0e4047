"""The token endpoint of an OAuth server on loopback."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from pilothouse.engines.native.login import OAuthServer


def jwt(account: str) -> str:
    body = {"https://api.openai.com/auth": {"chatgpt_account_id": account}}
    middle = base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")
    return f"e30.{middle}.sig"


class Issuer:
    """The token endpoint of an OAuth server. Each refresh token works once."""

    def __init__(self) -> None:
        self.forms: list[dict[str, str]] = []
        self.status = 200
        self.error = ""
        """OAuth's name for an error, which is the whole answer then."""
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["content-length"])).decode()
                form = {name: values[0] for name, values in parse_qs(data).items()}
                issuer.forms.append(form)
                number = len(issuer.forms)
                body = json.dumps(
                    {
                        "access_token": f"access-{number}",
                        "refresh_token": f"refresh-{number}",
                        "id_token": jwt("acct-1"),
                        "expires_in": 3600,
                    }
                ).encode()
                body = json.dumps({"error": issuer.error}).encode() if issuer.error else body
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # pyrefly: ignore[missing-override-decorator]
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def server(self) -> OAuthServer:
        return OAuthServer(f"http://127.0.0.1:{self.http.server_address[1]}", 0)


@contextmanager
def open_issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    thread = threading.Thread(target=issuer.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield issuer
    finally:
        issuer.http.shutdown()
        thread.join()
        issuer.http.server_close()
