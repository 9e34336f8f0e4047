"""Discord's gateway: sessions that outlive their sockets, intents, heartbeats, resuming with what was missed.

A `Session` numbers and keeps what it tells; a `Socket` carries it for as long as it lasts.
"""

import asyncio
import copy
import json
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import discord
from aiohttp import WSMsgType, web
from simcord.backend import serializers
from simcord.intents import missing_privileged_intents, prune_guild_create, required_intent
from tests.channels.discord.server.privacy import hide_content
from tests.channels.discord.server.wire import Json, Wire
from tests.channels.discord.server.world import World

DISPATCH, HEARTBEAT, IDENTIFY, PRESENCE, RESUME, RECONNECT, MEMBERS, INVALID, HELLO, ACK = (
    *(0, 1, 2, 3, 6),
    *(7, 8, 9, 10, 11),
)
PAYLOAD_BYTES = 4096
GONE = (1000, 1001)
"""Whoever closes with these will not come back."""


class Socket:
    """One connection. What is told goes out in order, and whoever tells never waits."""

    def __init__(self, request: web.Request, socket: web.WebSocketResponse, wire: Wire) -> None:
        self.request = request
        self.socket = socket
        self.closing = False
        self.wire = wire
        self.session: Session | None = None
        self._deflate = zlib.compressobj() if request.query.get("compress") == "zlib-stream" else None
        self._frames: asyncio.Queue[str | int] = asyncio.Queue()

    def tell(self, op: int, data: Any = None) -> None:
        self.put(self.wire.text({"op": op, "d": data, "s": None, "t": None}))

    def put(self, text: str) -> None:
        self._frames.put_nowait(text)

    def close(self, code: int) -> None:
        """After all that was told before."""
        self.closing = True
        self._frames.put_nowait(code)

    def abort(self) -> None:
        """The line breaks: no word of farewell."""
        if self.session is not None:
            self.session.socket = None
        if self.request.transport is not None:
            self.request.transport.abort()

    async def write(self) -> None:
        try:
            while True:
                frame = await self._frames.get()
                if isinstance(frame, int):
                    await self.socket.close(code=frame)
                elif self._deflate is not None:
                    data = self._deflate.compress(frame.encode()) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
                    await self.socket.send_bytes(data)
                else:
                    await self.socket.send_str(frame)
        except ConnectionError:
            """The reader sees it too."""


@dataclass
class Session:
    id: str
    intents: discord.Intents
    wire: Wire
    socket: Socket | None = None
    told: list[str] = field(default_factory=list)
    """What was told, each under its place plus one."""

    def tell(self, event: str, data: Any) -> None:
        text = self.wire.text({"op": DISPATCH, "d": data, "s": len(self.told) + 1, "t": event})
        self.told.append(text)
        if self.socket is not None:
            self.socket.put(text)


class Gateway:
    def __init__(self, world: World, wire: Wire, token: str) -> None:
        self.world = world
        self.wire = wire
        self.token = token
        self.approved = discord.Intents.all()
        self.heartbeat_ms = 41_250
        self.deaf = False
        """Heartbeats are not acknowledged any more."""
        self.down = False
        """New connections are refused."""
        self.sessions: dict[str, Session] = {}
        self.received: Counter[int] = Counter()
        """Op → how often a client sent it."""
        self.complaints: list[str] = []
        self._answer: Callable[[Socket], None] | None = None
        self._answer_resume: Callable[[Socket], None] | None = None
        self._sockets: list[Socket] = []
        self._serials = count(1)
        world.state.subscribers.append(self.tell)

    # What a test does.

    @property
    def connected(self) -> list[Session]:
        return [session for session in self.sessions.values() if session.socket is not None]

    def drop(self) -> None:
        """All lines break; sessions wait to be resumed."""
        for socket in list(self._sockets):
            socket.abort()

    def close(self, code: int) -> None:
        for socket in list(self._sockets):
            socket.close(code)

    def forget(self) -> None:
        """Sessions cannot be resumed; what happens until the next one is told to nobody."""
        for session in self.sessions.values():
            session.socket = None
        self.sessions.clear()

    def ask_to_reconnect(self) -> None:
        for socket in self._sockets:
            socket.tell(RECONNECT)

    def invalidate(self, *, resumable: bool = False) -> None:
        sockets = list(self._sockets)
        if not resumable:
            self.forget()
        for socket in sockets:
            socket.tell(INVALID, resumable)

    def answer_identify(self, answer: Callable[[Socket], None] | None) -> None:
        """What happens to whoever wants a session, instead of a greeting; None: what always does."""
        self._answer = answer

    def answer_resume(self, answer: Callable[[Socket], None] | None) -> None:
        self._answer_resume = answer

    def tell(self, event: str, payload: Mapping[str, Any]) -> None:
        """Says an event to every session whose intents want it; also once more, if a test says so."""
        for session in self.sessions.values():
            gate = required_intent(event, payload)
            if gate is None or getattr(session.intents, gate):
                session.tell(event, self._for(session, event, payload))
        self.world.wake()

    def _for(self, session: Session, event: str, payload: Mapping[str, Any]) -> Json:
        data: Json = copy.deepcopy(dict(payload))
        if not session.intents.message_content:
            hide_content(self.world.state, event, data)
        if event == "GUILD_CREATE":
            prune_guild_create(data, session.intents, self.world.bot_id)
            awake = [one for one in data["threads"] if not one["thread_metadata"]["archived"]]
            data["threads"] = awake  # Discord tells of active threads alone
            data["nsfw_level"] = 0
            data["joined_at"] = self.world.state.get_member(int(data["id"]), self.world.bot_id).joined_at
        return data

    # The socket.

    async def on_connect(self, request: web.Request) -> web.StreamResponse:
        if self.down:
            return web.Response(status=503)
        response = web.WebSocketResponse(max_msg_size=1 << 20)
        await response.prepare(request)
        socket = Socket(request, response, self.wire)
        self._sockets.append(socket)
        writing = asyncio.create_task(socket.write())
        socket.tell(HELLO, {"heartbeat_interval": self.heartbeat_ms})
        try:
            async for frame in response:
                if frame.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                    break
                self._hear(socket, frame.data)
        finally:
            writing.cancel()
            self._sockets.remove(socket)
            self._leave(socket, response.close_code)
        return response

    def _leave(self, socket: Socket, code: int | None) -> None:
        session = socket.session
        if session is not None and session.socket is socket:
            session.socket = None
            if code in GONE and not socket.closing:
                self.sessions.pop(session.id, None)
        self.world.wake()

    def _hear(self, socket: Socket, text: str | bytes) -> None:
        if len(text) > PAYLOAD_BYTES:
            return socket.close(4002)
        frame = json.loads(text)
        op, data = frame["op"], frame.get("d")
        self.received[op] += 1
        if op == HEARTBEAT:
            if not self.deaf:
                socket.tell(ACK)
        elif op == IDENTIFY:
            self._identify(socket, data) if self._answer is None else self._answer(socket)
        elif op == RESUME:
            self._resume(socket, data) if self._answer_resume is None else self._answer_resume(socket)
        elif socket.session is None:
            socket.close(4003)
        elif op == MEMBERS:
            self._tell_members(socket.session, data)
        elif op != PRESENCE:
            self.complaints.append(f"this gateway does not know op {op}")
            socket.close(4001)
        self.world.wake()
        return None

    def _identify(self, socket: Socket, data: Json) -> None:
        intents = discord.Intents.none()
        intents.value = data["intents"]
        if data["token"] != self.token:
            return socket.close(4004)
        if socket.session is not None:
            return socket.close(4005)
        if missing_privileged_intents(intents, self.approved):
            return socket.close(4014)
        self.wire.identifies_left -= 1
        self.greet(socket, intents)
        return None

    def greet(self, socket: Socket, intents: discord.Intents) -> None:
        """A session begins."""
        session = Session(f"session-{next(self._serials)}", intents, self.wire, socket)
        self.sessions[session.id] = session
        socket.session = session
        self._greet(session)

    def _greet(self, session: Session) -> None:
        state = self.world.state
        guilds = list(state.guilds.values())
        ready = {
            "v": 10,
            "user": dict(serializers.user_payload(state.bot_user)),
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in guilds],
            "session_id": session.id,
            "resume_gateway_url": self.wire.gateway_url,
            "shard": [0, 1],
            "application": {"id": str(state.application_id), "flags": 0},
        }
        session.tell("READY", ready)
        for guild in guilds if session.intents.guilds else ():
            payload = dict(serializers.guild_create_payload(state, guild))
            session.tell("GUILD_CREATE", self._for(session, "GUILD_CREATE", payload))

    def _resume(self, socket: Socket, data: Json) -> None:
        if data["token"] != self.token:
            return socket.close(4004)
        session = self.sessions.get(data["session_id"])
        if session is None:
            return socket.tell(INVALID, False)
        if data["seq"] > len(session.told):
            return socket.close(4007)
        socket.session, session.socket = session, socket
        for text in session.told[data["seq"] :]:
            socket.put(text)
        session.tell("RESUMED", {})
        return None

    def _tell_members(self, session: Session, data: Json) -> None:
        state = self.world.state
        guild = state.guilds[int(data["guild_id"])]
        wanted = data.get("user_ids")
        ids = {int(id) for id in ([wanted] if isinstance(wanted, str) else wanted or guild.members)}
        prefix = (data.get("query") or "").lower()
        members = [
            serializers.member_payload(state, guild, member)
            for id, member in guild.members.items()
            if id in ids and state.users[id].name.lower().startswith(prefix)
        ]
        chunk = {
            "guild_id": data["guild_id"],
            "members": members[: data.get("limit") or None],
            "chunk_index": 0,
            "chunk_count": 1,
            "not_found": [str(id) for id in ids - guild.members.keys()],
            **({"nonce": data["nonce"]} if data.get("nonce") else {}),
        }
        session.tell("GUILD_MEMBERS_CHUNK", chunk)
