"""The agent's loop: ask the model, run its calls, until it has nothing more to do.

Each step is in the history before it is acted upon. Words that arrive meanwhile are in the history, too, and reach the
model with the next request.
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.lowlevel import checkpoint
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.core.engine import Brief
from pilothouse.core.event import Notice
from pilothouse.core.outcome import Failure
from pilothouse.engines.native import compaction
from pilothouse.engines.native.call_run import CallRunner
from pilothouse.engines.native.config import NativeConfig
from pilothouse.engines.native.dialects.dialect import Reply
from pilothouse.engines.native.failures import Problem
from pilothouse.engines.native.history import History, LeftOut
from pilothouse.engines.native.images import newest_images, without_images
from pilothouse.engines.native.messages import (
    Image,
    Message,
    ModelCall,
    Piece,
    Replied,
    Said,
    Text,
    with_own_ids,
)
from pilothouse.engines.native.models import ModelFacts
from pilothouse.engines.native.outputs import trim
from pilothouse.engines.native.providers import Target
from pilothouse.engines.native.turn import NativeTurn

if TYPE_CHECKING:
    from pilothouse.engines.native.api import ModelApi

SUM_UP = (
    "You have made as many calls as one turn may make. Make no more; sum up what was done and what is left."
)
COMPACTING = Notice("info", "compaction", "Compacting the conversation…")
COMPACTED = Notice("info", "compacted", "The conversation was compacted.")
DROPPED = (
    "The conversation was too long, and its old part was dropped without a summary: {why} The goals, the list of things to do "
    "and your newest messages were kept."
)
WROTE_NOTHING = "The model wrote no summary."
NOT_COMPACTED = "The conversation could not be compacted, and goes on as it is: {why}"
CUT = Notice("warning", "reply_cut", "The model's reply was cut: it reached max_output_tokens.")
REFUSED = Notice("warning", "model_refused", "The model's provider stopped this reply by its own rules.")
SILENT = Notice("warning", "model_silent", "The model answered nothing.")
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 8.0
SUMMARY_TOKENS = 8000
MOST_BROKEN = 2


class TurnFailed(Exception):
    """`refused_key`: the provider itself does not accept the key."""

    def __init__(self, failure: Failure, *, refused_key: bool = False) -> None:
        super().__init__(failure.text)
        self.failure = failure
        self.refused_key = refused_key


class Speaker(Struct, frozen=True):
    """A model that can be asked."""

    api: ModelApi
    facts: ModelFacts


class AgentPlan(Struct, frozen=True):
    config: NativeConfig
    brief: Brief
    system: str
    speakers: tuple[Speaker, ...]
    """The chosen model, and the fallback."""
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], float]


class Agent:
    def __init__(self, plan: AgentPlan, history: History, turn: NativeTurn, calls: CallRunner) -> None:
        self._plan = plan
        self._history = history
        self._turn = turn
        self._calls = calls
        self._speaker, *self._others = plan.speakers
        self._tokens = history.conversation.tokens
        self._requests = self._broken = 0
        self._overflowed = False
        self._paused = False
        self._left_out: frozenset[str] = frozenset()
        """Images that this request goes without; for good, once it succeeds."""

    @property
    def tokens(self) -> int:
        """The size of the conversation, as the model counted it last."""
        return self._tokens

    @property
    def target(self) -> Target:
        return self._speaker.api.target

    @property
    def was_stopped(self) -> bool:
        """True if a person said no without a reason."""
        return self._calls.stopped

    async def run(self) -> None:
        """Run one turn. Raises `TurnFailed`."""
        conversation = self._history.conversation
        for _ in range(self._plan.config.max_calls):
            if compaction.is_due(self._tokens, self._window):
                await self.compact()
            reply = await self._ask()
            is_over = await self._calls.run(reply.uses)
            if not is_over:
                self._check_calls(reply)
            if is_over or not (conversation.is_waiting or self._paused):
                self._turn.closing = True
                return
        self._turn.closing = True
        self._history.add(Said(SUM_UP, of_person=False))
        await self._ask(may_call=False)

    async def compact(self, *, must: bool = False) -> None:
        """Replace the conversation by a summary. One that `must` shrink loses its old part even without a summary, if none can
        be made. Raises `TurnFailed` if only time or a person can help."""
        await self._turn.tell(COMPACTING)
        conversation = self._history.conversation
        request = compaction.render_request(conversation, self._window)
        call = replace(self._call(), system=compaction.SYSTEM, messages=[request], tools=[])
        call = replace(call, max_output_tokens=min(call.max_output_tokens, SUMMARY_TOKENS), effort="")
        answer, attempt = await self._send(call, _ignore), 0
        while isinstance(answer, Problem) and await self._waits_to_retry(answer, attempt):
            answer, attempt = await self._send(call, _ignore), attempt + 1
        text = Replied(answer.blocks).text.strip() if isinstance(answer, Reply) else ""
        why = answer.failure.text if isinstance(answer, Problem) else WROTE_NOTHING
        self._tokens = 0
        if not text and not must:
            await self._turn.tell(Notice("warning", "compaction_failed", NOT_COMPACTED.format(why=why)))
            return
        if isinstance(answer, Problem) and answer.failure.kind not in ("context_overflow", "bad_request"):
            raise self._failed(answer)
        self._history.add(compaction.compact(conversation, text))
        await self._turn.tell(COMPACTED if text else Notice("warning", "compacted", DROPPED.format(why=why)))

    @property
    def _window(self) -> int:
        return self._plan.config.context_window or self._speaker.facts.window

    async def _ask(self, *, may_call: bool = True) -> Replied:
        """Ask the model until it replies, and put the reply into the history."""
        self._check_budget()
        attempt = 0
        while True:
            self._requests += 1
            block = str(self._requests)
            call = self._call(may_call=may_call)
            try:
                answer = await self._send(call, lambda piece, block=block: self._turn.say(block, piece))
            except anyio.get_cancelled_exc_class():
                self._keep_cut(block)
                raise
            if isinstance(answer, Reply):
                return await self._keep(answer)
            await self._turn.withdraw_text(block)
            attempt = await self._recover(answer, attempt)

    async def _send(self, call: ModelCall, hear: Callable[[Piece], Awaitable[None]]) -> Reply | Problem:
        api, facts = self._speaker.api, self._speaker.facts
        request, log, now = api.encode(call), self._turn.log, self._plan.now
        began_at = now()
        seq = await log.request(request, api.target.title, began_at)
        answer = await api.ask(request, hear)
        price = facts.price(answer.tokens) if isinstance(answer, Reply) else None
        price = 0.0 if api.target.is_subscription else price
        log.response(seq, now(), duration_s=round(now() - began_at, 3), **_told(answer, price))
        if isinstance(answer, Reply):
            await self._turn.count(answer.tokens, price, self._window)
        return answer

    async def _keep(self, reply: Reply) -> Replied:
        if self._left_out:
            self._history.add(LeftOut(tuple(sorted(self._left_out))))
            self._left_out = frozenset()
        blocks = with_own_ids(reply.blocks, self._history.conversation.use_ids)
        replied = Replied(blocks, self._speaker.api.target.title)
        self._history.add(replied)
        self._tokens, self._paused = reply.tokens.total, reply.stop == "paused"
        notices = {"length": [CUT], "refused": [REFUSED]}.get(reply.stop, [])
        silent = not (self._paused or replied.uses or replied.text.strip() or self._turn.has_text)
        await self._turn.tell(*notices, *([SILENT] if silent else []))
        return replied

    def _keep_cut(self, block: str) -> None:
        """Keep what a reply said before it was cut off, because people have seen it."""
        if text := self._turn.text_of(block):
            self._history.add(Replied((Text(text),)))

    async def _recover(self, problem: Problem, attempt: int) -> int:
        """Prepare another request, and return its number; or raise `TurnFailed`."""
        failure = problem.failure
        if failure.kind == "context_overflow" and not self._overflowed:
            self._overflowed = True
            await self.compact(must=True)
            return attempt
        if problem.suspects_images and (images := newest_images(self._messages)):
            self._left_out |= images
            words = f"{failure.text} Trying again without the newest images."
            await self._turn.tell(Notice("warning", "image_skipped", words))
            return attempt
        if await self._waits_to_retry(problem, attempt):
            return attempt + 1
        if self._others and failure.kind in ("overloaded", "rate_limit", "bad_request", "quota"):
            self._speaker, self._left_out = self._others.pop(0), frozenset()
            words = f"{failure.text} Going on with {self._speaker.api.target.title}."
            await self._turn.tell(Notice("warning", "fallback_model", words))
            return 0
        raise self._failed(problem)

    async def _waits_to_retry(self, problem: Problem, attempt: int) -> bool:
        """Wait until the request may be made again; False if it may not."""
        if not problem.may_retry or attempt >= self._plan.config.max_retries:
            return False
        await self._turn.tell(Notice("warning", "api_retry", problem.failure.text))
        pause_s = min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S)
        await self._plan.sleep(pause_s if problem.retry_after_s is None else problem.retry_after_s)
        return True

    def _failed(self, problem: Problem) -> TurnFailed:
        wait_s = problem.retry_after_s
        retry_at = None if wait_s is None else self._plan.now() + wait_s
        return TurnFailed(replace(problem.failure, retry_at=retry_at), refused_key=problem.refused_key)

    def _check_calls(self, reply: Replied) -> None:
        """A model that makes a call with broken JSON is told, and may try once more."""
        self._broken = self._broken + 1 if any(use.broken for use in reply.uses) else 0
        if self._broken >= MOST_BROKEN:
            title = self._speaker.api.target.title
            text = f"{title} made calls of tools whose arguments are no JSON, {MOST_BROKEN} replies in a row."
            raise TurnFailed(Failure("bad_request", text, fix="Choose another model with /model"))

    def _check_budget(self) -> None:
        budget, spent = self._plan.brief.budget_usd, self._turn.usage.cost_usd
        if budget is not None and spent is not None and spent >= budget:
            text = f"This turn has cost {spent:.2f} USD, and {budget:.2f} USD were left for it."
            raise TurnFailed(Failure("budget", text))

    def _call(self, *, may_call: bool = True) -> ModelCall:
        config, target, facts = self._plan.config, self._speaker.api.target, self._speaker.facts
        messages = self._messages
        return ModelCall(
            model=target.model,
            system=self._plan.system,
            messages=trim(messages) if config.total_trim else messages,
            tools=self._calls.tools.specs,
            max_output_tokens=config.max_output_tokens or facts.output,
            image_data=self._image,
            may_call=may_call,
            reasons=facts.reasoning,
            released=facts.release_date,
            effort=config.effort or "",
            verbosity=config.verbosity or "",
            cache_key=self._history.folder.name,
            may_search=self._calls.may_search,
        )

    @property
    def _messages(self) -> list[Message]:
        return without_images(self._history.conversation.messages, self._left_out)

    def _image(self, image: Image) -> str:
        return base64.b64encode(self._history.image(image)).decode("ascii")


def _told(answer: Reply | Problem, price: float | None) -> dict[str, Any]:
    """Return what the log of a turn says about a reply."""
    if isinstance(answer, Problem):
        return {"problem": answer.failure.text, "detail": answer.failure.detail}
    tokens = answer.tokens
    return {
        "input_tokens": tokens.input,
        "output_tokens": tokens.output,
        "cache_read_tokens": tokens.cache_read,
        "cache_write_tokens": tokens.cache_write,
        "cost_usd": price,
        "stop": answer.stop,
        "blocks": msgspec.to_builtins(answer.blocks),
    }


async def _ignore(piece: Piece) -> None:
    await checkpoint()
