"""`register_agent_group`: bind a place to a new workspace, if an admin allows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall
from pilothouse.runtime.agent_calls.groups import read_address, read_trigger, register_group

Name = Annotated[str, Meta(description="The name by which other agents ask it.")]
Folder = Annotated[str, Meta(description="Its folder, below a configured root; it is created if missing.")]
PlatformId = Annotated[str, Meta(description="The channel's id of the place that it answers in.")]
ChannelType = Annotated[str, Meta(description="The channel of that place, such as telegram.")]
Rules = Annotated[
    dict[str, Any] | None,
    Meta(description='The messages it reacts to, such as {"mode": "mention"} or {"words": ["deploy"]}.'),
]
SessionMode = Annotated[
    Literal["shared", "per-thread"], Meta(description="Threads share a session, or have one each.")
]


class RegisterAgentGroup(Arguments, frozen=True, kw_only=True):
    name: Name
    folder: Folder
    platform_id: PlatformId
    channel_type: ChannelType
    trigger_rules: Rules = None
    session_mode: SessionMode = "per-thread"


async def run(call: ToolCall, given: RegisterAgentGroup) -> str:
    address = read_address(given.channel_type, given.platform_id)
    trigger, caller = read_trigger(given.trigger_rules), await call.caller()
    threads = "shared" if given.session_mode == "shared" else "own"
    name, folder = given.name.strip(), given.folder.strip()
    return await register_group(call.ports, caller, name, folder, address, trigger, threads)


TOOL = Tool(
    "register_agent_group",
    "Register a new agent: a folder, and the place that it answers in; an admin is asked.",
    RegisterAgentGroup,
    run,
)
