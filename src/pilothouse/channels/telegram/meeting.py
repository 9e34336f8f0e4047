"""Asks Telegram once who we are, for whoever sets the channel up."""

from __future__ import annotations

import anyio

from pilothouse.channels.telegram.client import open_client
from pilothouse.channels.telegram.config import TelegramConfig
from pilothouse.channels.telegram.trouble import Trouble, Unauthorized
from pilothouse.channels.tokens import and_put
from pilothouse.core.channel import Met

WITHIN_S = 20.0


def meet(config: TelegramConfig) -> Met:
    return anyio.run(_meet, config)


async def _meet(config: TelegramConfig) -> Met:
    with anyio.move_on_after(WITHIN_S):
        async with open_client(config.endpoint) as client:
            me = await client.get_me()
        if isinstance(me, Unauthorized):
            how = f"copy it anew from @BotFather{and_put(config.token)}"
            return Met(problem=f"the token is refused ({me.text}): {how}")
        if isinstance(me, Trouble):
            return Met(
                problem=f"{me.text}. See whether this machine reaches {config.endpoint.shown}, and try again"
            )
        return Met(f"@{me.username}", f"https://t.me/{me.username}")
    return Met(problem=f"{config.endpoint.shown} did not answer within {WITHIN_S:.0f} s: try again")
