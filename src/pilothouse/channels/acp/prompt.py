"""The content blocks of a prompt as one message: text, named files, embedded texts, and images as attachments."""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from pilothouse.channels.acp.wire import (
    AudioBlock,
    ContentBlock,
    ImageBlock,
    ResourceBlock,
    ResourceLink,
    TextBlock,
)
from pilothouse.channels.client_runs import Said, keep_image
from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.core.engine import Blobs
from pilothouse.core.message import Attachment

LINES = re.compile(r"L(\d+)(?:[-:]L?(\d+))?")
NO_AUDIO = "Audio is not supported. Send text or images."


async def read_prompt(blobs: Blobs, blocks: tuple[ContentBlock, ...]) -> Said:
    """Return the message. Raises `RequestError` for an empty prompt, audio, or an image that cannot be read."""
    texts: list[str] = []
    files: list[Attachment] = []
    for block in blocks:
        match block:
            case TextBlock(text=text):
                texts.append(text)
            case ImageBlock(data=data, mime_type=kind):
                files.append(await keep_image(blobs, kind, data, len(files) + 1))
            case AudioBlock():
                raise RequestError(INVALID_PARAMS, NO_AUDIO)
            case ResourceLink() | ResourceBlock():
                texts.append(_resource_text(block))
    text = "\n".join(filter(None, texts))
    if not text.strip() and not files:
        raise RequestError(INVALID_PARAMS, "The prompt is empty. Give a text or an image.")
    return Said(text, tuple(files))


def _resource_text(block: ResourceLink | ResourceBlock) -> str:
    """Name a file by its path where it is on this machine; put the text of an embedded one below its name."""
    if isinstance(block, ResourceLink):
        return f"[{block.name or 'file'}]({_place_of(block.uri)})"
    found = block.resource
    path = _place_of(found.uri)
    if found.text is None:
        return f"[file]({path})"
    return f'<context ref="{path}">\n{found.text}\n</context>'


def _place_of(uri: str) -> str:
    """Return the path of a file on this machine, with its lines in words; any other address as it is."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return uri
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        return uri
    path, lines = unquote(parts.path), LINES.fullmatch(parts.fragment)
    if lines is None:
        return f"{path}#{parts.fragment}" if parts.fragment else path
    first, last = lines.groups()
    return f"{path}, lines {first} to {last}" if last else f"{path}, line {first}"
