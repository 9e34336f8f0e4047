"""The script protocol on a shared process: greeting, routing of lines to sessions, commands."""

from __future__ import annotations

from collections.abc import Awaitable

from pilothouse.core.event import TextDelta, ThinkingDelta, TurnEnded, merge_deltas
from pilothouse.core.outcome import Failure
from pilothouse.engines.link import Exit, Link, LinkPlan, Port
from pilothouse.engines.script import wire
from pilothouse.processes import Line

Item = wire.Event | wire.Media | wire.Noise
Reply = wire.Opened | wire.Refused | wire.Steered
ScriptPort = Port[Item, Reply]
Mail = Item | Exit | Failure


class ScriptLink(Link[Item, Reply]):
    def __init__(self, plan: LinkPlan) -> None:
        super().__init__(plan, join_items)
        self.hello: wire.Hello | None = None

    async def send(self, command: wire.Command) -> None:
        in_a_hurry = isinstance(command, wire.Interrupt | wire.Close)
        await self._write(wire.encode(command), self._plan.grace_s if in_a_hurry else self._plan.open_s)

    async def _end_session(self, port: ScriptPort) -> None:
        await self.send(wire.Close(port.session))

    def _route(self, line: Line) -> Awaitable[None] | None:
        heard = wire.Noise(line.data[: wire.NOISE_BYTES]) if line.cut else wire.decode(line.data)
        match heard:
            case wire.Event() | wire.Media():
                port = self._ports.get(heard.session)
                if port is None or heard.turn != port.turn:
                    return None
                event = heard.event if isinstance(heard, wire.Event) else None
                delta = isinstance(event, TextDelta | ThinkingDelta)
                ends = isinstance(event, TurnEnded)
                return self._hand_over(port, heard, len(line.data), delta=delta, ends=ends)
            case wire.Hello():
                self._check_hello(heard)
            case wire.Noise():
                for port in self._ports.values():
                    port.mailbox.put_last(heard)
            case _:
                if port := self._ports.get(heard.session):
                    port.reply(heard)
        return None

    def _check_hello(self, hello: wire.Hello) -> None:
        if hello.protocol != wire.PROTOCOL:
            words = f"speaks protocol {hello.protocol}, and this Pilothouse speaks {wire.PROTOCOL}"
            self.condemn(Failure("bad_request", f"The engine {hello.name!r} {words}. Upgrade the older one."))
            return
        self.hello = self.hello or hello
        self.private = self.private or not hello.capabilities.parallel
        self._greet()


def join_items(last: Mail, new: Mail) -> Mail | None:
    """Join deltas of one block, and count lines of noise instead of collecting them."""
    match last, new:
        case wire.Event(), wire.Event():
            both = merge_deltas(last.event, new.event)
            return wire.Event(new.session, new.turn, both) if both is not None else None
        case wire.Noise(), wire.Noise():
            return wire.Noise(last.raw, last.lines + new.lines)
        case _:
            return None
