"""Port: the interface of every engine.

An `Engine` is an async context manager and owns the resources that its sessions share. `open` leases a session:
leaving it after `TurnEnded` returns it, leaving it mid-turn cancels. Once `run` has begun, failures are events, never
exceptions; before that, `open` may raise `EngineError`. Everything else is a capability: a protocol of one method,
found with `isinstance` on the session (or, where noted, on the engine).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from msgspec import Struct, field

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.call import ReadCall
from pilothouse.core.event import EngineEvent, ResumeToken
from pilothouse.core.ids import AskId, BlobHash, ConversationId, EngineId, SessionId, TurnId
from pilothouse.core.isolation import OPEN, Isolation, Needs
from pilothouse.core.lane import LaneDesk
from pilothouse.core.mcp import OpenMcp, no_mcp
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import ModelCallRecord
from pilothouse.core.policy import NO_RULE, ApprovalMode, Ruling, Site
from pilothouse.core.turn import Prompt

NODE_MARKER = "PILOTHOUSE_NODE"
"""Every process that an engine starts has this environment variable, set to `host.node_marker`: the next start uses it
to find and end processes that a killed gateway left running."""

Judge = Callable[[Ask, Site], Awaitable[Ruling]]
"""Applies the policy to a call that a session is about to make, in its workspace and mode."""


class Brief(Struct, frozen=True):
    """Everything a session is opened with. An engine reads nothing else from Pilothouse."""

    session_id: SessionId
    workspace: str
    trusted: bool = False
    resume: ResumeToken | None = None
    resume_at: str = ""
    """A `SessionPoint` of that session: go on after it, in a session of its own. The resumed one stays as it is."""
    model: str | None = None
    approval_mode: ApprovalMode = "minimal"
    environment: Mapping[str, str] = field(default_factory=dict)
    mcp_servers: Mapping[str, Any] = field(default_factory=dict)
    preferences: Mapping[str, Any] = field(default_factory=dict)
    """The tables `search` and `model` of a trusted workspace's own file."""
    system_prompt: str = ""
    budget_usd: float | None = None
    """The most this turn may cost, if a cap is set. Engines that can enforce a limit do."""
    settings_dir: str = ""
    """The owner's folder with files about this workspace, outside of it; empty if there is none."""
    context_files: tuple[str, ...] = ()
    """Files that belong to the system prompt, whatever the engine is configured with."""
    conversation_id: ConversationId = ConversationId("")
    turn_id: TurnId = TurnId("")
    wake: str = ""
    """The `Wake` that this session is opened for: `run` streams the turn that the engine began, and sends no prompt."""

    @property
    def site(self) -> Site:
        """The context in which the session's calls are judged."""
        return Site(self.workspace, self.session_id, self.approval_mode, trusted=self.trusted)


class EngineSession(Protocol):
    def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        """Run one turn. The stream ends after `TurnEnded`, or when the engine stops."""
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
        """Add a prompt to the running turn; False if it is too late."""
        ...


@runtime_checkable
class Answerable(Protocol):
    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        """Tell the engine what was decided about the ask that it sent under `ask_id`."""
        ...


@runtime_checkable
class DetectsHangs(Protocol):
    """A marker: the session itself ends a turn whose program hangs, so the gateway does not take silence for a hang."""

    detects_hangs: bool


class Model(Struct, frozen=True):
    """`release_date` is an ISO day; prices are in US dollars for a million tokens. None is "not known"."""

    name: str
    title: str = ""
    release_date: str = ""
    context_window: int | None = None
    max_output_tokens: int | None = None
    input_usd: float | None = None
    output_usd: float | None = None
    provider: str = ""
    """One of the engine's `providers`, where it has several."""


@runtime_checkable
class ListsModels(Protocol):
    """On the engine, not on the session. Lists the models known now, likeliest first, without starting a process."""

    def models(self) -> Sequence[Model]: ...


@runtime_checkable
class ListsCommands(Protocol):
    """On the engine, not on the session. Names the program's own commands, without the slash, as the last session in a folder
    told them, if they would reach it; without starting a process."""

    def commands(self, workspace: str) -> Sequence[str]: ...


class FoundSession(Struct, frozen=True):
    """A session that the engine's program keeps, also one begun in a terminal. `title` is its name or its first words."""

    resume: ResumeToken
    title: str = ""
    used_at: float = 0.0


@runtime_checkable
class ListsSessions(Protocol):
    """On the engine, not on the session. Lists the sessions of a folder, last used first. May start a process, which obeys the
    folder's own settings only if it is `trusted`."""

    async def sessions(self, workspace: str, *, trusted: bool = False) -> Sequence[FoundSession]: ...


class SessionPoint(Struct, frozen=True):
    """The end of a turn of a session; `title` is what was asked."""

    id: str
    title: str = ""
    at: float = 0.0


@runtime_checkable
class Forks(Protocol):
    """On the engine, not on the session. It obeys `Brief.resume_at`, and lists the turns of a session, oldest first."""

    async def points(self, token: ResumeToken) -> Sequence[SessionPoint]: ...


class Wake(Struct, frozen=True):
    """A turn that an engine began by itself. `cause` is for people; an `id` is never reused."""

    session_id: SessionId
    cause: str
    id: str


@runtime_checkable
class Wakes(Protocol):
    """On the engine, not on the session.

    The turn's stream is kept until a session is opened with `Brief.wake`. If another turn of the session has consumed
    it, the stream has no text; if its process is gone, the stream fails."""

    def wakes(self) -> AsyncIterator[Wake]: ...


class EngineStatus(Struct, frozen=True):
    """The result of a probe; `fix` is the exact command that would make the engine available."""

    available: bool
    version: str = ""
    problem: str = ""
    fix: str = ""
    asks: bool = False
    """Not available yet, but its first turn asks a person for what is missing."""
    note: str = ""
    """Words for people about an engine that is available, such as what was not checked."""


class Blobs(Protocol):
    """Attachment bytes in the store."""

    async def get(self, blob: BlobHash) -> bytes: ...

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment: ...


class MediaFound(Struct, frozen=True):
    """A file in an engine's output that is not stored yet; storing it gives a `MediaProduced`."""

    name: str
    media_type: str
    data: bytes


class LineTranslator(Protocol):
    """Translates an engine's recorded output into events, without the engine. Several turns give several streams."""

    line_problem: str
    """The problem with the last line; empty if it was understood."""

    def feed(self, line: bytes) -> Sequence[EngineEvent | MediaFound]: ...

    def end(self, exit_code: int | None = None, stderr_tail: str = "") -> Sequence[EngineEvent | MediaFound]:
        """Close what is open at the end of the output."""
        ...


class SessionLog(Protocol):
    """An engine's own record of one session, which another process may be writing. Read-only."""

    where: str

    @property
    def used_at(self) -> float:
        """The time of its last change; 0 until it exists."""
        ...

    def open(self) -> AbstractAsyncContextManager[AsyncIterator[Sequence[EngineEvent | MediaFound]]]:
        """Yield the current or last turn, then everything added, without end."""
        ...


class ResumeLines(Struct, frozen=True):
    """Lines of text that move an engine's session between a chat and a terminal."""

    parse: Callable[[str], tuple[ResumeToken | None, str]]
    """Finds the session that a text asks to resume, and removes such lines from the text."""
    read: Callable[[str], ResumeToken | None]
    """Reads a bare id; None if it cannot be one of this engine's."""
    command: Callable[[ResumeToken], str]
    """The command that continues the session in a terminal."""
    line: Callable[[ResumeToken], str]
    """A short form for the end of an answer, which `parse` understands."""
    shown: bool = False
    """Answers end with that line."""
    word: str = ""
    """A lower-case word that every such line contains: a text without it is not parsed."""
    beside: str = ""
    """A command that shows the session live beside the gateway; `{state}` is the engine's folder, `{id}` the session."""


PORT = "{port}"
"""A word of a jailed command line, in place of the port on which the program shall serve: a free one."""


class ProcessStart(Struct, frozen=True):
    """A process that an engine is about to start. `name` says what for, as in "claude session"."""

    name: str
    argv: Sequence[str]
    cwd: str
    environment: Mapping[str, str]
    workspace: str = ""
    """The folder that the agent works in; empty for a process that serves no workspace, or several."""
    trusted: bool = False
    """The hooks of the folder's own git repository may run."""
    needs: Needs = Needs()
    """For a jail."""
    isolation: Isolation | None = None
    """The isolation of the process, from `EngineHost.isolation`. None: as the settings say when it starts."""


Jail = Callable[[ProcessStart], AbstractAsyncContextManager[ProcessStart]]
"""Yields the start that is really made, for as long as the process lives: a sandbox changes the command, and removes
afterwards what it set up."""


def no_isolation(workspace: str) -> Isolation:
    return OPEN


def no_uploads(workspace: str) -> str:
    return ""


async def ask_always(ask: Ask, site: Site) -> Ruling:
    return NO_RULE


class EngineHost(Struct, frozen=True):
    """Everything that an engine is given when it is built.

    An engine that can hold calls back asks `judge` about every call, even those that its program would allow by
    itself; only a ruling of `ask` becomes an `Asked`. Both carry the call in `Ask.call`."""

    blobs: Blobs
    environment: Mapping[str, str]
    state_dir: str
    node_marker: str
    log: Callable[..., None]
    judge: Judge = ask_always
    jail: Jail = nullcontext
    """For `pilothouse.processes.Launcher`, which starts every process of an engine."""
    isolation: Callable[[str], Isolation] = no_isolation
    """Returns what a process that is started for a workspace now would be confined by. A process that is kept for further turns
    is used while this stays the same. One that serves several workspaces serves a confined one alone."""
    uploads: Callable[[str], str] = no_uploads
    """Returns the folder for files that people send to the agent of a jailed workspace: the jail shows it there, read-only, as
    `UPLOADS`. Empty where the files are saved in the workspace itself."""
    open_mcp: OpenMcp = no_mcp
    """For engines without an MCP client of their own: entered by the engine for as long as it lives."""
    retention_days: int = 30
    """An engine deletes logs of its own that are older; sessions stay."""
    lanes: LaneDesk | None = None
    """For engines whose agent may create lanes; None where there can be none."""


class TrustedFile(Struct, frozen=True):
    """A file or folder of a workspace that an engine reads only if the workspace is trusted, and its effect."""

    path: str
    means: str
    runs: bool = True
    """True if it can run programs or redirect the engine: trust ends when it changes. Instructions may change."""
    section: str = ""
    """The only table of a TOML file that counts. A file without it is not looked at."""


class EngineSpec(Struct, frozen=True):
    """The object that an entry point of `pilothouse.engines` names.

    `config` is a `msgspec.Struct` type: the shape of the section `[engines.<id>]`."""

    id: EngineId
    title: str
    config: type[Struct]
    build: Callable[[Any, EngineHost], Engine]
    probe: Callable[[Any], EngineStatus]
    probe_with: Callable[[Any, str], EngineStatus] | None = None
    """As `probe`, for an engine that keeps keys or logins in its state folder, which is the second argument."""
    aliases: tuple[str, ...] = ()
    examine: Callable[[Any], str] | None = None
    """For `doctor`: a slower check than `probe`. Says why turns would not start, and the fix; empty if they would."""
    login: Callable[[Any], EngineStatus] | None = None
    """For `doctor`: asks the engine's program whether it is logged in. `version` says how, in a few words."""
    try_model: Callable[[Any], EngineStatus] | None = None
    """For `doctor --model`: sends the model one short message, which may cost a little."""
    translator: Callable[[], LineTranslator] | None = None
    """For `pilothouse replay`: reads this engine's recorded output."""
    find_logs: Callable[[Any, str], Sequence[SessionLog]] | None = None
    """For `pilothouse watch`: finds logs by a session id, the beginning of one, or a path; for a folder, the last used."""
    read_calls: Callable[[str, str, float], Sequence[ModelCallRecord]] | None = None
    """For `pilothouse trace --calls`: reads the requests of a turn from the engine's folder, by its id and its start."""
    resume_lines: Callable[[Any], ResumeLines] | None = None
    """For engines whose sessions can also be continued by hand."""
    call_of: ReadCall | None = None
    """Reads a payload of this engine's asks. Without it, a call whose input a person changed counts as unreadable."""
    classes: Callable[[], tuple[type, type]] | None = None
    """Returns the engine's class and its sessions': what they implement is told to people as what the engine can do."""
    varies: tuple[str, ...] = ()
    """Abilities that depend on the program behind the engine."""
    short_name: str = ""
    """The name in sentences such as “Claude wants to run …”; without one, the title."""
    trusted_files: tuple[TrustedFile, ...] = ()
    """Listed before people grant trust; a later change of those that run something ends it."""
    named: Callable[[str], EngineSpec] | None = None
    """Makes the same kind of engine under another name: for another entry point, and for a section `[engines.NAME]` whose
    `type` is this engine's id."""
    providers: tuple[str, ...] = ()
    """Providers whose models it can use; a model of one may be named `provider/model`."""
    compact_line: str = ""
    """The message that makes a session compact its history; empty if there is none."""
    tool_line: str = ""
    """The first word of a message that calls one of the engine's tools; the tool's name and its input as a JSON object
    follow. It counts only in a prompt with `engine_line` and `commands`. The call's output is the turn's answer. Empty if
    the engine calls its tools for its model alone."""
    log_out: Callable[[str], Sequence[str]] | None = None
    """Removes the keys and logins that people gave in a chat from the engine's folder, and names what was removed. None if
    the engine's program keeps its login itself."""
    is_found: Callable[[], bool] | None = None
    """For one of many ready-made engines: whether its program is here. One that is not is listed only if it has a section."""
    tools_here: bool = False
    """Its file tools run in Pilothouse itself, where no jail holds them."""
    falls_back: bool = False
    """It goes on with the `fallback_model` of its section by itself. For other engines that have one, the gateway does."""


Step = EngineEvent | MediaFound
