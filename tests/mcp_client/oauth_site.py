"""An MCP server with its own authorization server on loopback, both by the SDK: everything but the login page is real."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import httpx2
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

SCOPE = "read"


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Says yes to everybody. Each refresh token is good for one use."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.lives_s = 3600
        self.refreshed = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(16)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 300,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.refreshed += 1
        del self.refresh[refresh_token.token]
        return self._issue(client.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        """Nothing revokes here."""

    def _issue(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(16), secrets.token_urlsafe(16)
        self.access[access] = AccessToken(token=access, client_id=client_id, scopes=scopes)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes)
        return OAuthToken(
            access_token=access, expires_in=self.lives_s, scope=" ".join(scopes), refresh_token=refresh
        )


class _Web(uvicorn.Server):
    @contextmanager
    # pyrefly: ignore [missing-override-decorator]
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the test."""
        yield


@asynccontextmanager
async def open_oauth_site() -> AsyncIterator[tuple[str, Provider]]:
    """Yield the address of the MCP server, which wants a login, and what its authorization server knows."""
    listening, url = listen()
    provider = Provider()
    options = ClientRegistrationOptions(enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE])
    auth = AuthSettings(
        issuer_url=AnyHttpUrl(url),
        resource_server_url=AnyHttpUrl(f"{url}/mcp"),
        required_scopes=[SCOPE],
        client_registration_options=options,
        validate_token_resource=False,
    )
    server = MCPServer("shop", auth_server_provider=provider, auth=auth)

    @server.tool()
    def look() -> str:
        return "a shelf"

    async with serve_site(server, listening):
        yield f"{url}/mcp", provider


def listen() -> tuple[socket.socket, str]:
    """Return a socket on a free port, and its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setblocking(False)
    return listening, f"http://127.0.0.1:{listening.getsockname()[1]}"


@asynccontextmanager
async def serve_site(server: MCPServer, listening: socket.socket) -> AsyncIterator[None]:
    """Serve at `/mcp`."""
    web = _Web(_config(server.streamable_http_app()))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(web.serve, [listening])
        try:
            yield
        finally:
            web.should_exit = True
    listening.close()


def _config(app: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=1, lifespan="on"
    )


async def browse(address: str) -> httpx2.Response:
    """Do what a browser does: open the address, and follow it to the end."""
    async with httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
        return await browser.get(address)
