"""The Codex engine: owns the app-server, leases sessions on it.

One app-server serves all sessions, but for each jailed workspace, which has one of its own. It is started when the first
session is opened, and again when it has died.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Self

from pilothouse.core.engine import (
    NODE_MARKER,
    Brief,
    EngineHost,
    FoundSession,
    Model,
    ProcessStart,
    SessionPoint,
    Wake,
)
from pilothouse.core.errors import EngineError
from pilothouse.core.event import Notice, ResumeToken
from pilothouse.core.isolation import OPEN, Isolation, Needs
from pilothouse.core.outcome import Failure
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.failures import explain_refusal
from pilothouse.engines.codex.home import key_names, make_home, user_home
from pilothouse.engines.codex.jail import address_words, listening_path, server_needs
from pilothouse.engines.codex.link import GREETING, CodexLink, CodexPort, WokenThread
from pilothouse.engines.codex.program import INSTALL, TESTED, explain_start, find_program
from pilothouse.engines.codex.prompt import PromptComposer
from pilothouse.engines.codex.server import server_folder
from pilothouse.engines.codex.session import Access, CodexSession, ThreadPlan
from pilothouse.engines.codex.thread_list import list_params, read_points, read_sessions, turns_params
from pilothouse.engines.codex.threads import is_free, is_thread_id, thread_params, turn_params
from pilothouse.engines.codex.translate import ENGINE_ID
from pilothouse.engines.codex.usage import PRICES
from pilothouse.engines.codex.woken import REASONS
from pilothouse.engines.link import EarlyEnd, LinkPlan
from pilothouse.engines.link_owner import LinkOwner
from pilothouse.engines.model_list import MOST, ModelList
from pilothouse.engines.permissions_file import judge_within, parse_permissions, render_note
from pilothouse.engines.program_status import explain_old
from pilothouse.engines.resume_lines import check_resume
from pilothouse.engines.wakes import WokenTurns
from pilothouse.engines.workspace_files import Context, ContextReader, permissions_text, render_context
from pilothouse.processes import BASE_NAMES, Launcher, ProcessLimits, StopDeadlines, allowed_environment
from pilothouse.processes.kept import Kept, find_kept

NO_SERVERS: Mapping[str, Any] = {}
MAX_LINE_BYTES = 96 * 1024 * 1024
"""Codex repeats a prompt with all its images in one line."""


def _new_uuid() -> str:
    return str(uuid.uuid4())


class CodexEngine(LinkOwner[CodexLink]):
    def __init__(
        self, config: CodexConfig, host: EngineHost, *, new_uuid: Callable[[], str] = _new_uuid
    ) -> None:
        super().__init__()
        self._config = config
        self._host = host
        self._new_uuid = new_uuid
        self._launcher = Launcher(host.jail)
        self._context = ContextReader(
            host.state_dir,
            base_files=config.context_files,
            prompt_is_set=bool(config.append_system_prompt),
        )
        self._folder = server_folder(host.state_dir)
        self._wakes = WokenTurns[WokenThread](ENGINE_ID, "Codex", REASONS, new_uuid, host.log)
        self._servers: dict[str, CodexLink] = {}
        """The server of each jailed workspace, and under no name the one of all others."""
        self._numbers: Iterator[int] = count(1)
        self._models = ModelList(Path(host.state_dir, "codex", "models.json"))

    async def __aenter__(self) -> Self:  # pyrefly: ignore[missing-override-decorator]
        """Adopt the app-server that a killed gateway left, or end it."""
        await super().__aenter__()
        if found := find_kept(self._folder):
            try:
                self._start(found=found)
            except EngineError:  # no server could be started either; a session is told why
                await found.end(StopDeadlines())
        return self

    def models(self) -> Sequence[Model]:
        """Return the configured model, then those that the last app-server offered."""
        return self._models.after(self._config.model)

    @asynccontextmanager
    async def open(self, brief: Brief) -> AsyncIterator[CodexSession]:
        check_resume(brief.resume, ENGINE_ID, "Codex", is_thread_id)
        if brief.resume_at and not is_thread_id(brief.resume_at):
            raise EngineError(Failure("bad_request", f"{brief.resume_at[:80]!r} is no turn of Codex."))
        context = self._context.gather(brief)
        session = self._session(brief, context)
        try:
            await session.enter()
            yield session
        finally:
            if context.bootstraps and session.completed:
                self._context.end_first_run(brief)
            await session.leave()

    def _session(self, brief: Brief, context: Context) -> CodexSession:
        config = self._config
        allowed = parse_permissions(permissions_text(brief))
        told = [Notice("warning", "context_files", text) for text in context.warnings]
        problem = (Notice("error", "permissions", allowed.problem),) if allowed.problem else ()
        instructions = (brief.system_prompt, config.append_system_prompt or "", render_context(context))
        plan = ThreadPlan(
            thread_params(config, brief, "\n\n".join(filter(None, instructions))),
            turn_params(config, brief),
            {**PRICES, **config.prices},
            problem if brief.resume else (*problem, *told),
            guarded=not is_free(brief),
        )
        host = self._host
        judge = judge_within(allowed, host.judge)
        settled = self._wakes.settled_stream(brief)
        woken = self._wakes.process_of(brief.wake) if brief.wake and not settled else None
        access = Access(
            self._lease,
            self._expect_end,
            host.blobs,
            judge,
            self._new_uuid,
            config.stop_grace_s,
            woken,
            settled,
        )
        uploads = host.uploads(brief.workspace)
        composer = PromptComposer(host.blobs, brief.workspace, render_note(allowed.note), uploads)
        return CodexSession(access, brief, plan, composer)

    def wakes(self) -> AsyncIterator[Wake]:
        return self._wakes.announce()

    async def sessions(self, workspace: str, *, trusted: bool = False) -> Sequence[FoundSession]:
        """Ask the app-server for the threads of a folder, whichever program began them."""
        reply = await self._ask("thread/list", list_params(workspace), workspace)
        return read_sessions(reply)

    async def points(self, token: ResumeToken) -> Sequence[SessionPoint]:
        """Ask the app-server for the turns of a thread."""
        reply = await self._ask("thread/turns/list", turns_params(token.value), token.cwd)
        return read_points(reply)

    async def _ask(self, method: str, params: dict[str, Any], workspace: str) -> dict[str, Any]:
        """Ask the app-server without a thread of our own; start one if none runs. Raises `EngineError`."""
        link = await self._ready(workspace)
        reply = await link.request(method, params, self._config.open_s)
        if reply.error is not None:
            raise EngineError(explain_refusal(reply.error.message))
        return reply.result

    async def _ready(self, workspace: str, servers: Mapping[str, Any] = NO_SERVERS) -> CodexLink:
        isolation = self._host.isolation(workspace) if workspace else OPEN
        own = workspace if isolation.confines else ""
        if link := self._servers.get(own):
            await self._end_others([link], isolation)
        link = self._servers.get(own)
        if link is None or not link.alive:
            link = self._start(isolation, jailed=own, servers=servers)
        try:
            await link.wait_ready()
        except EngineError as error:
            if link.found:  # it could not be adopted
                return await self._ready(workspace, servers)
            failure = explain_start(error.failure)
            if isinstance(error, EarlyEnd) and failure is error.failure:
                program = find_program(self._config.command, self._host.environment.get("PATH"))
                failure = await explain_old(failure, program, TESTED, INSTALL)
            raise EngineError(failure) from error
        return link

    async def _lease(self, brief: Brief) -> tuple[CodexLink, CodexPort]:
        name = f"{brief.session_id}.{next(self._numbers)}"
        while True:
            link = await self._ready(brief.workspace, brief.mcp_servers)
            if port := link.lease(name):
                return link, port

    def _start(
        self,
        isolation: Isolation = OPEN,
        found: Kept | None = None,
        jailed: str = "",
        servers: Mapping[str, Any] = NO_SERVERS,
    ) -> CodexLink:
        folder = server_folder(self._host.state_dir, jailed)
        plan = self._plan(folder, isolation, jailed, servers)
        link = CodexLink(plan, self._config.keep_s, folder, self._wake, found)
        self._servers[jailed] = self._begin(link, partial(self._learn_models, link), link.release_for_ever)
        return link

    def _wake(self, woken: WokenThread) -> Callable[[], None]:
        return partial(self._wakes.mark_taken, self._wakes.begin(woken).id)

    async def _learn_models(self, link: CodexLink) -> None:
        try:
            await link.wait_ready()
        except EngineError:
            return  # the session that started it is told
        if link.found:
            await link.wake_running()
        reply = await link.request("model/list", {"limit": MOST}, self._config.open_s)
        listed = reply.result.get("data")
        found = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        models = [
            Model(str(one.get("id")), str(one.get("displayName") or "")) for one in found if one.get("id")
        ]
        self._models.keep(models)

    def _plan(self, folder: Path, isolation: Isolation, jailed: str, servers: Mapping[str, Any]) -> LinkPlan:
        """Prepare our home, and return how to start the app-server. Raises `EngineError`."""
        config, source = self._config, self._host.environment
        program = find_program(config.command, source.get("PATH"))
        own, user = folder / "home", user_home(config.home, source)
        settings = make_home(user, own, shares_sessions=not jailed)
        names = [*BASE_NAMES, *key_names(settings), *config.environment]
        extra = {NODE_MARKER: self._host.node_marker, "CODEX_HOME": str(own)}
        words = address_words(settings) if jailed else []
        listening = listening_path(folder, jailed=bool(jailed))
        return LinkPlan(
            engine=ENGINE_ID,
            launcher=self._launcher,
            start=ProcessStart(
                "codex app-server",
                [program, *words, "app-server", "--listen", f"unix://{listening}"],
                jailed or self._host.state_dir,
                allowed_environment(source, names, extra),
                jailed,
                needs=server_needs(folder, user, settings, servers) if jailed else Needs(),
                isolation=isolation,
            ),
            grace_s=config.stop_grace_s,
            open_s=config.open_s,
            stall_s=config.stall_s,
            private=False,
            log=self._host.log,
            limits=ProcessLimits(max_line_bytes=MAX_LINE_BYTES),
            greeting=GREETING,
        )
