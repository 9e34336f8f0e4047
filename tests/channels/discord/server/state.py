"""simcord's Discord, made a little more like the real one: it runs on the clock on the wall, and it forgets nothing.

Each message keeps every state that it had. An interaction's three seconds count only what a test lets pass, so that a
busy machine is never late.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from simcord._clock import Clock
from simcord.backend import Backend
from simcord.backend.cdn import CDN_BASE, CdnStore
from simcord.backend.models import Channel, Interaction, Message
from simcord.enums import ChannelType
from typing_extensions import override

FIRST_ANSWER_S = 3.0
PATIENCE_S = 120.0
"""How long a busy machine may take for what Discord wants within three seconds."""
TOKEN_S = 15 * 60.0
SIGNATURE = "ex=6f000000&is=6eff0000&hm=" + "0c" * 32 + "&"
"""Discord signs the addresses of its files."""


class WallClock(Clock):
    """The time of day, and whatever a test adds to it."""

    @override
    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.elapsed)


class SignedFiles(CdnStore):
    """Stored under the plain address, told with a signature."""

    @override
    def store_attachment(
        self, attachment_id: int, channel_id: int, filename: str, data: bytes, description: str | None
    ) -> dict[str, Any]:
        name = quote(filename.replace(" ", "_"))
        told = super().store_attachment(attachment_id, channel_id, name, data, description)
        signed = f"{told['url']}?{SIGNATURE}"
        return {**told, "filename": filename.replace(" ", "_"), "url": signed, "proxy_url": signed}

    def at(self, path: str) -> bytes | None:
        return self._blobs.get(f"{CDN_BASE}/{path}")


class State(Backend):
    def __init__(self, on_change: Callable[[Message, str], None]) -> None:
        super().__init__(clock=WallClock())
        self.on_change = on_change
        self.files = SignedFiles()
        self.cdn = self.files
        self._born: dict[int, float] = {}

    # Whatever happens to a message is told, also what Discord tells no bot.

    @override
    def commit_message(self, message: Message, *, broadcast: bool = True) -> Message:
        message = super().commit_message(message, broadcast=broadcast)
        self.on_change(message, "created")
        return message

    @override
    def edit_message(self, channel_id: int, message_id: int, fields: dict[str, Any]) -> Message:
        message = super().edit_message(channel_id, message_id, fields)
        self.on_change(message, "edited")
        return message

    @override
    def delete_message(self, channel_id: int, message_id: int) -> None:
        message = self.get_message(channel_id, message_id)
        super().delete_message(channel_id, message_id)
        self.on_change(message, "deleted")

    @override
    def bulk_delete_messages(self, channel_id: int, message_ids: Iterable[int]) -> list[int]:
        before = dict(self.messages.get(channel_id, {}))
        deleted = super().bulk_delete_messages(channel_id, message_ids)
        for message_id in deleted:
            self.on_change(before[message_id], "deleted")
        return deleted

    @override
    def delete_channel(self, channel_id: int) -> None:
        gone = list(self.messages.get(channel_id, {}).values())
        super().delete_channel(channel_id)
        for message in gone:
            self.on_change(message, "deleted")

    # Threads.

    @override
    def create_thread(
        self,
        parent_id: int,
        name: str,
        owner_id: int,
        *,
        type: int = ChannelType.PUBLIC_THREAD,
        auto_archive_duration: int = 1440,
        message_id: int | None = None,
        applied_tags: Iterable[int] = (),
        broadcast: bool = True,
    ) -> Channel:
        """A thread that begins at a message is told of by no message of its own."""
        thread = super().create_thread(
            parent_id,
            name,
            owner_id,
            type=type,
            auto_archive_duration=auto_archive_duration,
            message_id=message_id,
            applied_tags=applied_tags,
            broadcast=broadcast and message_id is None,
        )
        if broadcast and message_id is not None:
            self.announce_thread_create(thread)
        return thread

    # Interactions.

    @override
    def new_interaction(self, type: int, channel_id: int, user_id: int, guild_id: int | None) -> Interaction:
        record = super().new_interaction(type, channel_id, user_id, guild_id)
        record.initial_response_deadline = self.iso_after(PATIENCE_S)
        self._born[record.id] = self.clock.elapsed
        return record

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        for record in self.interactions.values():
            age_s = self.clock.elapsed - self._born[record.id]
            if age_s >= FIRST_ANSWER_S:
                record.initial_response_deadline = self.now_iso()
            if age_s >= TOKEN_S:
                record.expires_at = self.now_iso()
