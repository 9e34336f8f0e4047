"""Metadata of a server that says where to log in, with the overrides of `oauth.*` in the configuration."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import OAuthClientInformationFull

from pilothouse.core.mcp import McpServer

WELL_KNOWN = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
NOT_SAFE = "The login of {server} goes to {url}, which is not encrypted. A login needs https."


class Discovery:
    """The results of discovery for one login. `client` is a configured client; how it proves itself is up to the server."""

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._issuer = server.oauth.issuer
        self.found = bool(server.oauth.authorization_url and server.oauth.token_url)
        self.token_url = server.oauth.token_url
        self.client: OAuthClientInformationFull | None = None

    def answer(self, request: httpx2.Request) -> httpx2.Response | None:
        """Answer from the configuration, without a request; None where that does not say all."""
        settings = self._server.oauth
        if request.method != "GET":
            return None
        if not _is_of_authorization_server(request):
            if not settings.issuer:
                return None
            return _json(request, {"resource": self._server.url, "authorization_servers": [settings.issuer]})
        if settings.authorization_url and settings.token_url:
            return _json(request, self._merged({}))
        return None

    async def read(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        """Merge the configured values into metadata that a server sent."""
        if request.method != "GET" or response.status_code != 200:
            return response
        data = _table(await response.aread())
        if not _is_of_authorization_server(request):
            self._read_resource(data)
            return response
        if not data:
            return response
        self.found = True
        merged = self._merged(data)
        self.token_url = str(merged.get("token_endpoint") or "")
        self._choose_proof(merged)
        return response if merged == data else _json(request, merged)

    def check(self, url: httpx2.URL) -> None:
        """Refuse an address on which a secret could be read on its way."""
        if url.scheme != "https" and url.host not in LOOPBACK:
            raise OAuthFlowError(
                NOT_SAFE.format(server=self._server.target, url=f"{url.scheme}://{url.host}")
            )

    def _read_resource(self, data: dict[str, Any]) -> None:
        listed = data.get("authorization_servers")
        if isinstance(listed, list) and listed and isinstance(listed[0], str):
            self.found = True
            self._issuer = self._issuer or listed[0]

    def _merged(self, data: dict[str, Any]) -> dict[str, Any]:
        settings, server = self._server.oauth, urlsplit(self._server.url)
        named = {
            "authorization_endpoint": settings.authorization_url,
            "token_endpoint": settings.token_url,
            "registration_endpoint": settings.registration_url,
        }
        own = {name: value for name, value in named.items() if value}
        return {"issuer": self._issuer or f"{server.scheme}://{server.netloc}", **data, **own}

    def _choose_proof(self, data: dict[str, Any]) -> None:
        """Send a configured secret in the form that the server takes."""
        taken = data.get("token_endpoint_auth_methods_supported")
        client = self.client
        if client is not None and client.client_secret and client.issuer is None and isinstance(taken, list):
            ways = [way for way in ("client_secret_basic", "client_secret_post") if way in taken]
            client.token_endpoint_auth_method = ways[0] if ways else client.token_endpoint_auth_method


def _is_of_authorization_server(request: httpx2.Request) -> bool:
    return any(part in request.url.path for part in WELL_KNOWN)


def _json(request: httpx2.Request, data: dict[str, Any]) -> httpx2.Response:
    return httpx2.Response(200, json=data, request=request)


def _table(text: bytes) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
