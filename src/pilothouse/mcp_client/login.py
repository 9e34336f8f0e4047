"""One login to one server, with a person: opens the way back for the browser, connects, and keeps the tokens."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from mcp.client.client import Client
from msgspec import Struct

from pilothouse import __version__
from pilothouse.core.mcp import McpServer
from pilothouse.mcp_client.callback import WAIT_S, LoginError, open_callback
from pilothouse.mcp_client.login_file import LoginFile
from pilothouse.mcp_client.oauth import Authorize, OAuth
from pilothouse.mcp_client.quiet import quiet
from pilothouse.mcp_client.transport import Fault, open_http

CONNECT_S = 60.0
NO_ADDRESS = "{id} is a program ({target}), and programs have no login here."
OWN_LOGIN = "{id} sends the Authorization of its `headers`. Remove that from the configuration to log in."
NOT_WANTED = "{id} answered without a login, so there is nothing to do."

Show = Callable[[str, Callable[[str], None]], Awaitable[None]]
"""Shows the address to a person. Its second argument takes the address that the browser ended with, if that is pasted."""


class LoginPlan(Struct, frozen=True):
    id: str
    server: McpServer
    folder: Path
    wait_s: float = WAIT_S


async def log_in(plan: LoginPlan, show: Show) -> None:
    """Log in anew, and keep the tokens. The old ones stay if it fails. Raises `LoginError`."""
    _check(plan)
    if problem := await _problem(plan, show):
        raise LoginError(problem)


async def _problem(plan: LoginPlan, show: Show) -> str:
    """Log in; return what went wrong. Nothing is raised through the server for the browser, which would wrap it."""
    file, fault = LoginFile(plan.folder, plan.id, plan.server.url), Fault()

    async def show_address(address: str) -> None:
        await show(address, callback.paste)

    async with open_callback(show_address, _ports(plan.server, file), plan.wait_s) as callback:
        authorize = Authorize(callback.redirect_uri, callback.ask)
        auth = OAuth(plan.id, plan.server, file, fault, authorize, is_new=True)
        try:
            with quiet(), anyio.fail_after(plan.wait_s + CONNECT_S):
                await _connect(plan.server, fault, auth)
        except Exception as error:  # noqa: BLE001 - one login
            return fault.problem or f"The login to {plan.id} failed: {_first(error)}"
    return NOT_WANTED.format(id=plan.id) if auth.is_new else ""


async def _connect(server: McpServer, fault: Fault, auth: OAuth) -> None:
    """Connect as a session does: some servers want the login only when their tools are listed."""
    about = types.Implementation(name="pilothouse", version=__version__)
    async with Client(
        open_http(server, fault, auth), read_timeout_seconds=CONNECT_S, client_info=about
    ) as client:
        if client.server_capabilities.tools is not None:
            await client.list_tools(cache_mode="refresh")


def _check(plan: LoginPlan) -> None:
    if not plan.server.url:
        raise LoginError(NO_ADDRESS.format(id=plan.id, target=plan.server.target))
    if plan.server.has_own_login:
        raise LoginError(OWN_LOGIN.format(id=plan.id))


def _ports(server: McpServer, file: LoginFile) -> tuple[int, ...]:
    """Return the ports to try: the configured one, or the one that our client is registered with, or any."""
    if server.oauth.callback_port:
        return (server.oauth.callback_port,)
    uris = [str(uri) for uri in file.read().client.get("redirect_uris", ())]
    registered = [port for uri in uris if (port := urlsplit(uri).port)]
    return (*registered[:1], 0)


def _first(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
