"""What setting up a bot has in common: its token is asked for, tried before it is kept, and kept where only we read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from pilothouse.bootstrap.saying import say
from pilothouse.cli.files import write_private
from pilothouse.cli.question import ask_for
from pilothouse.config import Paths
from pilothouse.core.channel import Met
from pilothouse.core.errors import ConfigError

T = TypeVar("T")


def ask_bot(
    channel: str, question: str, wanted: bool | None, yes: bool, try_token: Callable[[str], T]
) -> T | None:
    """The bot whose token somebody gave; None if nobody wants the channel, or it is not installed.

    On a terminal a token that does not work is asked for again: what was answered before is not lost, and the next
    thing that is pasted does not end up, readable, in the shell.
    """
    from pilothouse.plugins import Plugins

    if wanted is False or (yes and not wanted) or channel not in Plugins().names("channels"):
        return None
    token = os.environ.get(variable_of(channel), "").strip()
    while True:
        if not token and not yes:
            token = ask_for(question, hidden=True).strip()
        try:
            return try_token(token) if token else _without_token(channel, wanted)
        except ConfigError as error:
            if yes or not sys.stdin.isatty():
                raise
            say(f"no: {error}", sys.stdout)
            token = ""


def _without_token(channel: str, wanted: bool | None) -> None:
    if wanted:
        raise ConfigError(f"--{channel} needs a token: set {variable_of(channel)}, or answer the question.")


def settings_of(channel: str, token: str, **more: str) -> Any:
    """The channel's settings, as far as they are known. Raises `ConfigError` where they cannot work."""
    from pilothouse.core.secret import Secret
    from pilothouse.plugins import Plugins

    spec = Plugins().channel(channel)
    settings = spec.config(token=Secret(token), **{name: value for name, value in more.items() if value})
    if problem := spec.problem(settings):
        raise ConfigError(f"{spec.title}: {problem}")
    return settings


def meet(channel: str, settings: Any) -> Met:
    from pilothouse.plugins import Plugins

    spec = Plugins().channel(channel)
    assert spec.meet is not None, "our own channel says who it is"
    return spec.meet(settings)


def keep_token(paths: Paths, channel: str, token: str) -> None:
    """Beside what else stands in .env, which only its owner may read."""
    file, name = paths.env_file, variable_of(channel)
    before = file.read_text(encoding="utf-8") if file.exists() else ""
    lines = [line for line in before.splitlines() if not re.match(rf"\s*(export\s+)?{name}\s*=", line)]
    write_private(file, "\n".join([*lines, f"{name}={token}"]) + "\n")


def variable_of(channel: str) -> str:
    return f"{channel.upper()}_TOKEN"
