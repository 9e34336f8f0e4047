"""Attachment bytes under their hash: small ones in the database, large ones as files beside it.

`blob_uses` says which rows need which bytes; whoever stores JSON that may name a blob tells it with `note_uses`,
and the database itself forgets the use when the row goes.
"""

from __future__ import annotations

import hashlib
import re

from pilothouse.core.ids import BlobHash
from pilothouse.core.message import Attachment
from pilothouse.stores.sqlite.blob_files import BlobFiles
from pilothouse.stores.sqlite.link import Link

LARGEST_ROW = 256 * 1024
_MARK = b'"blob":"'
_NAMED = re.compile(rb'"blob":"([0-9a-f]{64})"')


def note_uses(link: Link, kind: str, id: str, body: bytes) -> None:
    """Almost no row names a blob, so that the common case must cost nothing."""
    if _MARK not in body:
        return
    for match in _NAMED.finditer(body):
        link.run("blobs.use", owner=f"{kind} {id}", hash=match[1].decode())


class BlobRows:
    def __init__(self, link: Link, files: BlobFiles) -> None:
        self._link = link
        self._files = files

    def put(self, data: bytes, media_type: str, at: float) -> BlobHash:
        digest = hashlib.sha256(data).hexdigest()
        small = len(data) <= LARGEST_ROW
        if not small:
            self._files.keep(digest, data)
        self._link.run(
            "blobs.put",
            hash=digest,
            media_type=media_type,
            size=len(data),
            at=at,
            data=data if small else None,
        )
        return BlobHash(digest)

    def get(self, blob: BlobHash) -> bytes | None:
        row = self._link.row("blobs.get", hash=blob)
        if row is None:
            return None
        return self._files.read(blob) if row[0] is None else row[0]

    def attach(self, data: bytes, name: str, media_type: str, at: float) -> Attachment:
        return Attachment(name, media_type, len(data), self.put(data, media_type, at))

    def prune(self, before: float, limit: int) -> int:
        """The files go first: a crash then leaves a row that nobody needs, and `keep` writes its file anew."""
        rows = self._link.rows("blobs.prune", before=before, limit=limit)
        for digest, is_file in rows:
            if is_file:
                self._files.remove(digest)
        return len(rows)
