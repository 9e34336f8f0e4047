"""The login at OpenAI by OAuth: authorization code with PKCE, as its own command line does it, and tokens that are renewed.

The browser comes back to a loopback address. Where it runs on another machine, the person copies that address into the
chat. A code counts only with the state that this login made up.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from msgspec import Struct

from pilothouse.engines.native.key_file import Login

if TYPE_CHECKING:
    from pilothouse.http.client import HttpClient
    from pilothouse.http.server import Request, Response

CLIENT_ID = "app_EMoamEEZ73f0CkXaXp7hrann"
"""The public client that OpenAI registered for command lines. It has no secret."""
ISSUER = "https://auth.openai.com"
BACKEND = "https://chatgpt.com/backend-api/codex"
"""The address that accepts a login; the public API wants a key."""
PORT = 1455
PATH = "/auth/callback"
SCOPE = "openid profile email offline_access"
CLAIM = "https://api.openai.com/auth"
EARLY_S = 120.0
"""A token is renewed so long before its end."""
ANSWER_S = 30.0
MAX_BYTES = 256 * 1024
PAGE = b"<!doctype html><title>Pilothouse</title><p>You are logged in. You can close this page.</p>"
NO_PAGE = b"<!doctype html><title>Pilothouse</title><p>This address belongs to no login that is going on.</p>"


class LoginFailed(Exception):
    """The text is for people."""


class LoginRefused(LoginFailed):
    """The server itself said that it does not accept the login: only another one helps."""


class LoginPlan(Struct, frozen=True):
    """One attempt to log in. `url` is for the person's browser."""

    url: str
    state: str
    verifier: str
    redirect: str

    def __repr__(self) -> str:
        return "LoginPlan(…)"


class OAuthServer(Struct, frozen=True):
    issuer: str = ISSUER
    port: int = PORT


OPENAI = OAuthServer()


def plan_login(server: OAuthServer, port: int) -> LoginPlan:
    verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
    redirect = f"http://localhost:{port}{PATH}"
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    words = {
        "response_type": "code",
        "client_id": CLIENT_ID,
        "redirect_uri": redirect,
        "scope": SCOPE,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "state": state,
        "id_token_add_organizations": "true",
        "codex_cli_simplified_flow": "true",
    }
    return LoginPlan(f"{server.issuer}/oauth/authorize?{urlencode(words)}", state, verifier, redirect)


def read_code(plan: LoginPlan, text: str) -> str:
    """Return the code of an address that the browser came back to. Raises `LoginFailed`."""
    try:
        told = parse_qs(urlsplit(text.strip().strip("<>")).query)
    except ValueError:
        told = dict[str, list[str]]()
    if "error" in told:
        why = (told.get("error_description") or told["error"])[0]
        raise LoginFailed(f"OpenAI did not log you in: {why[:200]}")
    code, state = told.get("code", [""])[0], told.get("state", [""])[0]
    if not code:
        raise LoginFailed(f"This is not the address that begins with {plan.redirect}?code=…")
    if not hmac.compare_digest(state.encode(), plan.state.encode()):
        raise LoginFailed("This address belongs to another login. Begin again.")
    return code


@asynccontextmanager
async def open_callback(server: OAuthServer, got: Callable[[str], None]) -> AsyncIterator[LoginPlan]:
    """Plan a login, and listen on loopback while open; `got` is given the code.

    A request with another state is answered and changes nothing. If the port is taken, only the way by hand remains."""
    from pilothouse.http.server import Response, open_server

    plans: list[LoginPlan] = []

    async def answer(request: Request) -> Response:
        if request.method != "GET" or request.path != PATH or not plans:
            return Response(404, NO_PAGE, "text/html; charset=utf-8")
        try:
            got(read_code(plans[0], f"{PATH}?{request.query}"))
        except LoginFailed:
            return Response(400, NO_PAGE, "text/html; charset=utf-8")
        return Response(200, PAGE, "text/html; charset=utf-8")

    async with AsyncExitStack() as stack:
        try:
            port = await stack.enter_async_context(open_server("127.0.0.1", server.port, answer))
        except OSError:
            port = server.port
        plans.append(plan_login(server, port))
        yield plans[0]


async def exchange(http: HttpClient, server: OAuthServer, plan: LoginPlan, code: str, now: float) -> Login:
    """Trade the code for tokens. Raises `LoginFailed`."""
    words = {
        "grant_type": "authorization_code",
        "client_id": CLIENT_ID,
        "code": code,
        "redirect_uri": plan.redirect,
        "code_verifier": plan.verifier,
    }
    return await _ask(http, server, words, now, None)


async def renew(http: HttpClient, server: OAuthServer, login: Login, now: float) -> Login:
    """Return a login with a fresh token. Raises `LoginFailed`; `LoginRefused` if this one is of no more use."""
    words = {"grant_type": "refresh_token", "client_id": CLIENT_ID, "refresh_token": login.refresh}
    return await _ask(http, server, words, now, login)


def is_old(login: Login, now: float) -> bool:
    return now >= login.expires_at - EARLY_S


async def _ask(
    http: HttpClient, server: OAuthServer, words: dict[str, str], now: float, before: Login | None
) -> Login:
    from pilothouse.http.client import Failed

    headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
    reply = await http.ask(
        "POST",
        f"{server.issuer}/oauth/token",
        urlencode(words).encode(),
        headers=headers,
        limit=MAX_BYTES,
        wait_s=ANSWER_S,
        whole_s=ANSWER_S,
    )
    if isinstance(reply, Failed):
        raise LoginFailed(f"{server.issuer} could not be reached. Try again later.")
    if reply.status in (400, 401) and _has_error(reply.data):
        raise LoginRefused(f"{server.issuer} did not accept the login (HTTP {reply.status}). Log in again.")
    if reply.status != 200:
        raise LoginFailed(f"{server.issuer} answered HTTP {reply.status}. Try again later.")
    login = read_tokens(reply.data, now, before)
    if login is None:
        raise LoginFailed(f"{server.issuer} answered without a token. Log in again.")
    return login


def _has_error(data: bytes) -> bool:
    """Tell whether an answer is OAuth's own: a page is a proxy's, or says that the server is down."""
    try:
        told = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return isinstance(told, dict) and bool(told.get("error"))


def read_tokens(data: bytes, now: float, before: Login | None = None) -> Login | None:
    """Read the answer with tokens; None if it has none. What a renewal does not repeat stays as it was."""
    try:
        told = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    if not isinstance(told, dict) or not isinstance(told.get("access_token"), str):
        return None
    access, refresh, seconds = told["access_token"], told.get("refresh_token"), told.get("expires_in")
    lasts_s = float(seconds) if isinstance(seconds, int | float) and seconds > 0 else 3600.0
    if not isinstance(refresh, str):
        refresh = before.refresh if before else ""
    account = _account(told.get("id_token")) or _account(access) or (before.account if before else "")
    return Login(access, refresh, now + lasts_s, account)


def _account(token: Any) -> str:
    """Return the account that a JWT names. It is not checked: it came from the issuer, over TLS."""
    parts = token.split(".") if isinstance(token, str) else []
    if len(parts) != 3:
        return ""
    try:
        body = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        account = msgspec.json.decode(body)[CLAIM]["chatgpt_account_id"]
    except (ValueError, msgspec.MsgspecError, RecursionError, KeyError, TypeError):
        return ""
    return account if isinstance(account, str) and account.isascii() and account.isprintable() else ""
