"""Messages of an OpenCode session and their parts, as events and the history carry them.

A person's prompt is a message with the role `user`. Each request to the model is one of the role `assistant`, whose
`parent_id` is the prompt that it answers.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, field

from pilothouse.engines.lenient_json import read_fields

NAME_CHARS = 60
SHELL = "bash"
NOTHING = ":\n"
"""The mark that our plugin (`launch.py`) puts before a script that OpenCode would not ask about."""


class FaultData(Struct, frozen=True):
    message: str = ""
    status_code: int | None = field(default=None, name="statusCode")
    response_headers: dict[str, str] = field(default_factory=dict, name="responseHeaders")
    response_body: str = field(default="", name="responseBody")


class Fault(Struct, frozen=True):
    """An error of a message or of a session; `name` is its class in OpenCode."""

    name: str = ""
    data: FaultData = FaultData()


class Cache(Struct, frozen=True):
    read: int = 0
    write: int = 0


class Tokens(Struct, frozen=True):
    input: int = 0
    output: int = 0
    reasoning: int = 0
    cache: Cache = Cache()


class MessageTime(Struct, frozen=True):
    completed: float | None = None


class ModelRef(Struct, frozen=True):
    provider_id: str = field(default="", name="providerID")
    model_id: str = field(default="", name="modelID")

    @property
    def name(self) -> str:
        return f"{self.provider_id}/{self.model_id}" if self.model_id else ""


class Message(Struct, frozen=True):
    """`finish` is "tool-calls" where the model goes on after its calls. A prompt names its `model`."""

    id: str = ""
    role: str = ""
    session_id: str = field(default="", name="sessionID")
    parent_id: str = field(default="", name="parentID")
    mode: str = ""
    model: ModelRef = ModelRef()
    finish: str | None = None
    error: Fault | None = None
    time: MessageTime = MessageTime()

    @property
    def is_over(self) -> bool:
        return self.time.completed is not None or self.error is not None


class PartTime(Struct, frozen=True):
    end: float | None = None


class _Part(Struct, frozen=True):
    id: str = ""
    message_id: str = field(default="", name="messageID")
    session_id: str = field(default="", name="sessionID")


class TextPart(_Part, frozen=True):
    """`time.end` is set once the text is whole."""

    text: str = ""
    synthetic: bool = False
    ignored: bool = False
    time: PartTime = PartTime()


class ReasoningPart(_Part, frozen=True):
    text: str = ""


class ToolState(Struct, frozen=True):
    """pending, running, completed or error. The input is empty while it is pending."""

    status: str = ""
    input: dict[str, Any] = field(default_factory=dict)
    output: str = ""
    title: str = ""
    error: str = ""
    metadata: dict[str, Any] = field(default_factory=dict)
    attachments: list[dict[str, Any]] = field(default_factory=list)


class ToolPart(_Part, frozen=True):
    tool: str = ""
    call_id: str = field(default="", name="callID")
    state: ToolState = ToolState()


class StepFinish(_Part, frozen=True):
    """The end of one request to the model, with its tokens and its price by OpenCode's list."""

    tokens: Tokens = Tokens()
    cost: float = 0.0


class OtherPart(_Part, frozen=True):
    """A part that has no meaning for a turn: a file, a snapshot, the beginning of a step."""

    type: str = ""


Part = TextPart | ReasoningPart | ToolPart | StepFinish | OtherPart

_KINDS: dict[str, type[Part]] = {
    "text": TextPart,
    "reasoning": ReasoningPart,
    "tool": ToolPart,
    "step-finish": StepFinish,
}


def read_part(value: dict[str, Any]) -> Part:
    """Read any part; a field of an unexpected shape costs that field only."""
    part = _read_part(value)
    return _as_written(part) if isinstance(part, ToolPart) and part.tool == SHELL else part


def _as_written(part: ToolPart) -> ToolPart:
    """Return a call of the shell with the script that the model wrote."""
    script = part.state.input.get("command")
    if not isinstance(script, str) or not script.startswith(NOTHING):
        return part
    given = {**part.state.input, "command": script.removeprefix(NOTHING)}
    return msgspec.structs.replace(part, state=msgspec.structs.replace(part.state, input=given))


def _read_part(value: dict[str, Any]) -> Part:
    name = str(value.get("type") or "")[:NAME_CHARS]
    kind = _KINDS.get(name, OtherPart)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        if kind is ToolPart and isinstance(value.get("state"), dict):
            state, _ = read_fields(value["state"], ToolState)
            part, _ = read_fields({**value, "state": None}, ToolPart)
            if part is not None and state is not None:
                return msgspec.structs.replace(part, state=state)
        part, _ = read_fields(value, kind)
        return part or OtherPart(type=name)


def read_message(value: dict[str, Any]) -> Message:
    try:
        return msgspec.convert(value, Message)
    except msgspec.ValidationError:
        message, _ = read_fields(value, Message)
        return message or Message()
