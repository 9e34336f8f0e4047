"""The in-memory channel: a platform and its people in one object, for tests and for embedding.

It keeps what a person would see, in order; faults of real platforms are plain arguments. `record` is called
synchronously before anything counts as shown, so that a crash test can write each effect down.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

from pilothouse.channels.progress import status_line
from pilothouse.channels.text import Measure, split, utf16_units
from pilothouse.core.ask import Ask, Decision, Remember, Verdict
from pilothouse.core.channel import Answered, ChannelHost, ChannelSpec, Desk, Receipt
from pilothouse.core.errors import Rejected, TryLater
from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.message import (
    AGAIN_MARK,
    Address,
    Author,
    Content,
    InboundMessage,
    MessageDeleted,
    MessageEdited,
    MessageRef,
    Part,
    clean_text,
)
from pilothouse.core.view import TurnView, shown

if TYPE_CHECKING:
    import anyio

T = TypeVar("T")

MEMORY = ChannelId("memory")
PERSON = Author(UserId("memory:person"), "Person")
NOTHING = "(no text)"
KEEP = 10_000
EMOJI = frozenset("👍👎❤🔥🎉👀✅")


class MemoryConfig(Struct, frozen=True, forbid_unknown_fields=True):
    part_limit: int = 2000
    keep: int = KEEP
    """The number of shown messages that it remembers."""


class Posted(Struct, frozen=True):
    """One of our messages on the platform: every version of it, and whether it was deleted."""

    ref: MessageRef
    parts: tuple[Part, ...]
    deleted: bool = False

    @property
    def part(self) -> Part:
        return self.parts[-1]

    @property
    def text(self) -> str:
        return visible_text(self.part)


class MemoryChannel:
    """`slow_s` delays every send; `never` shows a part but never confirms it; `try_later` refuses one send for each of
    its numbers; `rejected` refuses every send; `twice` delivers each action of a person twice. Only the last `keep`
    messages are remembered."""

    def __init__(
        self,
        *,
        id: ChannelId = MEMORY,
        part_limit: int = 2000,
        measure: Measure = utf16_units,
        slow_s: float = 0.0,
        never: bool = False,
        try_later: Iterable[float] = (),
        rejected: str = "",
        twice: bool = False,
        record: Callable[[dict[str, Any]], None] | None = None,
        native_ids: Callable[[], str] | None = None,
    ) -> None:
        self.id = id
        self._posted: dict[MessageRef, Posted] = {}
        self.reactions: list[tuple[MessageRef, str]] = []
        self.keep = KEEP
        self.never = never
        self.rejected = rejected
        self.twice = twice
        self.slow_s = slow_s
        self._part_limit = part_limit
        self._measure = measure
        self._try_later = list(try_later)
        self._record = record or (lambda effect: None)
        counted = count(1)
        self._native_ids = native_ids or (lambda: f"m{next(counted)}")
        self._desk: Desk | None = None
        self._news: anyio.Event | None = None

    # Called by the gateway.

    async def run(self, desk: Desk) -> None:
        import anyio

        self._desk = desk
        self._wake()
        try:
            await anyio.sleep_forever()
        finally:
            self._desk = None

    def render(self, content: Content) -> tuple[Part, ...]:
        texts = split(clean_text(_words(content)), self._part_limit, self._measure)
        if not texts:
            texts = ["" if content.attachments else NOTHING]
        parts = [Part(text, _data(content)) for text in texts]
        parts[-1] = msgspec.structs.replace(parts[-1], attachments=content.attachments)
        return tuple(parts)

    async def send(self, address: Address, part: Part) -> MessageRef:
        await self._apply_faults()
        ref = MessageRef(address, self._native_ids())
        self._show("send", Posted(ref, (part,)))
        if self.never:
            await _for_ever()
        return ref

    def render_view(self, view: TurnView, now: float) -> Part | None:
        text = shown(view, now).text
        line = status_line(view, now)
        parts = split(clean_text(text), self._part_limit - self._measure(line) - 2, self._measure)
        return Part(f"{parts[-1]}\n\n{line}" if parts else line, {"kind": "view"})

    async def edit(self, ref: MessageRef, part: Part) -> None:
        await self._apply_faults()
        posted = self._find(ref)
        self._show("edit", msgspec.structs.replace(posted, parts=(*posted.parts, part)))

    async def delete(self, ref: MessageRef) -> None:
        await self._apply_faults()
        self._show("delete", msgspec.structs.replace(self._find(ref), deleted=True))

    async def react(self, ref: MessageRef, emoji: str) -> None:
        """Any message may be reacted to; the platform knows some emoji only."""
        await self._apply_faults()
        if emoji not in EMOJI:
            raise Rejected(f"there is no reaction {emoji} here")
        self._record({"effect": "react", "native_id": ref.native_id, "emoji": emoji})
        self.reactions.append((ref, emoji))
        self._wake()

    async def open_thread(self, address: Address, name: str) -> Address:
        await self._apply_faults()
        return self.address(address.place, name)

    # Actions of a person.

    async def say(
        self,
        text: str,
        conversation: str = "main",
        *,
        author: Author = PERSON,
        native_id: str = "",
        reply_to: MessageRef | None = None,
        thread: str | None = None,
        private: bool = True,
    ) -> Receipt:
        """Sends a message, or a command if it starts with `/`. A repeated `native_id` is the same message."""
        desk, native_id = await self._open(), native_id or self._native_ids()
        address = self.address(conversation, thread)
        replied = reply_to.native_id if reply_to else None
        message = InboundMessage(address, author, native_id, text, reply_to=replied, private=private)

        async def arrive() -> Receipt:
            if text.startswith("/"):
                return await desk.command(address, author, text, native_id)
            return await desk.accept(message)

        return await self._arrive(arrive)

    async def change(
        self, native_id: str, text: str, conversation: str = "main", *, author: Author = PERSON
    ) -> Receipt:
        desk = await self._open()
        return await desk.edited(MessageEdited(self.address(conversation), author, native_id, text))

    async def withdraw(
        self, native_id: str, conversation: str = "main", *, author: Author = PERSON
    ) -> Receipt:
        desk = await self._open()
        return await desk.deleted(MessageDeleted(self.address(conversation), author, native_id))

    async def move(self, old: str, new: str) -> None:
        """Gives a conversation another address."""
        desk = await self._open()
        await desk.moved(self.address(old), self.address(new))

    async def answer(
        self,
        ask: Ask,
        verdict: Verdict,
        *,
        options: tuple[str, ...] = (),
        text: str = "",
        remember: Remember = "once",
        instead: dict[str, Any] | None = None,
        reason_wanted: bool = False,
        author: Author = PERSON,
    ) -> Answered:
        """Answers an ask. `instead` is a changed input; `reason_wanted` is the button "deny, and say why"."""
        desk = await self._open()
        decision = Decision(verdict, options, text, remember, author.id, instead, reason_wanted)
        return await self._arrive(lambda: desk.answer(ask.id, ask.payload_hash, decision, author))

    # What a person can see.

    @property
    def sent(self) -> list[Posted]:
        """Oldest first."""
        return list(self._posted.values())

    def address(self, conversation: str = "main", thread: str | None = None) -> Address:
        return Address(self.id, conversation, thread)

    def visible(self, conversation: str = "main") -> list[str]:
        """Returns the texts in a conversation now, oldest first."""
        return [p.text for p in self.sent if p.ref.address.place == conversation and not p.deleted]

    async def until(self, seen: Callable[[], bool]) -> None:
        """Waits until `seen()`; it is called again after each effect."""
        import anyio

        while not seen():
            self._news = self._news or anyio.Event()
            await self._news.wait()

    def _show(self, effect: str, posted: Posted) -> None:
        data = posted.part.data
        self._record(
            {
                "effect": effect,
                "conversation": posted.ref.address.place,
                "native_id": posted.ref.native_id,
                "text": "" if posted.deleted else posted.text,
                "again": posted.part.again,
                "kind": data.get("kind", ""),
                "turn_id": data.get("turn_id", ""),
            }
        )
        self._posted[posted.ref] = posted
        if len(self._posted) > self.keep:
            del self._posted[next(iter(self._posted))]
        self._wake()

    async def _apply_faults(self) -> None:
        if self.slow_s:
            import anyio

            await anyio.sleep(self.slow_s)
        if self.rejected:
            raise Rejected(self.rejected)
        if self._try_later:
            raise TryLater(self._try_later.pop(0))

    async def _arrive(self, once: Callable[[], Awaitable[T]]) -> T:
        """Delivers an action, perhaps twice, and returns the desk's first answer."""
        first = await once()
        if self.twice:
            await once()
        return first

    def _find(self, ref: MessageRef) -> Posted:
        posted = self._posted.get(ref)
        if posted is not None and not posted.deleted:
            return posted
        raise Rejected(f"there is no message {ref.native_id}")

    async def _open(self) -> Desk:
        await self.until(lambda: self._desk is not None)
        assert self._desk is not None
        return self._desk

    def _wake(self) -> None:
        news, self._news = self._news, None
        if news:
            news.set()


def visible_text(part: Part) -> str:
    """Returns what a person reads, with the mark of a repeat."""
    names = "".join(f"\n[{attachment.name}]" for attachment in part.attachments)
    mark = f"\n\n{AGAIN_MARK}" if part.again else ""
    return (part.text + names + mark).lstrip("\n")


def _words(content: Content) -> str:
    ask = content.ask
    options = "".join(f"\n{n}. {option.label}" for n, option in enumerate(ask.options, 1)) if ask else ""
    return f"{content.text or (ask.title if ask else '')}{options}"


def _data(content: Content) -> dict[str, Any]:
    data: dict[str, Any] = {"kind": content.kind, "turn_id": content.turn_id or ""}
    if content.ask:
        data |= {"ask_id": content.ask.id, "payload_hash": content.ask.payload_hash}
    if content.buttons:
        data["buttons"] = [[button.label, button.line] for button in content.buttons]
    return data


async def _for_ever() -> None:
    import anyio

    await anyio.sleep_forever()


def _build(config: MemoryConfig, host: ChannelHost) -> MemoryChannel:
    channel = MemoryChannel(part_limit=config.part_limit)
    channel.keep = config.keep
    return channel


def _problem(config: MemoryConfig) -> str:
    if config.part_limit < 100:
        return f"part_limit is {config.part_limit}; set it to at least 100"
    return "" if config.keep >= 1 else f"keep is {config.keep}; set it to at least 1"


CHANNEL = ChannelSpec(MEMORY, "In memory", MemoryConfig, _build, _problem)
