"""What the scripted model does, in words that belong to no vendor. `dialects.py` says it in each vendor's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

QUESTION = "Which colour?"
COLOURS = (("Red", "warm"), ("Blue", "cold"))
OPEN_S = 7200
"""How long a question by Pilothouse's tool stays open."""
_QUESTION_TOOL = re.compile(r'"([\w-]*pilothouse[\w-]*ask_user_question)"')


class Move(NamedTuple):
    """Say a text, begin one and stall, drop the stream in the middle of one, run a command, ask the question, by the
    engine's own tool or by the one of Pilothouse with this name, or fail."""

    kind: Literal["say", "begin", "drop", "command", "question", "tool", "fail"]
    text: str = ""
    status: int = 200


Script = Callable[[str], Move]
"""Given the request as JSON text."""


def say(text: str) -> Move:
    return Move("say", text)


def command(text: str) -> Move:
    return Move("command", text)


def ask_by_tool(text: str) -> Move:
    """Ask the question by Pilothouse's tool, under the name that a request offers it by."""
    found = _QUESTION_TOOL.search(text)
    return Move("tool", found[1] if found else "ask_user_question")


BEGIN = Move("begin", "Once upon a time there was a plain story")
DROP = Move("drop", "Once upon a time")
ASK = Move("question")
OVERFLOW = Move("fail", "overflow", 400)


REASONS = {401: "Incorrect API key provided", 429: "Rate limit reached: too many requests"}


def fail(status: int) -> Move:
    return Move("fail", REASONS.get(status, "Internal server error"), status)


class Api(Protocol):
    """The scripted models of the tests have this in common."""

    script: Callable[[Any], Any]

    @property
    def url(self) -> str: ...


class Model:
    """The model behind one engine. Its script may be changed at any time."""

    def __init__(self, speak: Callable[[Move], Any]) -> None:
        self._speak = speak
        self.script: Script = lambda _: say("Hello.")
        self.texts: list[str] = []
        """Every request as text, oldest first."""

    def reply(self, request: Any) -> Any:
        self.texts.append(request.text)
        return self._speak(self.script(request.text))
