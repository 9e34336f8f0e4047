"""`edit_message`: change a message that a tool sent."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall, read_number
from pilothouse.runtime.agent_calls.changes import edit

Id = Annotated[str | int, Meta(description="The messageId that a tool returned.")]
Words = Annotated[str, Meta(description="The new text, in Markdown.")]


class EditMessage(Arguments, frozen=True):
    message_id: Id
    text: Words


async def run(call: ToolCall, given: EditMessage) -> str:
    return await edit(call.ports, await call.caller(), read_number(given.message_id), given.text)


TOOL = Tool("edit_message", "Replace the text of a message that you sent with a tool.", EditMessage, run)
