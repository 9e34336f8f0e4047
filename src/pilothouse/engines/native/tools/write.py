"""`write`: a new file, or a whole new content."""

from __future__ import annotations

from typing import Annotated

from anyio.to_thread import run_sync
from msgspec import Meta, Struct

from pilothouse.engines.native.files import BadFile, content_hash, read_whole, replace_file
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(description="The file; missing folders are made.")]
    content: Annotated[str, Meta(description="The whole new content.")]
    expected_hash: Annotated[
        str | None, Meta(description="content_sha256 that read showed; a changed file is not written.")
    ] = None


async def run(given: Input, bench: Workbench) -> Output:
    try:
        return Output(await run_sync(_write, given))
    except BadFile as error:
        raise ToolError(str(error)) from error


def _write(given: Input) -> str:
    if given.expected_hash and content_hash(read_whole(given.file_path)) != given.expected_hash:
        raise BadFile(f"{given.file_path} has changed since it was read. Read it again.")
    data = given.content.encode("utf-8", "replace")
    replace_file(given.file_path, data)
    return f"Wrote {len(data):,} bytes. [content_sha256={content_hash(data)}]"


TOOL = Tool(
    "write",
    "Write a file, replacing its whole content.",
    "file_change",
    Input,
    run,
    title=("file: ", "file_path"),
    path_key="file_path",
)
