"""Discord's REST API: reads a request, holds it to limits and faults, and says what simcord answers.

What simcord does not implement is a 501, and a complaint that fails the test.
"""

import io
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import discord
from aiohttp import web
from simcord.backend.errors import BackendError
from simcord.http.router import RouteNotImplemented, UnsupportedField
from tests.channels.discord.server.faults import Faults, Refusal, matches
from tests.channels.discord.server.limits import Limits
from tests.channels.discord.server.rules import Request, Rules
from tests.channels.discord.server.wire import Wire
from tests.channels.discord.server.world import World
from tests.channels.faulting import hang_up, suffer

OPEN = ("/interactions/", "/webhooks/", "/gateway")
"""What needs no token, or has its own in the path."""
READS_CONTENT = 1 << 19


@dataclass
class Call:
    method: str
    path: str
    body: Any
    files: list[str]
    at: float
    status: int = 0
    code: int = 0


Before = Callable[[Call], Awaitable[bool]]
After = Callable[[Call, Any], Awaitable[bool]]


async def _go_on(*_: object) -> bool:
    return False


@dataclass
class Rest:
    world: World
    wire: Wire
    token: str
    faults: Faults = field(default_factory=Faults)
    limits: Limits = field(default_factory=lambda: Limits(time.monotonic))
    calls: list[Call] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    reads_content: bool = True
    before: Before = _go_on
    """Called before a call is carried out; with true it never is, and the connection breaks."""
    after: After = _go_on
    """Called once it is done; with true the answer reaches nobody."""

    def __post_init__(self) -> None:
        self.rules = Rules(self.world)

    def called(self, call: str) -> list[Call]:
        return [one for one in self.calls if matches(call, one.method, one.path)]

    async def on_call(self, request: web.Request) -> web.StreamResponse:
        asked = await _read(request)
        call = Call(
            asked.method, asked.path, asked.body, [file.filename for file in asked.files], time.monotonic()
        )
        self.calls.append(call)
        self.world.wake()
        fault = self.faults.take(asked.method, asked.path)
        headers: dict[str, str] = {}
        if await self.before(call):
            return hang_up(request)
        try:
            if fault is not None and (answer := await suffer(request, fault)):
                call.status = fault.status if fault.kind == "raw" else 0
                return answer
            self._authorize(request, asked)
            headers = self.limits.take(asked.method, asked.path)
            asked.reads_content = self.reads_content
            result = self._carry_out(asked)
        except BackendError as error:
            call.status, call.code = error.status, error.code
            return self._refuse(error, headers)
        finally:
            self.world.wake()
        call.status = 204 if result is None else 200
        if fault is not None and fault.kind == "late":
            fault.arrived.set()
            await fault.released.wait()
        if await self.after(call, result) or (fault is not None and fault.kind == "lose"):
            return hang_up(request)
        return web.Response(status=204, headers=headers) if result is None else self._answer(result, headers)

    def _authorize(self, request: web.Request, asked: Request) -> None:
        if asked.path.startswith(OPEN) and request.headers.get("Authorization") is None:
            return
        if request.headers.get("Authorization") != f"Bot {self.token}":
            raise Refusal(401, 0, "401: Unauthorized")

    def _carry_out(self, asked: Request) -> Any:
        if asked.method == "GET" and asked.path in ("/gateway", "/gateway/bot"):
            return self.wire.gateway_answer()
        try:
            result = self.rules.carry_out(asked)
            if asked.path == "/oauth2/applications/@me":
                result["flags"] = READS_CONTENT if self.reads_content else 0
            return result
        except (RouteNotImplemented, UnsupportedField) as gap:
            self.complaints.append(gap.message)
            raise
        except (NotImplementedError, LookupError, TypeError, ValueError) as error:
            complaint = f"{asked.method} {asked.path}: simcord failed with {error!r}"
            self.complaints.append(complaint)
            raise Refusal(501, 0, complaint) from error

    def _answer(self, result: Any, headers: dict[str, str], status: int = 200) -> web.Response:
        """discord.py reads JSON only if the type is exactly this; and a 429 without `Via` is a ban."""
        named = {"Content-Type": "application/json", "Via": "1.1 google", **headers}
        return web.Response(status=status, body=self.wire.text(result).encode(), headers=named)

    def _refuse(self, error: BackendError, headers: dict[str, str]) -> web.Response:
        more = error.headers if isinstance(error, Refusal) else {}
        return self._answer(error.to_json(), {**headers, **more}, error.status)


async def _read(request: web.Request) -> Request:
    """The path stays as it was sent: an emoji within it is simcord's to read."""
    path = re.sub(r"^/api/v\d+", "", request.raw_path.partition("?")[0])
    asked = Request(
        request.method,
        path,
        params=dict(request.query),
        reason=request.headers.get("X-Audit-Log-Reason"),
    )
    if request.content_type == "multipart/form-data":
        await _read_form(request, asked)
    elif request.can_read_body:
        asked.body = json.loads(await request.text() or "null")
    return asked


async def _read_form(request: web.Request, asked: Request) -> None:
    fields: dict[str, Any] = {}
    for name, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            asked.files.append(discord.File(io.BytesIO(value.file.read()), value.filename))
        else:
            fields[name] = value
    payload = fields.pop("payload_json", None)
    asked.body = json.loads(payload) if payload else fields or None
