"""A tool: its name, its input as a type, and the function that runs it; and what such a function may use.

The model sees the name, a description of one sentence, and the JSON schema of the input. A function raises `ToolError` for
a text that the model should read; everything that it names as a path was resolved and judged before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.core.event import PlanItem, ToolKind
from pilothouse.core.lane import LaneDesk
from pilothouse.core.policy import ApprovalMode
from pilothouse.engines.native.history import History
from pilothouse.engines.native.messages import Image, ToolSpec
from pilothouse.engines.native.outputs import Outputs
from pilothouse.engines.native.skills import Skill
from pilothouse.engines.native.web_search import SearchServer
from pilothouse.processes import Launcher


class ToolError(Exception):
    """The call failed; the text is for the model."""


class Output(Struct, frozen=True):
    """The result of a call. `plan` is a new list of things to do; `closes` ends the turn, with `text` as its last words."""

    text: str
    ok: bool = True
    images: tuple[Image, ...] = ()
    plan: tuple[PlanItem, ...] | None = None
    closes: bool = False


class Workbench(Struct, frozen=True):
    """Everything that a tool may use."""

    workspace: str
    environment: Mapping[str, str]
    """For commands."""
    launcher: Launcher
    trusted: bool
    history: History
    outputs: Outputs
    skills: tuple[Skill, ...] = ()
    agents_root: str = ""
    lanes: LaneDesk | None = None
    approval_mode: ApprovalMode = "minimal"
    search: SearchServer | None = None


class Tool(Struct, frozen=True):
    name: str
    description: str
    kind: ToolKind
    input: type[Struct] | type[dict[str, Any]]
    run: Callable[[Any, Workbench], Awaitable[Output]]
    title: tuple[str, str] = ("", "")
    """The words before a title, and the key of the input that is the title; without a key, the words alone."""
    path_key: str = ""
    """The key of the input that holds a path."""
    only_reads: bool = False
    """Such calls run side by side."""
    is_cached: bool = True
    """A long result is kept in the output cache."""
    schema: Mapping[str, Any] | None = None
    """The JSON schema of the input, if its type does not say it."""
    rule_name: str = ""
    """The name by which rules know the tool, if it is another one."""

    @property
    def spec(self) -> ToolSpec:
        schema = self.schema if self.schema is not None else input_schema(self.input)
        return ToolSpec(self.name, self.description, schema)


def input_schema(kind: type[Any]) -> dict[str, Any]:
    """Return the JSON schema of an input, without references."""
    (root,), components = msgspec.json.schema_components((kind,), ref_template="#/{name}")
    return _inlined(root, components)


def _inlined(schema: Any, components: Mapping[str, Any]) -> Any:
    match schema:
        case {"$ref": str(name)}:
            return _inlined(components[name.removeprefix("#/")], components)
        case dict():
            return {key: _inlined(value, components) for key, value in schema.items() if key != "title"}
        case list():
            return [_inlined(item, components) for item in schema]
        case _:
            return schema
