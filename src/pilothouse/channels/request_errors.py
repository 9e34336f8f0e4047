"""The error codes of JSON-RPC, and the error that answers a request. The client library loads this: keep its imports cheap."""

from __future__ import annotations

from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602


class RequestError(Exception):
    """The error that answers a request of the client."""

    def __init__(self, code: int, text: str, data: Any = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.data = data
