"""One leased session: turns in, events out.

Rules: once `run` has begun, a failure is an event. Where calls are judged, one that ran without an ask, and that no rule
allows, ends the turn; so does an agent that leaves the mode in which it asks. Words for the model (why a call was denied) are
steered into the turn, or follow it in a prompt of their own. `leave` frees everything in bounded time, also when it is cancelled.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio
from msgspec import Struct

from pilothouse.core.ask import Decision
from pilothouse.core.call import OWN_SERVER
from pilothouse.core.engine import Blobs, Brief, Judge, Step
from pilothouse.core.errors import EngineError
from pilothouse.core.event import Notice, ResumeToken, TurnEnded
from pilothouse.core.ids import AskId, EngineId
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.acp import wire
from pilothouse.engines.acp.agents import Agent
from pilothouse.engines.acp.asks import CANCELLED, Permission, read_elicitation, read_permission, tool_update
from pilothouse.engines.acp.calls import Tool
from pilothouse.engines.acp.link import AcpLink
from pilothouse.engines.acp.prompt import Blocks, PromptComposer, text_block
from pilothouse.engines.acp.session_open import unreachable_servers
from pilothouse.engines.acp.translate import TurnTranslator
from pilothouse.engines.dialogue import Considered, Pending, Requests, judge_in
from pilothouse.engines.jsonrpc import Noise, Reply, Request
from pilothouse.engines.link import Exit
from pilothouse.engines.turn_loop import TurnLoop

LEAKS = (
    "{program} ran a call without asking Pilothouse first, and no rule allows it, so the turn was stopped: {title}. "
    "Use {program} in full access, or another engine."
)
OTHER_MODE = (
    "{program} switched to its mode “{mode}”, in which it does not ask before calls, so the turn was stopped."
)
NO_HTTP = "{program} takes no MCP servers by HTTP, so these are left out: {names}."
ONLY_ALWAYS = "The agent offers no way to allow this call once, so it was not allowed."


class Access(Struct, frozen=True):
    """The part of the engine that a session uses. `lease` returns a process on which the session is open."""

    lease: Callable[[str], Awaitable[AcpLink]]
    give_back: Callable[[AcpLink, bool], Awaitable[None]]
    watch: Callable[[AcpLink], None]
    blobs: Blobs
    judge: Judge
    new_id: Callable[[], str]
    log: Callable[..., None]
    steer_s: float


class AcpSession(TurnLoop[TurnTranslator]):
    """`guarded`: calls are judged."""

    def __init__(
        self,
        engine: EngineId,
        agent: Agent,
        access: Access,
        brief: Brief,
        composer: PromptComposer,
        notices: Sequence[Notice],
        *,
        guarded: bool,
    ) -> None:
        super().__init__(access.blobs)
        self._engine = engine
        self._agent = agent
        self._access = access
        self._brief = brief
        self._composer = composer
        self._notices = tuple(notices)
        self._guarded = guarded
        self._session = brief.resume.value if brief.resume else ""
        self._link: AcpLink | None = None
        self._requests: Requests | None = None
        self._id = ""
        self._words: list[str] = []
        """Words for the model that wait for the end of the prompt."""
        self._must_follow = False
        """A person wrote some of them."""
        self._broken = False

    @property
    def accepts_images(self) -> bool:
        return self._link is not None and self._link.abilities.images

    async def interrupt(self) -> None:
        turn, link, requests = self._turn, self._link, self._requests
        if turn is None or turn.ended or link is None or requests is None or not link.port.busy:
            if turn is not None:
                turn.interrupted = True
            return
        turn.interrupted = True
        self._access.watch(link)
        await link.cancel()
        for pending in requests.pending:
            if pending.left:
                await link.answer(pending.request, pending.stop())

    async def steer(self, prompt: Prompt) -> bool:
        turn, link = self._turn, self._link
        if turn is None or turn.ended or turn.interrupted or link is None or not link.abilities.steering:
            return False
        message = await self._composer.compose(prompt, images=link.abilities.images)
        return await self._push(message.blocks)

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        requests, link = self._requests, self._link
        if requests is None or link is None or (answer := requests.answer(ask_id, decision)) is None:
            return
        if answer.words:
            self._must_follow = True
            await self._tell(answer.words)
        if answer.stops:
            await self.interrupt()
        if answer.request is not None:
            await link.answer(answer.request, answer.reply)

    async def enter(self) -> None:
        """Open the session on a process of its own. Raises `EngineError`."""
        self._link = await self._access.lease(self._session)
        self._session = self._link.session
        if names := unreachable_servers(self._brief.mcp_servers, http=self._link.abilities.http):
            text = NO_HTTP.format(program=self._agent.title, names=", ".join(names))
            self._notices = (*self._notices, Notice("warning", "mcp_server", text))

    async def leave(self) -> None:
        """Give the session back, after stopping a turn that still runs."""
        with anyio.CancelScope(shield=True):
            link, self._link = self._link, None
            if link is None:
                return
            link.port.mailbox.discard()
            if link.port.busy:
                await link.cancel()
                await link.expect_end(link.port)
                self._broken = self._broken or self._agent.leaves_commands
            await self._access.give_back(link, self._broken)

    async def _begin(self, prompt: Prompt) -> tuple[TurnTranslator, Sequence[Step]]:  # pyrefly: ignore[missing-override-decorator]
        turn = self._turn = self._translator()
        try:
            link = await self._ready()
        except EngineError as error:
            return turn, turn.fail(error.failure)
        may_command = prompt.commands and prompt.text.startswith("/")
        offered = await link.offered_commands() if may_command else ()
        message = await self._composer.compose(prompt, images=link.abilities.images, commands=offered)
        interrupted = turn.interrupted
        turn = self._turn = self._translator()
        self._requests = Requests(turn, judge_in(self._access.judge, link.isolation), self._brief)
        self._id, self._must_follow = self._access.new_id(), False
        self._words.clear()
        notices, self._notices = (*self._notices, *message.notices), ()
        await link.prompt(message.blocks)
        if interrupted or turn.interrupted:
            await self.interrupt()
        return turn, [*turn.begin(), *turn.emit(notices)]

    def _translator(self) -> TurnTranslator:
        link = self._link
        return TurnTranslator(
            self._agent,
            ResumeToken(self._engine, self._session, self._brief.workspace),
            model=link.model if link else "",
            spent=link.cost if link else 0.0,
            counted=link.counted if link else None,
        )

    async def _ready(self) -> AcpLink:
        """Return a living process on which this session is open and idle."""
        if self._link is not None and self._link.port.busy:
            await self._link.expect_end(self._link.port)
        if self._link is None or not self._link.alive:
            await self.leave()
            await self.enter()
        assert self._link is not None
        return self._link

    async def _next(self, turn: TurnTranslator) -> Sequence[Step]:  # pyrefly: ignore[missing-override-decorator]
        link, requests = self._link, self._requests
        assert link is not None and requests is not None
        match await link.port.mailbox.get():
            case Exit() as last:
                return turn.end(last)
            case None:  # the session is left while it is read
                return turn.end(Exit())
            case Failure() as failure:
                await self.interrupt()
                return turn.fail(failure)
            case Reply() as reply:
                return await self._end_prompt(turn, reply)
            case Request() as request:
                return await self._consider(turn, request)
            case Noise() as noise:
                return turn.hear_noise(noise)
            case wire.Told(update=update):
                steps = turn.take(update)
                problem = await self._problem(turn, update)
                if problem:
                    await self.interrupt()
                    return [*steps, *turn.fail(Failure("permission", problem))]
                return steps
            case _:
                return ()

    async def _end_prompt(self, turn: TurnTranslator, reply: Reply) -> Sequence[Step]:
        """End the turn, or give the model the words that wait for it."""
        link, requests = self._link, self._requests
        assert link is not None and requests is not None
        left = [id for pending in requests.pending for id in pending.left]
        withdrawn = turn.withdraw(left)
        goes_on = self._words and (self._must_follow or turn.quiet_since_no)
        if not goes_on or turn.interrupted or reply.error is not None:
            return [*withdrawn, *turn.close(reply)]
        turn.count(reply)
        words = "\n\n".join(self._words)
        self._words.clear()
        self._must_follow = False
        await link.prompt([text_block(words)])
        return withdrawn

    async def _consider(self, turn: TurnTranslator, request: Request) -> Sequence[Step]:
        """Judge a request: answer it at once, or ask."""
        link, requests = self._link, self._requests
        assert link is not None and requests is not None
        if turn.interrupted:
            await link.refuse(request)
            return ()
        seen, pending = self._read(turn, request)
        if pending is None:
            await link.refuse(request)
            return seen
        considered = await requests.consider(pending)
        # Allowed, but the agent offers that only for all later calls too.
        if considered.reply == CANCELLED and not considered.words:
            turn.denials[pending.item_id] = ONLY_ALWAYS
            considered = Considered(considered.reply, ONLY_ALWAYS, considered.steps)
        if considered.words:
            turn.quiet_since_no = True
            await self._tell(considered.words)
        if considered.reply is not None:
            await link.answer(request, considered.reply)
        return [*seen, *considered.steps]

    def _read(self, turn: TurnTranslator, request: Request) -> tuple[Sequence[Step], Pending | None]:
        """Return the call that a request shows for the first time, and the request; None for one that is not understood."""
        id = f"{self._id}:{request.id}"
        if request.method == wire.ELICITATION:
            return (), read_elicitation(request, id)
        update = tool_update(request) if request.method == wire.PERMISSION else None
        if update is None:
            return (), None
        steps = turn.take_call(update)
        tool = turn.tools[update.tool_call_id]
        return steps, self._permission(turn, request, tool, id, always=not self._guarded)

    def _permission(
        self, turn: TurnTranslator, request: Request, tool: Tool, id: str, *, always: bool = False
    ) -> Permission:
        own = OWN_SERVER in self._brief.mcp_servers
        return read_permission(request, tool, id, turn.cwd, turn.agent, always=always, own=own)

    async def _problem(self, turn: TurnTranslator, update: wire.Update) -> str:
        """Return why the turn must be stopped after an update; empty if it need not."""
        link, requests, program = self._link, self._requests, self._agent.title
        assert link is not None and requests is not None
        if not self._guarded or turn.interrupted:
            return ""
        if self._agent.mode and link.mode and link.mode != self._agent.mode:
            return OTHER_MODE.format(program=program, mode=link.mode)
        tool = turn.tools.get(update.tool_call_id)
        if tool is None or tool.status != "completed" or tool.id in requests.judged:
            return ""
        requests.judged.add(tool.id)
        unasked = self._permission(turn, Request(0, wire.PERMISSION, {}), tool, "")
        ruling = await self._access.judge(unasked.asks[0], self._brief.site)
        if ruling.outcome == "allow":
            return ""
        self._access.log(
            "acp.call_unasked", level="warning", engine=self._engine, tool=tool.name or tool.kind
        )
        return LEAKS.format(program=program, title=unasked.asks[0].title.splitlines()[0])

    async def _tell(self, words: str) -> None:
        """Give words to the model: now, where the agent takes them, else when its prompt has ended."""
        link = self._link
        if link is not None and link.abilities.steering and await self._push([text_block(words)]):
            return
        self._words.append(words)

    async def _push(self, blocks: Blocks) -> bool:
        link = self._link
        if link is None:
            return False
        params = {"sessionId": link.session, "prompt": blocks}
        reply = await link.request("_session/steering", params, self._access.steer_s)
        return reply.error is None and reply.result.get("outcome") == "injected"

    def _note_end(self, turn: TurnTranslator, end: TurnEnded) -> None:  # pyrefly: ignore[missing-override-decorator]
        if self._link is not None:
            self._link.cost, self._link.counted = turn.spent, turn.counted
        if end.outcome != "completed" and self._agent.leaves_commands:
            self._broken = True
