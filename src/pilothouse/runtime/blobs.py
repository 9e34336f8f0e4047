"""Attachment bytes for adapters: read and kept through the store."""

from __future__ import annotations

from pilothouse.core.clock import Clock
from pilothouse.core.errors import StoreError
from pilothouse.core.ids import BlobHash
from pilothouse.core.message import Attachment
from pilothouse.core.store import Store


class StoreBlobs:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def get(self, blob: BlobHash) -> bytes:
        data = await self._store.read(lambda tx: tx.blobs.get(blob))
        if data is None:
            raise StoreError(f"The attachment {blob[:12]}… is not kept any more.")
        return data

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        now = self._clock.now()
        return await self._store.write(lambda tx: tx.blobs.attach(data, name, media_type, now))
