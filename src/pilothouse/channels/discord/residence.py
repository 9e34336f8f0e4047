"""Whether we are still where we are meant to be: a server may throw us out, and the channel that we live in be deleted.

Discord tells of it once, and then nothing any more: no error, and nobody who could ask us why.
"""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.channels.discord.wire import Event, Guild, read

DELETED = "The Discord channel that we live in ({id}) was deleted, so nobody can talk to us. Name another one, and start again."
LEFT = (
    "The bot was taken out of the Discord server with the channel that we live in ({id}), so nobody can talk to us. Invite it "
    "again: then we go on by ourselves."
)
AWAY = "Discord says that the server with the channel that we live in is not available now. That passes by itself."


class Residence:
    """`home` is the channel that we live in, if there is one. `trouble` says that we are not there, while it lasts."""

    def __init__(self, home: str, log: Callable[..., None], alarm: Callable[[str], None]) -> None:
        self._home = home
        self._guild = ""
        """The server that it is in."""
        self._log = log
        self._alarm = alarm
        self.trouble = ""

    def hear(self, event: Event) -> None:
        id = str(event.data.get("id"))
        match event.name:
            case "READY":
                listed = {str(one.get("id")) for one in event.data.get("guilds") or ()}
                if self._guild and self._guild not in listed:
                    self._say(LEFT)
            case "GUILD_CREATE":
                self._arrive(read(event.data, Guild))
            case "GUILD_DELETE":
                self._leave(id, away=event.data.get("unavailable") is True)
            case "CHANNEL_DELETE" if self._home and id == self._home:
                self._say(DELETED)

    def _arrive(self, guild: Guild | str) -> None:
        if isinstance(guild, str) or guild.unavailable or not self._home:
            return
        if any(one.id == self._home for one in guild.channels):
            self._guild, self.trouble = guild.id, ""
        elif guild.id == self._guild:
            self._say(DELETED)

    def _leave(self, guild: str, *, away: bool) -> None:
        self._log("discord.server_away" if away else "discord.server_left", level="warning", guild=guild)
        if self._guild and guild == self._guild:
            self._say(AWAY if away else LEFT)

    def _say(self, text: str) -> None:
        text = text.format(id=self._home)
        if text != self.trouble:
            self.trouble = text
            self._alarm(text)
