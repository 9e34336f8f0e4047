"""What setting up a bot has in common: its token is asked for, tried before it is kept, and kept where only we read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.files import tables, write_private
from pilothouse.cli.init_existing import Standing
from pilothouse.cli.question import ask_for
from pilothouse.config import Paths
from pilothouse.core.channel import BotIdentity
from pilothouse.core.errors import ConfigError

T = TypeVar("T")


def ask_bot(
    channel: str,
    question: str,
    wanted: bool | None,
    yes: bool,
    standing: Standing,
    try_token: Callable[[str], T],
) -> T | None:
    """The bot whose token somebody gave; None if nobody wants the channel, it stays as it is, or is not installed.

    On a terminal a token that does not work is asked for again: what was answered before is not lost, and the next
    thing that is pasted does not end up, readable, in the shell.
    """
    from pilothouse.plugins import Plugins

    if wanted is False or (yes and not wanted) or channel not in Plugins().names("channels"):
        return None
    token = set_before = os.environ.get(variable_of(channel), "").strip()
    question += f" to leave {channel} as it is" if standing.has_channel(channel) else ""
    while True:
        if not token and not yes:
            token = ask_for(question, hidden=True).strip()
        if not token and wanted:
            token = _standing_token(channel, standing)
        try:
            return try_token(token) if token else _without_token(channel, wanted)
        except ConfigError as error:
            if yes or not sys.stdin.isatty():
                raise
            by = (
                f" (it came from {variable_of(channel)} in the environment)"
                if token and token == set_before
                else ""
            )
            say(f"no: {error}{by}", sys.stdout)
            token = ""


def _without_token(channel: str, wanted: bool | None) -> None:
    if wanted:
        raise ConfigError(f"--{channel} needs a token: set {variable_of(channel)}, or answer the question.")


def _standing_token(channel: str, standing: Standing) -> str:
    token = getattr(standing.channel(channel), "token", None)
    return token.reveal() if token else ""


def settings_of(channel: str, standing: Standing, token: str, **more: str) -> Any:
    """The channel's settings, as far as they are known. Raises `ConfigError` where they cannot work."""
    from pilothouse.core.secret import Secret
    from pilothouse.plugins import Plugins

    spec = Plugins().channel(channel)
    said = {name: value for name, value in more.items() if value}
    settings = replace(standing.channel(channel) or spec.config(), token=Secret(token), **said)
    if problem := spec.problem(settings):
        raise ConfigError(f"{spec.title}: {problem}")
    return settings


def meet(channel: str, settings: Any) -> BotIdentity:
    from pilothouse.plugins import Plugins

    spec = Plugins().channel(channel)
    assert spec.meet is not None, "our own channel says who it is"
    return spec.meet(settings)


def table_of(channel: str, standing: Standing, **more: str) -> dict[str, Any]:
    """The section of a bot that was just tried: what else stood there stays. Its token is in .env, so it is not here."""
    stood = {
        name: value
        for name, value in standing.table("channels", channel).items()
        if name not in ("token", "enabled")
    }
    return stood | {name: value for name, value in more.items() if value}


def render_channel(channel: str, table: Mapping[str, Any], *, is_bot: bool) -> str:
    note = f"\n# The token is {variable_of(channel)} in .env." if is_bot else ""
    return note + tables(table, "channels", channel)


def keep_token(paths: Paths, channel: str, token: str) -> None:
    """Beside what else stands in .env, which only its owner may read."""
    file, name = paths.env_file, variable_of(channel)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    lines = [line for line in before.splitlines() if not re.match(rf"\s*(export\s+)?{name}\s*=", line)]
    write_private(file, "\n".join([*lines, f"{name}={token}"]) + "\n")
    if os.environ.get(name, "").strip() not in ("", token):
        say(f"the token is in {file}, but {name} in the environment counts before it: unset that", sys.stdout)


def variable_of(channel: str) -> str:
    return f"{channel.upper()}_TOKEN"
