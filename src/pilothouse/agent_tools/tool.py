"""A tool: its name, one sentence about it, its arguments, and the function that carries out a call.

Arguments are a `Struct`: its fields are the parameters, in camel case, as agents know them. A function returns the text for
the agent, or raises `CallRefused`, whose text the agent reads as an error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask
from pilothouse.core.call import OWN_SERVER, Call
from pilothouse.core.ids import AskId, SessionId
from pilothouse.core.policy import Site
from pilothouse.runtime.agent_calls.caller import Caller, CallKeys, CallRefused, find_caller
from pilothouse.runtime.ports import Ports


class Arguments(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The arguments of a tool."""


class ToolCall(Struct, frozen=True):
    """One call. `use_id` is the engine's id of it, if it sends one."""

    ports: Ports
    keys: CallKeys
    session_id: SessionId
    tool: str
    arguments: Mapping[str, Any]
    use_id: str = ""

    async def caller(self) -> Caller:
        """Return the turn that the call acts for. Raises `CallRefused` without one, or if a rule denies the tool."""
        caller = await find_caller(
            self.ports, self.keys, self.session_id, self.tool, self.arguments, self.use_id
        )
        await self.check_rules(caller)
        return caller

    async def check_rules(self, caller: Caller) -> None:
        """Raise `CallRefused` if a rule denies the tool. Whether a person must be asked, the engine found out before."""
        workspace = caller.session.workspace
        call = Call(
            "mcp", self.tool, workspace, server=OWN_SERVER, server_tool=self.tool, input=dict(self.arguments)
        )
        ask = Ask(AskId(""), "approval", self.tool, {"tool": self.tool}, call=call)
        ruling = await self.ports.policy.judge(ask, Site(workspace, self.session_id))
        if ruling.outcome == "deny":
            raise CallRefused(f"The tool {self.tool} is denied here: {ruling.rule}.")


class Tool(Struct, frozen=True):
    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[ToolCall, Any], Awaitable[str]]

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments, with every definition in place."""
        _, parts = msgspec.json.schema_components([self.arguments], ref_template="{name}")
        return _inlined(parts[self.arguments.__name__], parts)

    async def call(self, call: ToolCall) -> str:
        try:
            given = msgspec.convert(dict(call.arguments), self.arguments)
        except msgspec.ValidationError as error:
            raise CallRefused(f"The arguments of {self.name} are not valid: {error}.") from error
        return await self.run(call, given)


def _inlined(schema: Any, parts: Mapping[str, Any]) -> Any:
    """Replace references: some engines understand none."""
    if isinstance(schema, list):
        return [_inlined(one, parts) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(parts[schema["$ref"]], parts)
    return {key: _inlined(value, parts) for key, value in schema.items() if key != "title"}


def read_number(said: str | int) -> int:
    """Return a message's number. Raises `CallRefused` for anything else."""
    try:
        return int(str(said).strip().removeprefix("#"))
    except ValueError:
        raise CallRefused(f"{str(said)[:50]!r} is not the number of a message.") from None
