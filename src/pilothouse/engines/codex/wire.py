"""Lines of `codex app-server` (0.166) as values: replies, requests and notifications.

The protocol is JSON-RPC 2.0 without its `jsonrpc` member, one message per line.

Rules: `decode` never raises. A line that is not JSON is `Noise`, a method or item that is not named here is `Unknown`, and
a field of an unexpected shape costs that field only.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from pilothouse.engines.codex.wire_items import Item, read_item
from pilothouse.engines.jsonrpc import (
    NOISE_BYTES,
    Frame,
    Noise,
    Reply,
    Request,
    RequestId,
    WireError,
    decode_line,
)

__all__ = ["NOISE_BYTES", "WireError"]

NAME_CHARS = 80


class _Params(Struct, frozen=True, rename="camel"):
    thread_id: str = ""
    turn_id: str = ""


class TurnError(Struct, frozen=True, rename="camel"):
    """`codex_error_info` is a word, or an object with one key that names the kind."""

    message: str = ""
    codex_error_info: Any = None
    additional_details: str | None = None


class Turn(Struct, frozen=True):
    id: str
    status: str = ""
    error: TurnError | None = None


class TurnStarted(Struct, frozen=True, rename="camel"):
    turn: Turn
    thread_id: str = ""


class TurnCompleted(Struct, frozen=True, rename="camel"):
    turn: Turn
    thread_id: str = ""


class ItemStarted(Struct, frozen=True):
    item: Item
    thread_id: str = ""
    turn_id: str = ""


class ItemCompleted(Struct, frozen=True):
    item: Item
    thread_id: str = ""
    turn_id: str = ""


class TextPiece(_Params, frozen=True):
    item_id: str = ""
    delta: str = ""


class ThoughtPiece(_Params, frozen=True):
    delta: str = ""


class OutputPiece(_Params, frozen=True):
    item_id: str = ""
    delta: str = ""


class PlanStep(Struct, frozen=True):
    step: str = ""
    status: str = ""


class PlanUpdated(_Params, frozen=True):
    plan: list[PlanStep] = field(default_factory=list)


class TokenCount(Struct, frozen=True, rename="camel"):
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    output_tokens: int = 0


class TokenUsage(Struct, frozen=True):
    """`total` counts the whole thread, `last` the last request to the model. The window is that of the model."""

    total: TokenCount = TokenCount()
    last: TokenCount = TokenCount()
    model_context_window: int | None = field(default=None, name="modelContextWindow")


class UsageUpdated(_Params, frozen=True):
    token_usage: TokenUsage = TokenUsage()


class Window(Struct, frozen=True, rename="camel"):
    used_percent: float = 0.0
    resets_at: float | None = None


class RateLimits(Struct, frozen=True, rename="camel"):
    primary: Window | None = None
    secondary: Window | None = None
    rate_limit_reached_type: str | None = None


class LimitsUpdated(Struct, frozen=True, rename="camel"):
    """Limits of the account, so of every thread."""

    rate_limits: RateLimits = RateLimits()


class ErrorTold(_Params, frozen=True):
    error: TurnError = TurnError()
    will_retry: bool = False


class RequestResolved(_Params, frozen=True):
    """A request of the server was answered, or withdrawn with its turn."""

    request_id: RequestId = -1


class Warned(_Params, frozen=True):
    message: str = ""
    summary: str = ""


class Rerouted(_Params, frozen=True):
    from_model: str = ""
    to_model: str = ""


class ServerStatus(_Params, frozen=True):
    """An MCP server of a thread: starting, ready or failed."""

    name: str = ""
    status: str = ""
    error: str | None = None


class StartedThread(Struct, frozen=True, rename="camel"):
    id: str = ""
    parent_thread_id: str | None = None


class ThreadStarted(Struct, frozen=True):
    thread: StartedThread = StartedThread()


class ThreadClosed(_Params, frozen=True):
    """The thread is no longer loaded, and may be opened again."""


class Ignored(Struct, frozen=True):
    """A known notification that has no meaning for a turn."""

    method: str


class Unknown(Struct, frozen=True):
    """A method that is not known; `name` is for people."""

    name: str
    thread_id: str = ""


class ServerRequest(Request, frozen=True):
    """A request that must be answered. Its kinds are read in `asks.py`."""

    @property
    def thread_id(self) -> str:
        return str(self.params.get("threadId") or "")


Told = (
    TurnStarted
    | TurnCompleted
    | ItemStarted
    | ItemCompleted
    | TextPiece
    | ThoughtPiece
    | OutputPiece
    | PlanUpdated
    | UsageUpdated
    | LimitsUpdated
    | ErrorTold
    | RequestResolved
    | Warned
    | Rerouted
    | ServerStatus
    | ThreadStarted
    | ThreadClosed
)
Heard = Told | Reply | ServerRequest | Ignored | Unknown | Noise

KINDS: dict[str, type[Struct]] = {
    "turn/started": TurnStarted,
    "turn/completed": TurnCompleted,
    "item/agentMessage/delta": TextPiece,
    "item/plan/delta": TextPiece,
    "item/reasoning/summaryTextDelta": ThoughtPiece,
    "item/reasoning/textDelta": ThoughtPiece,
    "item/commandExecution/outputDelta": OutputPiece,
    "turn/plan/updated": PlanUpdated,
    "thread/tokenUsage/updated": UsageUpdated,
    "account/rateLimits/updated": LimitsUpdated,
    "error": ErrorTold,
    "serverRequest/resolved": RequestResolved,
    "warning": Warned,
    "guardianWarning": Warned,
    "model/rerouted": Rerouted,
    "mcpServer/startupStatus/updated": ServerStatus,
    "thread/started": ThreadStarted,
    "thread/closed": ThreadClosed,
}
_IGNORED = (
    "account/",
    "app/",
    "configWarning",
    "deprecationNotice",
    "fs/",
    "hook/",
    "initialized",
    "item/autoApprovalReview/",
    "item/commandExecution/terminalInteraction",
    "item/fileChange/",
    "item/mcpToolCall/progress",
    "item/reasoning/summaryPartAdded",
    "mcpServer/",
    "model/",
    "modelProvider/",
    "project/",
    "remoteControl/",
    "skills/",
    "thread/",
    "turn/diff/updated",
    "turn/moderationMetadata",
)


class _ItemTold(Struct, frozen=True, rename="camel"):
    item: dict[str, Any]
    thread_id: str = ""
    turn_id: str = ""


def decode(line: bytes) -> Heard:
    """Decode any line; never raises."""
    return decode_line(line, _read)


def _read(frame: Frame) -> Heard:
    if not frame.method:
        return frame.read_reply() if frame.id is not None else Unknown("a message without a method")
    if frame.id is not None:
        return ServerRequest(frame.id, frame.method, frame.read_params())
    if frame.method in ("item/started", "item/completed"):
        told = frame.convert(_ItemTold)
        kind = ItemStarted if frame.method == "item/started" else ItemCompleted
        if told is not None:
            return kind(read_item(told.item), told.thread_id, told.turn_id)
    elif kind := KINDS.get(frame.method):
        told = frame.convert(kind)
        if told is not None:
            return told  # pyrefly: ignore[bad-return]
    elif frame.method.startswith(_IGNORED):
        return Ignored(frame.method)
    params = frame.convert(_Params)
    return Unknown(frame.method[:NAME_CHARS], params.thread_id if params else "")
