"""Asks as requests of the protocol: an approval is `session/request_permission`, a question a form where the client has
forms, and else a permission with one option per answer.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from pilothouse.channels.acp.diffs import diffs_of, tool_text
from pilothouse.channels.acp.translate import KINDS, call_name
from pilothouse.channels.acp.wire import (
    CANCEL_REQUEST,
    ELICITATION,
    PERMISSION,
    CancelRequestParams,
    ClientAbilities,
    ElicitationParams,
    ElicitationResult,
    PermissionCall,
    PermissionOption,
    PermissionParams,
    PermissionResult,
    ToolContent,
    ToolKind,
)
from pilothouse.channels.stdio_frames import FrameWriter
from pilothouse.channels.stdio_server import ClientRequests, ReplyFailed
from pilothouse.core.ask import Ask, Decision, input_of
from pilothouse.core.ask_view import ask_lines, describe_offer, headline, rule_offered, subject
from pilothouse.core.event import ToolCall
from pilothouse.core.ids import TurnId
from pilothouse.core.text import reveal_hidden

ALLOW, ALWAYS, DENY = "allow", "allow_always", "deny"
ANSWER, OTHER = "answer", "other"
CALL_KINDS: dict[str, ToolKind] = {
    "command": "execute",
    "change": "edit",
    "read": "read",
    "web": "fetch",
    "notes": "think",
}


class AskPlace(Struct, frozen=True):
    """The place of an ask: the client's session, the turn, and the open tool call that it is about, if any."""

    session_id: str
    turn_id: TurnId = TurnId("")
    run_id: str = ""
    call: ToolCall | None = None


def open_requests(writer: FrameWriter) -> ClientRequests:
    async def withdraw(id: str) -> None:
        await writer.notify(CANCEL_REQUEST, CancelRequestParams(id))

    return ClientRequests(writer, withdraw)


async def decide(
    requests: ClientRequests, able: ClientAbilities, ask: Ask, place: AskPlace
) -> Decision | None:
    """Ask the person. None if this client cannot show it, or answered badly: others may still answer."""
    try:
        if ask.kind == "question" and able.has_forms:
            return await _ask_form(requests, ask, place)
        if ask.options:
            return await _ask_options(requests, ask, place)
        if ask.kind == "question":
            return None
        return await _ask_permission(requests, ask, place)
    except ReplyFailed:
        return None


async def _ask_permission(requests: ClientRequests, ask: Ask, place: AskPlace) -> Decision:
    options = [PermissionOption(ALLOW, "Go ahead" if ask.kind == "plan" else "Allow once", "allow_once")]
    lasting = "always" if rule_offered(ask, "always") else "session"
    if rule := rule_offered(ask, lasting):
        until = "" if lasting == "always" else " (this session)"
        options.append(
            PermissionOption(
                ALWAYS, f"Always allow {reveal_hidden(describe_offer(rule))}{until}", "allow_always"
            )
        )
    options.append(PermissionOption(DENY, "Deny", "reject_once"))
    chosen = await _request(requests, ask, place, tuple(options))
    if chosen == ALWAYS and rule:
        return Decision("allow", remember=lasting)
    return Decision("allow") if chosen == ALLOW else Decision("deny")


async def _ask_options(requests: ClientRequests, ask: Ask, place: AskPlace) -> Decision:
    options = tuple(PermissionOption(one.key, reveal_hidden(one.label), "allow_once") for one in ask.options)
    none = PermissionOption(DENY, "No answer", "reject_once")
    chosen = await _request(requests, ask, place, (*options, none))
    known = any(one.option_id == chosen for one in options)
    return Decision("answer", (chosen,)) if known else Decision("deny")


async def _request(
    requests: ClientRequests, ask: Ask, place: AskPlace, options: tuple[PermissionOption, ...]
) -> str:
    """Return the id of the chosen option; empty if the client cancelled."""
    params = PermissionParams(place.session_id, describe_call(ask, place), options)
    told = await requests.ask(PERMISSION, params, PermissionResult)
    return told.outcome.option_id if told.outcome.outcome == "selected" else ""


def describe_call(ask: Ask, place: AskPlace) -> PermissionCall:
    """Describe what is asked for: the call that the client knows already, or one of its own."""
    kind = CALL_KINDS.get(ask.call.kind) if ask.call is not None else None
    call = place.call
    if call is not None:
        kind = KINDS.get(call.kind, kind)
    name = call_name(place.turn_id, call.id if call is not None else ask.id)
    title = subject(ask) if ask.call is not None and ask.kind == "approval" else reveal_hidden(headline(ask))
    content = (*diffs_of(ask), *_lines(ask))
    return PermissionCall(name, title, kind or "other", content or None, input_of(ask))


def _lines(ask: Ask) -> tuple[ToolContent, ...]:
    """Return the lines beside the diff: values, folder, and the reason why a person is asked.

    A client shows the texts of a diff as they are, so one with hidden characters is among the lines, too."""
    hides = reveal_hidden(ask.preview) != ask.preview
    lines = [line for line in ask_lines(ask) if line.sort != "diff" or hides]
    text = "\n".join(f"{line.name}: {line.text}" if line.name else line.text for line in lines)
    return (tool_text(reveal_hidden(text)),) if text else ()


async def _ask_form(requests: ClientRequests, ask: Ask, place: AskPlace) -> Decision:
    params = ElicitationParams(place.session_id, reveal_hidden(ask.title), form_of(ask))
    told = await requests.ask(ELICITATION, params, ElicitationResult)
    content = told.content or {}
    if told.action != "accept":
        return Decision("deny")
    if text := str(content.get(OTHER) or "").strip():
        return Decision("answer", text=text)
    found = content.get(ANSWER)
    if not ask.options:
        text = str(found or "").strip()
        return Decision("answer", text=text) if text else Decision("deny")
    known = {option.key for option in ask.options}
    chosen = tuple(key for key in (found if isinstance(found, list) else [found]) if key in known)
    return Decision("answer", chosen) if chosen else Decision("deny")


def form_of(ask: Ask) -> dict[str, Any]:
    """Return the form of a question: its options or a text, and a text beside the options if that is allowed."""
    choices = [{"const": option.key, "title": reveal_hidden(option.label)} for option in ask.options]
    answer: dict[str, Any] = {"type": "string", "title": "Answer"}
    if choices and ask.many:
        answer = {"type": "array", "title": "Answer", "items": {"anyOf": choices}}
    elif choices:
        answer = {**answer, "oneOf": choices}
    fields = {ANSWER: answer}
    if choices and ask.free_text:
        fields[OTHER] = {"type": "string", "title": "Something else"}
    needed: list[str] = [] if OTHER in fields else [ANSWER]
    return {"type": "object", "properties": fields, "required": needed}
