"""The least of Discord that a client connects to: one server with a hundred channels, in which nobody says anything."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from aiohttp import WSMsgType, web

CHANNELS = 100
ME = {"id": "1000000000000000001", "username": "pilot", "discriminator": "0", "avatar": None, "bot": True}
APP = {
    "id": ME["id"],
    "name": "pilot",
    "icon": None,
    "description": "",
    "bot_public": False,
    "bot_require_code_grant": False,
    "owner": ME,
    "team": None,
    "verify_key": "",
    "flags": 1 << 19,
}
GUILD = {
    "id": "2000000000000000001",
    "name": "Lab",
    "roles": (),
    "threads": (),
    "channels": [
        {"id": str(3 * 10**18 + number), "type": 0, "name": f"room-{number}"} for number in range(CHANNELS)
    ],
}


class Platform:
    def __init__(self) -> None:
        self.url = ""
        self.greeted = anyio.Event()

    @property
    def gateway(self) -> str:
        return f"{self.url.replace('http', 'ws', 1)}/gateway/"

    async def on_call(self, request: web.Request) -> web.Response:
        """discord.py reads JSON only if the type is exactly this."""
        answers: dict[str, Any] = {"users/@me": ME, "oauth2/applications/@me": APP}
        answer = answers.get(request.match_info["path"], {"url": self.gateway})
        body = json.dumps(answer if request.method == "GET" else [])
        return web.Response(body=body.encode(), headers={"Content-Type": "application/json"})

    async def on_connect(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"op": 10, "d": {"heartbeat_interval": 41_250}, "s": None, "t": None})
        async for frame in socket:
            if frame.type != WSMsgType.TEXT:
                break
            if json.loads(frame.data)["op"] == 2:
                await self._greet(socket)
            else:
                await socket.send_json({"op": 11, "d": None, "s": None, "t": None})
        return socket

    async def _greet(self, socket: web.WebSocketResponse) -> None:
        ready = {"v": 10, "user": ME, "guilds": [{"id": GUILD["id"], "unavailable": True}]}
        ready |= {"session_id": "one", "resume_gateway_url": self.gateway, "application": {"id": ME["id"]}}
        for number, (event, data) in enumerate((("READY", ready), ("GUILD_CREATE", GUILD)), 1):
            await socket.send_json({"op": 0, "d": data, "s": number, "t": event})
        self.greeted.set()


@asynccontextmanager
async def open_platform() -> AsyncIterator[Platform]:
    platform, app = Platform(), web.Application()
    app.router.add_get("/gateway/", platform.on_connect)
    app.router.add_route("*", "/api/v10/{path:.*}", platform.on_call)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    platform.url = f"http://{host}:{port}"
    try:
        yield platform
    finally:
        await runner.cleanup()
