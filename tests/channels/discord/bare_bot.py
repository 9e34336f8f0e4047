"""A bot on plain discord.py in a process of its own: `python -m tests.channels.discord.bare_bot API GATEWAY TOKEN`.

It does what a test says in words of a message, and says `ready`, `resumed` and what it heard by messages, so that the test needs only to watch
the channel.
"""

import asyncio
import io
import sys
from typing import Any

import discord
import yarl
from discord import app_commands
from discord.gateway import DiscordWebSocket
from discord.http import Route


class Bot(discord.Client):
    def __init__(self) -> None:
        intents = discord.Intents.default()
        intents.message_content = True
        super().__init__(intents=intents)
        self.tree = app_commands.CommandTree(self)
        self.tree.add_command(slow)

    async def on_ready(self) -> None:
        for guild in self.guilds:
            self.tree.copy_global_to(guild=guild)
            await self.tree.sync(guild=guild)
        await self.general.send(f"ready {len(self.guilds[0].text_channels)}")

    async def on_resumed(self) -> None:
        await self.general.send("resumed")

    @property
    def general(self) -> discord.TextChannel:
        return self.guilds[0].text_channels[0]

    async def on_message(self, message: discord.Message) -> None:
        if message.author == self.user:
            return
        word, _, rest = message.content.partition(" ")
        deed = DEEDS.get(word)
        if deed is None:
            await message.channel.send(f"heard {message.content}")
            return
        try:
            await deed(self, message, rest)
        except discord.HTTPException as error:
            await message.channel.send(f"refused {error.status} {error.code}")

    async def on_interaction(self, interaction: discord.Interaction) -> None:
        if interaction.type is discord.InteractionType.component:
            await interaction.response.edit_message(content="pressed", view=None)
        elif interaction.type is discord.InteractionType.modal_submit:
            await interaction.response.send_message("filed", ephemeral=True)


@app_commands.command()
async def slow(interaction: discord.Interaction, what: str) -> None:
    """Thinks, answers, and changes its mind."""
    await interaction.response.defer(thinking=True)
    await interaction.followup.send(f"first {what}")
    await interaction.edit_original_response(content=f"then {what}")


async def upload(bot: Bot, message: discord.Message, rest: str) -> None:
    await message.channel.send("here", file=discord.File(io.BytesIO(rest.encode()), "note.txt"))


async def download(bot: Bot, message: discord.Message, rest: str) -> None:
    data = await message.attachments[0].read()
    await message.channel.send(f"read {data.decode()}")


async def say_too_much(bot: Bot, message: discord.Message, rest: str) -> None:
    await message.channel.send("x" * 2001)


async def lay_out(bot: Bot, message: discord.Message, rest: str) -> None:
    view = discord.ui.LayoutView(timeout=None)
    container: Any = discord.ui.Container(discord.ui.TextDisplay("in a card"))
    view.add_item(container)
    await message.channel.send(view=view)


async def offer(bot: Bot, message: discord.Message, rest: str) -> None:
    view = discord.ui.View(timeout=None)
    view.add_item(discord.ui.Button(label="Go", custom_id="go"))
    await message.channel.send("press", view=view)


async def rewrite(bot: Bot, message: discord.Message, rest: str) -> None:
    sent = await message.channel.send("0")
    await asyncio.gather(*(sent.edit(content=str(n)) for n in range(1, int(rest) + 1)))
    await message.channel.send("rewritten")


async def echo(bot: Bot, message: discord.Message, rest: str) -> None:
    async with message.channel.typing():
        await message.reply(rest)
    await message.add_reaction("👍")


async def recall(bot: Bot, message: discord.Message, rest: str) -> None:
    after = discord.Object(int(rest))
    said = [one.content async for one in message.channel.history(after=after, limit=None, oldest_first=True)]
    await message.channel.send(f"recalled {len(said)} from {said[0]} to {said[-2]}")


async def branch(bot: Bot, message: discord.Message, rest: str) -> None:
    thread = await message.create_thread(name=rest)
    await thread.send("in here")


DEEDS = {
    "upload": upload,
    "download": download,
    "too-much": say_too_much,
    "card": lay_out,
    "offer": offer,
    "rewrite": rewrite,
    "echo": echo,
    "recall": recall,
    "branch": branch,
}


def main(api_base: str, gateway_url: str, token: str) -> None:
    Route.BASE = api_base
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(gateway_url)
    Bot().run(token)


if __name__ == "__main__":
    main(*sys.argv[1:])
