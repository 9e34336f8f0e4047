"""Who may do what: one authority table, asked by every surface. Nobody is let in by default (law 7).

A role is held everywhere or in one workspace and what is below it. What the configuration grants and what was granted
on the machine count together: the higher of them is somebody's role.

Who may answer an ask: fixed when it is asked, judged anew with everybody's role at each answer.

Rules: a listed role lets that role and every higher one say yes; `requester` lets whoever asked for the work, if they
are still a member. One no is a no, and a requester may always say it. A yes counts once per person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal, Protocol, get_args

from msgspec import Meta, Struct, field

from pilothouse.core.ids import UserId

Role = Literal["stranger", "member", "admin", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Each may do what those before it may."""

AUTHORITY: Mapping[str, Role] = {
    # The desk: every method that a channel, a web page or an RPC call reaches.
    "desk.accept": "member",
    "desk.expecting": "member",
    "desk.edited": "member",
    "desk.deleted": "member",
    "desk.answer": "member",
    "desk.command": "member",
    "desk.follow": "member",
    "desk.query": "member",
    "desk.settings_of": "member",
    "desk.address_of": "member",
    "desk.waiting": "owner",  # a channel asks these for itself: they tell of everybody
    "desk.running": "owner",
    "desk.moved": "owner",  # a channel says these for its platform; nobody else but an owner may
    "desk.arrived": "owner",
    "desk.left": "owner",
    # What may be asked of it. Across conversations it tells of everybody.
    "query.message": "member",
    "query.conversation": "member",
    "query.sessions": "member",
    "query.turns": "member",
    "query.live_turn": "member",
    "query.asks": "member",
    "query.ask": "member",
    "query.dead_buttons": "member",
    "query.queue": "member",
    "query.last_seq": "member",
    "query.engines": "member",
    "query.models": "member",
    "query.across": "owner",
    # Commands. Those that bind a conversation to something else are not a member's.
    "command.help": "member",
    "command.new": "member",
    "command.stop": "member",
    "command.status": "member",
    "command.queue": "member",
    "command.cancel": "member",
    "command.cancel.foreign": "admin",
    "command.engine": "member",
    "command.engine.set": "admin",
    "command.model": "member",
    "command.model.set": "admin",
    "command.bind": "member",
    "command.bind.set": "admin",
    "command.topic": "member",
    "command.trigger": "member",
    "command.trigger.set": "admin",
    "command.resume": "member",
    "command.resume.foreign": "owner",
    "command.session": "member",
    "command.cost": "member",
    "command.show": "member",
    "command.send": "member",
    "command.send.guarded": "owner",
    "command.pair": "stranger",
    "command.engines_own": "owner",
    # Buttons. Who may press one on a given ask is that ask's `Authority`; this is what it takes at least.
    "button.allow": "member",
    "button.deny": "member",
    "button.answer": "member",
    "button.once": "member",
    "button.session": "member",
    "button.always": "admin",
}
"""The least role for every deed. A deed without a row is nobody's."""

Approver = Literal["requester", "member", "admin", "owner"]
RouteTo = Literal["here", "private"]


class Grant(Struct, frozen=True):
    """A role that somebody was given on the machine, everywhere or in one workspace."""

    user: UserId
    role: Role
    workspace: str = ""
    name: str = ""
    by: str = ""
    at: float = 0.0


class People(Struct, frozen=True):
    """The roles that the configuration grants. Whoever was granted nothing is a stranger."""

    roles: Mapping[UserId, Role] = field(default_factory=dict)
    workspaces: Mapping[str, Mapping[UserId, Role]] = field(default_factory=dict)

    def role(self, user: UserId, workspace: str = "", grants: Iterable[Grant] = ()) -> Role:
        """`grants` are this person's, as the store has them now."""
        held = [self.roles.get(user, "stranger")]
        held += [
            roles[user]
            for folder, roles in self.workspaces.items()
            if user in roles and _covers(folder, workspace)
        ]
        held += [grant.role for grant in grants if grant.user == user and _covers(grant.workspace, workspace)]
        return highest(held)

    def may(self, user: UserId, deed: str, workspace: str = "", grants: Iterable[Grant] = ()) -> bool:
        return allows(self.role(user, workspace, grants), deed)


def allows(role: Role, deed: str) -> bool:
    return deed in AUTHORITY and at_least(role, AUTHORITY[deed])


def at_least(role: Role, needed: Role) -> bool:
    return ROLES.index(role) >= ROLES.index(needed)


def highest(roles: Sequence[Role]) -> Role:
    return max(roles, key=ROLES.index, default="stranger")


def _covers(folder: str, workspace: str) -> bool:
    """Whether a role in `folder` holds in `workspace`; one for no folder holds everywhere."""
    if not folder:
        return True
    place = PurePosixPath(workspace)
    return bool(workspace) and ".." not in place.parts and place.is_relative_to(folder)


class PeopleTable(Protocol):
    """What was granted on the machine. The configuration's people are not in here."""

    def grant(self, grant: Grant) -> None:
        """One role per person and workspace: it replaces what was granted there before."""
        ...

    def revoke(self, user: UserId, workspace: str | None = None) -> list[Grant]:
        """What was taken: in that workspace (`""` is the one for everywhere), or with None all of it."""
        ...

    def of(self, user: UserId) -> list[Grant]: ...

    def everybody(self) -> list[Grant]:
        """By person, then by workspace."""
        ...


class Approvers(Struct, frozen=True):
    """`[approvals.<class>]`. With a `route` of `private` the approvers see the ask in their own chats too."""

    roles: tuple[Approver, ...] = ("requester", "admin")
    exclude_requester: bool = False
    quorum: Annotated[int, Meta(ge=1, description="a whole number of at least 1")] = 1
    route: RouteTo = "here"

    def __post_init__(self) -> None:
        if not self.roles:
            raise ValueError(
                "roles is empty, so nobody could say yes; list requester, member, admin or owner"
            )
        if self.roles == ("requester",) and (self.exclude_requester or self.quorum > 1):
            raise ValueError("roles has only the requester, who is excluded or too few; add admin or owner")


ORDINARY = Approvers()
DESTRUCTIVE = Approvers(("admin",))
QUESTION = Approvers()
OWNERS = Approvers(("owner",))


class Authority(Struct, frozen=True):
    """Who may answer one ask. `only` narrows it to one person."""

    approvers: Approvers = ORDINARY
    requesters: tuple[UserId, ...] = ()
    workspace: str = ""
    only: UserId | None = None


class Vote(Struct, frozen=True):
    """A yes that needs others beside it."""

    by: UserId
    name: str
    at: float


def may_say_yes(authority: Authority, user: UserId, role: Role) -> bool:
    approvers, asked = authority.approvers, user in authority.requesters
    if authority.only not in (None, user) or not at_least(role, "member"):
        return False
    if approvers.exclude_requester and asked:
        return False
    if "requester" in approvers.roles and asked:
        return True
    return any(name != "requester" and at_least(role, name) for name in approvers.roles)


def may_say_no(authority: Authority, user: UserId, role: Role) -> bool:
    if authority.only not in (None, user) or not at_least(role, "member"):
        return False
    return user in authority.requesters or may_say_yes(authority, user, role)


def was_put_to(authority: Authority, user: UserId) -> bool:
    """Whether it is them who were asked: others may answer too, but nobody waits for what those say."""
    return user == authority.only or user in authority.requesters


def counted(authority: Authority, votes: Iterable[Vote], role_of: Callable[[UserId], Role]) -> list[Vote]:
    """The votes that count now: one per person, and only of those who may still say yes."""
    by_person = {vote.by: vote for vote in votes}
    return [vote for vote in by_person.values() if may_say_yes(authority, vote.by, role_of(vote.by))]


def describe_approvers(approvers: Approvers) -> str:
    """Who is needed, in a person's words; empty where it is the usual."""
    if approvers.roles == ORDINARY.roles and approvers.quorum == 1 and not approvers.exclude_requester:
        return ""
    who = " or ".join(
        "whoever asked" if name == "requester" else f"an {name}" if name != "member" else "a member"
        for name in _named(approvers)
    )
    many = f"{approvers.quorum} people must say yes, each of them " if approvers.quorum > 1 else "Needs "
    but = ", but not whoever asked" if approvers.exclude_requester else ""
    return f"{many}{who}{but}."


def _named(approvers: Approvers) -> list[str]:
    names = [name for name in ("requester", "member", "admin", "owner") if name in approvers.roles]
    if "admin" in names and "owner" not in names:
        names.append("owner")
    return [name for name in names if not (name == "requester" and approvers.exclude_requester)]
