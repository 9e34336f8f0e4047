"""Logins by OAuth. The SDK runs the flow; this keeps its tokens, refreshes them, and replaces what `oauth.*` names.

Each request has a flow of its own, which reads the login from its file: another process may have changed it. Without an
`Authorize` nobody is asked: a server that wants a login is noted, with nothing registered there.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth, is_valid_client_metadata_url, union_scopes
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from msgspec import Struct
from pydantic import AnyUrl, ValidationError

from pilothouse.core.errors import PilothouseError
from pilothouse.core.mcp import McpOAuth, McpServer
from pilothouse.mcp_client.login_file import Login, LoginFile
from pilothouse.mcp_client.metadata import Discovery
from pilothouse.mcp_client.transport import Fault

CLIENT_NAME = "Pilothouse"
NEEDS_LOGIN = "It wants a login. To log in: pilothouse mcp auth {id}. In a chat: /mcp auth {id}."
NEEDS_MORE = "It wants a login with more rights ({scope}). To log in again: pilothouse mcp auth {id}. In a chat: /mcp auth {id}."
FAILED = "The login failed: {error}"
ERROR_CHARS = 300
REFRESH_S = 30.0
NO_METADATA = "It refused the request (HTTP 401), and does not say how to log in."


class Authorize(Struct, frozen=True):
    """A person who can log in. `ask` shows the address and returns what the browser was sent back with."""

    redirect_uri: str
    ask: Callable[[str], Awaitable[AuthorizationCodeResult]]


class OAuth(httpx2.Auth):
    """`is_new` starts a new login even if there are tokens."""

    def __init__(
        self,
        id: str,
        server: McpServer,
        file: LoginFile,
        fault: Fault,
        authorize: Authorize | None = None,
        *,
        is_new: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.id, self.server, self.file, self.fault, self.now = id, server, file, fault, now
        self.authorize = authorize
        self.is_new = is_new
        self._login = anyio.Lock()
        """One person is asked once, whatever waits for it."""

    # pyrefly: ignore [missing-override-decorator]
    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with the login. A failure of the login is noted, because the SDK hides it."""
        flow = self._flow(request)
        try:
            sent = await anext(flow)
            while True:
                sent = await flow.asend((yield sent))
        except StopAsyncIteration:
            return
        except (PilothouseError, OAuthFlowError, OSError, ValueError) as error:
            self.fault.note(FAILED.format(error=str(error)[:ERROR_CHARS]))
            raise
        finally:
            await flow.aclose()

    async def _flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        refused = ""
        while True:
            login = Login(scope=self.file.read().scope) if self.is_new else self.file.read()
            flow = _Flow(self, request, login, refused)
            async with AsyncExitStack() as held:
                if flow.is_stale:
                    await held.enter_async_context(self.file.locked())
                    if self.file.read() != login:  # somebody else has refreshed it
                        continue
                steps = flow.steps(held, self._login)
                try:
                    sent = await anext(steps)
                    while True:
                        sent = await steps.asend((yield sent))
                except StopAsyncIteration:
                    pass
                finally:
                    await steps.aclose()
            if not flow.is_refused:
                return
            refused = login.access_token


class _Flow:
    """One request, with everything that the login needs for it. It is also the storage that the SDK uses."""

    def __init__(self, oauth: OAuth, request: httpx2.Request, login: Login, refused: str) -> None:
        self._oauth, self._request, self._login = oauth, request, login
        self._discovery = Discovery(oauth.server)
        self._client: OAuthClientInformationFull | None = None
        self._is_locked = False
        self._wants_login = False
        self._is_second = bool(refused)
        is_refused = login.can_refresh and login.access_token == refused
        self.is_stale = is_refused or login.is_stale(oauth.now())
        self.is_refused = False
        """True if the token was refused that the flow began with, and another one may help."""

    async def steps(
        self, held: AsyncExitStack, one_login: anyio.Lock
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Yield requests for responses. `held` is closed once no refresh is under way any more."""
        self._is_locked = self.is_stale
        flow = self._provider().async_auth_flow(self._request)
        try:
            sent = await anext(flow)
            while True:
                if sent is self._request and self._is_locked:
                    self._is_locked = False
                    await held.aclose()
                response = self._discovery.answer(sent) if sent is not self._request else None
                if response is None:
                    response = yield self._checked(sent)
                if sent is self._request:
                    if self._may_refresh(response):
                        self.is_refused = True
                        return
                    await self._note_challenge(response, held, one_login)
                    if self.is_refused:
                        return
                else:
                    response = await self._discovery.read(sent, response)
                sent = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    def _provider(self) -> OAuthClientProvider:
        oauth, settings = self._oauth, self._oauth.server.oauth
        uri = oauth.authorize.redirect_uri if oauth.authorize else "http://127.0.0.1/"
        about = OAuthClientMetadata(
            client_name=CLIENT_NAME, redirect_uris=[AnyUrl(uri)], scope=settings.scope or None
        )
        document = settings.client_id if is_valid_client_metadata_url(settings.client_id) else None
        return OAuthClientProvider(
            oauth.server.url, about, self, self._show, self._ask, client_metadata_url=document
        )

    def _checked(self, sent: httpx2.Request) -> httpx2.Request:
        """Return the request as it is sent: a refresh goes to the address that gave the token."""
        if sent is self._request:
            return sent
        if self._is_locked and self._login.token_url:
            sent.url = httpx2.URL(self._login.token_url)
            sent.headers["Host"] = sent.url.netloc.decode("ascii")
        if self._wants_login and self._oauth.authorize is None and sent.method != "GET":
            raise self._stop()
        self._discovery.check(sent.url)
        return sent

    def _may_refresh(self, response: httpx2.Response) -> bool:
        refreshed = self.is_stale or self._is_second
        return response.status_code == 401 and self._login.can_refresh and not refreshed

    async def _note_challenge(
        self, response: httpx2.Response, held: AsyncExitStack, one_login: anyio.Lock
    ) -> None:
        more = (
            response.status_code == 403
            and extract_field_from_www_auth(response, "error") == "insufficient_scope"
        )
        if self._wants_login or (response.status_code != 401 and not more):
            return
        self._wants_login = True
        if more:
            await self._want_scope(response)
        elif scope := union_scopes(self._oauth.server.oauth.scope, self._login.scope):
            _set_scope(response, scope)
        if self._oauth.authorize is None and extract_field_from_www_auth(response, "resource_metadata"):
            self._discovery.found = True
            raise self._stop()
        if self._oauth.authorize is not None:
            await held.enter_async_context(one_login)
            stored = self._oauth.file.read().access_token
            self.is_refused = not self._oauth.is_new and stored not in ("", self._login.access_token)

    async def _want_scope(self, response: httpx2.Response) -> None:
        if self._oauth.authorize is None:
            scope = extract_field_from_www_auth(response, "scope") or ""
            wanted = union_scopes(self._login.scope, union_scopes(self._login.tokens.get("scope"), scope))
            await self._oauth.file.change(scope=wanted or "")
            self._discovery.found = True
            self._oauth.fault.problem = NEEDS_MORE.format(scope=scope or "?", id=self._oauth.id)
            raise self._stop()

    def _stop(self) -> Exception:
        """End the request: nobody is there who could log in."""
        fault = self._oauth.fault
        fault.needs_login = self._discovery.found
        fault.note(NEEDS_LOGIN.format(id=self._oauth.id) if fault.needs_login else NO_METADATA)
        return OAuthFlowError(fault.problem)

    async def _show(self, address: str) -> None:
        self._discovery.check(httpx2.URL(address))
        self._address = address

    async def _ask(self) -> AuthorizationCodeResult:
        if self._oauth.authorize is None:
            raise self._stop()
        return await self._oauth.authorize.ask(self._address)

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens; with an empty access token if it is over, because the SDK then refreshes it."""
        try:
            tokens = OAuthToken.model_validate(self._login.tokens)
        except ValidationError:
            return None
        return tokens.model_copy(update={"access_token": ""}) if self.is_stale else tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        settings, authorize = self._oauth.server.oauth, self._oauth.authorize
        stored = _read_client(self._login.client)
        if settings.client_id and not is_valid_client_metadata_url(settings.client_id):
            known = stored if stored and stored.client_id == settings.client_id else None
            self._client = known or _configured(settings)
        elif stored is not None and _fits(stored, authorize):
            self._client = stored
        self._discovery.client = self._client
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Keep the tokens with the client that got them, and with the address that gave them."""
        client = self._client.model_dump(mode="json", exclude_none=True) if self._client else {}
        ends = self._oauth.now() + tokens.expires_in if tokens.expires_in else 0.0
        kept = self._login.token_url if self._is_locked else self._discovery.token_url
        login = Login(tokens.model_dump(mode="json", exclude_none=True), ends, client, kept)
        self._oauth.is_new = False
        if self._is_locked:
            self._oauth.file.write(login)
        else:
            async with self._oauth.file.locked():
                self._oauth.file.write(login)


async def refresh(id: str, server: McpServer, file: LoginFile) -> Login:
    """Refresh the login without a request to the MCP server; return it as it then is."""
    request = httpx2.Request("GET", server.url)
    flow = OAuth(id, server, file, Fault()).async_auth_flow(request)
    try:
        async with httpx2.AsyncClient(timeout=REFRESH_S) as client:
            sent = await anext(flow)
            while sent is not request:
                response = await client.send(sent)
                sent = await flow.asend(response)
    except (httpx2.HTTPError, PilothouseError, OAuthFlowError):
        pass  # the MCP server will say what is wrong
    finally:
        await flow.aclose()
    return file.read()


def _read_client(stored: dict[str, Any]) -> OAuthClientInformationFull | None:
    try:
        return OAuthClientInformationFull.model_validate(stored)
    except ValidationError:
        return None


def _fits(client: OAuthClientInformationFull, authorize: Authorize | None) -> bool:
    """Tell whether the browser may be sent back to us: a client is registered with its address."""
    return authorize is None or authorize.redirect_uri in [str(uri) for uri in client.redirect_uris or ()]


def _configured(settings: McpOAuth) -> OAuthClientInformationFull:
    secret = settings.client_secret
    method = "client_secret_basic" if secret else "none"
    return OAuthClientInformationFull(
        client_id=settings.client_id, client_secret=secret or None, token_endpoint_auth_method=method
    )


def _set_scope(response: httpx2.Response, scope: str) -> None:
    """Replace the scope that the server asks for: the SDK reads the first one of the header."""
    given = response.headers.get("WWW-Authenticate", "Bearer")
    kind, _, rest = given.partition(" ")
    response.headers["WWW-Authenticate"] = f'{kind} scope="{scope}"' + (f", {rest}" if rest else "")
