"""A server of OpenCode as a shared process: its address on stdout, its events by HTTP, each for the session it belongs to.

Rules: no request is sent before the server has said where it listens, and its health was checked. When the stream of
events breaks, it is opened again, and every running turn is told: what was missed is not repeated. A permission that no
running turn can answer is refused at once: its call would wait for ever otherwise.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable
from typing import TYPE_CHECKING, Any

import anyio

from pilothouse.core.outcome import Failure
from pilothouse.engines.link import IGNORES_STOP, Exit, Link, LinkPlan, Port
from pilothouse.engines.opencode import wire
from pilothouse.engines.opencode.api import Api
from pilothouse.engines.opencode.asks import refuse
from pilothouse.engines.opencode.failures import explain_answer
from pilothouse.engines.opencode.folder import Folder, read_folder
from pilothouse.engines.opencode.rules import Rule
from pilothouse.engines.opencode.wire_parts import TextPart
from pilothouse.processes import Line, LineSplitter, StopDeadlines

if TYPE_CHECKING:
    from pilothouse.http.client import HttpClient

RECONNECT_S = 0.2
LONGEST_TURN_S = 24 * 3600.0
DISPOSE_S = 5.0
MAX_RULES = 200
_LISTENS = re.compile(rb"listening on (https?://\S+)")
_DATA = b"data:"

OpenCodePort = Port[wire.Heard, None]
Mail = wire.Heard | Exit | Failure


class OpenCodeLink(Link[wire.Heard, None]):
    def __init__(self, plan: LinkPlan, password: str) -> None:
        super().__init__(plan, join_items)
        self._password = password
        self._address = ""
        self._listens = anyio.Event()
        self._following = anyio.CancelScope()
        self._api: Api | None = None
        self._sessions: dict[str, OpenCodePort] = {}
        """The port of each session, and of the sub-agents' sessions that it started."""
        self._directories: dict[str, str] = {}
        self._folders: dict[str, Folder] = {}
        self.rules: dict[str, list[Rule]] = {}
        """Our rules of each session that has them, since this server's events are followed without a gap."""

    @property
    def api(self) -> Api:
        assert self._api is not None, "a session is leased when the server is ready"
        return self._api

    async def folder(self, directory: str) -> Folder:
        """Return what the server knows of a folder; it reads settings once."""
        if directory not in self._folders:
            self._folders[directory] = await read_folder(self.api, directory)
        return self._folders[directory]

    def bind(self, port: OpenCodePort, session: str, directory: str) -> bool:
        """Give a session's events to a port; False if another one has them."""
        if self._sessions.get(session, port) is not port:
            return False
        self._sessions[session] = port
        self._directories[session] = directory
        return True

    def note_rules(self, session: str, rules: list[Rule]) -> None:
        if len(self.rules) >= MAX_RULES:
            self.rules.clear()
        self.rules[session] = rules

    def is_bound(self, session: str, port: OpenCodePort) -> bool:
        return self._sessions.get(session) is port

    async def listen(self) -> None:
        """Follow the events from the server's start to its end, in the engine's task group."""
        with self._following:
            await self._listens.wait()
            from pilothouse.http.client import open_http

            async with open_http(direct=True) as http:
                api = self._api = Api(http, self._address, self._password, self._plan.open_s)
                if why := await api.check():
                    self.condemn(why)
                while self.alive:
                    await self._follow(http, api)
                    await anyio.sleep(RECONNECT_S)

    async def stop_turn(self, session: str) -> None:
        """Abort the running turn. OpenCode answers when it has ended, and its commands with it."""
        directory, grace_s = self._directories.get(session, ""), self._plan.grace_s
        answer = await self.api.post(f"/session/{session}/abort", None, directory, within_s=grace_s)
        if not answer.ok and self.alive:
            self.condemn(IGNORES_STOP)

    async def run_aside(self, port: OpenCodePort, path: str, body: Any, directory: str) -> None:
        """Send a request that is answered when its turn has ended. One that is refused, or was not sent, fails the turn."""
        turn = port.turn
        answer = await self.api.post(path, body, directory, within_s=LONGEST_TURN_S)
        failed = not (answer.ok if answer.status else answer.sent)
        if failed and port.busy and port.turn == turn:
            port.mailbox.put_last(explain_answer(answer.status, answer.value, "run the command"))

    async def dispose(self) -> None:
        """Let the server end what it still runs: it would leave its commands behind."""
        if self._api is not None and self.alive:
            await self._api.post("/global/dispose", None, within_s=DISPOSE_S)

    async def _follow(self, http: HttpClient, api: Api) -> None:
        url, headers, quiet_s = api.stream
        async with http.follow(url, headers=headers, wait_s=quiet_s) as pieces:
            if isinstance(pieces, AsyncIterator):
                await self._read_events(pieces)

    async def _read_events(self, pieces: AsyncIterator[bytes]) -> None:
        splitter = LineSplitter(self._plan.limits.max_line_bytes)
        async for piece in pieces:
            for line in splitter.feed(piece):
                if line.data.startswith(_DATA) and (room := self._hear(line)) is not None:
                    await room

    def _route(self, line: Line) -> Awaitable[None] | None:
        if not self._address and (found := _LISTENS.search(line.data)):
            self._address = found[1].decode("ascii", "replace")
            self._listens.set()
        return None

    def _hear(self, line: Line) -> Awaitable[None] | None:
        heard = (
            wire.Noise(line.data[: wire.NOISE_BYTES]) if line.cut else wire.decode(line.data[len(_DATA) :])
        )
        match heard:
            case wire.Connected():
                self._note_connection()
            case wire.SessionCreated(info=info):
                if port := self._sessions.get(info.parent_id):
                    self.bind(port, info.id, info.directory)
            case wire.Noise():
                for port in self._ports.values():
                    port.mailbox.put_last(heard)
            case wire.Ignored() | wire.Reconnected():
                pass
            case _:
                return self._deliver(heard, len(line.data))
        return None

    def _note_connection(self) -> None:
        if self._greeted:
            self.rules.clear()
            for port in self._ports.values():
                port.mailbox.put_last(wire.Reconnected())
        self._greet()

    def _deliver(self, heard: wire.Told | wire.Unknown, size: int) -> Awaitable[None] | None:
        port = self._sessions.get(heard.session_id)
        if port is None or not port.busy:
            asks = isinstance(heard, wire.PermissionAsked | wire.QuestionAsked)
            return self._refuse(heard) if asks else None
        text = isinstance(heard, wire.PartDelta) or (
            isinstance(heard, wire.PartUpdated) and isinstance(heard.part, TextPart)
        )
        return self._hand_over(port, heard, size, delta=text)

    async def _refuse(self, request: wire.PermissionAsked | wire.QuestionAsked) -> None:
        reply = refuse(request)
        await self.api.post(reply.path, reply.body, self._directories.get(request.session_id, ""))

    async def _end_session(self, port: OpenCodePort) -> None:
        kept = {session: one for session, one in self._sessions.items() if one is not port}
        self._sessions = kept
        self._directories = {session: self._directories[session] for session in kept}

    def _deadlines(self) -> StopDeadlines:  # pyrefly: ignore[missing-override-decorator]
        grace_s = self._plan.grace_s
        return StopDeadlines(input_s=0.0, terminate_s=grace_s, orphans_s=min(1.0, grace_s))

    def _close(self, last: Exit) -> None:  # pyrefly: ignore[missing-override-decorator]
        super()._close(last)
        self._following.cancel()


def join_items(last: Mail, new: Mail) -> Mail | None:
    """Join deltas of one part, and count lines of noise instead of collecting them."""
    match last, new:
        case wire.PartDelta(part_id=a), wire.PartDelta(part_id=b) if a == b:
            return wire.PartDelta(new.session_id, new.message_id, a, last.delta + new.delta)
        case wire.Noise(), wire.Noise():
            return wire.Noise(last.raw, last.lines + new.lines)
        case _:
            return None
