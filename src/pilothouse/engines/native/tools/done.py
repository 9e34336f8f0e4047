"""`done`: ends the turn with a last message."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pilothouse.engines.native.tools.tool import Output, Tool, Workbench


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    message: Annotated[str, Meta(description="What was done, for the person.")]


async def run(given: Input, bench: Workbench) -> Output:
    return Output(given.message, closes=True)


TOOL = Tool(
    "done",
    "End the turn: the task is finished, and nothing is left to do.",
    "note",
    Input,
    run,
    is_cached=False,
)
