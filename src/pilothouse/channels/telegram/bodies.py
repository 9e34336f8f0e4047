"""What a call carries: JSON, or a form where files go along, which is cut into pieces while it is sent."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pilothouse.channels.telegram.shapes import Upload

PIECE_BYTES = 64 << 10

_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
# What would end the quotes that a name stands in, or its line.
_UNSAFE = {"\\": "\\\\"} | {chr(code): f"%{code:02X}" for code in (*range(0x20), 0x22, 0x7F)}
_ESCAPES = str.maketrans(_UNSAFE)


class Json:
    media_type = "application/json"

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._data = msgspec.json.encode(params)
        self.length = len(self._data)

    def __iter__(self) -> Iterator[bytes]:
        yield self._data


class Form:
    """Every value that is not text is JSON. A file's bytes are not copied, and may be sent anew."""

    def __init__(self, params: Mapping[str, Any], uploads: Mapping[str, Upload]) -> None:
        boundary = os.urandom(16).hex()
        self.media_type = f"multipart/form-data; boundary={boundary}"
        self._parts = [
            *(_field(boundary, name, value) for name, value in params.items()),
            *(_file(boundary, name, upload) for name, upload in uploads.items()),
        ]
        self._end = f"--{boundary}--\r\n".encode()
        self.length = sum(len(head) + len(data) + 2 for head, data in self._parts) + len(self._end)

    def __iter__(self) -> Iterator[bytes]:
        for head, data in self._parts:
            yield head
            for start in range(0, len(data), PIECE_BYTES):
                yield data[start : start + PIECE_BYTES]
            yield b"\r\n"
        yield self._end


Body = Json | Form


def _field(boundary: str, name: str, value: object) -> tuple[bytes, bytes]:
    data = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    return _head(boundary, f'name="{name}"'), data


def _file(boundary: str, name: str, upload: Upload) -> tuple[bytes, bytes]:
    # A type is a header: what an engine or a person made up must not break the request.
    media_type = upload.media_type if _MEDIA_TYPE.fullmatch(upload.media_type) else "application/octet-stream"
    named = f'name="{name}"; filename="{upload.name.translate(_ESCAPES)}"\r\nContent-Type: {media_type}'
    return _head(boundary, named), upload.data


def _head(boundary: str, named: str) -> bytes:
    return f"--{boundary}\r\nContent-Disposition: form-data; {named}\r\n\r\n".encode()
