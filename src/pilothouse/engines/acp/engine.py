"""The engine of one ACP agent: plans its processes, keeps them warm in a pool, opens sessions on them.

One process serves one session: trust, the workspace's variables and the approval mode belong to the process.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
import msgspec
from anyio.abc import TaskGroup

from pilothouse.core.engine import NODE_MARKER, Brief, EngineHost, FoundSession, Model, ProcessStart
from pilothouse.core.errors import EngineError
from pilothouse.core.event import Notice
from pilothouse.core.ids import EngineId, SessionId
from pilothouse.core.outcome import Failure
from pilothouse.engines.acp.agents import Agent
from pilothouse.engines.acp.config import AcpConfig
from pilothouse.engines.acp.jail import agent_needs
from pilothouse.engines.acp.link import GREETING, AcpLink, Launch
from pilothouse.engines.acp.prompt import PromptComposer
from pilothouse.engines.acp.session import Access, AcpSession
from pilothouse.engines.acp.session_open import Opening, open_on, read_sessions
from pilothouse.engines.link import EarlyEnd, LinkPlan
from pilothouse.engines.machine import free_memory_mb
from pilothouse.engines.model_list import ModelList
from pilothouse.engines.permissions_file import PermissionsFile, judge_within, parse_permissions, render_note
from pilothouse.engines.pool import Pool
from pilothouse.engines.pool_choice import Limits
from pilothouse.engines.program_status import explain_old
from pilothouse.engines.workspace_files import Context, ContextReader, permissions_text, render_context
from pilothouse.processes import BASE_NAMES, Launcher, ProcessLimits, allowed_environment

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A replayed prompt comes with all its images in one line."""
PROCESS_MB = 350.0

NOT_RUNNING = "The engine {name} is not running; enter it first."
NO_COMMAND = (
    'The engine {name} has no command. Name the agent\'s program: command = ["…"] under [engines.{name}].'
)
NOT_FOUND = "There is no program {program!r} where the gateway runs. {fix}"
FULL_ACCESS_ONLY = (
    "{title} is not known to ask before every call, so it runs in full access only. An owner can choose that for this "
    "folder: /mode full-access. Or use another engine: /engine."
)
NOT_LIMITED = (
    "PERMISSIONS.json limits the tools of this workspace, and {title} does not ask before every call, so it cannot be used "
    "here. Use another engine: /engine."
)
NOT_TRUSTED = (
    "{title} cannot be kept from the settings, hooks and plugins of a folder, and {workspace} is not trusted. An owner can trust "
    'it on the machine: pilothouse trust {quoted}. A jail would hold it without that: kind = "jail" under [isolation]. Or use '
    "another engine: /engine."
)
UNASKED = "{title} does not ask before every call: only some of its calls are judged by your rules."


class AcpEngine:
    def __init__(
        self,
        id: EngineId,
        agent: Agent,
        config: AcpConfig,
        host: EngineHost,
        *,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._id = id
        self._agent = agent
        self._config = config
        self._host = host
        self._new_id = new_id
        self._launcher = Launcher(host.jail)
        self._asks = agent.asks if config.asks_first is None else config.asks_first
        self._context = ContextReader(
            host.state_dir,
            base_files=config.context_files,
            prompt_is_set=bool(config.append_system_prompt),
        )
        self._tasks: TaskGroup | None = None
        self._pool: Pool[Launch, AcpLink] | None = None
        self._models = ModelList(Path(host.state_dir, "models.json"))
        self._commands: dict[str, tuple[str, ...]] = {}
        """By workspace."""
        self._lists = True
        """False once the agent has said that it cannot list sessions."""

    async def __aenter__(self) -> Self:
        tasks = self._tasks = anyio.create_task_group()
        await tasks.__aenter__()
        limits = Limits(
            self._agent.title, self._config.max_processes, self._config.idle_timeout_s, PROCESS_MB
        )
        self._pool = Pool(tasks, limits, AcpLink, free_memory_mb)
        tasks.start_soon(self._pool.expire_for_ever)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        tasks, pool, self._tasks, self._pool = self._tasks, self._pool, None, None
        assert tasks is not None and pool is not None, "an engine is left once"
        pool.stop()
        tasks.cancel_scope.cancel()
        if isinstance(error, Exception):  # a task group would wrap the caller's own error
            await tasks.__aexit__(None, None, None)
            return None
        return await tasks.__aexit__(kind, error, trace)

    def models(self) -> Sequence[Model]:
        """Return the configured model, then those that the agent offered last."""
        return self._models.after(self._config.model)

    def commands(self, workspace: str) -> Sequence[str]:
        return self._commands.get(workspace, ())

    @asynccontextmanager
    async def open(self, brief: Brief) -> AsyncIterator[AcpSession]:
        allowed = parse_permissions(permissions_text(brief))
        self._check(brief, allowed)
        context = self._context.gather(brief)
        session = self._session(brief, context, allowed)
        try:
            await session.enter()
            yield session
        finally:
            if context.bootstraps and session.completed:
                self._context.end_first_run(brief)
            await session.leave()

    async def sessions(self, workspace: str, *, trusted: bool = False) -> Sequence[FoundSession]:
        """Ask the agent for its sessions of a folder, in a process of its own. Most agents cannot list any."""
        brief = Brief(SessionId(""), workspace, trusted=trusted, approval_mode="full-access")
        if not self._lists or self._pool is None or not self._may_start(brief):
            return ()
        launch = self._launch(brief, self._new_id())
        link = await self._start(self._pool, msgspec.structs.replace(launch, once=True))
        try:
            self._lists = link.abilities.lists
            reply = (
                await link.request("session/list", {"cwd": workspace}, self._config.open_s)
                if self._lists
                else None
            )
            return read_sessions(self._id, reply.result) if reply is not None else ()
        finally:
            with anyio.CancelScope(shield=True):
                await self._give_back(link, True)

    def _check(self, brief: Brief, allowed: PermissionsFile) -> None:
        """Raises `EngineError` if a session must not be opened."""
        token, title = brief.resume, self._agent.title
        if token is not None and token.engine != self._id:
            text = f"This session belongs to the engine {token.engine!r}, not to {self._id!r}. Start a new session."
            raise EngineError(Failure("stale_session", text))
        if token is not None and not token.value:
            raise EngineError(Failure("stale_session", f"An empty text is no session of {title}."))
        if not self._asks and brief.approval_mode != "full-access":
            raise EngineError(Failure("permission", FULL_ACCESS_ONLY.format(title=title)))
        if not self._asks and (allowed.problem or allowed.tier != "full"):
            raise EngineError(Failure("permission", NOT_LIMITED.format(title=title)))
        if not self._may_start(brief):
            text = NOT_TRUSTED.format(
                title=title, workspace=brief.workspace, quoted=shlex.quote(brief.workspace)
            )
            raise EngineError(Failure("permission", text))

    def _may_start(self, brief: Brief) -> bool:
        """Tell whether the agent may meet the folder's own settings, ignores them, or is held by a jail."""
        jailed = self._host.isolation(brief.workspace).confines
        return brief.trusted or bool(self._agent.untrusted) or jailed

    def _session(self, brief: Brief, context: Context, allowed: PermissionsFile) -> AcpSession:
        config, host, agent = self._config, self._host, self._agent
        parts = (brief.system_prompt, config.append_system_prompt or "", render_context(context))
        instructions = "" if brief.resume else "\n\n".join(filter(None, parts))
        access = Access(
            lease=partial(self._lease, brief),
            give_back=partial(self._end_turns, brief.workspace),
            watch=self._expect_end,
            blobs=host.blobs,
            judge=judge_within(allowed, host.judge),
            new_id=self._new_id,
            log=host.log,
            steer_s=config.stop_grace_s,
        )
        note = render_note(allowed.note)
        uploads = host.uploads(brief.workspace)
        composer = PromptComposer(host.blobs, brief.workspace, agent.title, note, instructions, uploads)
        notices = self._notices(brief, context, allowed)
        return AcpSession(self._id, agent, access, brief, composer, notices, guarded=self._is_guarded(brief))

    def _is_guarded(self, brief: Brief) -> bool:
        return brief.approval_mode != "full-access"

    def _notices(self, brief: Brief, context: Context, allowed: PermissionsFile) -> list[Notice]:
        told = [Notice("error", "permissions", allowed.problem)] if allowed.problem else []
        if brief.resume is not None:
            return told
        unasked = (
            [] if self._asks else [Notice("info", "unasked_calls", UNASKED.format(title=self._agent.title))]
        )
        return [*told, *unasked, *(Notice("warning", "context_files", text) for text in context.warnings)]

    async def _lease(self, brief: Brief, session: str) -> AcpLink:
        """Return a process on which the session is open. Raises `EngineError`."""
        pool = self._pool
        if pool is None:
            raise EngineError(Failure("bad_request", NOT_RUNNING.format(name=self._id)))
        link = await self._start(pool, self._launch(brief, session or self._new_id()))
        try:
            await open_on(link, self._opening(brief, session))
        except BaseException:
            pool.drop(link)
            raise
        self._models.keep(link.models)
        link.commands = link.commands or self._commands.get(brief.workspace, ())
        return link

    async def _start(self, pool: Pool[Launch, AcpLink], launch: Launch) -> AcpLink:
        agent, own = self._agent, self._config.command is not None
        try:
            return await pool.lease(launch)
        except EarlyEnd as error:
            if own or not agent.tested:
                raise
            program = launch.plan.start.argv[0]
            failure = await explain_old(error.failure, program, agent.tested, agent.install)
            raise EngineError(failure) from error

    def _opening(self, brief: Brief, session: str) -> Opening:
        config = self._config
        return Opening(
            agent=self._agent,
            session=session,
            workspace=brief.workspace,
            servers=brief.mcp_servers,
            folders=tuple(map(os.path.expanduser, config.add_dirs)),
            model=brief.model or config.model or "",
            options=config.options,
            guarded=self._is_guarded(brief),
        )

    async def _end_turns(self, workspace: str, link: AcpLink, broken: bool) -> None:
        self._commands[workspace] = link.commands or self._commands.get(workspace, ())
        await self._give_back(link, broken)

    async def _give_back(self, link: AcpLink, broken: bool) -> None:
        if self._pool is not None:
            await self._pool.give_back(link, broken=broken)
        else:
            link.stop()
            await link.ended.wait()

    def _expect_end(self, link: AcpLink) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(link.expect_end, link.port)

    def _launch(self, brief: Brief, session: str) -> Launch:
        """Return how to start the agent. Raises `EngineError` if its program is not there."""
        config, agent, guarded = self._config, self._agent, self._is_guarded(brief)
        command = find_command(str(self._id), agent, config, self._host.environment.get("PATH"))
        folder = self._folder(brief)
        fill = partial(_fill, folder=str(folder), workspace=brief.workspace)
        argv = [*command, *map(fill, agent.args if guarded else ())]
        trust = agent.trusted if brief.trusted else agent.untrusted
        fixed = {name: fill(text) for name, text in {**agent.environment, **trust}.items()}
        names = [*BASE_NAMES, *agent.names, *config.environment]
        extra = {**brief.environment, **fixed, NODE_MARKER: self._host.node_marker}
        environment = allowed_environment(self._host.environment, names, extra)
        added = [os.path.expanduser(one) for one in config.add_dirs]
        start = ProcessStart(
            f"{self._id} session",
            argv,
            brief.workspace,
            environment,
            brief.workspace,
            trusted=brief.trusted,
            needs=agent_needs(agent, command, folder, environment, brief, added, config.environment),
            isolation=self._host.isolation(brief.workspace),
        )
        key = (
            tuple(argv),
            tuple(sorted(start.environment.items())),
            brief.workspace,
            start.isolation,
            _frozen(brief.mcp_servers),
        )
        self._write_files(folder, brief.workspace)
        return Launch(session, key, self._plan(start), agent.title)

    def _plan(self, start: ProcessStart) -> LinkPlan:
        config = self._config
        return LinkPlan(
            engine=self._id,
            launcher=self._launcher,
            start=start,
            grace_s=config.stop_grace_s,
            open_s=config.open_s,
            stall_s=config.open_s,
            private=True,
            log=self._host.log,
            limits=ProcessLimits(max_line_bytes=MAX_LINE_BYTES),
            greeting=GREETING,
        )

    def _folder(self, brief: Brief) -> Path:
        """Return our folder for the files that an agent is started with, one for each workspace."""
        known = hashlib.sha256(os.fsencode(brief.workspace)).hexdigest()[:16]
        return Path(self._host.state_dir, "acp", known).absolute()

    def _write_files(self, folder: Path, workspace: str) -> None:
        try:
            for name, text in self._agent.files.items():
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(_fill(text, str(folder), json.dumps(workspace)[1:-1]))
        except OSError as error:
            text = f"The folder for the settings of {self._agent.title}, {folder}, cannot be written: {error.strerror}."
            raise EngineError(Failure("bad_request", text)) from error


def find_command(name: str, agent: Agent, config: AcpConfig, path: str | None) -> list[str]:
    """Return the command with the path of its program. Raises `EngineError` if there is none."""
    command = config.command or list(agent.command)
    if not command:
        raise EngineError(Failure("bad_request", NO_COMMAND.format(name=name)))
    program = os.path.expanduser(command[0])
    found = shutil.which(program, path=path)
    if found is None:
        fix = f"Install it there: {agent.install}." if agent.install else "Correct its command."
        raise EngineError(Failure("bad_request", NOT_FOUND.format(program=program, fix=fix)))
    return [found, *command[1:]]


def _fill(text: str, folder: str, workspace: str) -> str:
    return text.replace("{folder}", folder).replace("{workspace}", workspace)


def _frozen(servers: Mapping[str, Any]) -> str:
    return json.dumps(dict(servers), sort_keys=True, default=str)
