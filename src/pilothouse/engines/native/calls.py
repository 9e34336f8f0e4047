"""Calls of the native agent's tools in words that belong to no vendor, and their titles. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from pilothouse.core.call import Call
from pilothouse.engines.native.skills import name_of
from pilothouse.engines.tool_calls import ToolNames, read_tool_call

TOOLS = ToolNames(
    commands=frozenset({"bash"}),
    reads={
        "read": ("file_path",),
        "view_image": ("file_path",),
        "grep": ("path",),
        "glob": ("path", "pattern"),
    },
    changes={"edit": ("file_path",), "write": ("file_path",)},
    deep=frozenset({"grep", "glob"}),
    patterns=frozenset({"glob"}),
    web={"webfetch": "url"},
    skills={"skill_load": ("name",)},
    notes=frozenset(
        {
            "todo",
            "done",
            "agents_resolve",
            "tool_output_cache",
            "tool_output_cache_grep",
            "skill_search",
            "lane_list",
            "lane_status",
        }
    ),
    remarks=("timeout", "expected_hash"),
)


def call_of(payload: Mapping[str, Any]) -> Call | None:
    call = read_tool_call(TOOLS, payload)
    if call is None or call.kind != "skill":
        return call
    return replace(call, skill=name_of(call.skill))
