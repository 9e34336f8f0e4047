"""The authority table: every door has a row, and each row is written out once more here, role by role."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.ask import Remember, Verdict
from pilothouse.core.channel import Desk
from pilothouse.core.ids import UserId
from pilothouse.core.people import AUTHORITY, ROLES, Grant, People, Role, allows, at_least
from pilothouse.runtime.commands.table import COMMANDS
from pilothouse.runtime.desk import QUERIES

OWNER, ADMIN, MEMBER = UserId("telegram:1"), UserId("telegram:2"), UserId("telegram:3")
NOBODY = UserId("telegram:4")
PEOPLE = People(
    {OWNER: "owner", ADMIN: "admin", MEMBER: "member"}, {"/srv/shop": {NOBODY: "member", MEMBER: "admin"}}
)

FOR_STRANGERS = {"command.pair"}
FOR_ADMINS = {
    "command.bind.set",
    "command.engine.set",
    "command.model.set",
    "command.trigger.set",
    "command.cancel.foreign",
    "command.tasks.foreign",
    "command.lanes.change",
    "button.always",
}
FOR_OWNERS = {
    "desk.arrived",
    "desk.left",
    "desk.moved",
    "desk.running",
    "query.across",
    "query.places",
    "command.mode.set",
    "command.mcp.auth",
    "command.resume.foreign",
    "command.engines_own",
    "command.asks.all",
    "command.send.guarded",
}


def doors() -> set[str]:
    """Whatever a surface can reach, read from the code itself."""
    desk = {f"desk.{name}" for name in vars(Desk) if not name.startswith("_")}
    queries = {
        f"query.{name}"
        for name in (*QUERIES, "engine", "engines", "mode", "model", "model_facts", "models", "sessions")
    }
    commands = {f"command.{name}" for name in COMMANDS}
    buttons = {f"button.{name}" for name in (*get_args(Verdict), *get_args(Remember))}
    return desk | queries | commands | buttons


def test_every_method_query_command_and_button_has_a_row() -> None:
    assert doors() - set(AUTHORITY) == set(), "give each new one a row in core/people.py"


def test_every_row_is_about_something_that_exists() -> None:
    narrower = {"query.across", "command.engines_own"}
    for deed in set(AUTHORITY) - doors() - narrower:
        assert deed.rpartition(".")[0] in doors(), f"nothing is called {deed}"


@pytest.mark.parametrize("deed", sorted(AUTHORITY))
def test_who_may_do_what_stands_in_one_table(deed: str) -> None:
    needed: Role = "member"
    if deed in FOR_STRANGERS:
        needed = "stranger"
    elif deed in FOR_ADMINS:
        needed = "admin"
    elif deed in FOR_OWNERS:
        needed = "owner"
    for role in ROLES:
        assert allows(role, deed) is at_least(role, needed), role


def test_a_deed_without_a_row_is_nobodys() -> None:
    assert not PEOPLE.may(OWNER, "command.format_the_disk")


@pytest.mark.parametrize("deed", sorted(set(AUTHORITY) - FOR_STRANGERS))
def test_nobody_is_let_in_by_default(deed: str) -> None:
    for user in (NOBODY, UserId(""), UserId("discord:1")):
        assert not PEOPLE.may(user, deed)
    assert not People().may(OWNER, deed)


def test_the_same_number_on_another_platform_is_another_person() -> None:
    assert PEOPLE.role(UserId("discord:1")) == "stranger"


@pytest.mark.parametrize(
    ("workspace", "role"),
    [
        ("/srv/shop", "member"),
        ("/srv/shop/api", "member"),
        ("/srv/shopping", "stranger"),
        ("/srv", "stranger"),
        ("/srv/shop/../secret", "stranger"),
        ("", "stranger"),
    ],
)
def test_a_role_in_a_workspace_holds_there_and_below(workspace: str, role: Role) -> None:
    assert PEOPLE.role(NOBODY, workspace) == role


def test_the_highest_of_what_was_granted_counts() -> None:
    assert PEOPLE.role(MEMBER, "/srv/shop") == "admin"
    assert PEOPLE.role(OWNER, "/srv/shop", [Grant(OWNER, "member", "/srv/shop")]) == "owner"
    assert PEOPLE.role(NOBODY, grants=[Grant(NOBODY, "admin")]) == "admin"
    assert PEOPLE.role(NOBODY, grants=[Grant(MEMBER, "owner")]) == "stranger", "somebody else's grant"


@given(st.lists(st.sampled_from(ROLES)), st.sampled_from(sorted(AUTHORITY)))
def test_another_grant_never_takes_anything_away(roles: list[Role], deed: str) -> None:
    grants = [Grant(NOBODY, role) for role in roles]
    for count in range(len(grants)):
        if PEOPLE.may(NOBODY, deed, grants=grants[:count]):
            assert PEOPLE.may(NOBODY, deed, grants=grants[: count + 1])
