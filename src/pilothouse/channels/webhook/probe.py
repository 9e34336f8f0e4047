"""A try of the listener, for `pilothouse doctor`: a signed ping if something listens, else a look whether the port is free.

A ping starts no turn. Its answer shows that our gateway listens there, and that it knows the secret of the configuration.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import socket

from pilothouse.channels.webhook.config import HookConfig, WebhookConfig, path_of
from pilothouse.channels.webhook.delivery import SIGNATURE
from pilothouse.core.channel import BotIdentity

WITHIN_S = 5.0
BODY = b"{}"
EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - asked where it would listen
FREE = "nothing listens at {at}, and the port is free"
NOT_FREE = "nothing answers at {at}, and the port cannot be used: {why}. Set host and port in [channels.webhook] to a free one"
SILENT = "the program at {at} does not answer as Pilothouse does ({why}). Stop it, or set another port in [channels.webhook]"
STALE = "the gateway at {at} does not accept the {what} of the hook {hook}. Restart the gateway, so that it reads the configuration"
NO_HOOK = "the program at {at} has no hook {hook}. Restart the gateway, or stop the other program"


def try_listener(config: WebhookConfig) -> BotIdentity:
    """Try each hook. Returns the addresses that answer, or the problem."""
    at = f"{config.host}:{config.port}"
    if not config.port:
        return BotIdentity(idle="the system chooses its port at each start, so it was not tried")
    for name, hook in config.hooks.items():
        try:
            status = _ping(config, name, hook)
        except ConnectionRefusedError:
            return without_listener(config, at)
        except (OSError, http.client.HTTPException) as error:
            return BotIdentity(problem=SILENT.format(at=at, why=_why(error)))
        if status != 200:
            return BotIdentity(problem=_refusal(status, at, name, hook))
    return BotIdentity(name=", ".join(config.address(name) for name in config.hooks))


def _refusal(status: int, at: str, name: str, hook: HookConfig) -> str:
    match status:
        case 401:
            return STALE.format(at=at, hook=name, what="secret" if hook.secret else "token")
        case 404:
            return NO_HOOK.format(at=at, hook=name)
        case _:
            return SILENT.format(at=at, why=f"status {status}")


def _ping(config: WebhookConfig, name: str, hook: HookConfig) -> int:
    if hook.secret:
        mac = hmac.new(hook.secret.reveal().encode(), BODY, hashlib.sha256).hexdigest()
        proof = {SIGNATURE: f"sha256={mac}"}
    else:
        proof = {"Authorization": f"Bearer {hook.token.reveal()}"}
    event = {("X-GitHub-Event" if hook.preset == "github" else "X-Event"): "ping"}
    host = EVERYWHERE.get(config.host, config.host)
    connection = http.client.HTTPConnection(host, config.port, timeout=WITHIN_S)
    try:
        connection.request("POST", path_of(name), BODY, {**proof, **event})
        return connection.getresponse().status
    finally:
        connection.close()


def without_listener(config: WebhookConfig, at: str) -> BotIdentity:
    """Bind as the gateway would, and let go at once."""
    try:
        for family, kind, _, _, address in socket.getaddrinfo(
            config.host or None, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            with socket.socket(family, kind) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(address)
    except OSError as error:
        return BotIdentity(problem=NOT_FREE.format(at=at, why=_why(error)))
    return BotIdentity(idle=FREE.format(at=at))


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)
