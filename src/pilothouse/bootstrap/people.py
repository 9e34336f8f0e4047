"""Who the configuration lets in, and who sits at the machine. Light: the commands of the shell need it too.

A code that lets somebody in, drawn and offered.
"""

from __future__ import annotations

import getpass
import os
import secrets
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from pilothouse.config import ALWAYS_ON, Config
from pilothouse.core.errors import PluginError
from pilothouse.core.ids import UserId
from pilothouse.core.people import Approvers, People, Role
from pilothouse.core.policy import ToolClass
from pilothouse.core.store import Tx

if TYPE_CHECKING:
    from pilothouse.plugins import Plugins


def terminal_user() -> UserId:
    """Whoever may read our files is the operating system's business: they own this house."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return UserId(f"terminal:{name}")


def make_people(config: Config) -> People:
    """Whom the configuration lets in, and the person at the machine, who has it anyway."""
    lists = (
        ("member", config.people.members),
        ("admin", config.people.admins),
        ("owner", config.people.owners),
    )
    roles: dict[UserId, Role] = {UserId(user): role for role, users in lists for user in users}
    workspaces: dict[str, dict[UserId, Role]] = {}
    for row in config.workspaces.values():
        here = workspaces.setdefault(os.path.realpath(os.path.expanduser(row.path)), {})
        here |= {UserId(user): "member" for user in row.members}
        here |= {UserId(user): "admin" for user in row.admins}
    return People({**roles, terminal_user(): "owner"}, workspaces)


def person_problem(plugins: Plugins, person: str) -> str:
    """Why this `channel:id` is nobody; empty if it may be somebody. Of a channel that did not load nobody can say."""
    channel, _, id = person.partition(":")
    try:
        spec = None if channel == ALWAYS_ON else plugins.channel(channel)
    except PluginError as error:
        return "" if channel in plugins.names("channels") else str(error)
    form = spec.user_ids if spec else None
    if spec is None or form is None or form.pattern.fullmatch(id):
        return ""
    return f"on {spec.title} people are known by {form.words}; leave it out, and let them in with pilothouse pair"


def make_approvals(config: Config) -> dict[ToolClass, Approvers]:
    destructive = Approvers(*msgspec.structs.astuple(config.approvals.destructive))
    return {"ordinary": config.approvals.ordinary, "destructive": destructive}


class Offer(Struct, frozen=True):
    code: str
    """As it is shown: two halves."""
    role: Role


def offer(
    tx: Tx, config: Config, *, at: float, open_s: float, role: Role | None = None, folder: str = ""
) -> Offer:
    """A new code, and what it gives: without a `role` an owner's, if there is none yet, else a member's."""
    from pilothouse.runtime.admission import ALPHABET, has_owner, offer_pairing

    code = "".join(secrets.choice(ALPHABET) for _ in range(8))
    first = not folder and not has_owner(tx, make_people(config), terminal_user())
    given: Role = role or ("owner" if first else "member")
    offer_pairing(tx, code, role=given, workspace=folder, at=at, open_s=open_s)
    return Offer(f"{code[:4]}-{code[4:]}", given)
