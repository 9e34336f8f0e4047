"""One leased session: turns in, events out.

Rules: once `run` has begun, a failure is an event. Every call is judged before it runs; one that ran unjudged ends the turn.
Model and system prompt go with every prompt, because OpenCode keeps the last model. `leave` frees everything in bounded
time, also when it is cancelled. A session whose server died goes on in the next one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
from msgspec import Struct

from pilothouse.core.ask import Decision
from pilothouse.core.call import OWN_SERVER
from pilothouse.core.engine import Blobs, Brief, Judge, Step
from pilothouse.core.errors import EngineError
from pilothouse.core.event import Notice, TurnEnded
from pilothouse.core.ids import AskId
from pilothouse.core.outcome import Failure
from pilothouse.core.text import without_ui_context
from pilothouse.core.turn import Prompt
from pilothouse.engines.dialogue import judge_in
from pilothouse.engines.link import Exit, explain_exit
from pilothouse.engines.opencode import wire
from pilothouse.engines.opencode.api import Answer
from pilothouse.engines.opencode.calls import own_server
from pilothouse.engines.opencode.dialogue import Dialogue
from pilothouse.engines.opencode.failures import explain_answer, explain_retry
from pilothouse.engines.opencode.folder import (
    Folder,
    add_server,
    dropped_servers,
    fork_session,
    read_state,
    remove_server,
)
from pilothouse.engines.opencode.link import OpenCodeLink, OpenCodePort
from pilothouse.engines.opencode.models import choose_model
from pilothouse.engines.opencode.prompt import Message, PromptComposer, command_body
from pilothouse.engines.opencode.rules import missing_rules, session_rules
from pilothouse.engines.opencode.translate import TurnTranslator
from pilothouse.engines.titles import one_line
from pilothouse.engines.turn_loop import TurnLoop

SETTLE_S = 0.3
"""Time for the rest of a turn that seems to be over, before the state is read again."""
ENDED_S = 2.0
LONGEST_WAIT_S = 120.0
"""A request that OpenCode would make again after a longer time ends the turn: it can be parked until then."""

LEAKS = Failure(
    "permission",
    "OpenCode ran a call without asking Pilothouse first, so the turn was stopped. Run `pilothouse doctor`.",
)
IN_USE = Failure(
    "bad_request",
    "This session is in use in another conversation. Wait for its turn to end, or start another one with /new.",
)
MAX_BROKEN_OFF = 2
BROKEN_OFF = Failure(
    "transport", "The model's answers broke off before their end, again and again, so the turn was stopped."
)
NO_MODEL = Failure(
    "auth",
    "OpenCode has no model to use.",
    fix="Run `opencode auth login` on {machine}, or name a model: `model` under `[engines.opencode]`",
)


class Access(Struct, frozen=True):
    """The part of the engine that a session uses."""

    lease: Callable[[Brief], Awaitable[tuple[OpenCodeLink, OpenCodePort]]]
    blobs: Blobs
    judge: Judge
    new_id: Callable[[], str]
    now: Callable[[], float]
    ask_aside: Callable[[OpenCodeLink, OpenCodePort, str, Any, str], None]
    """Sends a request whose answer comes at the turn's end; one that is refused, or was not sent, fails the turn."""


class SessionPlan(Struct, frozen=True):
    """Settings that go with every prompt, and notes for people at the start."""

    provider: str = ""
    model: str = ""
    extra: dict[str, Any] = {}
    max_retries: int = 5
    notices: tuple[Notice, ...] = ()
    guarded: bool = True
    """A call that was not judged ends the turn."""


class OpenCodeSession(TurnLoop[TurnTranslator]):
    accepts_images = True

    def __init__(self, access: Access, brief: Brief, plan: SessionPlan, composer: PromptComposer) -> None:
        super().__init__(access.blobs)
        self._access = access
        self._brief = brief
        self._plan = plan
        self._composer = composer
        self._id = brief.resume.value if brief.resume else ""
        self._fork_at = brief.resume_at if brief.resume else ""
        self._is_new = brief.resume is None
        self._model: dict[str, str] = {}
        self._folder = Folder()
        self._link: OpenCodeLink | None = None
        self._port: OpenCodePort | None = None
        self._dialogue: Dialogue | None = None
        self._notices: tuple[Notice, ...] = plan.notices

    async def interrupt(self) -> None:
        turn, link, port = self._turn, self._link, self._port
        if turn is None or turn.ended or link is None or port is None or not port.busy:
            return
        turn.interrupted = True
        await link.stop_turn(self._id)

    async def steer(self, prompt: Prompt) -> bool:
        turn, link = self._turn, self._link
        if turn is None or turn.ended or turn.interrupted or link is None:
            return False
        message, id = await self._composer.compose(prompt), self._access.new_id()
        turn.unread.add(id)
        answer = await self._prompt(link, id, message)
        if not answer.ok:
            turn.unread.discard(id)
        return answer.ok and not turn.ended

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        dialogue, link = self._dialogue, self._link
        if dialogue is None or link is None or (answer := dialogue.answer(ask_id, decision)) is None:
            return
        if answer.stops:  # not a refusal: after one, the caller of a sub-agent would go on
            await self.interrupt()
        else:
            await link.api.post(answer.reply.path, answer.reply.body, self._brief.workspace)

    async def enter(self) -> None:
        """Open the session on a living server. Raises `EngineError`."""
        brief = self._brief
        self._link, self._port = link, port = await self._access.lease(brief)
        self._folder = folder = await link.folder(brief.workspace)
        model = choose_model(self._plan.model or folder.default, self._plan.provider, folder.models)
        if model is None:
            raise EngineError(NO_MODEL)
        self._model = model
        await self._open(link, session_rules(folder.tools, folder.agents, free=not self._plan.guarded))
        if not link.bind(port, self._id, brief.workspace):
            raise EngineError(IN_USE)
        for name in dropped_servers(folder, brief.mcp_servers):
            await remove_server(link.api, brief.workspace, folder, name)
        for name, given in brief.mcp_servers.items():
            here = own_server(brief.session_id) if name == OWN_SERVER else name
            if why := await add_server(link.api, brief.workspace, folder, here, given):
                text = f"The MCP server {name} did not start; its tools are missing ({why})."
                self._notices = (*self._notices, Notice("warning", "mcp_server", text))

    async def leave(self) -> None:
        """Give the session back, after stopping a turn that still runs."""
        with anyio.CancelScope(shield=True):
            link, port = self._link, self._port
            if link is None or port is None:
                return
            port.mailbox.discard()
            if port.busy and link.alive:
                await self.interrupt()
                port.over.set()
            if OWN_SERVER in self._brief.mcp_servers and link.alive:
                name = own_server(self._brief.session_id)
                await remove_server(link.api, self._brief.workspace, self._folder, name)
            if not link.alive:
                await link.ended.wait()
            await link.give_back(port)
            self._link = self._port = None

    async def _open(self, link: OpenCodeLink, rules: list[dict[str, str]]) -> None:
        """Make the session, or find it; one that was forked or begun elsewhere gets our rules.

        A session that got them on this server is not looked at again: the request would delay every turn."""
        api, folder = link.api, self._brief.workspace
        if self._fork_at:
            self._id, self._fork_at = await fork_session(api, folder, self._id, self._fork_at), ""
        if self._id and link.rules.get(self._id) == rules:
            return
        if not self._id:
            answer = await api.post("/session", {"title": "Pilothouse", "permission": rules}, folder)
            self._id = str(answer.value.get("id") or "") if isinstance(answer.value, dict) else ""
        else:
            answer = await api.get(f"/session/{self._id}", folder)
            known = answer.value.get("permission") if isinstance(answer.value, dict) else None
            if answer.ok and (missing := missing_rules(known, rules)):
                answer = await api.patch(f"/session/{self._id}", {"permission": missing}, folder)
        if not answer.ok or not self._id:
            raise EngineError(explain_answer(answer.status, answer.value, "open the session"))
        link.note_rules(self._id, rules)

    async def _begin(self, prompt: Prompt) -> tuple[TurnTranslator, Sequence[Step]]:  # pyrefly: ignore[missing-override-decorator]
        message = await self._composer.compose(prompt, self._folder.commands)
        turn = self._turn = self._translator("")
        try:
            link = await self._ready()
            await self._name(link, prompt.text)
            answer = await self._start(link, message)
            if not answer.sent and await self._has_ended(link):  # since the last turn: nothing has begun
                answer = await self._start(await self._ready(), message)
        except EngineError as error:
            return turn, turn.fail(error.failure)
        turn = self._turn
        notices, self._notices = (*self._notices, *message.notices), ()
        opening = [*turn.begin(), *turn.emit(notices)]
        if answer.ok:
            return turn, opening
        return turn, [*opening, *turn.fail(await self._explain(answer))]

    async def _explain(self, answer: Answer) -> Failure:
        link = self._link
        if not answer.status and link is not None and await self._has_ended(link):
            return explain_exit(link.exit)
        return explain_answer(answer.status, answer.value, "take the prompt")

    async def _has_ended(self, link: OpenCodeLink) -> bool:
        """Tell whether a server that does not answer has ended; its reader notices a moment later."""
        with anyio.move_on_after(ENDED_S):
            await link.ended.wait()
        return link.ended.is_set()

    async def _start(self, link: OpenCodeLink, message: Message) -> Answer:
        """Send a prompt, with a new translator for its turn."""
        assert self._port is not None
        interrupted = self._turn is not None and self._turn.interrupted
        id = self._access.new_id()
        turn = self._turn = self._translator(id)
        turn.interrupted = interrupted
        judge, servers = judge_in(self._access.judge, link.isolation), self._folder.servers
        self._dialogue = Dialogue(turn, judge, self._brief, servers, guarded=self._plan.guarded)
        self._port.begin()
        return await self._prompt(link, id, message)

    async def _prompt(self, link: OpenCodeLink, id: str, message: Message) -> Answer:
        folder = self._brief.workspace
        if message.command and self._port is not None:
            found = await link.api.get(f"/session/{self._id}", folder)
            if not found.ok:  # the command's own answer would come too late to try again
                return found
            body = command_body(id, message, self._model, self._plan.extra)
            self._access.ask_aside(link, self._port, f"/session/{self._id}/command", body, folder)
            return Answer(202)
        body = {"messageID": id, "parts": message.parts, "model": self._model, **self._plan.extra}
        return await link.api.post(f"/session/{self._id}/prompt_async", body, folder)

    async def _name(self, link: OpenCodeLink, text: str) -> None:
        """Give a new session a title: OpenCode would ask the model for one."""
        if self._is_new:
            self._is_new = False
            title = one_line(without_ui_context(text)) or "Pilothouse"
            await link.api.patch(f"/session/{self._id}", {"title": title}, self._brief.workspace)

    def _translator(self, id: str) -> TurnTranslator:
        model = "/".join(self._model.values())
        return TurnTranslator(self._id, id, model=model, cwd=self._brief.workspace)

    async def _ready(self) -> OpenCodeLink:
        """Return a living server on which this session is open."""
        if self._link is None or not self._link.alive:
            await self.leave()
            await self.enter()
        assert self._link is not None
        return self._link

    async def _next(self, turn: TurnTranslator) -> Sequence[Step]:  # pyrefly: ignore[missing-override-decorator]
        assert self._port is not None and self._link is not None
        item: wire.Heard | Exit | Failure | None = None
        with anyio.move_on_after(SETTLE_S if turn.in_doubt else None) as waiting:
            item = await self._port.mailbox.get()
        if waiting.cancelled_caught:
            return await self._settle(turn)
        match item:
            case Exit() as last:
                return turn.end(last)
            case None:  # the session is left while it is read
                return turn.end(Exit())
            case Failure() as failure:
                await self.interrupt()
                return turn.fail(failure)
            case wire.Reconnected():
                return [*turn.take(item), *await self._read_again(turn)]
            case heard:
                return await self._hear(turn, heard)

    async def _hear(self, turn: TurnTranslator, heard: wire.Heard) -> Sequence[Step]:
        assert self._dialogue is not None
        match heard:
            case wire.PermissionAsked() | wire.QuestionAsked():
                return await self._consider(heard)
            case wire.Settled(request_id=id):
                return self._dialogue.settle(id)
            case wire.StatusChanged(status=status):
                await self._watch(turn, status)
            case _:
                pass
        if self._dialogue.leaks(heard):
            await self.interrupt()
            return turn.fail(LEAKS)
        steps = [*turn.take(heard)]
        if turn.broken_off > MAX_BROKEN_OFF and turn.failure is None:
            await self._give_up(turn, BROKEN_OFF)
        ready = self._dialogue.ready(heard)
        return [*steps, *(await self._consider(ready) if ready else ())]

    async def _watch(self, turn: TurnTranslator, status: wire.Status) -> None:
        """Stop a turn that began after it was stopped, and one whose requests fail again and again."""
        assert self._link is not None
        if status.type == "busy" and turn.interrupted:
            await self._link.stop_turn(self._id)
        if status.type == "retry" and turn.failure is None:
            now = self._access.now()
            if status.attempt > self._plan.max_retries or status.next / 1000 - now > LONGEST_WAIT_S:
                await self._give_up(turn, explain_retry(status, now))

    async def _give_up(self, turn: TurnTranslator, why: Failure) -> None:
        assert self._link is not None
        turn.failure = why
        await self._link.stop_turn(self._id)

    async def _consider(self, request: wire.PermissionAsked | wire.QuestionAsked) -> Sequence[Step]:
        """Judge a request: answer it at once, or ask."""
        assert self._link is not None and self._dialogue is not None
        considered = await self._dialogue.consider(request)
        if considered.reply is not None:
            await self._link.api.post(considered.reply.path, considered.reply.body, self._brief.workspace)
        return considered.steps

    async def _settle(self, turn: TurnTranslator) -> Sequence[Step]:
        """Read the state again: the turn seems to be over, and its end did not come."""
        turn.in_doubt = False
        steps = await self._read_again(turn)
        return [*steps, *(turn.close() if turn.in_doubt else ())]

    async def _read_again(self, turn: TurnTranslator) -> Sequence[Step]:
        assert self._link is not None and self._port is not None and self._dialogue is not None
        link, port, steps = self._link, self._port, list[Step]()
        heard = await read_state(link.api, self._brief.workspace, self._id)
        asked = [one for one in heard if isinstance(one, wire.PermissionAsked | wire.QuestionAsked)]
        if heard:
            steps += self._dialogue.keep([one.id for one in asked])
        for one in heard:
            ours = not isinstance(one, wire.PermissionAsked | wire.QuestionAsked) or link.is_bound(
                one.session_id, port
            )
            if ours and not turn.ended:
                steps += await self._hear(turn, one)
        return steps

    def _note_end(self, turn: TurnTranslator, end: TurnEnded) -> None:  # pyrefly: ignore[missing-override-decorator]
        if self._port is not None:
            self._port.over.set()
