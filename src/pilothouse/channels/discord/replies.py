"""Answers an interaction. The first answer must come within three seconds.

The token of an interaction expires after 15 minutes; a failed answer is logged and costs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pilothouse.channels.discord.buttons import Form
from pilothouse.channels.discord.payload import TEXT
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.channels.discord.wire import Interaction
from pilothouse.channels.text import clip

MESSAGE, DEFERRED, DEFERRED_UPDATE, CHOICES, FORM = 4, 5, 6, 8, 9
EPHEMERAL = 1 << 6
LOOK_S = 1.5
"""The longest that a look-up may take before the first answer."""
WITHIN_S = 10.0
FIELD = "words"
FIELD_CHARS = 4000
MOST_CHOICES = 25
CHOICE_CHARS = 100


class Reply:
    def __init__(self, interaction: Interaction, calls: Calls, log: Callable[..., None]) -> None:
        self._interaction = interaction
        self._calls = calls
        self._log = log
        self._given: int | None = None
        """The kind of the first answer that was tried."""

    async def defer(self, *, ephemeral: bool = True) -> bool:
        return await self._first(DEFERRED, {"flags": EPHEMERAL} if ephemeral else {})

    async def defer_update(self) -> bool:
        return await self._first(DEFERRED_UPDATE, None)

    async def say(self, text: str) -> bool:
        """Answer with a message that only this person sees."""
        return await self._first(MESSAGE, _whispered(text))

    async def ask(self, form: Form) -> bool:
        field = {
            "type": 4,
            "custom_id": FIELD,
            "style": 2,
            "label": clip(form.label, 45),
            "max_length": FIELD_CHARS,
        }
        rows = [{"type": 1, "components": [field]}]
        shown = {"custom_id": form.key, "title": clip(form.title, 45), "components": rows}
        return await self._first(FORM, shown)

    async def suggest(self, choices: Sequence[tuple[str, str]]) -> bool:
        """Send choices, as pairs of label and value."""
        listed = [
            {"name": clip(name, CHOICE_CHARS), "value": value}
            for name, value in choices
            if len(value) <= CHOICE_CHARS
        ]
        return await self._first(CHOICES, {"choices": listed[:MOST_CHOICES]})

    async def tell(self, text: str) -> None:
        """Tell this person something, by the means that earlier answers left."""
        if self._given == DEFERRED:
            await self.finish(text)
        elif self._given is not None or not await self.say(text):
            # What is taken up again was answered by another one of us.
            await self.whisper(text)

    async def whisper(self, text: str) -> None:
        """Send a message that only this person sees, after the first answer."""
        path = "/webhooks/{webhook_id}/{webhook_token}"
        await self._later("POST", path, _whispered(text))

    async def finish(self, text: str) -> bool:
        """Set the text of the deferred answer; return false if that answer no longer exists."""
        body = {name: value for name, value in _whispered(text).items() if name != "flags"}
        found = await self._later("PATCH", "/webhooks/{webhook_id}/{webhook_token}/messages/@original", body)
        return not (isinstance(found, Trouble) and found.is_gone)

    async def vanish(self) -> None:
        await self._later("DELETE", "/webhooks/{webhook_id}/{webhook_token}/messages/@original", None)

    async def _first(self, kind: int, data: dict[str, Any] | None) -> bool:
        one, self._given = self._interaction, kind
        path = "/interactions/{interaction_id}/{webhook_token}/callback"
        body = {"type": kind} if data is None else {"type": kind, "data": data}
        found = await self._calls.call(
            "POST", path, body, within_s=WITHIN_S, interaction_id=one.id, webhook_token=one.token
        )
        return self._is_done(found)

    async def _later(self, method: str, path: str, body: dict[str, Any] | None) -> Any | Trouble:
        app, token = self._calls.application_id, self._interaction.token
        found = await self._calls.call(
            method, path, body, within_s=WITHIN_S, webhook_id=app, webhook_token=token
        )
        self._is_done(found)
        return found

    def _is_done(self, found: Any | Trouble) -> bool:
        if isinstance(found, Trouble):
            why = found.text.replace(self._interaction.token, "[token]")
            self._log("discord.interaction_unanswered", interaction=self._interaction.id, why=why)
        return not isinstance(found, Trouble)


def _whispered(text: str) -> dict[str, Any]:
    return {"content": clip(text, TEXT), "flags": EPHEMERAL, "allowed_mentions": {"parse": []}}
