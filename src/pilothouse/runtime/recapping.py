"""What was said in a session that could not be resumed, told to the one that takes its place.

Bounded, newest first to be kept, and escaped: a recap is data, whoever said what is in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

import msgspec

from pilothouse.core.ids import ConversationId, SessionId
from pilothouse.core.store import Tx
from pilothouse.core.turn import Prompt, Turn

MAX_CHARS = 8000
MAX_TURNS = 20
ASKED_CHARS = 800
ANSWERED_CHARS = 2000

GIVEN_UP = "The session from before could not be resumed and is given up. This goes on in a new one{how}."
WITH_RECAP = ", with a recap of what was said"
_HEAD = "The session before this one is lost. What was said in it, oldest first, shortened:"
_OLD_RECAP = re.compile(r"\A<recap>\n.*?\n</recap>\n\n", re.DOTALL)


def write_recap(tx: Tx, conversation_id: ConversationId, session_id: SessionId) -> str:
    """Empty where nothing was said."""
    turns = tx.turns.of(conversation_id, statuses=("done", "failed", "cancelled"), limit=MAX_TURNS * 5)
    return recap_of([turn for turn in turns if turn.session_id == session_id and turn.answer])


def recap_of(turns: Sequence[Turn]) -> str:
    """`turns` newest first: those come in for which there is room."""
    told: list[str] = []
    room = MAX_CHARS
    for text in map(_turn, turns[:MAX_TURNS]):
        room -= len(text)
        if room < 0:
            break
        told.append(text)
    return "\n".join(["<recap>", _HEAD, *reversed(told), "</recap>"]) if told else ""


def with_recap(prompt: Prompt, recap: str) -> Prompt:
    return msgspec.structs.replace(prompt, text=f"{recap}\n\n{prompt.text}") if recap else prompt


def given_up(recap: str) -> str:
    """For the people."""
    return GIVEN_UP.format(how=WITH_RECAP if recap else "")


def _turn(turn: Turn) -> str:
    asked = _OLD_RECAP.sub("", turn.prompt.text)
    return (
        f"<asked>{_short(asked, ASKED_CHARS)}</asked>\n"
        f"<answered>{_short(turn.answer, ANSWERED_CHARS)}</answered>"
    )


def _short(text: str, limit: int) -> str:
    text = text.strip()
    return escape(text if len(text) <= limit else text[: limit - 1] + "…", quote=False)
