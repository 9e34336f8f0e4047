"""Whom an ask of a turn reaches besides the people of its conversation, and what everybody reads about that.

In a private chat it is known who is there. If they are not enough to say yes, the ask would wait there for nobody: so it
goes to those who may, whatever the route. Of a room nobody knows who reads it, and its route decides.
"""

from __future__ import annotations

from pilothouse.core.ids import ConversationId, UserId
from pilothouse.core.people import Authority, People, may_say_yes
from pilothouse.core.store import Tx
from pilothouse.runtime.standing import MOST_HOMES, able_at_home, call_by_name, role_of

MOST_NAMES = 3
NOBODY = "Nobody else who may allow it has written to me in private yet; on the machine, `pilothouse asks` lists it."


def reach(
    tx: Tx, people: People, authority: Authority, here: ConversationId
) -> tuple[tuple[ConversationId, ...], str]:
    """The other places where it is shown, and whose it is, in words; nothing, where its own conversation is enough."""
    place, quorum = tx.conversations.get(here), authority.approvers.quorum
    is_private, stays = place is not None and place.private, authority.approvers.route == "here"
    present = _able_requesters(tx, people, authority) if is_private else set()
    if stays and (not is_private or len(present) >= quorum):
        return (), ""  # and nobody is looked for, which would read everybody
    able = able_at_home(tx, people, authority)
    present |= {user for user, home in able.items() if home == here}
    is_stuck = is_private and len(present) < quorum
    elsewhere = {user: home for user, home in able.items() if home != here}
    if not is_stuck and (stays or not elsewhere):
        return (), ""
    places = tuple(dict.fromkeys(elsewhere.values()))[:MOST_HOMES]
    asked = [user for user, home in elsewhere.items() if home in places]
    who = ", ".join(call_by_name(tx, user) for user in authority.requesters)
    where = "in their own chat" if is_private else f"in {here}"
    return places, f"{f'{who}, {where}' if who else f'what runs in {here}'}. {_asked(tx, asked)}"


def _able_requesters(tx: Tx, people: People, authority: Authority) -> set[UserId]:
    return {
        user
        for user in authority.requesters
        if may_say_yes(authority, user, role_of(tx, people, user, authority.workspace))
    }


def _asked(tx: Tx, users: list[UserId]) -> str:
    if not users:
        return NOBODY
    named = ", ".join(call_by_name(tx, user) for user in users[:MOST_NAMES])
    more = len(users) - MOST_NAMES
    return f"Asked: {named}{f' and {more} more' if more > 0 else ''}."
