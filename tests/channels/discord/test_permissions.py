"""A bot's permissions in a channel, compared with another implementation of Discord's rule."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import discord
from hypothesis import given
from hypothesis import strategies as st
from simcord.backend import Backend, serializers
from simcord.backend.models import Overwrite
from simcord.backend.permissions import compute
from simcord.enums import OverwriteType

from pilothouse.channels.discord.servers import (
    ALL,
    INVITED,
    NEEDED,
    Room,
    Server,
    missing_in,
    permissions_in,
)
from pilothouse.channels.discord.wire import Member, read

BITS = st.integers(0, (1 << 40) - 1)


@given(
    roles=st.lists(st.tuples(BITS, st.booleans()), max_size=4),
    everybody=BITS,
    rules=st.lists(st.tuples(st.integers(0, 6), BITS, BITS), max_size=6, unique_by=lambda rule: rule[0]),
)
def test_permissions_are_as_simcord_computes_them(
    roles: list[tuple[int, bool]], everybody: int, rules: list[tuple[int, int, int]]
) -> None:
    """Targets 0 and 1 are everybody and we; the others are roles, whether we have them or not."""
    state = Backend()
    guild = state.create_guild("Lab")
    channel = state.create_channel(guild.id, "general")
    me = state.bot_user.id
    state.edit_role(guild.id, guild.id, {"permissions": everybody})
    made = [state.create_role(guild.id, f"role {n}", permissions=bits) for n, (bits, _) in enumerate(roles)]
    for role, (_, held) in zip(made, roles, strict=True):
        if held:
            state.add_member_role(guild.id, me, role.id)
    targets = [guild.id, me, *(role.id for role in made)]
    for target, allow, deny in rules:
        if target < len(targets):
            kind = OverwriteType.MEMBER if target == 1 else OverwriteType.ROLE
            state.set_overwrite(channel.id, Overwrite(targets[target], kind, allow, deny))
    room = read(dict(serializers.channel_payload(state, channel)), Room)
    server = read(dict(serializers.guild_create_payload(state, guild)), Server)
    member = read(dict(serializers.member_payload(state, guild, guild.members[me])), Member)
    assert isinstance(room, Room)
    assert isinstance(server, Server)
    assert isinstance(member, Member)
    found = permissions_in(room, server, str(me), member.roles)
    expected = compute(guild, me, channel, now=datetime.now(UTC))
    assert found == expected or (found == ALL and expected == discord.Permissions.all().value)
    assert missing_in(found) == [name for name, bit in NEEDED.items() if not expected & bit]


def test_the_invitation_asks_for_exactly_what_we_use() -> None:
    used = discord.Permissions(
        view_channel=True,
        send_messages=True,
        send_messages_in_threads=True,
        create_public_threads=True,
        manage_threads=True,
        attach_files=True,
        read_message_history=True,
        add_reactions=True,
    )
    assert used.value == INVITED
    page = Path(__file__).parents[3] / "docs" / "channels" / "discord.md"
    assert f"permissions={INVITED}`" in page.read_text()
