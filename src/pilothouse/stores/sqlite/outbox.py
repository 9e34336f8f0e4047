"""The outbox: a queue whose rows are sent in parts. A part's state is stored before and after every send."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pilothouse.core.errors import IllegalMove, StoreError
from pilothouse.core.ids import ChannelId, ConversationId, MessageId
from pilothouse.core.message import MessageRef, Part
from pilothouse.core.queue import CHANGES, PartRow, PartState, QueueRow, move_part
from pilothouse.stores.sqlite.blobs import note_uses
from pilothouse.stores.sqlite.link import Link, Row, to_json
from pilothouse.stores.sqlite.queue import QueueTable, queue_row

_decode_part = msgspec.json.Decoder(Part).decode
_decode_ref = msgspec.json.Decoder(MessageRef).decode
_CHANGES = to_json(sorted(CHANGES)).decode()


def part_row(row: Row) -> PartRow:
    number, part, state, sends, ref = row
    return PartRow(number, _decode_part(part), state, sends, _decode_ref(ref) if ref else None)


class OutboxTable(QueueTable):
    def __init__(self, link: Link) -> None:
        super().__init__(link, "outbox")

    def deliverable(
        self,
        now: float,
        *,
        channels: Sequence[ChannelId],
        conversations: Sequence[ConversationId] = (),
        skip: Sequence[ConversationId] = (),
        limit: int,
    ) -> list[QueueRow]:
        rows = self._link.rows(
            "outbox.deliverable",
            now=now,
            channels=to_json(list(channels)).decode(),
            conversations=to_json(list(conversations)).decode(),
            skip=to_json(list(skip)).decode(),
            changes=_CHANGES,
            limit=limit,
        )
        return [queue_row(row) for row in rows]

    def of_no_turn(self, conversation_id: ConversationId, *, but: str, limit: int = 100) -> list[QueueRow]:
        rows = self._link.rows("outbox.of_no_turn", conversation_id=conversation_id, but=but, limit=limit)
        return [queue_row(row) for row in rows]

    def channels_waiting(self) -> list[ChannelId]:
        return [row[0] for row in self._link.rows("outbox.channels_waiting")]

    def store_parts(self, id: MessageId, parts: Sequence[Part]) -> list[PartRow]:
        stored = self.parts(id)
        if stored:
            return stored
        self._add_parts(id, parts)
        return [PartRow(number, part, "pending", 0, None) for number, part in enumerate(parts)]

    def parts(self, id: MessageId) -> list[PartRow]:
        return [part_row(row) for row in self._link.rows("outbox.parts", id=id)]

    def replace_part(self, id: MessageId, index: int, parts: Sequence[Part]) -> None:
        found = self.parts(id)[index:]
        if not found:
            raise StoreError(f"the outbox row {id} has no part {index}")
        if not parts or any(row.state != "pending" for row in found):
            raise IllegalMove("a part", found[0].state, f"{len(parts)} others")
        self._link.run("outbox.drop_parts", id=id, number=index)
        self._add_parts(id, [*parts, *(row.part for row in found[1:])], index)

    def sending(self, id: MessageId, index: int) -> PartRow:
        return self._move(id, index, "sending", 1)

    def sent(self, id: MessageId, index: int, ref: MessageRef) -> None:
        self._move(id, index, "sent", 0, ref)

    def pending(self, id: MessageId, index: int) -> None:
        self._move(id, index, "pending", -1)

    def find_ref(self, ref: MessageRef) -> QueueRow | None:
        row = self._link.row("outbox.find_ref", ref=to_json(ref))
        return queue_row(row) if row else None

    def _add_parts(self, id: MessageId, parts: Sequence[Part], first: int = 0) -> None:
        for number, part in enumerate(parts, first):
            body = to_json(part)
            if not self._link.run("outbox.add_part", id=id, number=number, part=body):
                raise StoreError(f"the outbox has no row {id}")
            note_uses(self._link, "outbox", id, body)

    def _move(
        self, id: MessageId, index: int, to: PartState, sends: int, ref: MessageRef | None = None
    ) -> PartRow:
        found = self._link.row("outbox.part", id=id, number=index)
        if found is None:
            raise StoreError(f"the outbox row {id} has no part {index}")
        part = part_row(found)
        state = move_part(part.state, to)
        where = None if ref is None else to_json(ref)
        moved = self._link.row(
            "outbox.move_part", id=id, number=index, state=state, sends=part.sends + sends, ref=where
        )
        assert moved is not None, "it was there a moment ago"
        return part_row(moved)
