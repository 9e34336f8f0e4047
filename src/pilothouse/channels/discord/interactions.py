"""Takes button presses, choices, forms and slash commands; each is acknowledged before anything slow happens.

Refusals and failures are shown to the person who pressed, and to nobody else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import anyio

from pilothouse.channels.discord.accept import Taker
from pilothouse.channels.discord.addresses import Place, author_of, is_heard
from pilothouse.channels.discord.buttons import form_of
from pilothouse.channels.discord.replies import LOOK_S, Reply
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.sender import MESSAGE
from pilothouse.channels.discord.slash_commands import ABOUT, Done, SlashCommands
from pilothouse.channels.discord.trouble import Away
from pilothouse.channels.discord.wire import AUTOCOMPLETE, COMMAND, COMPONENT, Interaction, inputs
from pilothouse.channels.intake_queue import NOT_TAKEN
from pilothouse.channels.presses import (
    ENDED,
    UNKNOWN,
    AskPress,
    ButtonDesk,
    CommandPress,
    Press,
    StopPress,
    parse_key,
)
from pilothouse.core.ask import AskRow
from pilothouse.core.channel import Desk
from pilothouse.core.errors import Fenced, PilothouseError, StoreError, StoreUnavailable
from pilothouse.core.ids import AskId, TurnId
from pilothouse.core.message import Address, Author, MessageRef

NOT_HERE = "I do not listen to you here."
TOO_LONG = "That took too long. Press again."


class Interactions:
    def __init__(self, desk: Desk, taker: Taker, log: Callable[..., None]) -> None:
        self._buttons = ButtonDesk(desk, "discord", log)
        self._taker = taker
        self._log = log
        self._commands = SlashCommands(desk, taker, log)

    async def take(self, interaction: Interaction, us: str, calls: Calls) -> None:
        """Take an interaction; a failure is told to the person, since Discord would show no reason."""
        reply = Reply(interaction, calls, self._log)
        try:
            await self._take(interaction, us, calls, reply)
        except (StoreUnavailable, Away, Fenced):
            raise  # it is taken up again
        except Exception as error:
            is_known = isinstance(error, PilothouseError) and not isinstance(error, StoreError)
            await _say(interaction, reply, str(error) if is_known else NOT_TAKEN)
            if not is_known:
                raise

    async def turn_down(self, interaction: Interaction, us: str, calls: Calls) -> None:
        """Answer an interaction that cannot be read."""
        await _say(interaction, Reply(interaction, calls, self._log), NOT_TAKEN)

    async def _take(self, interaction: Interaction, us: str, calls: Calls, reply: Reply) -> None:
        user = interaction.by
        place = await self._place(interaction, calls)
        if user is None or place is None:
            await reply.say(UNKNOWN)
            return
        scene = Done(interaction, author_of(user, interaction.member), place, reply, calls)
        if not self._is_heard(scene, user.id):
            await _say(interaction, reply, NOT_HERE)
            if interaction.type == COMPONENT:
                await self._buttons.unknown(scene.by)
        elif interaction.type == COMMAND:
            await self._commands.command(scene)
        elif interaction.type == AUTOCOMPLETE:
            await self._commands.complete(scene)
        else:
            await self._press(scene, us)

    def _is_heard(self, scene: Done, user: str) -> bool:
        """Is this person heard here? Decided without the store, which may be slow: nothing is acknowledged yet."""
        member, heard = scene.interaction.member, self._taker.heard(scene.place)
        return is_heard(user, member.roles if member else (), heard, direct=scene.place.direct)

    async def stop_quietly(self, address: Address, by: Author, turn: TurnId) -> None:
        """Somebody put the sign for "stop" on the progress of this turn; nobody can be told anything."""
        try:
            await self._buttons.stop(address, by, lambda live: live == turn)
        except StoreError:
            raise
        except PilothouseError as error:
            self._log("discord.stop_refused", by=by.id, why=str(error))

    async def _place(self, interaction: Interaction, calls: Calls) -> Place | None:
        if interaction.channel_id is None:
            return None
        id, guild = interaction.channel_id, interaction.guild_id
        return await self._taker.place(id, guild, calls, interaction.channel)

    async def _press(self, scene: Done, us: str) -> None:
        data = scene.interaction.data
        if data.custom_id.startswith(ABOUT):
            await self._commands.about(scene, us)
            return
        found = parse_key(data.custom_id, data.values)
        if isinstance(found, AskPress) and found.act == "words" and scene.interaction.type == COMPONENT:
            await self._open_form(scene, found)
            return
        await scene.reply.defer_update()
        if word := await self._carry_out(scene, found):
            await scene.reply.whisper(word)

    async def _carry_out(self, scene: Done, found: Press | None) -> str:
        """Do what was pressed; return a sentence for this person, or nothing."""
        match found:
            case StopPress(turn_id=turn_id):
                return await self._press_stop(scene, turn_id)
            case CommandPress(line=line):
                return await self._buttons.run(scene.place.address, scene.by, line, scene.native_id)
            case AskPress():
                return await self._answer(scene, found)
            case None:
                return await self._buttons.unknown(scene.by)

    async def _press_stop(self, scene: Done, turn_id: TurnId | None) -> str:
        word = await self._buttons.press_stop(scene.place.address, scene.by, turn_id)
        if word == ENDED:
            await self._take_buttons_away(scene)
        return word

    async def _open_form(self, scene: Done, found: AskPress) -> None:
        """Open a form. It must be the first answer, so the ask is looked up before, for a moment only."""
        row: AskRow | str = TOO_LONG
        with anyio.move_on_after(LOOK_S), suppress(StoreError):
            row = await self._buttons.ask(found, scene.by)
        if not isinstance(row, AskRow):
            await scene.reply.say(row)
            return
        form = form_of(row.ask, found)
        if row.state != "open" or form is None:
            await scene.reply.say(ENDED if form is not None else UNKNOWN)
            await self._tidy(scene, row.ask.id)
            return
        await scene.reply.ask(form)

    async def _answer(self, scene: Done, found: AskPress) -> str:
        row = await self._buttons.ask(found, scene.by)
        if not isinstance(row, AskRow):
            return row
        if found.act == "details":
            await self._buttons.show_details(row, scene.place.address, scene.by, scene.interaction.id)
            return ""
        words = "\n".join(inputs(scene.interaction.data.components).values())
        answered = await self._buttons.answer(row, found, scene.by, words)
        if isinstance(answered, str):
            return answered
        await self._tidy(scene, row.ask.id)
        return "" if answered.accepted else answered.text

    async def _tidy(self, scene: Done, ask_id: AskId) -> None:
        """Remove the buttons of an answered ask, unless its closing line will replace them anyway."""
        message = scene.interaction.message
        if message is None:
            return
        ref = MessageRef(scene.place.address, message.id)
        if await self._buttons.has_dead_buttons(ref, ask_id, scene.by):
            await self._take_buttons_away(scene)

    async def _take_buttons_away(self, scene: Done) -> None:
        """Remove the buttons of a question or progress that a crash left behind. A forged press changes no message."""
        message, key = scene.interaction.message, scene.interaction.data.custom_id
        about = key.split("|")[:2]
        if message is None or not message.id.isdecimal():
            return
        if any(other.split("|")[:2] == about for other in message.keys):
            ids = {"channel_id": message.channel_id, "message_id": message.id}
            await scene.calls.call("PATCH", MESSAGE, {"components": []}, **ids)


async def _say(interaction: Interaction, reply: Reply, text: str) -> None:
    """Tell this person something; while they type, only an empty list of choices can be sent."""
    await (reply.suggest(()) if interaction.type == AUTOCOMPLETE else reply.tell(text))
