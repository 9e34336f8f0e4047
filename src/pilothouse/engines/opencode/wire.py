"""Events of `opencode serve` (1.18) as values.

`GET /global/event` sends every event of every folder, wrapped as `{"directory", "payload": {"type", "properties"}}`;
`GET /event` sends them bare. Neither repeats what was missed: after a reconnect the state has to be read again.

Rules: `decode` never raises. A line that is not JSON is `Noise`, a type that is not named here is `Unknown`, and a field
of an unexpected shape costs that field only.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field

from pilothouse.engines.jsonrpc import Noise
from pilothouse.engines.lenient_json import read_fields, repair_surrogates
from pilothouse.engines.opencode.wire_parts import Fault, Message, Part, read_message, read_part

NOISE_BYTES = 1024
NAME_CHARS = 80

S = TypeVar("S", bound=Struct)


class _Event(Struct, frozen=True):
    session_id: str = field(default="", name="sessionID")


class MessageUpdated(Struct, frozen=True):
    info: Message
    session_id: str = ""


class PartUpdated(Struct, frozen=True):
    part: Part
    session_id: str = ""


class PartDelta(_Event, frozen=True):
    """More text of a part; the whole text follows in `PartUpdated`."""

    message_id: str = field(default="", name="messageID")
    part_id: str = field(default="", name="partID")
    delta: str = ""


class PartRemoved(_Event, frozen=True):
    part_id: str = field(default="", name="partID")


class Status(Struct, frozen=True):
    """busy, idle, or retry: then `next` is the time of the next attempt in milliseconds."""

    type: str = ""
    attempt: int = 0
    message: str = ""
    next: float = 0.0


class StatusChanged(_Event, frozen=True):
    status: Status = Status()


class SessionFault(_Event, frozen=True):
    error: Fault = Fault()


class CallRef(Struct, frozen=True):
    message_id: str = field(default="", name="messageID")
    call_id: str = field(default="", name="callID")


class PermissionAsked(_Event, frozen=True):
    """A call waits for a yes. Its input is in the tool's part, which may arrive later."""

    id: str = ""
    permission: str = ""
    patterns: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    tool: CallRef | None = None


class Choice(Struct, frozen=True):
    label: str = ""
    description: str = ""


class Question(Struct, frozen=True):
    question: str = ""
    header: str = ""
    options: list[Choice] = field(default_factory=list)
    multiple: bool = False


class QuestionAsked(_Event, frozen=True):
    id: str = ""
    questions: list[Question] = field(default_factory=list)


class Settled(_Event, frozen=True):
    """A permission or a question was answered, by us or elsewhere, or went with its turn."""

    request_id: str = field(default="", name="requestID")


class Todo(Struct, frozen=True):
    content: str = ""
    status: str = ""


class TodosUpdated(_Event, frozen=True):
    todos: list[Todo] = field(default_factory=list)


class SessionInfo(Struct, frozen=True):
    id: str = ""
    parent_id: str = field(default="", name="parentID")
    directory: str = ""


class SessionCreated(_Event, frozen=True):
    info: SessionInfo = SessionInfo()


class Compacted(_Event, frozen=True):
    """The conversation was summarised, because it had become too long for the model."""


class Connected(Struct, frozen=True):
    """The first event of a stream."""


class Reconnected(Struct, frozen=True):
    """Made by us: events may have been missed, so the state has to be read again."""


class Ignored(Struct, frozen=True):
    """A known event that has no meaning for a turn."""

    type: str


class Unknown(Struct, frozen=True):
    """A type that is not known; `name` is for people."""

    name: str
    session_id: str = ""


Told = (
    MessageUpdated
    | PartUpdated
    | PartDelta
    | PartRemoved
    | StatusChanged
    | SessionFault
    | PermissionAsked
    | QuestionAsked
    | Settled
    | TodosUpdated
    | SessionCreated
    | Compacted
)
Heard = Told | Connected | Reconnected | Ignored | Unknown | Noise

KINDS: dict[str, type[Struct]] = {
    "message.part.delta": PartDelta,
    "message.part.removed": PartRemoved,
    "session.status": StatusChanged,
    "session.error": SessionFault,
    "permission.asked": PermissionAsked,
    "permission.replied": Settled,
    "question.asked": QuestionAsked,
    "question.replied": Settled,
    "question.rejected": Settled,
    "todo.updated": TodosUpdated,
    "session.created": SessionCreated,
    "session.compacted": Compacted,
}
_IGNORED = (
    "catalog.",
    "command.",
    "file.",
    "global.",
    "ide.",
    "installation.",
    "integration.",
    "lsp.",
    "mcp.",
    "message.removed",
    "models-dev.",
    "permission.",
    "plugin.",
    "project.",
    "pty.",
    "question.",
    "reference.",
    "server.",
    "session.",
    "sync",
    "tui.",
    "vcs.",
    "workspace.",
    "worktree.",
)


class _Line(Struct, frozen=True):
    type: str = ""
    properties: dict[str, Any] = field(default_factory=dict)


class _Wrapped(Struct, frozen=True):
    type: str = ""
    properties: dict[str, Any] = field(default_factory=dict)
    payload: _Line | None = None


_line = msgspec.json.Decoder(_Wrapped)
_FAULTS = (msgspec.MsgspecError, UnicodeError, RecursionError)


def decode(line: bytes) -> Heard:
    """Decode any line; never raises."""
    try:
        wrapped = _line.decode(line)
    except _FAULTS:
        repaired = repair_surrogates(line)
        return decode(repaired) if repaired != line else Noise(line[:NOISE_BYTES])
    told = wrapped.payload
    return read_event(told.type, told.properties) if told else read_event(wrapped.type, wrapped.properties)


def read_event(name: str, given: dict[str, Any]) -> Heard:
    session = str(given.get("sessionID") or "")
    match name:
        case "message.updated" if isinstance(given.get("info"), dict):
            return MessageUpdated(read_message(given["info"]), session)
        case "message.part.updated" if isinstance(given.get("part"), dict):
            return PartUpdated(read_part(given["part"]), session)
        case "session.idle":
            return StatusChanged(session, Status("idle"))
        case "server.connected":
            return Connected()
        case _ if kind := KINDS.get(name):
            return read_struct(given, kind) or Unknown(name, session)  # pyrefly: ignore[bad-return]
        case _ if name.startswith(_IGNORED):
            return Ignored(name[:NAME_CHARS])
        case _:
            return Unknown(name[:NAME_CHARS] or "an event without a type", session)


def read_struct(value: dict[str, Any], kind: type[S]) -> S | None:
    """Read the properties; where one has another shape than expected, read the others."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return read_fields(value, kind)[0]
