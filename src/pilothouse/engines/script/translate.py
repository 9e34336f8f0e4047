"""Lines of one turn -> events. Pure: `feed` for every line, `end` once when the process has ended.

Rules: whatever is fed, the events keep the grammar of core/event.py. A line outside the protocol costs at most two
notices per turn and harms no other line. A process that dies ends the turn with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pilothouse.core.ask import hash_payload
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    MediaProduced,
    Notice,
    ResumeToken,
    SessionChanged,
    SessionStarted,
    TurnEnded,
)
from pilothouse.core.grammar import Grammar
from pilothouse.core.ids import EngineId
from pilothouse.core.message import Attachment
from pilothouse.core.outcome import Failure
from pilothouse.engines.link import Exit, explain_exit
from pilothouse.engines.script import wire
from pilothouse.engines.script.calls import call_of

ENGINE_ID = EngineId("script")

_QUOTED_CHARS = 200


class TurnTranslator:
    """One turn of one session. Set `interrupted` when it was asked to stop: a dead process then means cancelled."""

    def __init__(self, session: str, turn: int, cwd: str, engine: EngineId = ENGINE_ID) -> None:
        self._session = session
        self._turn = turn
        self._cwd = cwd
        self._engine = engine
        self._grammar = Grammar()
        self._noise = 0
        self.interrupted = False

    @property
    def ended(self) -> bool:
        return self._grammar.ended

    def feed(self, line: bytes) -> Sequence[EngineEvent | wire.Media]:
        return self.take(wire.decode(line))

    def take(self, heard: wire.Heard) -> Sequence[EngineEvent | wire.Media]:
        """Return events, and media as it is: only a store can keep bytes, and `keep` makes the event."""
        match heard:
            case wire.Event(session=self._session, turn=self._turn, event=event):
                return [*self._before_end(event), *self._grammar.feed(self._ours(event))]
            case wire.Media(session=self._session, turn=self._turn) if not self.ended:
                return [heard]
            case wire.Noise():
                return self._hear_noise(heard)
            case _:
                return []

    def keep(self, attachment: Attachment) -> list[EngineEvent]:
        return self._grammar.feed(MediaProduced(attachment))

    def note(self, notice: Notice) -> list[EngineEvent]:
        return self._grammar.feed(notice)

    def end(self, last: Exit) -> list[EngineEvent]:
        """Return what is missing when nothing more can come; nothing after a `TurnEnded`."""
        if self.ended:
            return []
        if self.interrupted:
            return self._grammar.feed(TurnEnded("cancelled"))
        return [*self._noise_summary(), *self._grammar.end(explain_exit(last))]

    def fail(self, failure: Failure) -> list[EngineEvent]:
        return self._grammar.end(failure)

    def _ours(self, event: EngineEvent) -> EngineEvent:
        """Fill in the token's engine and folder and the hash of an ask, and the call where a program sends none."""
        match event:
            case SessionStarted(resume=ResumeToken() as token) | TurnEnded(resume=ResumeToken() as token):
                return msgspec.structs.replace(event, resume=self._token(token))
            case SessionChanged(resume=token):
                return SessionChanged(self._token(token))
            case Asked(ask=ask):
                call = ask.call if ask.call is not None or ask.kind == "question" else call_of(ask.payload)
                return Asked(msgspec.structs.replace(ask, payload_hash=hash_payload(ask.payload), call=call))
            case _:
                return event

    def _token(self, token: ResumeToken) -> ResumeToken:
        return ResumeToken(self._engine, token.value, self._cwd)

    def _hear_noise(self, noise: wire.Noise) -> list[EngineEvent]:
        known, self._noise = self._noise, self._noise + noise.lines
        if known:
            return []
        quoted = noise.raw.decode("utf-8", "replace")[:_QUOTED_CHARS]
        return self._warn(f"The engine printed something that is not of its protocol: {quoted}")

    def _before_end(self, event: EngineEvent) -> list[EngineEvent]:
        return self._noise_summary() if isinstance(event, TurnEnded) else []

    def _noise_summary(self) -> list[EngineEvent]:
        if self._noise < 2 or self.ended:
            return []
        return self._warn(f"The engine printed {self._noise - 1} more lines that are not of its protocol.")

    def _warn(self, text: str) -> list[EngineEvent]:
        return self._grammar.feed(Notice("warning", "engine_noise", text))
