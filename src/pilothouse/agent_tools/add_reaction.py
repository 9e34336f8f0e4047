"""`add_reaction`: react to a message with an emoji."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall, read_number
from pilothouse.runtime.agent_calls.caller import CallRefused
from pilothouse.runtime.agent_calls.changes import react

LONGEST = 16
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

Id = Annotated[
    str | int, Meta(description="The id of a message in the prompt, or a messageId that a tool returned.")
]
Emoji = Annotated[str, Meta(description="An emoji, or a name such as thumbs_up.")]


class AddReaction(Arguments, frozen=True):
    message_id: Id
    emoji: Emoji


def read_emoji(said: str) -> str:
    """Return the emoji. Raises `CallRefused` for a name that is not known."""
    word = said.strip().strip(":").lower().replace("-", "_").replace(" ", "_").replace("+1", "thumbs_up")
    if word in EMOJI:
        return EMOJI[word]
    if not word or word.isascii() or len(word) > LONGEST:
        raise CallRefused(
            f"There is no emoji {said[:50]!r}. Give the emoji itself, or one of: {', '.join(EMOJI)}."
        )
    return said.strip()


async def run(call: ToolCall, given: AddReaction) -> str:
    emoji = read_emoji(given.emoji)
    return await react(call.ports, await call.caller(), read_number(given.message_id), emoji)


TOOL = Tool("add_reaction", "React to a message with an emoji.", AddReaction, run)
