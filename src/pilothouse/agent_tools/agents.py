"""The tools for other agents: `send_to_agent` asks one, `register_agent_group` makes a new one if an admin allows it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall
from pilothouse.runtime.agent_calls.agents import send_to_agent
from pilothouse.runtime.agent_calls.groups import read_address, read_trigger, register_group

Agent = Annotated[str, Meta(description="The name of the agent: that of its workspace.")]
Words = Annotated[
    str, Meta(description="What it should do or answer; it knows nothing of this conversation.")
]
Files = Annotated[tuple[str, ...], Meta(description="Files of the workspace to go with it.")]
Session = Annotated[str, Meta(description="The sessionId of an earlier answer, to go on in that session.")]
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


class SendToAgent(Arguments, frozen=True, kw_only=True):
    agent_group_id: Agent
    text: Words
    files: Files = ()
    session_id: Session = ""


class RegisterAgentGroup(Arguments, frozen=True, kw_only=True):
    name: Name
    folder: Folder
    platform_id: PlatformId
    channel_type: ChannelType
    trigger_rules: Rules = None
    session_mode: SessionMode = "per-thread"


async def _send(call: ToolCall, given: SendToAgent) -> str:
    caller = await call.caller()
    name, files = given.agent_group_id.strip(), given.files
    return await send_to_agent(call.ports, caller, name, given.text, files, given.session_id.strip())


async def _register(call: ToolCall, given: RegisterAgentGroup) -> str:
    address = read_address(given.channel_type, given.platform_id)
    trigger, caller = read_trigger(given.trigger_rules), await call.caller()
    threads = "shared" if given.session_mode == "shared" else "own"
    name, folder = given.name.strip(), given.folder.strip()
    return await register_group(call.ports, caller, name, folder, address, trigger, threads)


SEND_TO_AGENT = Tool(
    "send_to_agent",
    "Ask the agent of another workspace; its answer comes as a system message in a later turn.",
    SendToAgent,
    _send,
)
REGISTER_AGENT_GROUP = Tool(
    "register_agent_group",
    "Register a new agent: a folder, and the place that it answers in; an admin is asked.",
    RegisterAgentGroup,
    _register,
)
