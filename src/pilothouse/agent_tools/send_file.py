"""`send_file`: send a file of the workspace."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pilothouse.agent_tools.target import ToDestination
from pilothouse.agent_tools.tool import Tool, ToolCall
from pilothouse.runtime.agent_calls.messages import send_file

Path = Annotated[str, Meta(description="The file, relative to the workspace or absolute.")]
Words = Annotated[str, Meta(description="A message to go with it.")]
Name = Annotated[str, Meta(description="The name to show; by default that of the file.")]


class SendFile(ToDestination, frozen=True, kw_only=True):
    path: Path
    text: Words = ""
    filename: Name = ""


async def run(call: ToolCall, given: SendFile) -> str:
    caller = await call.caller()
    return await send_file(call.ports, caller, given.path, given.text, given.filename, given.target)


TOOL = Tool("send_file", "Send a file of the workspace to the people of this conversation.", SendFile, run)
