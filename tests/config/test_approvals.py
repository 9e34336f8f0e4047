"""`[people]` and `[approvals]`: who is let in, who may say yes, and no key that loosens another by being set."""

from __future__ import annotations

import getpass

import pytest
from tests.config.homes import Home

from pilothouse.bootstrap.people import make_approvals, make_people
from pilothouse.config import InvalidConfig
from pilothouse.core.ids import UserId
from pilothouse.core.people import DESTRUCTIVE, ORDINARY, OWNERS, Approvers


def test_what_nobody_sets_is_the_default(home: Home) -> None:
    assert make_approvals(home.load().config) == {
        "ordinary": ORDINARY,
        "destructive": DESTRUCTIVE,
        "own": OWNERS,
    }


def test_setting_one_key_of_the_destructive_class_does_not_loosen_the_others(home: Home) -> None:
    found = make_approvals(
        home.load("[approvals.destructive]\nquorum = 2\nexclude_requester = true\n").config
    )
    assert found["destructive"] == Approvers(("admin",), exclude_requester=True, quorum=2)
    assert found["ordinary"] == ORDINARY


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[approvals.ordinary]\nroles = ['king']\n", "approvals.ordinary.roles"),
        ("[approvals.ordinary]\nroles = []\n", "no one could approve"),
        ("[approvals.destructive]\nroles = ['requester']\nquorum = 2\n", "only the requester"),
        ("[approvals.destructive]\nquorum = 0\n", "at least 1"),
        ("[approvals.ordinary]\nroute = 'everywhere'\n", "here, private"),
        ("[people]\nadmins = ['bob']\n", "channel:id"),
    ],
)
def test_a_rule_that_cannot_work_is_an_error(home: Home, text: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        home.load(text)


def test_the_highest_list_counts_and_workspaces_have_their_own(home: Home) -> None:
    shop = home.folder / "shop"
    shop.mkdir()
    text = (
        "[people]\nowners = ['a:1']\nadmins = ['a:1', 'a:2']\nmembers = ['a:2', 'a:3']\n"
        f"[workspaces.shop]\npath = '{shop}'\nadmins = ['a:3']\nmembers = ['a:4']\n"
    )
    people = make_people(home.load(text).config)
    assert [people.role(UserId(f"a:{n}")) for n in (1, 2, 3, 4)] == ["owner", "admin", "member", "stranger"]
    assert [people.role(UserId(f"a:{n}"), str(shop)) for n in (3, 4)] == ["admin", "member"]
    assert people.role(UserId(f"terminal:{getpass.getuser()}")) == "owner"
