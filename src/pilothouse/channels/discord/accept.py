"""Hands messages, edits and deletions to the desk, after their files were fetched, and tells people the result.

When `take` returns, the message is in the inbox, refused, or not for us. Strangers cost no download.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from pilothouse.channels.discord.addresses import Place, Us, author_of
from pilothouse.channels.discord.attachments import Offered, Taken, with_files
from pilothouse.channels.discord.config import DiscordConfig, Heard, heard_in
from pilothouse.channels.discord.journal import Marks
from pilothouse.channels.discord.receive import (
    Changed,
    Happening,
    Nothing,
    Said,
    Scene,
    Started,
    changed,
    expects_a_word,
    needs_roles,
    said,
)
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.servers import Places
from pilothouse.channels.discord.trouble import Away, Trouble
from pilothouse.channels.discord.wire import (
    AUTOCOMPLETE,
    Channel,
    Deleted,
    Event,
    File,
    Member,
    Message,
    read,
)
from pilothouse.channels.intake_queue import SORRY
from pilothouse.channels.receipts import ReceiptReporter, Tell, accept_fetched, may_talk
from pilothouse.core.channel import Desk
from pilothouse.core.clock import Clock
from pilothouse.core.ids import UserId
from pilothouse.core.message import Address, InboundMessage, MessageDeleted

MOST_STARTERS = 500

TakeFiles = Callable[[UserId, Sequence[Offered]], Awaitable[Taken]]
"""Fetches the files that a person sent."""


class Taker:
    def __init__(
        self,
        config: DiscordConfig,
        desk: Desk,
        places: Places,
        marks: Marks,
        clock: Clock,
        *,
        take_files: TakeFiles,
        tell: Tell,
        log: Callable[..., None],
    ) -> None:
        self._config = config
        self._desk = desk
        self._places = places
        self._marks = marks
        self._take_files = take_files
        self.tell = tell
        self._log = log
        self._telling = ReceiptReporter(tell, clock)
        self._starters: dict[Address, str] = {}

    async def take(self, event: Event, us: str, calls: Calls) -> None:
        match event.name:
            case "MESSAGE_CREATE":
                await self._created(event, us, calls)
            case "MESSAGE_UPDATE":
                await self._updated(event, us, calls)
            case _:
                await self._deleted(event, calls)

    async def apologise(self, event: Event, us: str, calls: Calls) -> None:
        """Tell the author that their message failed, if they may talk to us and said it to us."""
        message = read(event.data, Message)
        is_edit = event.name == "MESSAGE_UPDATE"
        if isinstance(message, str) or (is_edit and message.edited_timestamp is None):
            return
        author, place = message.author, await self.place(message.channel_id, message.guild_id, calls)
        if author is None or place is None:
            return
        scene = await self.scene(place, us)
        roles = await self._roles(message, calls) if needs_roles(message, scene) else None
        said = InboundMessage(place.address, author_of(author, message.member), message.id, "")
        if expects_a_word(message, scene, roles) and await may_talk(self._desk, said):
            await self.tell(place.address, SORRY.format(what="message"), message.id)

    async def is_work(self, event: Event, us: str) -> bool:
        """Could this event become work? Most messages in a server are not for us, and are not kept."""
        match event.name:
            case "INTERACTION_CREATE":
                return event.data.get("type") != AUTOCOMPLETE
            case "MESSAGE_UPDATE" | "MESSAGE_DELETE":
                return self._marks.is_taken(str(event.data.get("id")))
            case "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE":
                place = self._places.get(str(event.data.get("channel_id")))
                return heard_in(self._config, *(place.lineage if place else ())).reactions
            case "MESSAGE_DELETE_BULK":
                return any(self._marks.is_taken(str(id)) for id in event.data.get("ids") or ())
            case "MESSAGE_CREATE":
                message = read(event.data, Message)
                place = self._places.get(str(event.data.get("channel_id")))
                if isinstance(message, str):
                    self._unreadable(message)
                    return False
                if place is None:
                    return True
                scene = await self.scene(place, us)
                could_be = needs_roles(message, scene) or not isinstance(said(message, scene), Nothing)
                if could_be:
                    # So that an edit or a deletion counts while the files are being fetched.
                    self._marks.take(message.id)
                return could_be
            case _:
                return False

    async def place(
        self, id: str, guild: str | None, calls: Calls, told: Channel | None = None
    ) -> Place | None:
        """Find the place of an event; an archived thread or a private chat may be new to us. `told` is the channel in the event.

        Raises `Away` where Discord must be asked, and does not answer."""
        if (known := self._places.get(id)) is not None:
            return known
        if told is not None:
            return self._places.put(told, guild)
        if guild is None:
            return self._places.put(Channel(id, type=1))
        found = await calls.get("/channels/{channel_id}", channel_id=id)
        channel = found if isinstance(found, Trouble) else read(found, Channel)
        if isinstance(channel, Channel):
            return self._places.put(channel, guild)
        if isinstance(channel, Trouble) and channel.is_passing:
            raise Away(channel.text)
        why = channel.text if isinstance(channel, Trouble) else channel
        self._log("discord.place_unknown", level="warning", channel=id, why=why)
        return None

    def heard(self, place: Place) -> Heard:
        """The configured rules of a place, without the store."""
        return heard_in(self._config, *place.lineage)

    async def scene(self, place: Place, us: str) -> Scene:
        """The rules of a place with the trigger that was chosen there, and the names needed to read a message."""
        heard = self.heard(place)
        if not place.direct and (chosen := (await self._desk.settings_of(place.address)).trigger) is not None:
            heard = replace(heard, trigger=chosen)
        return Scene(
            place,
            Us(us, self._places.our_roles(place.guild, us)),
            heard,
            self._config.bots,
            self._places.name_of,
            lambda role: self._places.role_name(place.guild, role),
        )

    async def _created(self, event: Event, us: str, calls: Calls) -> None:
        message = read(event.data, Message)
        if isinstance(message, str):
            self._unreadable(message)
            return
        place = await self.place(message.channel_id, message.guild_id, calls)
        if place is None:
            return
        scene = await self.scene(place, us)
        roles = await self._roles(message, calls) if needs_roles(message, scene) else None
        await self._do(said(message, scene, roles), message.id)

    def _unreadable(self, why: str) -> None:
        self._log("discord.message_unreadable", level="error", why=why)

    async def _updated(self, event: Event, us: str, calls: Calls) -> None:
        message = read(event.data, Message)
        if isinstance(message, str) or not self._marks.is_taken(message.id):
            return
        place = await self.place(message.channel_id, message.guild_id, calls)
        if place is not None:
            await self._do(changed(message, await self.scene(place, us)), message.id)

    async def _deleted(self, event: Event, calls: Calls) -> None:
        gone = read(event.data, Deleted)
        if isinstance(gone, str):
            return
        place = await self.place(gone.channel_id, gone.guild_id, calls)
        for id in (gone.id, *gone.ids):
            if place is not None and id and self._marks.is_taken(id):
                await self._desk.deleted(MessageDeleted(place.address, None, id))

    async def _do(self, happening: Happening, id: str) -> None:
        match happening:
            case Said() as said:
                await self._accept(said)
            case Changed(edit=edit):
                await self._telling.edit(self._desk, edit)
            case Started(address=address, text=text):
                self._starters[address] = text
                while len(self._starters) > MOST_STARTERS:
                    del self._starters[next(iter(self._starters))]
            case Nothing(why=why):
                self._log("discord.message_passed_over", level="debug", message=id, why=why)

    async def _accept(self, said: Said) -> None:
        message = said.message
        starter = self._starters.get(message.address, "")
        if starter and message.quoted is None:
            message = replace(message, quoted=starter)
        self._marks.take(message.native_id)
        if said.files:
            receipt = await accept_fetched(self._desk, message, lambda: self._fetched(message, said.files))
        else:
            receipt = await self._desk.accept(message)
        self._starters.pop(message.address, None)
        await self._telling.accepted(message, receipt, to_us=said.to_us)

    async def _fetched(self, message: InboundMessage, files: Sequence[File]) -> InboundMessage:
        return await self.with_files(message, files) if await may_talk(self._desk, message) else message

    async def with_files(self, message: InboundMessage, files: Sequence[File]) -> InboundMessage:
        return await self.with_offered(message, [offered(file) for file in files])

    async def with_offered(self, message: InboundMessage, files: Sequence[Offered]) -> InboundMessage:
        return with_files(message, await self._take_files(message.author.id, files)) if files else message

    async def _roles(self, message: Message, calls: Calls) -> tuple[str, ...]:
        path = "/guilds/{guild_id}/members/{user_id}"
        author = message.author.id if message.author else ""
        found = await calls.get(path, guild_id=message.guild_id or "", user_id=author)
        if isinstance(found, Trouble) and found.is_passing:
            raise Away(found.text)
        member = found if isinstance(found, Trouble) else read(found, Member)
        return member.roles if isinstance(member, Member) else ()


def offered(file: File) -> Offered:
    return Offered(file.filename, file.url, file.size, file.content_type or "")
