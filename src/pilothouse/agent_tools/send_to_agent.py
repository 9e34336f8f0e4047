"""`send_to_agent`: ask the agent of another workspace."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall
from pilothouse.runtime.agent_calls.agents import send_to_agent

Agent = Annotated[str, Meta(description="The name of the agent: that of its workspace.")]
Words = Annotated[
    str, Meta(description="What it should do or answer; it knows nothing of this conversation.")
]
Files = Annotated[tuple[str, ...], Meta(description="Files of the workspace to go with it.")]
Session = Annotated[str, Meta(description="The sessionId of an earlier answer, to go on in that session.")]


class SendToAgent(Arguments, frozen=True, kw_only=True):
    agent_group_id: Agent
    text: Words
    files: Files = ()
    session_id: Session = ""


async def run(call: ToolCall, given: SendToAgent) -> str:
    caller = await call.caller()
    name, files = given.agent_group_id.strip(), given.files
    return await send_to_agent(call.ports, caller, name, given.text, files, given.session_id.strip())


TOOL = Tool(
    "send_to_agent",
    "Ask the agent of another workspace; its answer comes as a system message in a later turn.",
    SendToAgent,
    run,
)
