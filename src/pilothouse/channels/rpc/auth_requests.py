"""`auth.logout`: removes the keys and the login that people gave an engine in a chat."""

from __future__ import annotations

from pilothouse.channels.request_errors import RequestError
from pilothouse.channels.rpc.connection import Connection
from pilothouse.channels.rpc.model_requests import engine_of
from pilothouse.channels.rpc.notifications import UiConfirmParams, UiConfirmResult
from pilothouse.channels.rpc.params import AuthLogoutParams, AuthLogoutResult
from pilothouse.channels.rpc.protocol import BUSY, INTERNAL, unsupported
from pilothouse.channels.stdio_server import ReplyFailed, Respond

NOTHING = "No key and no login was kept."


async def log_out(client: Connection, params: AuthLogoutParams, respond: Respond) -> None:
    """Ask the person, then remove the kept keys and logins. The reply says which key is still used."""
    engine = await engine_of(client)
    if engine not in client.setup.log_outs:
        reason = f"The program of the engine {engine} keeps its login itself. Log out with that program."
        raise unsupported("auth.logout", reason)
    if client.runs.active:
        raise RequestError(BUSY, "A run has not ended. Wait for it, or cancel it.")
    if not await _is_confirmed(client, engine):
        await respond(AuthLogoutResult(ok=False, auth_cleared=False, session_cleared=False, cancelled=True))
        return
    try:
        removed, left = await client.setup.log_outs[engine]()
    except OSError as error:
        raise RequestError(INTERNAL, f"The file of keys cannot be written: {error.strerror}.") from error
    message = f"Removed {' and '.join(removed)}." if removed else NOTHING
    if left:
        message += f" The key of the configuration or the environment is still used, for {left}."
    await respond(
        AuthLogoutResult(
            ok=True, auth_cleared=bool(removed), session_cleared=params.clear_session, message=message
        )
    )


async def _is_confirmed(client: Connection, engine: str) -> bool:
    if client.able is None or not client.able.supports_confirm:
        raise RequestError(INTERNAL, "auth.logout needs a confirm: initialize with supports_confirm.")
    asked = UiConfirmParams(
        f"Log out of {engine}?",
        "This removes the API keys and the login that were given here. The next run asks for them again.",
        confirm_label="Log out",
        cancel_label="Cancel",
        danger_level="danger",
    )
    try:
        return (await client.dialogs.ask("ui.confirm.request", asked, UiConfirmResult)).ok
    except ReplyFailed:
        return False
