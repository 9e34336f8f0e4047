"""Who may say yes, who may say no, and which votes count."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.ids import UserId
from pilothouse.core.people import (
    DESTRUCTIVE,
    ORDINARY,
    ROLES,
    Approver,
    Approvers,
    Authority,
    Role,
    Vote,
    describe_approvers,
    may_say_no,
    may_say_yes,
    valid_votes,
)

ASKER, OTHER = UserId("a:asker"), UserId("a:other")
approvers = st.builds(
    Approvers,
    st.lists(st.sampled_from(["requester", "member", "admin", "owner"]), min_size=2, unique=True).map(tuple),
    st.booleans(),
    st.integers(1, 3),
)
roles = st.sampled_from(ROLES)


@pytest.mark.parametrize(
    ("rule", "user", "yes", "no"),
    [
        (ORDINARY, ASKER, ["member", "admin", "owner"], ["member", "admin", "owner"]),
        (ORDINARY, OTHER, ["admin", "owner"], ["admin", "owner"]),
        (DESTRUCTIVE, ASKER, ["admin", "owner"], ["member", "admin", "owner"]),
        (DESTRUCTIVE, OTHER, ["admin", "owner"], ["admin", "owner"]),
        (Approvers(("owner",)), ASKER, ["owner"], ["member", "admin", "owner"]),
        (Approvers(("member",), exclude_requester=True), ASKER, [], ["member", "admin", "owner"]),
        (Approvers(("member",)), OTHER, ["member", "admin", "owner"], ["member", "admin", "owner"]),
        (Approvers(("requester",)), OTHER, [], []),
    ],
)
def test_who_may_say_yes_and_no(rule: Approvers, user: UserId, yes: list[Role], no: list[Role]) -> None:
    authority = Authority(rule, (ASKER,))
    assert [role for role in ROLES if may_say_yes(authority, user, role)] == yes
    assert [role for role in ROLES if may_say_no(authority, user, role)] == no


@given(approvers, st.sampled_from([ASKER, OTHER]), roles)
def test_whoever_may_say_yes_may_say_no_and_a_stranger_neither(
    rule: Approvers, user: UserId, role: Role
) -> None:
    authority = Authority(rule, (ASKER,))
    assert not may_say_yes(authority, user, role) or may_say_no(authority, user, role)
    assert not may_say_no(authority, user, "stranger")
    assert not (rule.exclude_requester and may_say_yes(authority, ASKER, role))


@given(approvers, roles)
def test_an_ask_for_one_person_is_nobody_elses(rule: Approvers, role: Role) -> None:
    authority = Authority(rule, (ASKER, OTHER), only=ASKER)
    assert not may_say_yes(authority, OTHER, role)
    assert not may_say_no(authority, OTHER, role)


@given(st.lists(st.sampled_from("abc")), st.dictionaries(st.sampled_from("abc"), roles))
def test_a_person_counts_once_and_only_with_the_role_of_this_moment(
    said: list[str], now: dict[str, Role]
) -> None:
    votes = [Vote(UserId(who), who, float(at)) for at, who in enumerate(said)]
    found = valid_votes(Authority(DESTRUCTIVE), votes, lambda user: now.get(user, "stranger"))
    assert sorted(vote.by for vote in found) == sorted(
        who for who in set(said) if now.get(who) in ("admin", "owner")
    )


@pytest.mark.parametrize(
    ("roles", "fields"),
    [((), {}), (("requester",), {"quorum": 2}), (("requester",), {"exclude_requester": True})],
)
def test_a_rule_that_nobody_can_meet_is_refused(
    roles: tuple[Approver, ...], fields: dict[str, object]
) -> None:
    with pytest.raises(ValueError, match="roles"):
        Approvers(roles, **fields)  # pyrefly: ignore[bad-argument-type]


def test_people_are_told_who_is_needed() -> None:
    assert describe_approvers(ORDINARY) == ""
    assert describe_approvers(DESTRUCTIVE) == "Only an admin or an owner may answer."
    two = Approvers(("member",), exclude_requester=True, quorum=2)
    assert (
        describe_approvers(two) == "2 people must allow this, each of them a member, but not the requester."
    )


@given(approvers, st.lists(st.sampled_from([ASKER, OTHER])).map(tuple))
def test_an_authority_is_stored_whole(rule: Approvers, requesters: tuple[UserId, ...]) -> None:
    authority = Authority(rule, requesters, "/w", OTHER)
    assert msgspec.json.decode(msgspec.json.encode(authority), type=Authority) == authority
