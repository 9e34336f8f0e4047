"""The authority table, written out once more: whoever changes it changes it here too, and says so."""

from typing import get_args

import pytest

from pilothouse.core.ids import UserId
from pilothouse.core.people import Deed, People, Role

OWNER, MEMBER, STRANGER = UserId("telegram:1"), UserId("telegram:2"), UserId("telegram:3")
PEOPLE = People({OWNER: "owner", MEMBER: "member", STRANGER: "stranger"})
USERS: dict[Role, UserId] = {"owner": OWNER, "member": MEMBER, "stranger": STRANGER}

TABLE: dict[Deed, dict[Role, bool]] = {
    "message": {"owner": True, "member": True, "stranger": False},
    "answer": {"owner": True, "member": True, "stranger": False},
    "command": {"owner": True, "member": True, "stranger": False},
    "configure": {"owner": True, "member": False, "stranger": False},
    "follow": {"owner": True, "member": True, "stranger": False},
    "query": {"owner": True, "member": True, "stranger": False},
    "engine_command": {"owner": True, "member": False, "stranger": False},
}


@pytest.mark.parametrize("role", get_args(Role))
@pytest.mark.parametrize("deed", get_args(Deed))
def test_who_may_do_what_stands_in_one_table(deed: Deed, role: Role) -> None:
    assert PEOPLE.may(USERS[role], deed) is TABLE[deed][role]


@pytest.mark.parametrize("deed", get_args(Deed))
def test_nobody_is_let_in_by_default(deed: Deed) -> None:
    assert not PEOPLE.may(UserId("telegram:4"), deed)
    assert not PEOPLE.may(UserId(""), deed)
    assert not People().may(OWNER, deed)


def test_the_same_number_on_another_platform_is_another_person() -> None:
    assert PEOPLE.role(UserId("discord:1")) == "stranger"
