"""The two attributes of discord.py that point it at a server exist, and clients use them."""

from __future__ import annotations

import yarl
from discord.gateway import DiscordWebSocket
from discord.http import Route

from pilothouse.channels.discord.client import point_at
from pilothouse.channels.discord.config import DiscordConfig


def test_discord_py_still_has_the_attributes_that_point_it_at_a_server() -> None:
    """If this fails after an update of discord.py, `point_at` has to set something else."""
    assert Route.BASE.startswith("http")
    assert isinstance(DiscordWebSocket.DEFAULT_GATEWAY, yarl.URL)


def test_requests_and_the_gateway_go_where_the_configuration_says() -> None:
    before = (Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY)
    try:
        point_at(DiscordConfig(api_base="http://127.0.0.1:9/api/v10/", gateway_url="ws://127.0.0.1:9"))
        assert Route("GET", "/users/@me").url == "http://127.0.0.1:9/api/v10/users/@me"
        assert DiscordWebSocket.DEFAULT_GATEWAY.host == "127.0.0.1"
    finally:
        Route.BASE, DiscordWebSocket.DEFAULT_GATEWAY = before
