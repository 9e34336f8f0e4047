"""What may go wrong on the way, on demand: each fault waits for a method and is used up."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.channels.telegram.server.refusal import Refusal

ANY = "*"


@dataclass
class Fault:
    method: str
    times: int
    kind: Literal["refuse", "raw", "hold", "lose", "drop"]
    refusal: Refusal | None = None
    status: int = 200
    body: bytes = b""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)
    where: Callable[[dict[str, Any]], bool] = lambda params: True

    def release(self) -> None:
        self.released.set()


class Faults:
    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def take(self, method: str, params: dict[str, Any]) -> Fault | None:
        for fault in self._waiting:
            if fault.method.lower() in (ANY, method.lower()) and fault.where(params):
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
                fault.arrived.set()
                return fault
        return None

    def clear(self) -> None:
        for fault in self._waiting:
            fault.release()
        self._waiting.clear()

    def refuse(self, method: str, code: int, description: str, *, times: int = 1, **parameters: Any) -> Fault:
        return self._add(Fault(method, times, "refuse", refusal=Refusal(code, description, **parameters)))

    def too_many(self, method: str = ANY, *, after_s: int = 3, times: int = 1) -> Fault:
        words = f"Too Many Requests: retry after {after_s}"
        return self.refuse(method, 429, words, times=times, retry_after=after_s)

    def storm(self, method: str = ANY, *, status: int = 502, times: int = 1) -> Fault:
        """A proxy before Telegram answers, with a page."""
        body = b"<html><h1>Bad Gateway</h1></html>"
        return self._add(Fault(method, times, "raw", status=status, body=body))

    def garble(
        self, method: str = ANY, body: bytes = b"<html>Log in to the wifi</html>", *, times: int = 1
    ) -> Fault:
        return self._add(Fault(method, times, "raw", status=200, body=body))

    def hold(self, method: str = ANY, *, times: int = 1) -> Fault:
        """The answer comes after `release`; `arrived` tells that the request is there."""
        return self._add(Fault(method, times, "hold"))

    def lose_answer(self, method: str = ANY, *, times: int = 1) -> Fault:
        """What was asked is done, and the connection breaks before the answer."""
        return self._add(Fault(method, times, "lose"))

    def drop(self, method: str = ANY, *, times: int = 1) -> Fault:
        """The connection breaks before anything is done."""
        return self._add(Fault(method, times, "drop"))

    def _add(self, fault: Fault) -> Fault:
        self._waiting.append(fault)
        return fault
