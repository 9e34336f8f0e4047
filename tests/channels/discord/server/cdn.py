"""The host of attachments, honest or not: a file may lie about its size, be empty, endless, slow, or elsewhere."""

import asyncio
from dataclasses import dataclass, field

from aiohttp import web
from simcord.backend.cdn import CDN_BASE
from tests.channels.discord.server.state import SignedFiles

CHUNK = bytes(1 << 16)


def path_of(url: str) -> str:
    return url.removeprefix(f"{CDN_BASE}/").partition("?")[0]


@dataclass
class File:
    """A file that somebody sends. What Discord tells of it may differ from what comes."""

    name: str
    data: bytes
    media_type: str = ""
    told_bytes: int | None = None
    served: bytes | None = None
    """What comes instead of the data."""
    redirect_to: str = ""
    status: int = 200
    endless: bool = False
    """Comes without a length and without an end."""
    slow: bool = False
    """Half of it comes, and the rest after `release`."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def odd(self) -> bool:
        return bool(
            self.served is not None or self.redirect_to or self.status != 200 or self.endless or self.slow
        )

    def release(self) -> None:
        self.released.set()


class Cdn:
    def __init__(self, store: SignedFiles) -> None:
        self.store = store
        self.odd: dict[str, File] = {}
        """Path → how it is served, where that is not simply the data."""
        self.asked: list[str] = []

    def keep_odd(self, url: str, file: File) -> None:
        self.odd[path_of(url)] = file

    def clear(self) -> None:
        for file in self.odd.values():
            file.release()

    async def on_get(self, request: web.Request) -> web.StreamResponse:
        path = request.raw_path.partition("?")[0].removeprefix("/cdn/")
        self.asked.append(path)
        file = self.odd.get(path)
        if file is not None:
            file.asked.set()
            return await self._serve_oddly(request, file)
        data = self.store.at(path)
        if data is None:
            return web.Response(status=404, text="This content is no longer available.")
        return web.Response(body=data, content_type="application/octet-stream")

    async def _serve_oddly(self, request: web.Request, file: File) -> web.StreamResponse:
        if file.redirect_to:
            return web.Response(status=302, headers={"Location": file.redirect_to})
        if file.status != 200:
            return web.Response(status=file.status)
        body = file.data if file.served is None else file.served
        if not (file.endless or file.slow):
            return web.Response(body=body, content_type=file.media_type or "application/octet-stream")
        response = web.StreamResponse()
        await response.prepare(request)
        await self._stream(response, file, body)
        return response

    async def _stream(self, response: web.StreamResponse, file: File, body: bytes) -> None:
        try:
            await response.write(body[: len(body) // 2])
            while file.endless:
                await response.write(CHUNK)
            await file.released.wait()
            await response.write(body[len(body) // 2 :])
        except ConnectionError:
            """Whoever asked has had enough."""
