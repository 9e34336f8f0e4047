"""The terminal as a channel. `chat` builds it with a mode; as a plugin it is interactive on this process's tty.

Cheap to import: rich and prompt_toolkit are imported when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pilothouse.channels.terminal.config import TERMINAL, TerminalConfig
from pilothouse.core.channel import ChannelHost, ChannelSpec

if TYPE_CHECKING:
    from pilothouse.channels.terminal.channel import TerminalChannel


def _build(config: TerminalConfig, host: ChannelHost) -> TerminalChannel:
    from pilothouse.channels.terminal.channel import TerminalChannel
    from pilothouse.channels.terminal.config import Interactive
    from pilothouse.channels.terminal.streams import system_streams

    return TerminalChannel(config, host, mode=Interactive(), streams=system_streams())


def _problem(config: TerminalConfig) -> str:
    return "" if config.width >= 20 else f"width is {config.width}; set it to at least 20 columns"


CHANNEL = ChannelSpec(TERMINAL, "Terminal", TerminalConfig, _build, _problem)
