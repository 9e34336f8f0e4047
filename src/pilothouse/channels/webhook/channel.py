"""The webhook channel: a call that shows its secret becomes a message in the conversation that its hook names.

202 means that the message is durable; the same call again gets 200 and the same id. The answer to it appears in the
conversation, never in the response. A hook is a person like any other, `webhook:NAME`, and needs a role.
"""

from __future__ import annotations

import msgspec

from pilothouse.channels.webhook.config import WEBHOOK, HookConfig, WebhookConfig, parse_place, path_of
from pilothouse.channels.webhook.delivery import BODY_BYTES, Call, Refused, Repeats, may_call, read_call
from pilothouse.core.channel import ChannelHost, Desk, Receipt
from pilothouse.core.errors import ConfigError, PilothouseError, Rejected, StoreError
from pilothouse.core.ids import ChannelId, UserId
from pilothouse.core.message import Address, Author, Content, InboundMessage, MessageRef, Part
from pilothouse.http.server import Request, Response, open_server

NOT_LISTENING = (
    "The webhooks cannot listen at {host}:{port}: {why}. Stop the program that uses the port, or set host and port in "
    "[channels.webhook] to a free one."
)
NO_PLACE = "A hook takes no messages: set `conversation` of the hook to one of another channel."
PING = "ping"


class WebhookChannel:
    def __init__(self, config: WebhookConfig, host: ChannelHost) -> None:
        self.id: ChannelId = WEBHOOK
        self._config = config
        self._host = host
        self._hooks = {path_of(name): (name, hook) for name, hook in config.hooks.items()}
        self._repeats = Repeats()
        self.port = config.port
        """The port; once it runs, the one that the system chose if it was 0."""

    async def run(self, desk: Desk) -> None:
        import anyio

        async def answer(request: Request) -> Response:
            return await self._answer(desk, request)

        config = self._config
        try:
            async with open_server(config.host, config.port, answer) as self.port:
                self._host.log("webhook.listening", host=config.host, port=self.port, hooks=len(self._hooks))
                await anyio.sleep_forever()
        except OSError as error:
            words = NOT_LISTENING.format(host=config.host, port=config.port, why=error.strerror or error)
            raise ConfigError(words) from error

    async def _answer(self, desk: Desk, request: Request) -> Response:
        name, hook = self._hooks.get(request.path, ("", None))
        if hook is None:
            return Response(404)
        if request.method != "POST":
            return Response(405)
        body = await request.body(BODY_BYTES)
        if body is None:
            return Response(413)
        if not may_call(hook, request.headers, body):
            self._host.log("webhook.refused", level="warning", hook=name, why="wrong secret")
            return Response(401)
        if not request.admit():
            return Response(503)
        first_at = self._repeats.first_at(name, body, self._host.clock.now())
        call = read_call(name, hook, request.headers, body, first_at)
        if isinstance(call, Refused):
            return _told(call.status, "refused", why=call.why)
        if call.event == PING or (hook.events and call.event not in hook.events):
            return _told(200, "ignored")
        by = Author(UserId(f"{WEBHOOK}:{name}"), name, is_bot=True)
        try:
            return await self._accept(desk, hook, by, call)
        except StoreError as error:  # the caller may send it again
            self._host.log("webhook.postponed", level="warning", hook=name, error=str(error))
            return _told(503, "postponed")
        except PilothouseError as error:
            return _told(403, "refused", why=str(error))

    async def _accept(self, desk: Desk, hook: HookConfig, by: Author, call: Call) -> Response:
        """Store a message in the hook's conversation, and in those that watch the pull request; tell of the first."""
        places = {parse_place(hook.conversation): call.id} if hook.conversation else {}
        for pull in call.pulls.pulls if call.pulls else ():
            for address in await desk.query("watching", by, pull=pull):
                places.setdefault(address, f"{pull}:{call.pulls.key}" if call.pulls else call.id)
        receipts = [await desk.accept(self._message(address, by, id, call)) for address, id in places.items()]
        self._host.log(
            "webhook.called", hook=by.name, event_name=call.event, states=[one.state for one in receipts]
        )
        return _response(by.name, receipts[0]) if receipts else _told(200, "ignored")

    def _message(self, address: Address, by: Author, id: str, call: Call) -> InboundMessage:
        native_id, now = f"{by.id}:{id}", self._host.clock.now()
        return InboundMessage(
            address, by, native_id, call.text, kind="webhook", source=call.source, sent_at=now
        )

    def render(self, content: Content) -> tuple[Part, ...]:
        return (Part(content.text),)

    async def send(self, address: Address, part: Part) -> MessageRef:
        raise Rejected(NO_PLACE)


def _response(name: str, receipt: Receipt) -> Response:
    id = receipt.message_id or ""
    match receipt.state:
        case "queued":
            return _told(202, "accepted", id=id)
        case "duplicate":
            return _told(200, "duplicate", id=id)
        case "refused":
            status = 429 if receipt.text.startswith("Rate limit") else 403
            why = receipt.text or f'The hook has no role: add "{WEBHOOK}:{name}" to members under [people].'
            return _told(status, "refused", why=why)


def _told(status: int, state: str, **more: str) -> Response:
    return Response(status, msgspec.json.encode({"status": state, **more}))
