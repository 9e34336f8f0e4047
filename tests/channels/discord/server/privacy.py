"""Without the intent for it, what people write is empty, but where they speak to the bot."""

from typing import Any

from simcord.backend import Backend
from simcord.intents import censor_message

COMMAND, COMPONENT, MODAL = 2, 3, 5
MESSAGE_COMMAND = 3


def hide_content(state: Backend, event: str, data: dict[str, Any]) -> None:
    bot_id = state.bot_user.id
    if event in ("MESSAGE_CREATE", "MESSAGE_UPDATE"):
        censor_message(data, bot_id, backend=state)
    elif event == "INTERACTION_CREATE":
        message = data.get("message")
        if data["type"] in (COMPONENT, MODAL) and isinstance(message, dict):
            censor_message(message, bot_id, backend=state, exempt_root=True)
        chosen = data.get("data") or {}
        for id, message in (chosen.get("resolved") or {}).get("messages", {}).items():
            target = chosen.get("type") == MESSAGE_COMMAND and str(chosen.get("target_id")) == id
            censor_message(message, bot_id, backend=state, exempt_root=target)
