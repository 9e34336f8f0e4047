"""The native engine: the histories of its sessions, its connections to models, and the tasks that run turns."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from msgspec.structs import replace

from pilothouse.core.engine import NODE_MARKER, Brief, EngineHost, FoundSession, Model, SessionPoint
from pilothouse.core.errors import EngineError
from pilothouse.core.event import Notice, ResumeToken
from pilothouse.core.ids import EngineId
from pilothouse.core.mcp import McpTools
from pilothouse.core.outcome import Failure
from pilothouse.engines.native.agent import AgentPlan, Speaker
from pilothouse.engines.native.config import NativeConfig, with_project
from pilothouse.engines.native.context import Instructions, gather_instructions
from pilothouse.engines.native.first_run import Asker, FirstRun, NoKey, Tell
from pilothouse.engines.native.history import Begun, History
from pilothouse.engines.native.key_file import Kept, KeyFile, with_kept
from pilothouse.engines.native.login import OPENAI, LoginFailed, LoginRefused, OAuthServer, is_old, renew
from pilothouse.engines.native.models import MAX_BYTES, ModelCatalogue, ModelFacts
from pilothouse.engines.native.outputs import Outputs
from pilothouse.engines.native.prompt import PromptComposer
from pilothouse.engines.native.providers import Target, choose_provider, choose_target, is_here, split_model
from pilothouse.engines.native.run_log import DAY_S, RunLog, prune
from pilothouse.engines.native.servers import Servers
from pilothouse.engines.native.session import Access, NativeSession
from pilothouse.engines.native.session_files import fork_session, list_points, list_sessions
from pilothouse.engines.native.tools.tool import Workbench
from pilothouse.engines.native.web_search import search_server
from pilothouse.engines.permissions_file import judge_within, parse_permissions, render_note
from pilothouse.engines.resume_lines import check_resume, is_uuid
from pilothouse.engines.workspace_files import Context, ContextReader, permissions_text, render_context
from pilothouse.processes import BASE_NAMES, Launcher, allowed_environment

if TYPE_CHECKING:
    from pilothouse.http.client import HttpClient

ENGINE_ID = EngineId("native")
SESSIONS = "sessions"
LAST_REQUEST = "last-request-digests"
MODELS_URL = "https://models.dev/api.json"
LOOK_UP_S = 15.0
MAX_MODELS = 100
NOT_RUNNING = Failure("bad_request", "The engine is not running; enter it first.")
IN_USE = Failure(
    "bad_request",
    "This session is in use in another conversation. Wait for its turn to end, or start another one with /new.",
)


class NativeEngine:
    def __init__(
        self,
        config: NativeConfig,
        host: EngineHost,
        *,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        models_url: str = MODELS_URL,
        oauth: OAuthServer = OPENAI,
    ) -> None:
        self._config = config
        self._host = host
        self._now = now
        self._sleep = sleep
        self._models_url = models_url
        self._oauth = oauth
        self._key_file = KeyFile(host.state_dir)
        self._launcher = Launcher(host.jail)
        self._catalogue = ModelCatalogue(host.state_dir)
        self._context = ContextReader(
            host.state_dir, base_files=config.context_files, prompt_is_set=bool(config.append_system_prompt)
        )
        self._servers = Servers(host.open_mcp)
        self._tasks: TaskGroup | None = None
        self._connections = AsyncExitStack()
        self._clients: dict[bool, HttpClient] = {}
        self._in_use: set[str] = set()
        self._looked_up: set[str] = set()

    async def __aenter__(self) -> Self:
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._prune_forever)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        tasks, self._tasks = self._tasks, None
        assert tasks is not None, "an engine is left once"
        tasks.cancel_scope.cancel()
        try:
            if isinstance(error, Exception):  # a task group would wrap the caller's own error
                await tasks.__aexit__(None, None, None)
                return None
            return await tasks.__aexit__(kind, error, trace)
        finally:
            with anyio.CancelScope(shield=True):
                await self._connections.aclose()

    async def _prune_forever(self) -> None:
        """Delete old logs of turns, daily."""
        while True:
            await run_sync(prune, self._root, self._now() - self._host.retention_days * DAY_S)
            await anyio.sleep(DAY_S)

    def models(self) -> Sequence[Model]:
        """Return the configured models, then those of the provider, newest first."""
        config = with_kept(self._config, self._key_file.read())
        provider = choose_provider(config)
        names = [name for name in (config.model, config.fallback_model) if name]
        listed = self._catalogue.newest(provider) if provider else []
        known = {name: Model(name) for name in names} | {model.name: model for model in listed}
        shown = list(known.values())[:MAX_MODELS]
        return tuple(replace(one, provider=split_model(one.name, provider)[0] or "") for one in shown)

    async def sessions(self, workspace: str, *, trusted: bool = False) -> Sequence[FoundSession]:
        return await run_sync(list_sessions, self._root, ENGINE_ID, workspace)

    async def points(self, token: ResumeToken) -> Sequence[SessionPoint]:
        check_resume(token, ENGINE_ID, "the native engine", is_uuid)
        return await run_sync(list_points, self._root / token.value)

    @property
    def _root(self) -> Path:
        return Path(self._host.state_dir, SESSIONS)

    @asynccontextmanager
    async def open(self, brief: Brief) -> AsyncIterator[NativeSession]:
        check_resume(brief.resume, ENGINE_ID, "the native engine", is_uuid)
        if self._tasks is None:
            raise EngineError(NOT_RUNNING)
        if brief.resume and brief.resume_at:
            copy = await run_sync(fork_session, self._root, brief.resume.value, brief.resume_at)
            brief = replace(brief, resume=replace(brief.resume, value=copy), resume_at="")
        history = self._history(brief)
        name = history.folder.name
        if name in self._in_use:
            raise EngineError(IN_USE)
        self._in_use.add(name)
        try:
            context = self._context.gather(brief)
            async with self._servers.lease(brief, self._tasks) as servers:
                session = self._session(brief, context, history, servers)
                try:
                    yield session
                finally:
                    if context.bootstraps and session.completed:
                        self._context.end_first_run(brief)
                    await session.leave()
        finally:
            self._in_use.discard(name)

    async def _targets(self, config: NativeConfig, brief: Brief) -> list[Target]:
        """Return the model's target and the fallback's. Raises `EngineError`; `NoKey` if a person can give one."""
        kept = await self._renewed(self._key_file.read())
        config, environment = with_kept(config, kept), self._host.environment
        first = choose_target(config, brief.model, environment, kept.login)
        if isinstance(first, Failure):
            configured = choose_provider(config)
            chosen, model = split_model(brief.model or config.model or "", configured)
            if first.kind == "auth":
                raise NoKey(first, chosen, "" if configured in (None, chosen) else model)
            raise EngineError(first)
        wanted = config.fallback_model
        other = choose_target(config, wanted, environment, kept.login) if wanted else None
        return [first, other] if isinstance(other, Target) else [first]

    async def _renewed(self, kept: Kept) -> Kept:
        """Renew a login whose token ends soon. One that OpenAI refuses to renew is forgotten; if nobody answers, it is used as it is."""
        if kept.login is None or not is_old(kept.login, self._now()):
            return kept
        from pilothouse.http.client import open_http

        async def renew_once(now: Kept) -> Kept:
            if now.login is None or not is_old(now.login, self._now()):
                return now
            try:
                async with open_http(direct=is_here(self._oauth.issuer)) as http:
                    return replace(now, login=await renew(http, self._oauth, now.login, self._now()))
            except LoginRefused as error:
                self._host.log("native.login_refused", level="warning", problem=str(error))
                return replace(now, login=None)

        try:
            return await self._key_file.renew(renew_once)
        except (LoginFailed, OSError) as error:
            self._host.log("native.login_not_renewed", level="warning", problem=str(error))
            return kept

    def _history(self, brief: Brief) -> History:
        """Return the history that the brief resumes, or a new one. Raises `EngineError`."""
        name = brief.resume.value if brief.resume else str(uuid.uuid4())
        history = History(self._root / name)
        if brief.resume is not None:
            history.load()
            return history
        try:
            history.add(Begun(brief.workspace, self._now()))
        except OSError as error:
            text = f"The folder {history.folder} cannot be written: {error.strerror}. Make room on the disk."
            raise EngineError(Failure("crash", text)) from error
        return history

    def _session(self, brief: Brief, context: Context, history: History, servers: McpTools) -> NativeSession:
        host = self._host
        config, ignored = with_project(self._config, brief.preferences)
        allowed = parse_permissions(permissions_text(brief))
        told = gather_instructions(config, brief, render_context(context), host.environment)
        problems = (
            *([Notice("error", "permissions", allowed.problem)] if allowed.problem else ()),
            *(Notice("warning", "context_files", text) for text in context.warnings if not brief.resume),
            *(Notice("warning", "skills", text) for text in told.problems if not brief.resume),
            *(Notice("warning", "project", text) for text in ignored if not brief.resume),
        )
        access = Access(
            self._start,
            lambda: self._plan(config, brief, told),
            self._first_run,
            self._key_file.reject,
            judge_within(allowed, host.judge),
            servers,
            self._servers.new_problems,
            lambda: self._open_log(brief, history),
            host.log,
            self._now,
        )
        composer = PromptComposer(host.blobs, brief.workspace, history, render_note(allowed.note))
        token = ResumeToken(ENGINE_ID, history.folder.name, brief.workspace)
        return NativeSession(
            access, brief, token, self._bench(config, brief, told, history), composer, problems
        )

    def _bench(self, config: NativeConfig, brief: Brief, told: Instructions, history: History) -> Workbench:
        extra = {NODE_MARKER: self._host.node_marker, **brief.environment}
        names = [*BASE_NAMES, *self._config.environment]
        return Workbench(
            os.path.realpath(brief.workspace),
            allowed_environment(self._host.environment, names, extra),
            self._launcher,
            brief.trusted,
            history,
            Outputs(history.folder / "outputs"),
            told.skills,
            told.agents_root,
            self._host.lanes,
            brief.approval_mode,
            search_server(config.search, self._host.environment),
        )

    def _start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._tasks is None:
            raise EngineError(NOT_RUNNING)
        self._tasks.start_soon(run)

    def _open_log(self, brief: Brief, history: History) -> RunLog:
        config, name = self._config, brief.turn_id or f"{brief.session_id}-{uuid.uuid4().hex[:8]}"
        dumps = config.provider_log_dir or ""
        log = self._host.log if config.provider_log else None
        return RunLog(self._root, name, self._now(), dumps, log, history.folder / LAST_REQUEST)

    def _first_run(self, asker: Asker, tell: Tell, withdraw: Callable[[str], Awaitable[None]]) -> FirstRun:
        return FirstRun(self._key_file, self._catalogue.newest, self._oauth, self._now, tell, withdraw, asker)

    async def _plan(self, config: NativeConfig, brief: Brief, told: Instructions) -> AgentPlan:
        from pilothouse.engines.native.api import ModelApi

        speakers = [
            Speaker(
                ModelApi(await self._client(target), target, wait_s=self._config.wait_s, now=self._now),
                await self._facts(target),
            )
            for target in await self._targets(config, brief)
        ]
        return AgentPlan(config, brief, told.system, tuple(speakers), self._sleep, self._now)

    async def _client(self, target: Target) -> HttpClient:
        """Return the client for a target; one without a proxy if it is on this machine."""
        from pilothouse.http.client import open_http

        here = is_here(target.base_url)
        if here not in self._clients:
            self._clients[here] = await self._connections.enter_async_context(open_http(direct=here))
        return self._clients[here]

    async def _facts(self, target: Target) -> ModelFacts:
        """Return what is known about a model. One that is not listed is looked up once."""
        provider = target.provider.name
        facts = self._catalogue.find(provider, target.model)
        if facts or provider == "compatible" or target.title in self._looked_up:
            return facts or ModelFacts()
        self._looked_up.add(target.title)
        return await self._look_up(target) or ModelFacts()

    async def _look_up(self, target: Target) -> ModelFacts | None:
        from pilothouse.http.client import Reply, open_http

        async with open_http() as http:
            reply = await http.ask(
                "GET", self._models_url, limit=MAX_BYTES, wait_s=LOOK_UP_S, whole_s=LOOK_UP_S
            )
        if not isinstance(reply, Reply) or reply.status != 200:
            return None
        return self._catalogue.keep(target.provider.name, target.model, reply.data)
