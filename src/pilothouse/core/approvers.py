"""Who may answer an ask: fixed when it is asked, judged anew with everybody's role at each answer.

Rules: a listed role lets that role and every higher one say yes; `requester` lets whoever asked for the work, if they
are still a member. One no is a no, and a requester may always say it. A yes counts once per person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct

from pilothouse.core.ids import UserId
from pilothouse.core.people import Role, at_least

Approver = Literal["requester", "member", "admin", "owner"]
RouteTo = Literal["here", "private"]


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
