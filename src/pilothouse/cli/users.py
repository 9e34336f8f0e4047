"""`pilothouse users`: lists people and their roles, grants and revokes. A revoke takes effect at once, everywhere."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import click
import msgspec

from pilothouse.cli.options import ListGroup, json_option
from pilothouse.cli.store import existing_folder, load_plain, read_store, write_store
from pilothouse.cli.table import ago, print_json, print_table
from pilothouse.core.errors import ConfigError, PilothouseError
from pilothouse.core.ids import UserId
from pilothouse.core.people import Grant, Role
from pilothouse.core.store import Tx
from pilothouse.runtime.audit import record

HEADS = ("USER", "ROLE", "WHERE", "FROM", "SINCE", "NAME")
PERSON = re.compile(r"[^:\s]+:\S+")
EVERYWHERE = "everywhere"

workspace_option = click.option("--workspace", metavar="PATH", help="Only in this folder and below it.")


@click.group("users", cls=ListGroup, invoke_without_command=True)
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List who is let in, with their roles."""
    if ctx.invoked_subcommand is not None:
        return
    rows = [
        *_configured(),
        *((grant, grant.by) for grant in read_store(lambda tx: tx.people.everybody()) or ()),
    ]
    if as_json:
        print_json([{**msgspec.to_builtins(grant), "from": source} for grant, source in rows])
        return
    now = time.time()
    print_table(
        HEADS, [_line(grant, source, now) for grant, source in rows], "nobody", optional=("NAME", "SINCE")
    )


@command.command("grant")
@click.argument("user")
@click.argument("role", type=click.Choice(("owner", "admin", "member")))
@workspace_option
@click.option("--name", default="", help="What to call them in lists.")
@json_option
def grant(user: str, role: Role, workspace: str | None, name: str, as_json: bool) -> None:
    """Let somebody in, or give them another role. USER is channel:id, such as telegram:12345."""
    person, at = _possible_person(user), time.time()
    given = Grant(person, role, existing_folder(workspace) if workspace else "", name, "shell", at)

    from pilothouse.runtime.admission import grant_access
    from pilothouse.runtime.ports import new_id

    def unit(tx: Tx) -> None:
        grant_access(tx, new_id, given, at)
        record(tx, at, _shell(), "people.granted", user=person, role=role, workspace=given.workspace)

    write_store(unit)
    if as_json:
        print_json(msgspec.to_builtins(given))
        return
    print(f"{person} is {role} {_where(given.workspace)}.")


@command.command("revoke")
@click.argument("user")
@workspace_option
@json_option
def revoke(user: str, workspace: str | None, as_json: bool) -> None:
    """Take back what was granted; without --workspace, all of it. Takes effect at once, for open asks too."""
    person, at = _person(user), time.time()
    place = None if workspace is None else os.path.realpath(os.path.expanduser(workspace))

    def unit(tx: Tx) -> list[Grant]:
        taken = tx.people.revoke(person, place)
        for one in taken:
            record(tx, at, _shell(), "people.revoked", user=person, role=one.role, workspace=one.workspace)
        return taken

    taken = write_store(unit)
    if as_json:
        print_json(msgspec.to_builtins(taken))
    revoked = f"{person} is no longer {_roles(taken)}" if taken else ""
    if left := [one for one, _ in _configured() if one.user == person and place in (None, one.workspace)]:
        raise ConfigError(f"{revoked}, but {_why_left(person, left)}" if revoked else _why_left(person, left))
    if not taken:
        raise PilothouseError(f"{person} was granted nothing{'' if place is None else f' in {place}'}.")
    if not as_json:
        print(f"{revoked}.")


def _why_left(person: UserId, left: list[Grant]) -> str:
    if person == _shell():
        return f"{person} is the user of this machine and always an owner: that cannot be revoked."
    file = load_plain().paths.config_file
    return f"{person} is still {_roles(left)}, by {file}: remove the id there; that takes effect at once."


def _roles(grants: list[Grant]) -> str:
    return ", ".join(f"{grant.role} {_where(grant.workspace)}" for grant in grants)


def _configured() -> list[tuple[Grant, str]]:
    from pilothouse.bootstrap.people import make_people

    people, source = make_people(load_plain().config), "config.toml"
    everywhere = [
        (Grant(user, role), "this machine" if user == _shell() else source)
        for user, role in people.roles.items()
    ]
    places = [
        (Grant(user, role, workspace), source)
        for workspace, roles in people.workspaces.items()
        for user, role in roles.items()
    ]
    return [*everywhere, *places]


def _shell() -> UserId:
    from pilothouse.bootstrap.people import terminal_user

    return terminal_user()


def _person(user: str) -> UserId:
    if not PERSON.fullmatch(user):
        raise ConfigError(f"{user!r} is not a user id: write channel:id, such as telegram:12345.")
    return UserId(user)


def _possible_person(user: str) -> UserId:
    """Rejects ids that no channel can produce. Revoking skips this check: a useless grant must be removable."""
    from pilothouse.bootstrap.people import person_problem
    from pilothouse.plugins import Plugins

    person = _person(user)
    if why := person_problem(Plugins(), person):
        raise ConfigError(f"{user!r} cannot be anyone's id: {why}.")
    return person


def _where(workspace: str) -> str:
    return f"in {workspace}" if workspace else EVERYWHERE


def _line(grant: Grant, source: str, now: float) -> tuple[Any, ...]:
    since = ago(now - grant.at) if grant.at else "-"
    return (grant.user, grant.role, grant.workspace or EVERYWHERE, source, since, grant.name or "-")
