"""The Bot API on a real socket: aiohttp reads the requests, aiogram judges them, the world answers.

`open_server` gives a `Server`: its `world` for people and what they see, its `faults`, its `flood`, and its `calls`.
With a judge, whatever aiogram's models would not take is refused, and stands in `complaints`.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, web
from tests.channels.faulting import hang_up, suffer
from tests.channels.telegram.server.content import Upload, Uploads
from tests.channels.telegram.server.faults import Faults
from tests.channels.telegram.server.flood import Flood
from tests.channels.telegram.server.judge_aiogram import Judge
from tests.channels.telegram.server.methods import METHODS, RICH
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.polling import Polls
from tests.channels.telegram.server.refusal import Refusal, bad
from tests.channels.telegram.server.world import Json, World

TOKEN = "4242424:AAE-canary_canary_canary_canary_3141"
REQUEST_BYTES = 70 << 20
JSON_FIELDS = (
    "allowed_updates",
    "caption_entities",
    "commands",
    "entities",
    "link_preview_options",
    "media",
    "reaction",
    "reply_markup",
    "reply_parameters",
    "rich_message",
    "scope",
)
"""What is JSON within a form."""


@dataclass
class Call:
    method: str
    params: Json
    uploads: Uploads
    at: float
    error: str = ""
    done: bool = False
    """Whether it was carried out: what it was told is as things stood then, and not later."""


async def _nobody_minds(*_: object) -> bool:
    return False


@dataclass
class Server:
    world: World
    judge: Judge | None = None
    token: str = TOKEN
    rich: bool = True
    """Whether it speaks Bot API 10.1 or later."""
    faults: Faults = field(default_factory=Faults)
    calls: list[Call] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    url: str = ""
    flood: Flood = field(default_factory=lambda: Flood(time.monotonic))
    before: Callable[[Call], Awaitable[bool]] = _nobody_minds
    """Awaited before a call is carried out; if it returns true, the call never is."""
    after: Callable[[Call, Any], Awaitable[bool]] = _nobody_minds
    """Awaited with the result; if it returns true, nobody gets it."""

    def __post_init__(self) -> None:
        self.polls = Polls(self.world)

    def person(self, first_name: str = "Ada", *, username: str = "", started: bool = True) -> Person:
        return Person(self.world, first_name, username=username, started=started)

    def called(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method.lower() == method.lower()]

    # HTTP.

    async def on_call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        try:
            params, uploads = await _read(request)
        except ConnectionError:  # they went away in the middle of it
            return web.Response()
        call = Call(method, params, uploads, time.monotonic())
        self.calls.append(call)
        self.world.wake()
        fault = self.faults.take(method)
        if await self.before(call):
            return hang_up(request)
        try:
            if fault is not None and (answer := await suffer(request, fault)):
                return answer
            result = await self._carry_out(request.match_info["token"], call)
        except Refusal as refusal:
            call.error = refusal.description
            return web.json_response(refusal.as_json(), status=refusal.code)
        call.done = True
        if await self.after(call, result) or (fault is not None and fault.kind == "lose"):
            return hang_up(request)
        return web.json_response({"ok": True, "result": result})

    async def _carry_out(self, token: str, call: Call) -> Any:
        if token != self.token:
            raise Refusal(401, "Unauthorized") if ":" in token else Refusal(404, "Not Found")
        name = call.method.lower()
        if name in RICH and not self.rich:
            raise Refusal(404, "Not Found: method not found")
        await self._check_request(call)
        if not self.rich:  # a server reads no parameter that it does not know
            call.params.pop("rich_message", None)
        if (chat_id := call.params.get("chat_id")) is not None:
            self.flood.count(name, self.world.chat(chat_id).id)
        result = await self._dispatch(name, call)
        await self._check(f"answer to {call.method}", "result", call.method, result)
        return result

    async def _dispatch(self, name: str, call: Call) -> Any:
        if name in self.polls.methods:
            result = await self.polls.methods[name](call.params)
            for update in result if name == "getupdates" else ():
                await self._check(f"update {update['update_id']}", "update", update)
            return result
        method = METHODS.get(name)
        if method is None:
            self.complaints.append(f"{call.method}: this server has no such method")
            raise Refusal(404, "Not Found: method not found")
        return method(self.world, call.params, call.uploads)

    async def _check_request(self, call: Call) -> None:
        """aiogram takes a name where a file is uploaded under the parameter's own name."""
        given = {
            **call.params,
            **{name: "attach://it" for name in call.uploads if name in ("photo", "document")},
        }
        if why := await self._check(call.method, "request", call.method, given):
            raise bad(f"SCHEMA {why}")

    async def _check(self, what: str, question: str, *terms: Any) -> str:
        if self.judge is None:
            return ""
        why = await getattr(self.judge, question)(*terms)
        if why:
            self.complaints.append(f"{what}: {why}")
        return why

    async def on_file(self, request: web.Request) -> web.StreamResponse:
        fault = self.faults.take("download")
        if fault is not None and (answer := await suffer(request, fault)):
            return answer
        path = request.match_info["path"]
        if request.match_info["token"] != self.token:
            return web.json_response(Refusal(401, "Unauthorized").as_json(), status=401)
        for file in self.world.files.values():
            if file.path == path:
                return web.Response(body=file.data, content_type=file.media_type)
        return web.json_response(Refusal(404, "Not Found").as_json(), status=404)


@asynccontextmanager
async def open_server(judge: Judge | None = None, *, rich: bool = True) -> AsyncIterator[Server]:
    server = Server(World(), judge, rich=rich)
    app = web.Application(client_max_size=REQUEST_BYTES)
    app.router.add_route("*", "/bot{token}/{method}", server.on_call)
    app.router.add_get("/file/bot{token}/{path:.*}", server.on_file)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    async with ClientSession(timeout=ClientTimeout(total=60)) as session:
        pushing = asyncio.create_task(_push_to_webhook(server, session))
        try:
            yield server
        finally:
            pushing.cancel()
            server.faults.clear()
            server.polls.end()
            await runner.cleanup()
            await asyncio.gather(pushing, return_exceptions=True)


async def _push_to_webhook(server: Server, session: ClientSession) -> None:
    """One update at a time, in order, again and again until it is taken."""
    world, polls = server.world, server.polls
    while True:
        await world.until(lambda: polls.webhook and world.pending)
        headers = {"X-Telegram-Bot-Api-Secret-Token": polls.secret} if polls.secret else {}
        update = world.pending[0]
        try:
            async with session.post(polls.webhook, json=update, headers=headers) as response:
                taken = response.status == 200
                polls.last_error = "" if taken else f"Wrong response from the webhook: {response.status}"
        except (ClientError, TimeoutError) as error:
            taken, polls.last_error = False, str(error)
        if taken and update in world.pending:
            world.pending.remove(update)
        world.wake()
        if not taken:
            await asyncio.sleep(0.05)


async def _read(request: web.Request) -> tuple[Json, Uploads]:
    params: Json = dict(request.query)
    uploads: Uploads = {}
    if request.content_type == "application/json":
        params |= await request.json()
        return params, uploads
    if request.can_read_body:
        for name, value in (await request.post()).items():
            if isinstance(value, web.FileField):
                uploads[name] = Upload(value.filename, value.file.read(), value.content_type)
            else:
                params[name] = value
    for name in JSON_FIELDS:
        if isinstance(params.get(name), str):
            params[name] = json.loads(params[name])
    return params, uploads
