"""The Claude engine: owns the pool, leases sessions on it.

A new session's id is chosen here, before its process exists, so that nothing else can use the session meanwhile.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from pilothouse.core.ask import Ask
from pilothouse.core.call import OWN_SERVER
from pilothouse.core.engine import NODE_MARKER, Brief, EngineHost, FoundSession, Model, SessionPoint, Wake
from pilothouse.core.errors import EngineError
from pilothouse.core.event import Notice, ResumeToken
from pilothouse.core.outcome import Failure
from pilothouse.core.policy import ApprovalMode, Ruling, Site
from pilothouse.engines.claude.config import ALIASES, ENGINE_ID, ClaudeConfig, resolve
from pilothouse.engines.claude.gate import Gate, ask_about_every_call
from pilothouse.engines.claude.gate_proof import ProvenGate
from pilothouse.engines.claude.launch import (
    SKIPS,
    Launch,
    check_token,
    plan_launch,
    plan_text_launch,
    resuming,
    skip_problem,
    use_scratch,
    without_servers,
)
from pilothouse.engines.claude.old_program import WITHOUT, explain_unknown, say_missing, unknown_flag
from pilothouse.engines.claude.permissions_file import Permissions, read_permissions
from pilothouse.engines.claude.process import ClaudeProcess, KnownSessions
from pilothouse.engines.claude.prompt import PromptComposer
from pilothouse.engines.claude.session import ClaudeSession, PoolAccess
from pilothouse.engines.claude.session_list import list_points, list_sessions
from pilothouse.engines.claude.session_log import refuse_other_use
from pilothouse.engines.claude.text_mode import READS_ONLY, TextProcess, TextSession, TextTranslator
from pilothouse.engines.link_owner import OTHER_ISOLATION
from pilothouse.engines.machine import free_memory_mb, make_scratch, remove_scratch
from pilothouse.engines.permissions_file import render_note
from pilothouse.engines.pool import Pool
from pilothouse.engines.pool_choice import Limits
from pilothouse.engines.wakes import WokenTurns
from pilothouse.engines.workspace_files import Context, ContextReader, permissions_text, render_context
from pilothouse.processes import Launcher, Marker

PROGRAM = "Claude Code"
HANG_MARGIN_S = 60.0
WAKE_REASONS = {"background_task": "A background task ended.", "loop_wakeup": "It had asked to be woken."}

IN_USE = "This session is in use. Wait for its turn to end."
Plan = Callable[..., Launch]
NOT_RUNNING = Failure("bad_request", "The Claude engine is not running; enter it first.")


def _new_uuid() -> str:
    return str(uuid.uuid4())


class ClaudeEngine:
    def __init__(
        self, config: ClaudeConfig, host: EngineHost, *, new_uuid: Callable[[], str] = _new_uuid
    ) -> None:
        self._config = resolve(config, host.environment)
        self._host = host
        self._launcher = Launcher(host.jail)
        self._new_uuid = new_uuid
        self._tasks: TaskGroup | None = None
        self._pool: Pool[Launch, ClaudeProcess] | None = None
        self._context = ContextReader(
            host.state_dir,
            base_files=self._config.context_files,
            prompt_is_set=bool(self._config.append_system_prompt),
            reads_itself=("CLAUDE.md",),
        )
        self._sessions = KnownSessions(lambda cwd: Gate(ask_about_every_call, cwd))
        self._missing: set[str] = set()
        """Flags that the installed program does not know."""
        self._wakes = WokenTurns[ClaudeProcess](ENGINE_ID, PROGRAM, WAKE_REASONS, new_uuid, host.log)
        self._offered: tuple[Model, ...] = ALIASES
        self._commands: dict[str, tuple[str, ...]] = {}
        """By workspace."""
        self._in_text: set[str] = set()
        self._scratch = ""
        self._own: dict[str, str] = {}
        self._node = Marker(NODE_MARKER, host.node_marker)
        self._gate = ProvenGate(self._config.command, host, self._node)

    async def __aenter__(self) -> Self:
        self._scratch = make_scratch(self._host.node_marker)
        scratch = use_scratch(self._scratch, self._host.environment)
        self._own = {self._node.name: self._node.value, **scratch}
        tasks = self._tasks = anyio.create_task_group()
        await tasks.__aenter__()
        config = self._config
        # 160 MB at its start, 265 MB after a hundred turns (2.1.325).
        limits = Limits(PROGRAM, config.max_processes, config.idle_timeout_s or 300.0)
        self._pool = Pool(tasks, limits, self._make, free_memory_mb)
        tasks.start_soon(self._pool.expire_for_ever)
        tasks.start_soon(self._gate.prove)
        if config.dangerously_skip_permissions:
            self._host.log("permissions.skipped", level="warning", engine="claude", text=SKIPS)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        tasks, pool, self._tasks, self._pool = self._tasks, self._pool, None, None
        assert tasks is not None and pool is not None, "an engine is left once"
        pool.stop()
        tasks.cancel_scope.cancel()
        try:
            if isinstance(error, Exception):  # a task group would wrap the caller's own error
                await tasks.__aexit__(None, None, None)
                return None
            return await tasks.__aexit__(kind, error, trace)
        finally:
            remove_scratch(self._scratch)

    def models(self) -> Sequence[Model]:
        """Return the configured models, then those that the last leased process offered."""
        named = (self._config.model, self._config.fallback_model)
        configured = {name: Model(name) for name in named if name}
        return tuple((configured | {model.name: model for model in self._offered}).values())

    def commands(self, workspace: str) -> Sequence[str]:
        return self._commands.get(workspace, ()) if self._config.owner_commands else ()

    @asynccontextmanager
    async def open(self, brief: Brief) -> AsyncIterator[ClaudeSession | TextSession]:
        check_token(brief)
        if problem := skip_problem(self._config, is_root=os.geteuid() == 0):
            raise EngineError(Failure("permission", problem))
        refuse_other_use({**self._host.environment, **brief.environment}, brief, self._node)
        in_text = self._config.output == "text" and not (brief.wake or brief.resume_at)
        opening = self._open_text if in_text else self._open_stream
        async with opening(brief, self._new_uuid()) as session:
            yield session

    @asynccontextmanager
    async def _open_stream(
        self, brief: Brief, new_session: str, *, once: bool = False
    ) -> AsyncIterator[ClaudeSession]:
        await self._need_gate(brief)
        context = self._context.gather(brief)
        session = self._session(brief, context, new_session, once=once)
        try:
            await session.enter()
            yield session
        finally:
            self._end_first_run(brief, context, session)
            await session.leave()

    @asynccontextmanager
    async def _open_text(self, brief: Brief, new_session: str) -> AsyncIterator[TextSession]:
        id = brief.resume.value if brief.resume else new_session
        if id in self._in_text:
            raise EngineError(Failure("bad_request", IN_USE))
        self._in_text.add(id)
        context = self._context.gather(brief)
        session = self._text_session(brief, context, id)
        try:
            yield session
        finally:
            self._end_first_run(brief, context, session)
            await session.leave()
            self._in_text.discard(id)

    def _end_first_run(self, brief: Brief, context: Context, session: ClaudeSession | TextSession) -> None:
        if context.bootstraps and session.completed:
            self._context.end_first_run(brief)

    async def sessions(self, workspace: str, *, trusted: bool = False) -> Sequence[FoundSession]:
        source = self._host.environment
        return await anyio.to_thread.run_sync(list_sessions, source, workspace, abandon_on_cancel=True)

    async def points(self, token: ResumeToken) -> Sequence[SessionPoint]:
        source = self._host.environment
        return await anyio.to_thread.run_sync(list_points, source, token, abandon_on_cancel=True)

    def wakes(self) -> AsyncIterator[Wake]:
        return self._wakes.announce()

    async def _need_gate(self, brief: Brief) -> None:
        if self._tasks is None:
            raise EngineError(NOT_RUNNING)
        if self._mode(brief) != "full-access":
            await self._gate.need()

    def _composer(self, brief: Brief, note: str, *, commands: bool = False) -> PromptComposer:
        uploads = self._host.uploads(brief.workspace)
        return PromptComposer(
            self._host.blobs, brief.workspace, render_note(note), uploads, commands=commands
        )

    def _text_session(self, brief: Brief, context: Context, session: str) -> TextSession:
        allowed, cwd = self._permissions(brief), self._cwd(brief)
        config, brief = self._narrowed(brief, allowed)
        full_access = self._mode(brief) == "full-access"

        def start(prompt: str, resume: ResumeToken | None) -> TextProcess:
            if self._tasks is None:
                raise EngineError(NOT_RUNNING)
            launch = plan_text_launch(
                config,
                msgspec.structs.replace(brief, resume=resume),
                self._host.environment,
                cwd=cwd,
                session=session,
                extra=self._own,
                tools=allowed.tools,
                prompt=prompt,
                full_access=full_access,
                context=render_context(context),
            )
            launch = self._confined(launch)
            told = TextTranslator(ResumeToken(ENGINE_ID, session, cwd), brief.model or config.model or "")
            process = TextProcess(
                self._launcher, launch, told, self._host.log, scans=bool(config.session_scanning)
            )
            self._tasks.start_soon(process.run)
            return process

        def stream(resume: ResumeToken | None) -> AbstractAsyncContextManager[ClaudeSession]:
            return self._open_stream(msgspec.structs.replace(brief, resume=resume), session, once=True)

        told = self._notices(brief, context, allowed)
        if not full_access and brief.resume is None:
            told.append(Notice("info", "text_mode", READS_ONLY))
        return TextSession(
            start,
            stream,
            self._composer(brief, allowed.note),
            self._host.blobs,
            resume=brief.resume,
            new_uuid=self._new_uuid,
            notices=told,
        )

    def _session(self, brief: Brief, context: Context, new_session: str, *, once: bool) -> ClaudeSession:
        allowed = self._permissions(brief)
        config, brief = self._narrowed(brief, allowed)
        plan = partial(
            plan_launch,
            config,
            source=self._host.environment,
            cwd=self._cwd(brief),
            extra=self._own,
            tools=allowed.tools,
            context=render_context(context),
        )
        pool = PoolAccess(
            lease=partial(self._lease_wake, brief)
            if brief.wake
            else partial(self._lease, brief, plan, new_session, once=once),
            again=partial(self._lease_again, brief, plan),
            give_back=self._give_back,
            watch=self._expect_end,
        )
        return ClaudeSession(
            pool,
            self._composer(brief, allowed.note, commands=config.owner_commands),
            self._host.blobs,
            hang_after_s=config.hang_after_s or config.api_timeout_s + HANG_MARGIN_S,
            new_uuid=self._new_uuid,
            notices=partial(self._notices, brief, context, allowed),
            wakes=bool(brief.wake),
            settled=self._wakes.settled_stream(brief),
            tool_aware=bool(config.tool_aware_streaming),
        )

    def _notices(self, brief: Brief, context: Context, allowed: Permissions) -> list[Notice]:
        """Return notices for before the turn; those that do not change come only at the start of a session."""
        told = [Notice("error", "permissions", allowed.problem)] if allowed.problem else []
        if brief.resume is not None:
            return told
        skips = (
            [Notice("warning", "permissions_skipped", SKIPS)]
            if self._config.dangerously_skip_permissions
            else []
        )
        context_told = [Notice("warning", "context_files", text) for text in context.warnings]
        return [*told, *skips, *context_told, *say_missing(self._missing)]

    async def _lease(
        self, brief: Brief, plan: Plan, new_session: str, *, once: bool = False
    ) -> ClaudeProcess:
        """Lease a process with the wanted model. One that refuses the model is replaced by one that is started with it."""
        process, model = await self._lease_any(brief, plan, new_session, once=once)
        if not await self._switch(process, model):
            await self._give_back(process, True)
            process, model = await self._lease_any(brief, plan, new_session, once=once)
            await self._switch(process, model)
        return process

    async def _lease_any(
        self, brief: Brief, plan: Plan, new_session: str, *, once: bool
    ) -> tuple[ClaudeProcess, str | None]:
        """Lease a process, without the flags that it turns out not to know; return it with the wanted model."""
        if self._pool is None:
            raise EngineError(NOT_RUNNING)
        once = once or self._config.pool is False
        launch = plan(brief=brief, new_session=new_session, once=once, missing=self._missing)
        launch = self._confined(launch)
        try:
            process = await self._pool.lease(launch)
        except EngineError as error:
            flag = unknown_flag(error.failure)
            if not flag or flag in self._missing:
                raise
            if flag not in WITHOUT:
                raise EngineError(explain_unknown(flag, error.failure)) from error
            self._missing.add(flag)
            return await self._lease_any(brief, plan, new_session, once=once)
        self._assign(process, brief)
        return process, launch.model

    async def _switch(self, process: ClaudeProcess, model: str | None) -> bool:
        """Switch the process's model. If this is cancelled, drop the process: a reply may be left unread."""
        try:
            return await process.switch_to(model, process.settings.mode)
        except BaseException:
            if self._pool is not None:
                self._pool.drop(process)
            raise

    async def _lease_wake(self, brief: Brief) -> ClaudeProcess:
        """Lease the process that began by itself. It is ended where a new one would be confined otherwise."""
        process = self._wakes.process_of(brief.wake)
        if process.launch.isolation != self._host.isolation(brief.workspace):
            process.condemn(OTHER_ISOLATION)
        if self._pool is None or not self._pool.take(process):
            raise EngineError(Failure("bad_request", IN_USE))
        self._assign(process, brief)
        return process

    async def _lease_again(self, brief: Brief, plan: Plan, dead: ClaudeProcess) -> ClaudeProcess:
        """Lease a process for one turn, after `dead` ended. A session without an ended turn cannot be resumed."""
        if dead.turns or (dead.launch.resumed and not brief.resume_at):
            brief = resuming(brief, dead.session, dead.launch.cwd)
        return await self._lease(brief, plan, self._new_uuid(), once=True)

    def _assign(self, process: ClaudeProcess, brief: Brief) -> None:
        site = self._site(brief, process.launch.cwd)
        site = msgspec.structs.replace(site, isolation=process.launch.isolation)
        process.owner = brief.session_id
        self._offered = process.models or self._offered
        self._commands[brief.workspace] = process.commands
        process.dialogue.gate.judge = partial(self._judge, site, self._permissions(brief))
        process.guarded = site.mode != "full-access"

    async def _give_back(self, process: ClaudeProcess, broken: bool) -> None:
        self._sessions.keep(process.session, process.settings)
        if self._pool is not None:
            await self._pool.give_back(process, broken=broken)
        else:
            process.stop()
            await process.ended.wait()

    def _confined(self, launch: Launch) -> Launch:
        return msgspec.structs.replace(launch, isolation=self._host.isolation(launch.workspace))

    def _expect_end(self, process: ClaudeProcess) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(process.expect_end)

    def _make(self, launch: Launch) -> ClaudeProcess:
        settings = self._sessions.of(launch.session, launch.cwd)
        return ClaudeProcess(
            self._launcher, launch, settings, self._host.log, self._wakes.begin, self._wakes.mark_taken
        )

    def _mode(self, brief: Brief) -> ApprovalMode:
        return "full-access" if self._config.dangerously_skip_permissions else brief.approval_mode

    def _site(self, brief: Brief, cwd: str) -> Site:
        """Return where calls are judged: the session's own folder counts as inside, like the workspace."""
        return msgspec.structs.replace(brief.site, mode=self._mode(brief), folders=(cwd,))

    def _permissions(self, brief: Brief) -> Permissions:
        return read_permissions(permissions_text(brief), self._config.tools or ())

    def _narrowed(self, brief: Brief, allowed: Permissions) -> tuple[ClaudeConfig, Brief]:
        if not allowed.without_servers:
            return self._config, brief
        return without_servers(self._config, brief, but=(OWN_SERVER,))

    async def _judge(self, site: Site, allowed: Permissions, ask: Ask) -> Ruling:
        """Deny what PERMISSIONS.json forbids, because `--tools` does not cover the tools of MCP servers; then ask the policy."""
        if why := allowed.forbids(str(ask.payload.get("tool") or "")):
            return Ruling("deny", why)
        return await self._host.judge(ask, site)

    def _cwd(self, brief: Brief) -> str:
        """Return the workspace, or a folder for this conversation alone, to which the workspace is added."""
        if not self._config.group_dirs:
            return brief.workspace
        folder = Path(
            self._host.state_dir, "groups", quote(brief.conversation_id or brief.session_id, safe="")
        )
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)
