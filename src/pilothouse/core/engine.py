"""Port: what every coding agent looks like from the inside of the house.

An `Engine` is an async context manager and owns what its sessions share. `open` leases a session: leaving it after
`TurnEnded` gives it back, leaving it mid-turn cancels. Once `run` has begun, failures are events, never exceptions;
before that, `open` may raise `EngineError`. Everything else is a capability: a protocol of one method, found with
`isinstance` on the session (or, where noted, on the engine).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from msgspec import Struct, field

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.event import EngineEvent, ResumeToken
from pilothouse.core.ids import AskId, BlobHash, ConversationId, EngineId, SessionId
from pilothouse.core.message import Attachment
from pilothouse.core.policy import NO_RULE, ApprovalMode, Ruling, Site
from pilothouse.core.turn import Prompt

NODE_MARKER = "PILOTHOUSE_NODE"
"""Every process that an engine starts carries `host.node_marker` under this name in its environment: a gateway that
was killed is found out by it, and what it left running is ended at the next start."""


Judge = Callable[[Ask, Site], Awaitable[Ruling]]
"""What the house's policy says about a call that a session is about to make, in its workspace and its mode."""


class Brief(Struct, frozen=True):
    """Everything a session is opened with. An engine reads nothing else of ours."""

    session_id: SessionId
    workspace: str
    trusted: bool = False
    resume: ResumeToken | None = None
    model: str | None = None
    approval_mode: ApprovalMode = "minimal"
    environment: Mapping[str, str] = field(default_factory=dict)
    mcp_servers: Mapping[str, Any] = field(default_factory=dict)
    system_prompt: str = ""
    budget_usd: float | None = None
    """What this turn may cost at most, where somebody set a cap: an engine that can keep to one keeps to it."""
    settings_dir: str = ""
    """Where the owner keeps files about this workspace, outside of it; empty where there is no such folder."""
    conversation_id: ConversationId = ConversationId("")
    wake: str = ""
    """The `Wake` that this session is opened for: its `run` gives the turn that began by itself, and says nothing."""

    @property
    def site(self) -> Site:
        """Where the session's calls are judged."""
        return Site(self.workspace, self.session_id, self.approval_mode)


class EngineSession(Protocol):
    def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        """One turn. Ends after `TurnEnded`, or when the engine has nothing more to say."""
        ...


class Engine(Protocol):
    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...

    def open(self, brief: Brief) -> AbstractAsyncContextManager[EngineSession]: ...


@runtime_checkable
class Interruptible(Protocol):
    async def interrupt(self) -> None:
        """Ask the running turn to stop. The stream still ends with a `TurnEnded`."""
        ...


@runtime_checkable
class Steerable(Protocol):
    async def steer(self, prompt: Prompt) -> bool:
        """Push more into the running turn; False if it is too late for this one."""
        ...


@runtime_checkable
class Answerable(Protocol):
    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        """Tell the engine what was decided about the ask that it sent under `ask_id`."""
        ...


@runtime_checkable
class KeepsWatch(Protocol):
    """A marker: the session ends a turn whose program hangs by itself. It hears more than its events tell, so nobody
    else takes its silence for a hang."""

    keeps_watch: bool


@runtime_checkable
class AcceptsImages(Protocol):
    """A marker: attachments that are images reach the model as images."""

    accepts_images: bool


class Model(Struct, frozen=True):
    name: str
    title: str = ""


@runtime_checkable
class ListsModels(Protocol):
    """On the engine, not on the session. What it knows at this moment, likeliest first: to ask costs nothing, so no
    process is started for it and nothing is waited for."""

    def models(self) -> Sequence[Model]: ...


class Wake(Struct, frozen=True):
    """A turn that an engine began by itself, and why, in words for people. An `id` is never given twice."""

    session_id: SessionId
    cause: str
    id: str


@runtime_checkable
class Wakes(Protocol):
    """On the engine, not on the session.

    The turn's stream is kept until a session is opened with `Brief.wake`. One that another turn of the session took in
    meanwhile gives a stream without words; one that nobody knows any more, for its process is gone, one that failed.
    """

    def wakes(self) -> AsyncIterator[Wake]: ...


class EngineStatus(Struct, frozen=True):
    """What a look at the machine tells: `fix` is the exact command that would make it available."""

    available: bool
    version: str = ""
    problem: str = ""
    fix: str = ""


class Blobs(Protocol):
    """Attachment bytes, read and kept through the store."""

    async def get(self, blob: BlobHash) -> bytes: ...

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment: ...


class MediaFound(Struct, frozen=True):
    """Bytes in an engine's output, before a store has kept them: whoever has one makes `MediaProduced` of it."""

    name: str
    media_type: str
    data: bytes


class LineTranslator(Protocol):
    """An engine's recorded output -> events, without the engine. Several turns give several streams, one by one."""

    puzzle: str
    """Why the line that was fed last could not be understood; empty if it could."""

    def feed(self, line: bytes) -> Sequence[EngineEvent | MediaFound]: ...

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[EngineEvent | MediaFound]:
        """What is missing once nothing more can come."""
        ...


class SessionLog(Protocol):
    """An engine's own record of one session, which somebody else may be writing. Reading it changes nothing."""

    where: str

    @property
    def found(self) -> bool:
        """Whether it is there yet."""
        ...

    def follow(self) -> AsyncIterator[Sequence[EngineEvent | MediaFound]]:
        """The turn that is under way, or was the last, then whatever is added, for ever."""
        ...


class ResumeLines(Struct, frozen=True):
    """How an engine's sessions move between a chat and a terminal: as a line of text."""

    parse: Callable[[str], tuple[ResumeToken | None, str]]
    """The session that a text says to resume, if any, and the text without such lines."""
    read: Callable[[str], ResumeToken | None]
    """A bare id; None if it cannot be one of this engine's."""
    command: Callable[[ResumeToken], str]
    """What continues the session in a terminal."""
    line: Callable[[ResumeToken], str]
    """The same for under an answer: short, and understood again by `parse`."""
    shown: bool = False
    """Whether answers close with that line."""


class ProcessStart(Struct, frozen=True):
    """A process that an engine is about to start. `name` says what for, as in "claude session"."""

    name: str
    argv: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    workspace: str = ""
    """The folder that the agent works in; empty for a process that serves no workspace, or several."""


Jail = Callable[[ProcessStart], AbstractAsyncContextManager[ProcessStart]]
"""Yields the start that is really made, for as long as the process lives: a sandbox changes the command, and removes
afterwards what it set up."""


async def ask_always(ask: Ask, site: Site) -> Ruling:
    return NO_RULE


class EngineHost(Struct, frozen=True):
    """What the house gives to an engine that it builds.

    An engine that can hold a call back asks `judge` about every one, also about those that its program would let pass
    by itself; only what is ruled `ask` becomes an `Asked`.
    """

    blobs: Blobs
    environment: Mapping[str, str]
    state_dir: str
    node_marker: str
    log: Callable[..., None]
    judge: Judge = ask_always
    jail: Jail = nullcontext
    """For `pilothouse.processes.Launcher`, which starts every process of an engine."""


class Obeyed(Struct, frozen=True):
    """A file, or a folder, that a workspace may bring along, and what it means to obey it."""

    path: str
    means: str


class EngineSpec(Struct, frozen=True):
    """How an engine presents itself; the object that an entry point of `pilothouse.engines` names.

    `config` is a `msgspec.Struct` type: the shape of the section `[engines.<id>]`.
    """

    id: EngineId
    title: str
    config: type[Struct]
    build: Callable[[Any, EngineHost], Engine]
    probe: Callable[[Any], EngineStatus]
    aliases: tuple[str, ...] = ()
    examine: Callable[[Any], str] | None = None
    """A longer look than `probe`, for `doctor`: why turns would not start, and what to do; empty if they would."""
    translator: Callable[[], LineTranslator] | None = None
    """For `pilothouse replay`: reads what this engine's program printed."""
    find_logs: Callable[[Any, str], Sequence[SessionLog]] | None = None
    """For `pilothouse watch`: the logs that a word may mean, which is a session's id, its beginning, or a path."""
    resume_lines: Callable[[Any], ResumeLines] | None = None
    """For an engine whose sessions people can also continue by hand."""
    obeys: tuple[Obeyed, ...] = ()
    """What of a workspace counts for this engine only once somebody trusts it: people are told before they do."""


Step = EngineEvent | MediaFound
