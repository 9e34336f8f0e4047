"""Discord on real sockets: `open_server` gives a `Server` on 127.0.0.1 in the loop of the test.

Its `world` is what there is and what happens, `person()` makes people, `faults` and `limits` are for what goes wrong, and
`gateway` for the socket. A client that shall be killed runs in a process of its own, with `api_base`, `gateway_url` and `cdn_base`.
"""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from simcord.backend.errors import BackendError
from simcord.backend.models import Channel
from tests.channels.discord.server.cdn import Cdn
from tests.channels.discord.server.faults import DOWNLOAD, Faults
from tests.channels.discord.server.gateway import Gateway
from tests.channels.discord.server.limits import Limits
from tests.channels.discord.server.people import Hook, Person
from tests.channels.discord.server.rest import Call, Rest
from tests.channels.discord.server.rules import Rules
from tests.channels.discord.server.wire import Wire
from tests.channels.discord.server.world import Post, World
from tests.channels.faulting import suffer

REQUEST_BYTES = 26 << 20


class Server:
    def __init__(self) -> None:
        self.world = World()
        self.wire = Wire()
        self.token = token_of(self.world.bot_id)
        self.rest = Rest(self.world, self.wire, self.token)
        self.gateway = Gateway(self.world, self.wire, self.token)
        self.cdn = Cdn(self.world.state.files)

    @property
    def api_base(self) -> str:
        return self.wire.api_base

    @property
    def gateway_url(self) -> str:
        return self.wire.gateway_url

    @property
    def cdn_base(self) -> str:
        return self.wire.cdn_base

    @property
    def faults(self) -> Faults:
        return self.rest.faults

    @property
    def limits(self) -> Limits:
        return self.rest.limits

    @property
    def rules(self) -> Rules:
        """What this bot may do, and what is taken of it."""
        return self.rest.rules

    @property
    def calls(self) -> list[Call]:
        return self.rest.calls

    @property
    def complaints(self) -> list[str]:
        """What this server cannot do, and was asked to."""
        return [*self.rest.complaints, *self.gateway.complaints]

    @property
    def invalid(self) -> int:
        """Answers of which Discord takes only so many before it shuts a client out."""
        return sum(call.status in (401, 403, 429) for call in self.calls)

    def called(self, call: str) -> list[Call]:
        return self.rest.called(call)

    def person(self, name: str = "ada", *, bot: bool = False, member: bool = True) -> Person:
        return Person(self.world, self.cdn, name, bot=bot, member=member)

    def hook(self, channel: Channel, name: str = "herald") -> Hook:
        return Hook(self.world, channel, name)

    def address_of(self, post: Post, name: str) -> str:
        """Where a file of a message is told to be."""
        told = next(file["url"] for file in post.wire["attachments"] if file["filename"] == name)
        return str(json.loads(self.wire.text(told)))

    def refuse_message_content(self) -> None:
        """The portal does not allow the bot to read what people write."""
        self.gateway.approved.message_content = False
        self.rest.reads_content = False

    async def on_file(self, request: web.Request) -> web.StreamResponse:
        fault = self.faults.take(*DOWNLOAD.split())
        try:
            if fault is not None and (answer := await suffer(request, fault)):
                return answer
        except BackendError as error:
            return web.Response(status=error.status, text=error.message)
        return await self.cdn.on_get(request)

    def end(self) -> None:
        self.faults.clear()
        self.cdn.clear()
        self.gateway.down = True
        self.gateway.drop()


def token_of(bot_id: int) -> str:
    """Clients read the bot's id out of its token."""
    return base64.b64encode(str(bot_id).encode()).decode().rstrip("=") + ".GcAnRy." + "canary-" * 5 + "canar"


@asynccontextmanager
async def open_server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application(client_max_size=REQUEST_BYTES)
    app.router.add_get("/gateway/", server.gateway.on_connect)
    app.router.add_get("/cdn/{path:.*}", server.on_file)
    app.router.add_route("*", r"/api/v{version:\d+}/{path:.*}", server.rest.on_call)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.wire.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        server.end()
        await runner.cleanup()
