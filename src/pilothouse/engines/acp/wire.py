"""Lines of an ACP agent (protocol 1) as values: updates of a session, requests, replies.

Rules: `decode` never raises. A line that is not JSON is `Noise`; an update or method that is not named here is `Unknown`; a
field of an unexpected shape costs that field only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from pilothouse.engines.jsonrpc import Frame, Noise, Reply, Request, decode_line
from pilothouse.engines.lenient_json import read_fields

PROTOCOL = 1
HEAD: Mapping[str, Any] = {"jsonrpc": "2.0"}
NAME_CHARS = 80

PERMISSION = "session/request_permission"
ELICITATION = "elicitation/create"
UPDATE = "session/update"

KNOWN = frozenset(
    {
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "usage_update",
        "available_commands_update",
        "current_mode_update",
        "config_option_update",
        "notice",
        "compaction_update",
    }
)
IGNORED = frozenset({"user_message_chunk", "session_info_update", "compaction_summary_chunk"})
"""Updates that mean nothing for a turn: a replayed prompt, a title for lists, a summary for the model."""


class Update(Struct, frozen=True, rename="camel"):
    """An update of a session: every kind's fields in one, all of them optional."""

    session_update: str = ""
    content: Any = None
    message_id: str | None = None
    tool_call_id: str = ""
    title: str | None = None
    name: str | None = None
    kind: str | None = None
    status: str | None = None
    raw_input: Any = None
    raw_output: Any = None
    locations: list[Any] | None = None
    entries: list[Any] = field(default_factory=list)
    cost: Any = None
    used: int | None = None
    size: int | None = None
    current_mode_id: str = ""
    config_options: list[Any] = field(default_factory=list)
    available_commands: list[Any] = field(default_factory=list)
    severity: str = ""
    description: str | None = None
    meta: Any = field(default=None, name="_meta")


class Told(Struct, frozen=True, rename="camel"):
    """An update, and the session that it is about: the agent may have started others for sub-agents."""

    session_id: str = ""
    update: Update = Update()


class Ignored(Struct, frozen=True):
    name: str


class Unknown(Struct, frozen=True):
    """An update or a method that is not known; `name` is for people."""

    name: str


Heard = Told | Reply | Request | Ignored | Unknown | Noise


def decode(line: bytes) -> Heard:
    """Decode any line; never raises."""
    return decode_line(line, _read)


def _read(frame: Frame) -> Heard:
    if not frame.method:
        return frame.read_reply() if frame.id is not None else Unknown("a message without a method")
    if frame.id is not None:
        return Request(frame.id, frame.method, frame.read_params())
    if frame.method.startswith(("_", "$/")):  # an extension of the agent, or of the transport
        return Ignored(frame.method[:NAME_CHARS])
    if frame.method != UPDATE:
        return Unknown(frame.method[:NAME_CHARS])
    told = frame.convert(Told) or Told()
    if told.update == Update():  # one field has another shape: read the others
        told = Told(told.session_id, _read_fields(frame.read_params().get("update")))
    kind = told.update.session_update
    if kind in KNOWN:
        return told
    return Ignored(kind) if kind in IGNORED else Unknown(f"update {kind[:NAME_CHARS]}")


def _read_fields(value: Any) -> Update:
    found = read_fields(value, Update)[0] if isinstance(value, dict) else None
    return found or Update()


def text_of(content: Any) -> str:
    """Return the text of one content block, or of a list of them; other blocks are named."""
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if not isinstance(content, dict):
        return ""
    match content.get("type"):
        case "text":
            return str(content.get("text") or "")
        case "content":
            return text_of(content.get("content"))
        case "resource_link":
            return str(content.get("uri") or "")
        case "resource":
            resource = content.get("resource")
            return (
                str(resource.get("text") or resource.get("uri") or "") if isinstance(resource, dict) else ""
            )
        case _:
            return ""


def images_of(content: Any) -> list[str]:
    """Return the images in one content block, or in a list of them, in base64."""
    if isinstance(content, list):
        return [image for part in content for image in images_of(part)]
    if not isinstance(content, dict):
        return []
    if content.get("type") == "content":
        return images_of(content.get("content"))
    return [str(content.get("data") or "")] if content.get("type") == "image" else []
