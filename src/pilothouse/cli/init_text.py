"""The file that `init` writes: the answers with a word about each, and what else stood there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from pilothouse.cli.files import literal, settings, tables
from pilothouse.cli.init_bots import render_channel
from pilothouse.cli.init_existing import Standing

TEMPLATE = """\
# `pilothouse config show` tells what is in force and where it came from,
# `pilothouse config check` what is wrong. Secrets belong into the file .env beside this one: NAME=value there,
# "${{NAME}}" here.

[gateway]
# The engine that answers where nobody chose another; "auto" takes the first that works here.
default_engine = {default_engine}
# The folder that engines work in where nobody chose another.
default_workspace = {default_workspace}
# What happens to a message that arrives during a turn: collect, queue, steer or interrupt.
busy = {busy}
{gateway}
[people]
# Who may configure, and who may talk: "channel:id". Others come in with a code of `pilothouse pair`, or when an
# owner says yes to their first message.
owners = {owners}
members = {members}
{people}
# A channel is on when its section stands here:
# [channels.telegram]
# token = "${{TELEGRAM_TOKEN}}"
# [channels.discord]
# token = "${{DISCORD_TOKEN}}"
"""

OURS = ("gateway", "people", "channels")


class Answers(Struct, frozen=True):
    workspace: str
    engine: str
    owners: tuple[str, ...]


def render(
    answers: Answers, standing: Standing, tried: Mapping[str, dict[str, Any]], dropped: Sequence[str]
) -> str:
    """The answers, and below them what stood there and nobody was asked about."""
    said = {"default_engine": answers.engine, "default_workspace": answers.workspace}
    gateway = {"busy": "collect"} | standing.table("gateway")
    gateway |= {key: standing.written("gateway", key, value) for key, value in said.items()}
    people = {"members": ()} | standing.table("people")
    people["owners"] = standing.written("people", "owners", answers.owners)
    text = TEMPLATE.format(
        **{key: literal(gateway.pop(key)) for key in (*said, "busy")},
        **{key: literal(people.pop(key)) for key in ("owners", "members")},
        gateway=settings(gateway),
        people=settings(people),
    )
    channels = {**standing.table("channels"), **tried}
    kept = {name: table for name, table in channels.items() if name not in dropped}
    text += "".join(render_channel(name, table, is_bot=name in tried) for name, table in kept.items())
    others = {name: table for name, table in standing.tree.items() if name not in OURS}
    return text + "".join(tables(table, name) for name, table in others.items() if isinstance(table, dict))
