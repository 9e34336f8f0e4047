"""Points discord.py at a server: Discord's own, or the one of the tests.

discord.py has no documented setting for this, so two of its class attributes are set here and nowhere else.
`tests/channels/discord/test_endpoint.py` fails if a release renames one of them.
"""

from __future__ import annotations

import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from pilothouse.channels.discord.config import DiscordConfig


def point_at(config: DiscordConfig) -> None:
    """Use the addresses of a configuration, for every client in this process."""
    Route.BASE = config.api_base.rstrip("/")
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(config.gateway_url)
