"""`view_image`: shows an image file to the model."""

from __future__ import annotations

from typing import Annotated

from anyio.to_thread import run_sync
from msgspec import Meta, Struct

from pilothouse.engines.native.files import BadFile, read_whole
from pilothouse.engines.native.images import MAX_BYTES, BadImage
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(description="A PNG, JPEG, GIF or WebP of at most 3.75 MB.")]


async def run(given: Input, bench: Workbench) -> Output:
    try:
        data = await run_sync(read_whole, given.file_path, MAX_BYTES)
        image = bench.history.keep_image(data)
    except BadFile as error:
        raise ToolError(str(error)) from error
    except BadImage as error:
        raise ToolError(f"{given.file_path} cannot be shown: {error}.") from error
    return Output(f"{image.media_type}, {len(data):,} bytes", images=(image,))


TOOL = Tool(
    "view_image",
    "Look at an image file.",
    "read",
    Input,
    run,
    title=("image: ", "file_path"),
    path_key="file_path",
    only_reads=True,
    is_cached=False,
)
