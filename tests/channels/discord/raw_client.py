"""A client without manners: single requests and frames, to see what the server does with each."""

import json
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import discord
from aiohttp import ClientSession, ClientWebSocketResponse, FormData, WSMsgType
from tests.channels.discord.server.gateway import DISPATCH, HELLO, IDENTIFY
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Answer, Json

DEADLINE_S = 100
ZLIB_END = b"\x00\x00\xff\xff"


class Raw:
    def __init__(self, server: Server, session: ClientSession) -> None:
        self.server = server
        self.session = session
        self.headers: dict[str, str] = {}
        """Those of the last answer."""

    async def call(self, method: str, path: str, body: Any = None, **query: str) -> tuple[int, Any]:
        data: Json = {"data": body} if isinstance(body, FormData) else {"json": body}
        signed = {"Authorization": f"Bot {self.server.token}"}
        url = f"{self.server.api_base}{path}"
        async with self.session.request(method, url, headers=signed, params=query, **data) as response:
            self.headers = dict(response.headers)
            text = await response.text()
            return response.status, json.loads(text) if text else None

    async def send(self, channel_id: int, text: str, **more: Any) -> tuple[int, Any]:
        return await self.call("POST", f"/channels/{channel_id}/messages", {"content": text, **more})

    async def answer(self, answer: Answer, kind: int, **data: Any) -> tuple[int, Any]:
        path = f"/interactions/{answer.record.id}/{answer.record.token}/callback"
        return await self.call("POST", path, {"type": kind, "data": data})

    async def follow_up(self, answer: Answer, text: str) -> tuple[int, Any]:
        path = f"/webhooks/{self.server.world.state.application_id}/{answer.record.token}"
        return await self.call("POST", path, {"content": text})


class Line:
    """One connection to the gateway."""

    def __init__(self, socket: ClientWebSocketResponse) -> None:
        self.socket = socket
        self._inflate = zlib.decompressobj()

    async def say(self, op: int, data: Any = None) -> None:
        await self.socket.send_json({"op": op, "d": data})

    async def hear(self) -> Json:
        """The next frame; a closed line is {"closed": code}."""
        frame = await self.socket.receive()
        if frame.type == WSMsgType.BINARY:
            assert frame.data.endswith(ZLIB_END)
            return json.loads(self._inflate.decompress(frame.data))
        return json.loads(frame.data) if frame.type == WSMsgType.TEXT else {"closed": self.socket.close_code}

    async def hear_event(self, name: str) -> Json:
        while True:
            frame = await self.hear()
            assert "closed" not in frame, f"closed with {frame['closed']} before {name}"
            if frame["op"] == DISPATCH and frame["t"] == name:
                return frame


@asynccontextmanager
async def open_raw(server: Server) -> AsyncIterator[Raw]:
    with anyio.fail_after(DEADLINE_S):
        async with ClientSession() as session:
            yield Raw(server, session)


@asynccontextmanager
async def open_line(server: Server, *, compress: bool = False) -> AsyncIterator[Line]:
    query = {"v": "10", "encoding": "json", **({"compress": "zlib-stream"} if compress else {})}
    with anyio.fail_after(DEADLINE_S):
        async with (
            ClientSession() as session,
            session.ws_connect(server.gateway_url, params=query, max_msg_size=0) as socket,
        ):
            line = Line(socket)
            assert (await line.hear())["op"] == HELLO
            yield line


def identify(server: Server, intents: discord.Intents | None = None, token: str = "") -> tuple[int, Json]:
    wanted = intents or discord.Intents.all()
    return IDENTIFY, {"token": token or server.token, "intents": wanted.value, "properties": {}}
