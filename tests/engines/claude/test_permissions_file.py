"""A workspace narrows Claude's tools, and a file that nobody understands leaves none."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.engines.claude.config import FILE_TOOLS, HELPER_TOOLS
from pilothouse.engines.claude.permissions_file import Permissions, read_permissions
from pilothouse.engines.permissions_file import render_note

CONFIGURED = (*FILE_TOOLS, *HELPER_TOOLS)


def tools(tier: str, configured: tuple[str, ...] = FILE_TOOLS, **more: object) -> set[str]:
    permissions = read_permissions(json.dumps({"tier": tier, **more}), configured)
    assert not permissions.problem
    return set(permissions.tools)


def test_a_tier_is_its_tools() -> None:
    reading = {"Read", "Glob", "Grep", "WebSearch", "WebFetch"}
    assert tools("readonly") == reading
    assert tools("standard") == {*reading, "Edit"}
    assert tools("full") == set(FILE_TOOLS)
    assert tools("custom", tools=["Read", "Bash"]) == {"Read", "Bash"}
    assert tools("custom", tools=[]) == set()


def test_questions_and_plans_work_in_every_tier_and_sub_agents_not_where_one_only_reads() -> None:
    assert "AskUserQuestion" in tools("readonly", CONFIGURED)
    assert "Task" not in tools("readonly", CONFIGURED)
    assert "Task" in tools("standard", CONFIGURED)


def test_a_tier_never_widens_what_is_configured() -> None:
    assert tools("full", ("Read", "Grep")) == {"Read", "Grep"}
    assert tools("custom", ("Read",), tools=["Bash", "Read", "mcp__x__y"]) == {"Read"}


def test_no_file_is_no_opinion() -> None:
    assert read_permissions(None, CONFIGURED) == Permissions(CONFIGURED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"tier": "godmode"}',
        '{"tier": "READONLY"}',
        '{"teir": "readonly"}',
        '{"tier": "custom"}',
        '{"tier": "custom", "tools": "Bash"}',
        '{"tier": "custom", "tools": [1]}',
        '{"tier": "readonly", "tools": ["Bash"]}',
        '{"tier": "readonly", "note": 7}',
        '{"tier": "full", "allow": "all"}',
        b"\xff\xfe",
    ],
)
def test_what_cannot_be_understood_allows_nothing_and_says_why(text: str | bytes) -> None:
    permissions = read_permissions(text, CONFIGURED)
    assert permissions.tools == ()
    assert "no tool is allowed" in permissions.problem


@pytest.mark.parametrize(
    ("text", "left", "closed"),
    [
        (None, {"mcp__a__x", "mcp__b__y", "mcp__ab__x"}, False),
        ('{"tier": "full"}', {"mcp__a__x", "mcp__b__y", "mcp__ab__x"}, False),
        ('{"tier": "standard"}', set(), True),
        ('{"tier": "readonly"}', set(), True),
        ('{"tier": "custom", "tools": ["Read"]}', set(), True),
        ('{"tier": "custom", "tools": ["mcp__a"]}', {"mcp__a__x"}, False),
        ('{"tier": "custom", "tools": ["mcp__b__y"]}', {"mcp__b__y"}, False),
        ("{", set(), True),
    ],
)
def test_the_tools_of_servers_are_left_by_the_full_tier_and_by_name(
    text: str | None, left: set[str], closed: bool
) -> None:
    permissions = read_permissions(text, CONFIGURED)
    tools = {"mcp__a__x", "mcp__b__y", "mcp__ab__x"}
    assert {tool for tool in tools if not permissions.forbids(tool)} == left
    assert permissions.without_servers is closed


def test_where_nothing_is_understood_every_call_is_forbidden() -> None:
    assert read_permissions("{", CONFIGURED).forbids("Read")
    assert not read_permissions('{"tier": "readonly"}', CONFIGURED).forbids("Read")


@given(st.text() | st.binary())
def test_whatever_the_file_says_nothing_is_widened(text: str | bytes) -> None:
    assert set(read_permissions(text, ("Read",)).tools) <= {"Read"}


def test_a_note_reaches_the_prompt_cut_to_its_bound() -> None:
    permissions = read_permissions(json.dumps({"tier": "full", "note": " n" * 600}), CONFIGURED)
    assert len(permissions.note) == 500
    assert render_note("Be careful.") == "Rule of this workspace: Be careful."
    assert render_note("") == ""
