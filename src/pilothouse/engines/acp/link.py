"""ACP on a process of its own: one session, its prompts, and what the agent said it can do.

A request of the agent that no running turn can answer is answered with a "no" at once: it would wait for ever otherwise.
Updates outside of a turn are a replay of the past, or late: they count for nothing but the session's mode.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

import anyio
from msgspec import Struct

from pilothouse.core.engine import Model
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.acp import wire
from pilothouse.engines.acp.asks import no_answer
from pilothouse.engines.jsonrpc import (
    NOISE_BYTES,
    Noise,
    Reply,
    Request,
    RequestId,
    RpcLink,
    WireError,
    encode_message,
)
from pilothouse.engines.link import Exit, LinkPlan, Port
from pilothouse.processes import Line

GREETING = encode_message(
    wire.HEAD,
    id=0,
    method="initialize",
    params={
        "protocolVersion": wire.PROTOCOL,
        "clientCapabilities": {
            # Files and terminals are the agent's own business: what it does through us would be judged by nobody.
            "fs": {"readTextFile": False, "writeTextFile": False},
            "terminal": False,
            "session": {"compaction": {}, "notices": {}},
            "elicitation": {"form": {}, "url": {}},
        },
        "clientInfo": {"name": "pilothouse", "title": "Pilothouse", "version": "1"},
    },
)
NOT_HERE = "Pilothouse does not answer this."
PROSE = "{program} does not speak ACP: it printed “{words}”. Check its command."
OTHER_VERSION = (
    "{program} speaks version {version} of ACP, and Pilothouse speaks version 1. Update the older one."
)
MAX_PROSE = 50
"""Lines of prose before the greeting's answer, after which the program is given up."""
MAX_MODELS = 200
MAX_COMMANDS = 100
COMMANDS_S = 6.0
"""Agents tell their commands after a session was opened: Qwen Code 0.24 four seconds later, some never."""
WORDS_CHARS = 200
ENDED = WireError("the agent has ended")

AcpPort = Port[wire.Heard, None]
Mail = wire.Heard | Exit | Failure


class Launch(Struct, frozen=True):
    """The command, files and variables that start an agent for a session. `session` is its id, or a new name for one that does not exist yet."""

    session: str
    key: object
    plan: LinkPlan
    program: str
    once: bool = False


class Abilities(Struct, frozen=True):
    """Capabilities that the agent announced."""

    load: bool = False
    resume: bool = False
    images: bool = False
    lists: bool = False
    folders: bool = False
    steering: bool = False
    http: bool = False
    version: str = ""


class AcpLink(RpcLink[wire.Heard]):
    """`session` is the open session, once there is one; `cost` and `counted` are its dollars and tokens so far."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch.plan, join_items, program=launch.program, head=wire.HEAD, ended=ENDED)
        port = self.lease("session")
        assert port is not None, "a new link has room for its session"
        self.port: AcpPort = port
        self.key = launch.key
        self.session = launch.session
        self.holds_work = False
        self.is_open = False
        self.abilities = Abilities()
        self.modes: dict[str, Any] = {}
        self.options: list[dict[str, Any]] = []
        self.models: tuple[Model, ...] = ()
        self.commands: tuple[str, ...] = ()
        self._offered = anyio.Event()
        self.model = ""
        self.cost = 0.0
        self.counted: Mapping[str, int] = {}
        self._prompt: RequestId | None = None
        self._prose: list[str] = []
        self._told: set[str] = set()

    def may_serve(self, launch: Launch) -> bool:
        return True

    @property
    def mode(self) -> str:
        """The session's mode, as far as it has one: of its modes, or of an option in their place."""
        option = self.option("mode")
        return str(self.modes.get("currentModeId") or (option or {}).get("currentValue") or "")

    def option(self, category: str) -> dict[str, Any] | None:
        """Return the agent's option of a category."""
        return next((one for one in self.options if one.get("category") == category), None)

    async def wait_ready(self) -> None:  # pyrefly: ignore[missing-override-decorator]
        try:
            await super().wait_ready()
        except EngineError as error:
            if not self._prose or error.failure.kind == "bad_request":
                raise
            words = PROSE.format(program=self._program, words=self._prose[0])
            raise EngineError(Failure("bad_request", words, detail=error.failure.detail)) from error

    async def call(self, method: str, **params: Any) -> Reply:
        """Send a request about the open session."""
        return await self.request(method, {"sessionId": self.session, **params}, self._plan.open_s)

    async def open_session(self, method: str, params: dict[str, Any]) -> Reply:
        """Open a new session, or the one that `params` names."""
        return await self.request(method, params, self._plan.open_s, lambda reply: self._bind(reply, params))

    def _bind(self, reply: Reply, params: dict[str, Any]) -> None:
        if reply.error is not None:
            return
        self.session = str(params.get("sessionId") or reply.result.get("sessionId") or "")
        self.is_open = bool(self.session)
        self.note_state(reply.result)

    def note_state(self, told: dict[str, Any]) -> None:
        """Take over modes, models and options from a reply or an update."""
        modes, models, options = (told.get(key) for key in ("modes", "models", "configOptions"))
        self.modes = modes if isinstance(modes, dict) else self.modes
        if isinstance(options, list):
            self.options = [one for one in options if isinstance(one, dict)]
        if isinstance(models, dict):
            self.model = str(models.get("currentModelId") or "")
            self.models = _models(models.get("availableModels"), "modelId")
        if option := self.option("model"):
            self.model = str(option.get("currentValue") or "")
            self.models = _models(option.get("options"), "value")

    async def offered_commands(self) -> tuple[str, ...]:
        """Return the names of the agent's commands; the first time, wait until it has told them."""
        if not self.commands:
            with anyio.move_on_after(COMMANDS_S):
                await self._offered.wait()
            self._offered.set()
        return self.commands

    async def prompt(self, blocks: list[dict[str, Any]]) -> None:
        """Send a prompt. Its end arrives as a `Reply` behind its updates."""
        self.port.begin()
        self._prompt = self.number()
        await self.send("session/prompt", {"sessionId": self.session, "prompt": blocks}, self._prompt)

    async def cancel(self) -> None:
        await self.notify("session/cancel", {"sessionId": self.session})

    async def refuse(self, request: Request) -> None:
        """Say no to a request; one that is not understood gets an error."""
        no = no_answer(request)
        await (self.answer_error(request, NOT_HERE) if no is None else self.answer(request, no))

    async def _end_session(self, port: AcpPort) -> None:
        """A session ends with its process."""

    def _route(self, line: Line) -> Awaitable[None] | None:
        heard = Noise(line.data[:NOISE_BYTES]) if line.cut else wire.decode(line.data)
        match heard:
            case Reply(id=id) if id == self._prompt:
                self._prompt = None
                return self._hand_over(self.port, heard, len(line.data), ends=True)
            case Reply():
                return self._settle(heard)
            case Request() if self.port.busy:
                return self._hand_over(self.port, heard, len(line.data))
            case Request():
                return self.refuse(heard)
            case wire.Told():
                return self._take(heard, len(line.data))
            case Noise():
                self._hear_noise(heard)
            case wire.Unknown(name=name):
                self._log_unknown(name)
            case _:
                pass
        return None

    def _take(self, told: wire.Told, size: int) -> Awaitable[None] | None:
        update = told.update
        if told.session_id != self.session:  # a sub-agent's
            return None
        if update.session_update == "current_mode_update":
            self.modes = {**self.modes, "currentModeId": update.current_mode_id}
        if update.session_update == "config_option_update":
            self.note_state({"configOptions": update.config_options})
        if update.session_update == "available_commands_update":
            self.commands = _command_names(update.available_commands)
            self._offered.set()
        if not self.port.busy:
            return None
        delta = update.session_update in ("agent_message_chunk", "agent_thought_chunk")
        return self._hand_over(self.port, told, size, delta=delta)

    def _hear_noise(self, noise: Noise) -> None:
        if self._greeted:
            if self.port.busy:
                self.port.mailbox.put_last(noise)
            return
        self._prose.append(noise.raw.decode("utf-8", "replace").strip()[:WORDS_CHARS])
        if len(self._prose) >= MAX_PROSE:
            words = PROSE.format(program=self._program, words=self._prose[0])
            self.condemn(Failure("bad_request", words))

    def _log_unknown(self, name: str) -> None:
        if name not in self._told and len(self._told) < MAX_PROSE:
            self._told.add(name)
            self._plan.log("acp.unknown_message", level="warning", engine=self._plan.engine, what=name)

    def _take_greeting(self, reply: Reply) -> Awaitable[None] | None:
        version = reply.result.get("protocolVersion")
        if version != wire.PROTOCOL:
            self.condemn(Failure("bad_request", OTHER_VERSION.format(program=self._program, version=version)))
            return None
        self.abilities = _read_abilities(reply.result)
        self._greet()
        return None


def _read_abilities(result: dict[str, Any]) -> Abilities:
    can, info, meta = (_dict(result.get(key)) for key in ("agentCapabilities", "agentInfo", "_meta"))
    session = _dict(can.get("sessionCapabilities"))
    return Abilities(
        load=can.get("loadSession") is True,
        resume=session.get("resume") is not None,
        lists=session.get("list") is not None,
        images=_dict(can.get("promptCapabilities")).get("image") is True,
        folders=session.get("additionalDirectories") is not None,
        steering=_dict(meta.get("steering")).get("supported") is True,
        http=_dict(can.get("mcpCapabilities")).get("http") is True,
        version=str(info.get("version") or ""),
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _command_names(listed: list[Any]) -> tuple[str, ...]:
    found = [one.get("name") for one in listed if isinstance(one, dict)]
    return tuple(str(name).removeprefix("/") for name in found if name)[:MAX_COMMANDS]


def _models(listed: Any, key: str) -> tuple[Model, ...]:
    found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    flat = [each for one in found for each in (one.get("options") or [one]) if isinstance(each, dict)]
    return tuple(Model(str(one[key]), str(one.get("name") or "")) for one in flat if one.get(key))[
        :MAX_MODELS
    ]


def join_items(last: Mail, new: Mail) -> Mail | None:
    """Count lines of noise instead of collecting them."""
    match last, new:
        case Noise(), Noise():
            return Noise(last.raw, last.lines + new.lines)
        case _:
            return None
