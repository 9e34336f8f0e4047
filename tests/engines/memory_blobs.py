"""Blobs that last as long as a test."""

from __future__ import annotations

import hashlib

from pilothouse.core.ids import BlobHash
from pilothouse.core.message import Attachment


class MemoryBlobs:
    def __init__(self) -> None:
        self.kept: dict[BlobHash, bytes] = {}

    async def get(self, blob: BlobHash) -> bytes:
        return self.kept[blob]

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        blob = BlobHash(hashlib.sha256(data).hexdigest())
        self.kept[blob] = data
        return Attachment(name, media_type, len(data), blob)
