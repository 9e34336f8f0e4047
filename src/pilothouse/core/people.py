"""People, roles, and the right to answer asks. Strangers have no access by default (law 7).

`AUTHORITY` is the one table of actions and the roles they need. A role holds everywhere, or in one workspace and below;
grants from the configuration and from the machine add up, and the higher role counts.
The people who may answer an ask are fixed when it is asked, and their roles are checked again at each answer. A listed
role lets that role and every higher one say yes; `requester` lets the person who asked for the work, if still a member.
One no is enough, and a requester may always say it. A yes counts once per person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal, Protocol, get_args

from msgspec import Meta, Struct, field

from pilothouse.core.ids import UserId

Role = Literal["stranger", "member", "admin", "owner"]
ROLES: tuple[Role, ...] = get_args(Role)
"""From lowest to highest; each role includes those before it."""

AUTHORITY: Mapping[str, Role] = {
    # Methods of the desk, which channels, web pages and RPC calls reach.
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
    "desk.running": "owner",  # called by channels themselves: it reveals everybody's turns
    "desk.moved": "owner",  # reported by channels for their platform
    "desk.arrived": "owner",
    "desk.left": "owner",
    # Queries. `across` reveals every conversation.
    "query.message": "member",
    "query.conversation": "member",
    "query.sessions": "member",
    "query.watching": "member",
    "query.turns": "member",
    "query.live_turn": "member",
    "query.asks": "member",
    "query.ask": "member",
    "query.dead_buttons": "member",
    "query.sent": "member",
    "query.queue": "member",
    "query.last_seq": "member",
    "query.engines": "member",
    "query.models": "member",
    "query.model_facts": "member",
    "query.engine": "member",
    "query.model": "member",
    "query.mode": "member",
    "query.places": "owner",
    "query.history": "member",
    "query.turn": "member",
    "query.across": "owner",
    # Commands. Changing a binding needs an admin.
    "command.help": "member",
    "command.new": "member",
    "command.stop": "member",
    "command.retry": "member",
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
    "command.mode": "member",
    "command.mode.set": "owner",
    "command.topic": "member",
    "command.trigger": "member",
    "command.trigger.set": "admin",
    "command.sessions": "member",
    "command.resume": "member",
    "command.resume.foreign": "owner",
    "command.search": "member",
    "command.watch": "member",
    "command.session": "member",
    "command.cost": "member",
    "command.lanes": "member",
    "command.lanes.change": "admin",
    "command.mcp": "member",
    "command.mcp.auth": "owner",
    "command.show": "member",
    "command.asks": "member",
    "command.asks.all": "owner",
    "command.send": "member",
    "command.send.guarded": "owner",
    "command.tasks": "member",
    "command.tasks.foreign": "admin",
    "command.pair": "stranger",
    "command.engines_own": "owner",
    # Buttons. These are minimum roles; each ask also has its own `Authority`.
    "button.allow": "member",
    "button.deny": "member",
    "button.answer": "member",
    "button.once": "member",
    "button.session": "member",
    "button.always": "admin",
}
"""The lowest role for each action. An action without a row is forbidden for everyone."""

Approver = Literal["requester", "member", "admin", "owner"]
RouteTo = Literal["auto", "here", "private"]


class Grant(Struct, frozen=True):
    """A role granted on the machine, everywhere or in one workspace."""

    user: UserId
    role: Role
    workspace: str = ""
    name: str = ""
    by: str = ""
    at: float = 0.0


class People(Struct, frozen=True):
    """The roles that the configuration grants. Everyone else is a stranger."""

    roles: Mapping[UserId, Role] = field(default_factory=dict)
    workspaces: Mapping[str, Mapping[UserId, Role]] = field(default_factory=dict)

    def role(self, user: UserId, workspace: str = "", grants: Iterable[Grant] = ()) -> Role:
        """Return the highest role. `grants` are this person's current grants in the store."""
        held = [self.roles.get(user, "stranger")]
        held += [
            roles[user]
            for folder, roles in self.workspaces.items()
            if user in roles and _covers(folder, workspace)
        ]
        held += [grant.role for grant in grants if grant.user == user and _covers(grant.workspace, workspace)]
        return highest(held)

    def may(self, user: UserId, action: str, workspace: str = "", grants: Iterable[Grant] = ()) -> bool:
        return allows(self.role(user, workspace, grants), action)


def allows(role: Role, action: str) -> bool:
    return action in AUTHORITY and at_least(role, AUTHORITY[action])


def at_least(role: Role, needed: Role) -> bool:
    return ROLES.index(role) >= ROLES.index(needed)


def highest(roles: Sequence[Role]) -> Role:
    return max(roles, key=ROLES.index, default="stranger")


def _covers(folder: str, workspace: str) -> bool:
    """True if a role in `folder` holds in `workspace`; an empty `folder` means everywhere."""
    if not folder:
        return True
    place = PurePosixPath(workspace)
    return bool(workspace) and ".." not in place.parts and place.is_relative_to(folder)


class PeopleTable(Protocol):
    """Grants made on the machine, without those of the configuration."""

    def grant(self, grant: Grant) -> None:
        """Replace the person's role in that workspace."""
        ...

    def revoke(self, user: UserId, workspace: str | None = None) -> list[Grant]:
        """Remove and return grants: of that workspace (`""` is everywhere), or with None all."""
        ...

    def of(self, user: UserId) -> list[Grant]: ...

    def everybody(self) -> list[Grant]:
        """By person, then by workspace."""
        ...


class Approvers(Struct, frozen=True):
    """The section `[approvals.<class>]`. With `route = "private"`, approvers also see the ask in their own chats; with
    `auto`, owners do while nobody is at its own place."""

    roles: tuple[Approver, ...] = ("requester", "admin")
    exclude_requester: bool = False
    quorum: Annotated[int, Meta(ge=1, description="a whole number of at least 1")] = 1
    route: RouteTo = "auto"

    def __post_init__(self) -> None:
        if not self.roles:
            raise ValueError(
                "roles is empty, so no one could approve; list requester, member, admin or owner"
            )
        if self.roles == ("requester",) and (self.exclude_requester or self.quorum > 1):
            raise ValueError(
                "roles has only the requester, who is excluded or not enough for the quorum; add admin or owner"
            )


ORDINARY = Approvers()
DESTRUCTIVE = Approvers(("admin",))
QUESTION = Approvers()
OWNERS = Approvers(("owner",))


class Authority(Struct, frozen=True):
    """The people who may answer one ask. `only` restricts it to one person."""

    approvers: Approvers = ORDINARY
    requesters: tuple[UserId, ...] = ()
    workspace: str = ""
    only: UserId | None = None


class Vote(Struct, frozen=True):
    """One yes of several that are needed."""

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


def was_asked(authority: Authority, user: UserId) -> bool:
    """True for the people whom the ask is addressed to; others may answer too."""
    return user == authority.only or user in authority.requesters


def valid_votes(authority: Authority, votes: Iterable[Vote], role_of: Callable[[UserId], Role]) -> list[Vote]:
    """Return the votes that count now: one per person who may still say yes."""
    by_person = {vote.by: vote for vote in votes}
    return [vote for vote in by_person.values() if may_say_yes(authority, vote.by, role_of(vote.by))]


def describe_approvers(approvers: Approvers) -> str:
    """Say in a sentence who may answer; empty for the default."""
    if approvers.roles == ORDINARY.roles and approvers.quorum == 1 and not approvers.exclude_requester:
        return ""
    names = _named(approvers)
    but = ", but not the requester" if approvers.exclude_requester else ""
    who = " or ".join(
        "the requester" if name == "requester" else f"an {name}" if name != "member" else "a member"
        for name in names
    )
    if approvers.quorum > 1:
        return f"{approvers.quorum} people must allow this, each of them {who}{but}."
    if "member" in names:
        return f"Any member may answer{but}."
    return f"Only {who} may answer{but}."


def _named(approvers: Approvers) -> list[str]:
    names = [name for name in ("requester", "member", "admin", "owner") if name in approvers.roles]
    if "admin" in names and "owner" not in names:
        names.append("owner")
    return [name for name in names if not (name == "requester" and approvers.exclude_requester)]
