"""`edit`: replaces text in a file. The text must stand there exactly once, unless all occurrences are meant."""

from __future__ import annotations

from typing import Annotated

from anyio.to_thread import run_sync
from msgspec import Meta, Struct

from pilothouse.engines.native.files import BadFile, content_hash, read_whole, replace_file
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    file_path: Annotated[str, Meta(description="The file.")]
    old_string: Annotated[str, Meta(min_length=1, description="The text to replace, exactly as in the file.")]
    new_string: Annotated[str, Meta(description="The text in its place.")]
    replace_all: Annotated[bool, Meta(description="Replace every occurrence. Default false.")] = False
    expected_hash: Annotated[
        str | None, Meta(description="content_sha256 that read showed; a changed file is not edited.")
    ] = None


async def run(given: Input, bench: Workbench) -> Output:
    try:
        return Output(await run_sync(_edit, given))
    except BadFile as error:
        raise ToolError(str(error)) from error


def _edit(given: Input) -> str:
    before = read_whole(given.file_path)
    if given.expected_hash and content_hash(before) != given.expected_hash:
        raise BadFile(f"{given.file_path} has changed since it was read. Read it again.")
    if given.old_string == given.new_string:
        return "Nothing to change: old_string and new_string are equal."
    after, count = replaced(before, given)
    replace_file(given.file_path, after)
    return f"Replaced {count} occurrence{'s' * (count != 1)}. [content_sha256={content_hash(after)}]"


def replaced(before: bytes, given: Input) -> tuple[bytes, int]:
    """Return the new content and the number of replacements. Bytes that are no UTF-8 stay as they are."""
    old, new = given.old_string.encode("utf-8", "replace"), given.new_string.encode("utf-8", "replace")
    if old not in before and b"\r\n" in before:  # models write plain line ends
        old, new = old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")
    count = before.count(old)
    if not count:
        raise BadFile(f"old_string does not stand in {given.file_path}. Read the file again.")
    if count > 1 and not given.replace_all:
        raise BadFile(
            f"old_string stands {count} times in {given.file_path}. Give more of its surroundings, or set replace_all."
        )
    return before.replace(old, new), count


TOOL = Tool(
    "edit",
    "Replace a text in a file with another.",
    "file_change",
    Input,
    run,
    title=("edit: ", "file_path"),
    path_key="file_path",
)
