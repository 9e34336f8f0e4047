"""The OpenCode engine: owns the servers, leases sessions on them.

One server serves all folders that nobody trusts, and one all trusted ones: an untrusted folder's own settings must not
count, and OpenCode has that switch for a whole server. A jailed workspace has a server of its own. Each is started when the first session needs it, and again when it
has died.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
import msgspec

from pilothouse.core.engine import (
    PORT,
    Brief,
    EngineHost,
    FoundSession,
    Model,
    ProcessStart,
    SessionPoint,
)
from pilothouse.core.errors import EngineError
from pilothouse.core.event import Notice, ResumeToken
from pilothouse.core.ids import SessionId
from pilothouse.core.isolation import OPEN, Isolation, Needs
from pilothouse.engines.link import LinkPlan
from pilothouse.engines.link_owner import LinkOwner
from pilothouse.engines.model_list import ModelList
from pilothouse.engines.opencode.config import OpenCodeConfig, resolve
from pilothouse.engines.opencode.failures import explain_answer
from pilothouse.engines.opencode.jail import held_keys, server_needs, with_addresses
from pilothouse.engines.opencode.launch import check_folder, server_environment, write_gate
from pilothouse.engines.opencode.link import OpenCodeLink, OpenCodePort
from pilothouse.engines.opencode.message_ids import MessageIds, is_session_id
from pilothouse.engines.opencode.program import find_program
from pilothouse.engines.opencode.prompt import PromptComposer
from pilothouse.engines.opencode.session import Access, OpenCodeSession, SessionPlan
from pilothouse.engines.opencode.session_list import (
    MOST_SESSIONS,
    SESSIONS,
    SESSIONS_QUERY,
    read_points,
    read_sessions,
)
from pilothouse.engines.opencode.translate import ENGINE_ID
from pilothouse.engines.permissions_file import judge_within, parse_permissions, render_note
from pilothouse.engines.resume_lines import check_resume
from pilothouse.engines.workspace_files import Context, ContextReader, permissions_text, render_context
from pilothouse.processes import Launcher

Key = tuple[bool, str, tuple[tuple[str, str], ...]]
"""Trust, the workspace if it has a jail, and the variables of the workspace: a server has one environment."""
FOLDERS = "Besides the working directory, you may work in these folders: {folders}"
NO_SESSION = Brief(SessionId(""), "")
"""For a server that is only asked what it knows."""


class OpenCodeEngine(LinkOwner[OpenCodeLink]):
    def __init__(
        self, config: OpenCodeConfig, host: EngineHost, *, now: Callable[[], float] = time.time
    ) -> None:
        super().__init__()
        self._config = config = resolve(config, host.environment)
        self._host = host
        self._now = now
        self._new_id = MessageIds(now)
        self._launcher = Launcher(host.jail)
        self._added = [os.path.expanduser(one) for one in config.add_dirs]
        self._context = ContextReader(
            host.state_dir,
            base_files=config.context_files,
            prompt_is_set=bool(config.append_system_prompt),
        )
        self._servers: dict[Key, OpenCodeLink] = {}
        self._commands: dict[str, tuple[str, ...]] = {}
        """By workspace."""
        self._numbers: Iterator[int] = count(1)
        self._offered = ModelList(Path(host.state_dir, "opencode", "models.json"))

    async def __aexit__(  # pyrefly: ignore[missing-override-decorator]
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with anyio.CancelScope(shield=True):
            for link in self._links:
                await link.dispose()
        return await super().__aexit__(kind, error, trace)

    def models(self) -> Sequence[Model]:
        """Return the configured model, then those that the last server offered."""
        return self._offered.after(self._config.model)

    def commands(self, workspace: str) -> Sequence[str]:
        return self._commands.get(workspace, ()) if self._config.owner_commands else ()

    async def sessions(self, workspace: str, *, trusted: bool = False) -> Sequence[FoundSession]:
        """Ask a server for the sessions of a folder, whichever program began them."""
        told = await self._ask(workspace, SESSIONS, "list sessions", **SESSIONS_QUERY)
        return read_sessions(told, workspace)[:MOST_SESSIONS]

    async def points(self, token: ResumeToken) -> Sequence[SessionPoint]:
        """Ask a server for the prompts of a session."""
        return read_points(await self._ask(token.cwd, f"/session/{token.value}/message", "read the session"))

    @asynccontextmanager
    async def open(self, brief: Brief) -> AsyncIterator[OpenCodeSession]:
        check_resume(brief.resume, ENGINE_ID, "OpenCode", is_session_id)
        if not brief.trusted:
            check_folder(brief.workspace, self._host.environment.get("HOME", ""))
        context = self._context.gather(brief)
        session = self._session(brief, context)
        try:
            await session.enter()
            yield session
        finally:
            if context.bootstraps and session.completed:
                self._context.end_first_run(brief)
            await session.leave()

    def _session(self, brief: Brief, context: Context) -> OpenCodeSession:
        config, host = self._config, self._host
        allowed = parse_permissions(permissions_text(brief))
        told = [Notice("warning", "context_files", text) for text in context.warnings]
        problem = (Notice("error", "permissions", allowed.problem),) if allowed.problem else ()
        folders = FOLDERS.format(folders=", ".join(self._added)) if self._added else ""
        words = (brief.system_prompt, config.append_system_prompt or "", folders, render_context(context))
        sent = {"system": "\n\n".join(filter(None, words)), "agent": config.agent, "variant": config.variant}
        plan = SessionPlan(
            config.provider or "",
            brief.model or config.model or "",
            {key: value for key, value in sent.items() if value},
            config.max_retries,
            problem if brief.resume else (*problem, *told),
            guarded=brief.approval_mode != "full-access",
        )
        judge = judge_within(allowed, host.judge)
        access = Access(self._lease, host.blobs, judge, self._new_id, self._now, self._ask_aside)
        uploads, note = host.uploads(brief.workspace), render_note(allowed.note)
        composer = PromptComposer(host.blobs, brief.workspace, note, uploads, commands=config.owner_commands)
        return OpenCodeSession(access, brief, plan, composer)

    async def _ask(self, workspace: str, path: str, what: str, **query: str) -> Any:
        """Ask a server that runs, or else a new one. Raises `EngineError`."""
        own, _ = await self._confined(workspace)
        link = next((one for key, one in self._servers.items() if one.alive and key[1] == own), None)
        link = link or await self._server(msgspec.structs.replace(NO_SESSION, workspace=own))
        await link.wait_ready()
        answer = await link.api.get(path, **query)
        if not answer.ok:
            raise EngineError(explain_answer(answer.status, answer.value, what))
        return answer.value

    async def _lease(self, brief: Brief) -> tuple[OpenCodeLink, OpenCodePort]:
        name = f"{brief.session_id}.{next(self._numbers)}"
        while True:
            link = await self._server(brief)
            folder = await link.folder(brief.workspace)
            self._offered.keep(folder.models)
            self._commands[brief.workspace] = folder.commands
            if port := link.lease(name):
                return link, port

    def _ask_aside(
        self, link: OpenCodeLink, port: OpenCodePort, path: str, body: Any, directory: str
    ) -> None:
        assert self._tasks is not None, "a session is leased from an engine that runs"
        self._tasks.start_soon(link.run_aside, port, path, body, directory)

    async def _server(self, brief: Brief) -> OpenCodeLink:
        """Return a server that is ready, with the brief's trust and environment."""
        own, isolation = await self._confined(brief.workspace)
        key = (brief.trusted, own, tuple(sorted(brief.environment.items())))
        link = self._servers.get(key)
        if link is None or not link.alive:
            link = self._servers[key] = self._start(brief, isolation)
        await link.wait_ready()
        return link

    async def _confined(self, workspace: str) -> tuple[str, Isolation]:
        """Return the workspace if it has a jail, and so servers, of its own, else nothing; and the isolation of its servers. End
        those with another one."""
        isolation = self._host.isolation(workspace) if workspace else OPEN
        own = workspace if isolation.confines else ""
        await self._end_others([link for key, link in self._servers.items() if key[1] == own], isolation)
        return own, isolation

    def _start(self, brief: Brief, isolation: Isolation) -> OpenCodeLink:
        password = secrets.token_urlsafe(32)
        link = OpenCodeLink(self._plan(brief, isolation, password), password)
        return self._begin(link, link.listen)

    def _plan(self, brief: Brief, isolation: Isolation, password: str) -> LinkPlan:
        """Write the plugin, and return how to start a server. Raises `EngineError`."""
        config, host = self._config, self._host
        program = find_program(config.command, host.environment.get("PATH"))
        gate = write_gate(host.state_dir)
        environment = server_environment(
            config, host, password, gate, brief.environment, trusted=brief.trusted
        )
        jailed, keys = brief.workspace if isolation.confines else "", held_keys(environment)
        if jailed:
            environment = with_addresses(environment, keys)
        argv = [program, "serve", "--hostname", "127.0.0.1", "--port", PORT if jailed else "0"]
        needs = server_needs(gate, environment, brief, keys, self._added) if jailed else Needs()
        return LinkPlan(
            engine=ENGINE_ID,
            launcher=self._launcher,
            start=ProcessStart(
                "opencode serve",
                argv,
                jailed or str(gate.parent),
                environment,
                jailed,
                needs=needs,
                isolation=isolation,
            ),
            grace_s=config.stop_grace_s,
            open_s=config.open_s,
            stall_s=config.stall_s,
            private=False,
            log=host.log,
        )
