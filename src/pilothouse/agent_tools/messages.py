"""The tools that send and change messages: `send_message`, `send_file`, `edit_message`, `add_reaction`.

`ToDestination` has the parameters that name a destination, which `send_card` takes too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall, read_number
from pilothouse.core.message import Content
from pilothouse.runtime.agent_calls.caller import CallRefused
from pilothouse.runtime.agent_calls.changes import edit, react
from pilothouse.runtime.agent_calls.messages import Target, send, send_file

LONGEST_EMOJI = 16
EMOJI: Mapping[str, str] = {
    "thumbs_up": "👍",
    "thumbs_down": "👎",
    "heart": "❤",
    "fire": "🔥",
    "tada": "🎉",
    "eyes": "👀",
    "thinking": "🤔",
    "clap": "👏",
    "pray": "🙏",
    "ok_hand": "👌",
    "hundred": "💯",
    "laugh": "🤣",
    "cry": "😢",
    "scream": "😱",
    "handshake": "🤝",
    "salute": "🫡",
    "zap": "⚡",
    "trophy": "🏆",
    "check": "✅",
    "cross": "❌",
    "rocket": "🚀",
    "warning": "⚠️",
}

To = Annotated[str | None, Meta(description="A granted destination, by name. Without one: here.")]
Channel = Annotated[str | None, Meta(description="Channel of a granted destination.")]
PlatformId = Annotated[str | None, Meta(description="The channel's id of a granted destination.")]
ThreadId = Annotated[str | None, Meta(description="Thread of a granted destination.")]
Words = Annotated[str, Meta(description="The message, in Markdown.")]
File = Annotated[str, Meta(description="The file, relative to the workspace or absolute.")]
FileWords = Annotated[str, Meta(description="A message to go with it.")]
FileName = Annotated[str, Meta(description="The name to show; by default that of the file.")]
OwnId = Annotated[str | int, Meta(description="The messageId that a tool returned.")]
NewWords = Annotated[str, Meta(description="The new text, in Markdown.")]
AnyId = Annotated[
    str | int, Meta(description="The id of a message in the prompt, or a messageId that a tool returned.")
]
Emoji = Annotated[str, Meta(description="An emoji, or a name such as thumbs_up.")]


class ToDestination(Arguments, frozen=True, kw_only=True):
    to: To = None
    channel: Channel = None
    platform_id: PlatformId = None
    thread_id: ThreadId = None

    @property
    def target(self) -> Target:
        return Target(self.to, self.channel, self.platform_id, self.thread_id)


class SendMessage(ToDestination, frozen=True, kw_only=True):
    text: Words


class SendFile(ToDestination, frozen=True, kw_only=True):
    path: File
    text: FileWords = ""
    filename: FileName = ""


class EditMessage(Arguments, frozen=True):
    message_id: OwnId
    text: NewWords


class AddReaction(Arguments, frozen=True):
    message_id: AnyId
    emoji: Emoji


async def _send(call: ToolCall, given: SendMessage) -> str:
    content = Content(given.text, "notice", formatted=True)
    return await send(call.ports, await call.caller(), content, given.target)


async def _send_file(call: ToolCall, given: SendFile) -> str:
    caller = await call.caller()
    return await send_file(call.ports, caller, given.path, given.text, given.filename, given.target)


async def _edit(call: ToolCall, given: EditMessage) -> str:
    return await edit(call.ports, await call.caller(), read_number(given.message_id), given.text)


async def _react(call: ToolCall, given: AddReaction) -> str:
    emoji = read_emoji(given.emoji)
    return await react(call.ports, await call.caller(), read_number(given.message_id), emoji)


def read_emoji(said: str) -> str:
    """Return the emoji. Raises `CallRefused` for a name that is not known."""
    word = said.strip().strip(":").lower().replace("-", "_").replace(" ", "_").replace("+1", "thumbs_up")
    if word in EMOJI:
        return EMOJI[word]
    if not word or word.isascii() or len(word) > LONGEST_EMOJI:
        raise CallRefused(
            f"There is no emoji {said[:50]!r}. Give the emoji itself, or one of: {', '.join(EMOJI)}."
        )
    return said.strip()


SEND_MESSAGE = Tool(
    "send_message",
    "Send a message to the people of this conversation now; the answer of the turn is sent anyway.",
    SendMessage,
    _send,
)
SEND_FILE = Tool(
    "send_file", "Send a file of the workspace to the people of this conversation.", SendFile, _send_file
)
EDIT_MESSAGE = Tool(
    "edit_message", "Replace the text of a message that you sent with a tool.", EditMessage, _edit
)
ADD_REACTION = Tool("add_reaction", "React to a message with an emoji.", AddReaction, _react)
