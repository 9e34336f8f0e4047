"""Values of the SDK become ours: tools with unique names, results whose images stay images. Everything has a bound."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import mcp_types as types

from pilothouse.core.mcp import McpImage, McpResult, McpText, McpTool

NAME_CHARS = 64
DESCRIPTION_CHARS = 4_000
SCHEMA_BYTES = 64_000
TEXT_CHARS = 100_000
IMAGE_BYTES = 5_000_000
MOST_PARTS = 200
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
CUT = "\n… cut here: {left} more characters"
LEFT_OUT = "[{what} was left out]"
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
OPEN_SCHEMA: Mapping[str, Any] = {"type": "object"}


def read_tools(server: str, tools: Iterable[types.Tool]) -> list[McpTool]:
    """Return the tools of a server; of two with one name the first counts."""
    found: dict[str, McpTool] = {}
    for tool in tools:
        name = tool_name(server, tool.name)
        description = (tool.description or tool.title or "")[:DESCRIPTION_CHARS]
        found.setdefault(name, McpTool(name, server, tool.name, description, _schema(tool.input_schema)))
    return list(found.values())


def tool_name(server: str, tool: str) -> str:
    """Return `mcp__server__tool`; with a hash where that is too long or has other characters."""
    plain = f"mcp__{server}__{tool}"
    if len(plain) <= NAME_CHARS and not _OTHER.search(plain):
        return plain
    mark = hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{_OTHER.sub('_', plain)[: NAME_CHARS - 9]}_{mark}"


def _schema(given: Any) -> Mapping[str, Any]:
    """Return the schema; an open one for what is too large or describes no object."""
    if not isinstance(given, dict) or len(json.dumps(given, default=str)) > SCHEMA_BYTES:
        return OPEN_SCHEMA
    return given if given.get("type", "object") == "object" else OPEN_SCHEMA


def read_result(result: types.CallToolResult) -> McpResult:
    parts = [_part(block) for block in result.content[:MOST_PARTS]]
    if not parts and result.structured_content is not None:
        parts = [McpText(json.dumps(result.structured_content, ensure_ascii=False, default=str))]
    return McpResult(tuple(_within(parts)), is_error=bool(result.is_error))


def error_result(text: str) -> McpResult:
    return McpResult((McpText(text),), is_error=True)


def _part(block: Any) -> McpText | McpImage:
    match block:
        case types.TextContent():
            return McpText(block.text)
        case types.ImageContent():
            return _image(block.data, block.mime_type)
        case types.EmbeddedResource(resource=types.TextResourceContents() as held):
            return McpText(held.text)
        case types.EmbeddedResource(resource=types.BlobResourceContents() as held):
            return _image(held.blob, held.mime_type or "")
        case types.ResourceLink():
            return McpText(f"{block.name}: {block.uri}")
        case _:
            return McpText(LEFT_OUT.format(what=f"content of the type {getattr(block, 'type', '?')}"))


def _image(data: str, media_type: str) -> McpText | McpImage:
    if media_type not in IMAGE_TYPES:
        return McpText(LEFT_OUT.format(what=f"a file of the type {media_type or 'unknown'}"))
    if len(data) > IMAGE_BYTES * 4 // 3 + 4:
        return McpText(LEFT_OUT.format(what=f"an image of more than {IMAGE_BYTES // 1_000_000} MB"))
    try:
        return McpImage(base64.b64decode(data, validate=True), media_type)
    except binascii.Error:
        return McpText(LEFT_OUT.format(what="an image that is no base64"))


def _within(parts: Iterable[McpText | McpImage]) -> Iterable[McpText | McpImage]:
    """Cut the texts together to `TEXT_CHARS`."""
    room = TEXT_CHARS
    for part in parts:
        if isinstance(part, McpImage) or len(part.text) <= room:
            room -= len(part.text) if isinstance(part, McpText) else 0
            yield part
        else:
            yield McpText(part.text[:room] + CUT.format(left=len(part.text) - room))
            room = 0
