"""The tools of one turn, by their names: our own, those of MCP servers, and how people see a call.

The set is fixed when the turn begins, so that each of its requests begins with the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from pilothouse.core.event import ToolCall
from pilothouse.core.ids import CallId
from pilothouse.engines.native.messages import ToolSpec, Use
from pilothouse.engines.native.tools import (
    agents_resolve,
    bash,
    done,
    edit,
    glob,
    grep,
    lane,
    output_cache,
    read,
    search,
    skill,
    todo,
    view_image,
    webfetch,
    write,
)
from pilothouse.engines.native.tools.tool import Tool
from pilothouse.engines.titles import bounded, one_line, relative

BUILT_IN: tuple[Tool, ...] = (
    bash.TOOL,
    read.TOOL,
    write.TOOL,
    edit.TOOL,
    grep.TOOL,
    glob.TOOL,
    todo.TOOL,
    done.TOOL,
    view_image.TOOL,
    webfetch.TOOL,
    search.TOOL,
    agents_resolve.TOOL,
    output_cache.READ,
    output_cache.GREP,
    skill.SEARCH,
    skill.LOAD,
)
LANES: tuple[Tool, ...] = lane.TOOLS


class Toolbox:
    """`more` are tools beside the built-in ones; of two with one name the first counts."""

    def __init__(self, workspace: str, more: Iterable[Tool] = ()) -> None:
        self._workspace = workspace
        self._tools: dict[str, Tool] = {}
        for tool in (*BUILT_IN, *more):
            self._tools.setdefault(tool.name, tool)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    @cached_property
    def specs(self) -> list[ToolSpec]:
        return [tool.spec for tool in self._tools.values()]

    def leave_out(self, name: str) -> None:
        """Remove a tool, before the first request."""
        self._tools.pop(name, None)

    def find(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def title(self, name: str, given: Mapping[str, Any]) -> str:
        tool = self._tools.get(name)
        if tool is None:
            return one_line(f"tool: {name}")
        before, key = tool.title
        named = given.get(key) if key else ""
        if not isinstance(named, str):
            return name
        return one_line(before + relative(named, self._workspace) if named else before or name)

    def describe(self, use: Use) -> ToolCall:
        """Return the call as people see it."""
        tool = self._tools.get(use.name)
        kind = tool.kind if tool else "tool"
        detail = {**bounded(use.input), "tool": use.name}
        return ToolCall(CallId(use.id), kind, self.title(use.name, use.input), detail)
