"""Dialogs of the client: requests that we send it, and asks as such requests.

A dialog has no deadline of its own; it ends with the client's reply, or when `cancel` says that nobody needs it any more.
An ask is answered once: by this client, by another surface, by its expiry, or by the end of its turn.
"""

from __future__ import annotations

from pilothouse.channels.rpc.notifications import (
    PickItem,
    UiCancelParams,
    UiConfirmParams,
    UiConfirmResult,
    UiPickParams,
    UiPickResult,
    UiPromptParams,
    UiPromptResult,
)
from pilothouse.channels.rpc.params import UiCapabilities
from pilothouse.channels.stdio_frames import FrameWriter
from pilothouse.channels.stdio_server import ClientRequests, ReplyFailed
from pilothouse.core.ask import Ask, Decision, is_secret
from pilothouse.core.ask_view import ask_lines, describe_offer, headline, rule_offered
from pilothouse.core.text import reveal_hidden

OTHER = "pilothouse.other"
OTHER_LABEL = "Something else…"


Dialogs = ClientRequests


def open_dialogs(writer: FrameWriter) -> Dialogs:
    async def withdraw(id: str) -> None:
        await writer.notify("ui.request.cancel", UiCancelParams(id, "It needs no answer any more."))

    return ClientRequests(writer, withdraw)


async def decide(dialogs: Dialogs, able: UiCapabilities, ask: Ask, run_id: str) -> Decision | None:
    """Ask the person. None if this client has no dialog for it, or answered badly: others may still answer."""
    try:
        if ask.options:
            return await _pick(dialogs, able, ask, run_id)
        if ask.kind == "question":
            return await _prompt(dialogs, able, ask, run_id)
        return await _confirm(dialogs, able, ask, run_id)
    except ReplyFailed:
        return None


async def _confirm(dialogs: Dialogs, able: UiCapabilities, ask: Ask, run_id: str) -> Decision | None:
    if not able.supports_confirm:
        return None
    rule = rule_offered(ask, "always") or rule_offered(ask, "session")
    params = UiConfirmParams(
        reveal_hidden(headline(ask)),
        ask_message(ask),
        run_id,
        "Go ahead" if ask.kind == "plan" else "Allow",
        danger_level="normal" if ask.kind == "plan" else "danger",
        allow_remember=bool(rule),
        allow_reason=not ask.of_house,
    )
    told = await dialogs.ask("ui.confirm.request", params, UiConfirmResult)
    if not told.ok:
        return Decision("deny", text=(told.reason or "").strip())
    if not (told.remember and rule):
        return Decision("allow")
    return Decision("allow", remember="always" if rule_offered(ask, "always") else "session")


async def _pick(dialogs: Dialogs, able: UiCapabilities, ask: Ask, run_id: str) -> Decision | None:
    if not able.supports_pick:
        return await _prompt(dialogs, able, ask, run_id) if ask.free_text else None
    items = [PickItem(option.key, reveal_hidden(option.label)) for option in ask.options]
    if ask.free_text and able.supports_prompt:
        items.append(PickItem(OTHER, OTHER_LABEL))
    params = UiPickParams(reveal_hidden(ask.title), tuple(items), run_id, ask.many)
    told = await dialogs.ask("ui.pick.request", params, UiPickResult)
    if OTHER in told.ids:
        return await _prompt(dialogs, able, ask, run_id)
    return Decision("answer", told.ids) if told.ids else Decision("deny")


async def _prompt(dialogs: Dialogs, able: UiCapabilities, ask: Ask, run_id: str) -> Decision | None:
    if not able.supports_prompt:
        return None
    secret = is_secret(ask)
    message = ask_message(ask) or reveal_hidden(ask.title)
    params = UiPromptParams(
        reveal_hidden(headline(ask)), message, run_id, multiline=not secret, secret=secret
    )
    told = await dialogs.ask("ui.prompt.request", params, UiPromptResult)
    value = (told.value or "").strip()
    return Decision("answer", text=value) if value else Decision("deny")


def ask_message(ask: Ask) -> str:
    """Return the lines below the headline: values, diff, folder, reason, and the rule that "remember" would save."""
    lines = [f"{line.name}: {line.text}" if line.name else line.text for line in ask_lines(ask)]
    rule = rule_offered(ask, "always") or rule_offered(ask, "session")
    if rule:
        lines.append(f"Remember: allow {describe_offer(rule)}")
    return reveal_hidden("\n".join(lines))
