"""People of the configuration, the person at the machine, and pairing codes. Cheap to import: shell commands use it."""

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
from pilothouse.core.people import OWNERS, Approvers, People, Role
from pilothouse.core.policy import ToolClass
from pilothouse.core.store import Tx

if TYPE_CHECKING:
    from pilothouse.plugins import Plugins


def terminal_user() -> UserId:
    """Returns the user of this process. The operating system decides who can read our files, so that user is an owner."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return UserId(f"terminal:{name}")


def make_people(config: Config) -> People:
    """Collects the roles of the configuration, with the person at the machine as an owner."""
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
    """Says why this `channel:id` cannot be a person; empty if it can, or if its channel's plugin did not load."""
    channel, _, id = person.partition(":")
    try:
        spec = None if channel == ALWAYS_ON else plugins.channel(channel)
    except PluginError as error:
        return "" if channel in plugins.names("channels") else str(error)
    form = spec.user_ids if spec else None
    if spec is None or form is None or form.pattern.fullmatch(id):
        return ""
    return f"on {spec.title} an id is {form.words}; leave it out, and let people in with `pilothouse pair`"


def make_approvals(config: Config) -> dict[ToolClass, Approvers]:
    destructive = Approvers(*msgspec.structs.astuple(config.approvals.destructive))
    return {"ordinary": config.approvals.ordinary, "destructive": destructive, "own": OWNERS}


class Offer(Struct, frozen=True):
    code: str
    """As shown to people: two halves."""
    role: Role


def offer_code(
    tx: Tx, config: Config, *, at: float, open_s: float, role: Role | None = None, folder: str = ""
) -> Offer:
    """Stores a new pairing code. Without a `role` it gives owner if there is no owner yet, else member."""
    from pilothouse.runtime.admission import ALPHABET, has_owner, offer_pairing

    code = "".join(secrets.choice(ALPHABET) for _ in range(8))
    first = not folder and not has_owner(tx, make_people(config), terminal_user())
    given: Role = role or ("owner" if first else "member")
    offer_pairing(tx, code, role=given, workspace=folder, at=at, open_s=open_s)
    return Offer(f"{code[:4]}-{code[4:]}", given)
