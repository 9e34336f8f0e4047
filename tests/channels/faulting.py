"""What may go wrong on the way to any platform, on demand: each fault waits for a call and is used up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

ANY = "*"


@dataclass
class Fault:
    call: str
    times: int
    kind: Literal["refuse", "raw", "hold", "late", "lose", "drop"]
    refusal: Exception | None = None
    """What the platform says, in its own words."""
    status: int = 200
    body: bytes = b""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        self.released.set()


class FaultsOnTheWay:
    """What a proxy, or the net, says."""

    def __init__(self) -> None:
        self.waiting: list[Fault] = []
        self._held: list[Fault] = []

    def take_first(self, fits: Callable[[Fault], bool]) -> Fault | None:
        for fault in self.waiting:
            if fits(fault):
                fault.times -= 1
                if fault.times <= 0:
                    self.waiting.remove(fault)
                if fault.kind != "late":
                    fault.arrived.set()
                return fault
        return None

    def clear(self) -> None:
        """Nothing goes wrong any more, and what is held goes on."""
        for fault in self._held:
            fault.release()
        self._held.clear()
        self.waiting.clear()

    def storm(self, call: str = ANY, *, status: int = 502, times: int = 1) -> Fault:
        """A proxy before the platform answers, with a page."""
        return self._add(Fault(call, times, "raw", status=status, body=b"<html><h1>Bad Gateway</h1></html>"))

    def garble(
        self, call: str = ANY, body: bytes = b"<html>Log in to the wifi</html>", *, times: int = 1
    ) -> Fault:
        return self._add(Fault(call, times, "raw", status=200, body=body))

    def hold(self, call: str = ANY, *, times: int = 1) -> Fault:
        """What is asked is done after `release`; `arrived` tells that the request is there."""
        fault = self._add(Fault(call, times, "hold"))
        self._held.append(fault)
        return fault

    def lose_answer(self, call: str = ANY, *, times: int = 1) -> Fault:
        """What was asked is done, and the connection breaks before the answer."""
        return self._add(Fault(call, times, "lose"))

    def drop(self, call: str = ANY, *, times: int = 1) -> Fault:
        """The connection breaks before anything is done."""
        return self._add(Fault(call, times, "drop"))

    def _add(self, fault: Fault) -> Fault:
        self.waiting.append(fault)
        return fault


async def suffer(request: web.Request, fault: Fault) -> web.StreamResponse | None:
    """The answer that the fault gives, if it gives one at once. Raises what the platform says."""
    match fault.kind:
        case "refuse":
            assert fault.refusal
            raise fault.refusal
        case "raw":
            return web.Response(status=fault.status, body=fault.body, content_type="text/html")
        case "drop":
            return hang_up(request)
        case "hold":
            await fault.released.wait()
        case "late" | "lose":
            pass
    return None


def hang_up(request: web.Request) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
