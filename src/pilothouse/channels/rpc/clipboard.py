"""`ui.clipboard.read`: what the person's clipboard holds, for an input that asks for it.

The server never reads a clipboard by itself: a client that has none, or whose person says no, ends the request.
"""

from __future__ import annotations

from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.channels.rpc.connection import Connection
from pilothouse.channels.rpc.notifications import (
    ClipboardImage,
    ClipboardText,
    UiClipboardParams,
    UiClipboardResult,
)
from pilothouse.channels.rpc.params import ClipboardPart, ImagePart, ImageUrl, TextPart
from pilothouse.channels.rpc.protocol import INTERNAL, USER_CANCELLED
from pilothouse.channels.stdio_server import ReplyFailed

MAX_BYTES = 10 * 1024 * 1024
PROMPT = "Attach what the clipboard holds to your message?"


async def read_clipboard(client: Connection, part: ClipboardPart) -> list[TextPart | ImagePart]:
    """Ask the client for its clipboard. Raises `RequestError` if it gives nothing that was asked for."""
    if client.able is None or not client.able.supports_clipboard_read:
        raise RequestError(
            INVALID_PARAMS, "A clipboard part needs a client with `supports_clipboard_read`. Send its text."
        )
    if not part.formats:
        raise RequestError(
            INVALID_PARAMS, "The parameters are wrong: `formats` of a clipboard part is empty."
        )
    purpose = "text_paste" if part.formats[0] == "text/plain" else "image_attachment"
    asked = UiClipboardParams(purpose, part.formats, MAX_BYTES, PROMPT)
    try:
        told = await client.dialogs.ask("ui.clipboard.read", asked, UiClipboardResult)
    except ReplyFailed as error:
        raise RequestError(INTERNAL, str(error)) from error
    if told.cancelled:
        raise RequestError(USER_CANCELLED, "The person did not give the clipboard.")
    if not told.ok or not told.items:
        why = told.error or "it is empty"
        raise RequestError(INTERNAL, f"The clipboard cannot be read: {why[:200]}.")
    return [_part(item, part) for item in told.items]


def _part(item: ClipboardText | ClipboardImage, asked: ClipboardPart) -> TextPart | ImagePart:
    """Check one item against what was asked for."""
    match item:
        case ClipboardText(text=text):
            kind, size, part = "text/plain", len(text), TextPart(text)
        case ClipboardImage(data_url=url):
            kind, size, part = "image/png", len(url) * 3 // 4, ImagePart(ImageUrl(url))
    if kind not in asked.formats:
        raise RequestError(INTERNAL, "The client gave another format of the clipboard than was asked for.")
    if size > MAX_BYTES:
        raise RequestError(INTERNAL, f"The clipboard holds more than {MAX_BYTES // 1_048_576} MB.")
    return part
