"""The pages of the channels list every key of their sections."""

from __future__ import annotations

import re

import pytest
from msgspec import Struct
from tests.dists import ROOT

from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.channels.telegram.config import TelegramConfig, WebhookConfig

PAGES: dict[str, tuple[type[Struct], ...]] = {
    "discord": (DiscordConfig,),
    "telegram": (TelegramConfig, WebhookConfig),
}


def keys_of(page: str) -> list[str]:
    """Keys in the first cells of the tables below "Settings": `a`, `a` `b`, or `a."NAME"`."""
    settings = page.split("\n## Settings\n", 1)[1].split("\n## ", 1)[0]
    cells = re.findall(r"^\| (`[^|]+`) \|", settings, flags=re.MULTILINE)
    return [key for cell in cells for key in re.findall(r"`(\w+)[^`]*`", cell)]


@pytest.mark.parametrize("channel", PAGES)
def test_the_page_lists_every_key(channel: str) -> None:
    page = (ROOT / "docs" / "channels" / f"{channel}.md").read_text()
    fields = [name for model in PAGES[channel] for name in model.__struct_fields__]
    assert sorted(keys_of(page)) == sorted(fields)
