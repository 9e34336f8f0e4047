"""`send_message`: say something now, before the answer of the turn."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pilothouse.agent_tools.target import ToDestination
from pilothouse.agent_tools.tool import Tool, ToolCall
from pilothouse.core.message import Content
from pilothouse.runtime.agent_calls.messages import send

Words = Annotated[str, Meta(description="The message, in Markdown.")]


class SendMessage(ToDestination, frozen=True, kw_only=True):
    text: Words


async def run(call: ToolCall, given: SendMessage) -> str:
    content = Content(given.text, "notice", formatted=True)
    return await send(call.ports, await call.caller(), content, given.target)


TOOL = Tool(
    "send_message",
    "Send a message to the people of this conversation now; the answer of the turn is sent anyway.",
    SendMessage,
    run,
)
