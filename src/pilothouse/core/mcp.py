"""MCP servers: how one is configured, how an engine is given it, and the port of the host that calls their tools.

`[mcp.servers.ID]` is an `McpServer`. Engines with MCP clients of their own get it as a table of `Brief.mcp_servers`. An
engine without one enters `EngineHost.open_mcp` for as long as it lives, and leases the tools for each turn.
"""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Annotated, Any, Literal, Protocol
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from pilothouse.core.call import OWN_SERVER

McpState = Literal["disabled", "connecting", "ready", "auth_required", "error"]
Transport = Literal["stdio", "http"]

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_))*(?<!_)")
ID_CHARS = 64
_SECRET_NAME = re.compile(r"(?i)(?:^|[_-])(?:authorization|cookie|\w*(?:token|secret|password|passwd|key))$")
_IN_FOLDER = ("/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh")
"""A command that starts another one in a folder: few engines have a setting for it."""

Url = Annotated[
    str, Meta(pattern=r"^(|https?://[^\s/]+.*)$", description="an address with http:// or https://")
]
CallSeconds = Annotated[float, Meta(gt=0, le=3600, description="a number of seconds above 0, at most 3600")]


class McpOAuth(Struct, frozen=True):
    """`[mcp.servers.ID.oauth]`: each value replaces what the server says of its login, or what is registered there."""

    issuer: Url = ""
    authorization_url: Url = ""
    token_url: Url = ""
    registration_url: Url = ""
    client_id: str = ""
    """The id of a client that is registered already; or the https address of a client metadata document."""
    client_secret: str = ""
    scope: str = ""
    callback_port: Annotated[int, Meta(ge=0, le=65535, description="a port number; 0 is any free one")] = 0

    def __post_init__(self) -> None:
        if self.client_secret and not self.client_id:
            raise ValueError("`client_secret` needs a `client_id`")


class McpServer(Struct, frozen=True):
    """`[mcp.servers.ID]`: a program (`command`), or an address (`url`)."""

    enabled: bool = True
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    url: Url = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: CallSeconds = 60.0
    oauth: McpOAuth = McpOAuth()

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("it must have either `command` (a program) or `url` (an address)")
        if self.url and (self.args or self.env or self.cwd):
            raise ValueError("`args`, `env` and `cwd` belong to a `command`, not to a `url`")
        if self.command and (self.headers or self.oauth != McpOAuth()):
            raise ValueError("`headers` and `oauth` belong to a `url`, not to a `command`")
        urlsplit(self.url)  # raises `ValueError` for brackets that are no address

    @property
    def transport(self) -> Transport:
        return "http" if self.url else "stdio"

    @property
    def has_own_login(self) -> bool:
        """True if the configuration itself sends a login."""
        return any(name.lower() == "authorization" for name in self.headers)

    @property
    def target(self) -> str:
        """The program or the address, as people may see it: without arguments, logins and queries."""
        if not self.url:
            return self.command
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that must not be shown: those whose names say so."""
        named = (*self.env.items(), *self.headers.items(), ("client_secret", self.oauth.client_secret))
        return tuple(value for name, value in named if value and _SECRET_NAME.search(name))


def id_problem(id: str) -> str:
    """Say why a server cannot have this name; empty if it can. Two underscores divide server and tool in rules."""
    if id.lower().startswith(OWN_SERVER):
        return f"is not allowed; names that begin with {OWN_SERVER} are for Pilothouse's own server"
    if len(id) > ID_CHARS or not _ID.fullmatch(id):
        return (
            f"is not allowed; a name has letters, digits, - and single _, at most {ID_CHARS}, and begins with a "
            "letter or digit"
        )
    return ""


def for_engines(server: McpServer) -> dict[str, Any]:
    """Return the server as a table of `Brief.mcp_servers`."""
    waits = {"timeout": round(server.timeout_s * 1000)}
    if server.url:
        return {"type": "http", "url": server.url, "headers": dict(server.headers), **waits}
    argv = program_of(server)
    return {"command": argv[0], "args": argv[1:], "env": dict(server.env), **waits}


def from_brief(given: Mapping[str, Any]) -> McpServer:
    """Return the server of a table of `Brief.mcp_servers`."""
    timeout_s = given.get("timeout", 3_600_000) / 1000
    if "url" in given:
        return McpServer(url=given["url"], headers=given.get("headers", {}), timeout_s=timeout_s)
    return McpServer(
        command=given["command"],
        args=tuple(given.get("args", ())),
        env=given.get("env", {}),
        timeout_s=timeout_s,
    )


def program_of(server: McpServer) -> list[str]:
    """Return the command line of a program, which starts it in its folder."""
    argv = [server.command, *server.args]
    return [*_IN_FOLDER, os.path.expanduser(server.cwd), *argv] if server.cwd else argv


class McpStatus(Struct, frozen=True):
    """A server, for people. `problem` says what is wrong and what to do; `source` is the file that names it."""

    id: str
    transport: Transport
    target: str
    source: str
    state: McpState
    tools: int = 0
    problem: str = ""


class McpTool(Struct, frozen=True):
    """A tool for a model. `name` is unique, has at most 64 of `A-Za-z0-9_-`, and is what `call` takes."""

    name: str
    server: str
    tool: str
    description: str
    schema: Mapping[str, Any]


class McpText(Struct, frozen=True, tag="text"):
    text: str


class McpImage(Struct, frozen=True, tag="image"):
    data: bytes
    media_type: str


class McpResult(Struct, frozen=True):
    content: tuple[McpText | McpImage, ...]
    is_error: bool = False

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.content if isinstance(part, McpText))


class McpReply(Struct, frozen=True):
    """A person's answer to a question of a server: `cancel` if nobody gave one. A form that is accepted has its fields."""

    action: Literal["accept", "decline", "cancel"]
    content: Mapping[str, Any] | None = None


Elicit = Callable[[str, dict[str, Any]], Awaitable[McpReply]]
"""Asks a person what a server asks: its id, and the parameters of `elicitation/create`."""


class McpTools(Protocol):
    """The tools of the servers of one workspace. Servers connect in the background; none of these methods raises."""

    def statuses(self) -> Sequence[McpStatus]: ...

    def tools(self) -> Sequence[McpTool]:
        """Return the tools of the servers that are ready now."""
        ...

    async def settle(self, within_s: float) -> None:
        """Wait until no server is connecting, at most so long; not again for one that was waited for in vain."""
        ...

    async def call(self, name: str, arguments: Mapping[str, Any], elicit: Elicit | None = None) -> McpResult:
        """Call a tool. Everything that goes wrong, also a server that died, is a result with `is_error`.

        Questions of the server go to `elicit`, and are declined without it. Its timeout stands still meanwhile."""
        ...


class McpConnections(Protocol):
    """Connections that are kept between turns."""

    def lease(
        self, workspace: str, *, trusted: bool, own: Mapping[str, Any]
    ) -> AbstractContextManager[McpTools]:
        """Use the servers of a workspace. `own` is `Brief.mcp_servers`: taken from it are Pilothouse's own server, and those
        that an editor sent."""
        ...


class McpDesk(Protocol):
    """Questions of people about MCP servers in a chat."""

    async def report(self, workspace: str, trusted: bool) -> Sequence[McpStatus]:
        """Connect to the servers of a workspace, and return their states after a short while."""
        ...

    async def log_in(self, workspace: str, trusted: bool, id: str, pasted: str) -> str:
        """Begin a login, or go on with the address that the browser ended with; return what to tell people."""
        ...


OpenMcp = Callable[[], AbstractAsyncContextManager[McpConnections]]


class _NoServers:
    def statuses(self) -> Sequence[McpStatus]:
        return ()

    def tools(self) -> Sequence[McpTool]:
        return ()

    async def settle(self, within_s: float) -> None: ...

    async def call(self, name: str, arguments: Mapping[str, Any], elicit: Elicit | None = None) -> McpResult:
        return McpResult((McpText(f"There is no tool {name}."),), is_error=True)

    @contextmanager
    def lease(self, workspace: str, *, trusted: bool, own: Mapping[str, Any]) -> Iterator[McpTools]:
        yield self


class NoMcpDesk:
    async def report(self, workspace: str, trusted: bool) -> Sequence[McpStatus]:
        return ()

    async def log_in(self, workspace: str, trusted: bool, id: str, pasted: str) -> str:
        return f"There is no MCP server {id!r}."


@asynccontextmanager
async def no_mcp() -> AsyncIterator[McpConnections]:
    """The default of `EngineHost.open_mcp`: no servers."""
    yield _NoServers()
