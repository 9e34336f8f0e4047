"""`search`: the results of a web search. Offered unless the model's provider searches itself.

Results are foreign text: the model is told titles, addresses and excerpts, and none of them is opened.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench
from pilothouse.engines.native.web_search import Unfound, find

NAME = "search"
DEFAULT_FOUND, MAX_FOUND = 5, 20


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, Meta(min_length=1, max_length=400)]
    max_results: Annotated[int, Meta(ge=1, description="Results. Default 5, max 20.")] = DEFAULT_FOUND


async def run(given: Input, bench: Workbench) -> Output:
    if bench.search is None:
        raise ToolError("There is no search here.")
    try:
        found = await find(bench.search, given.query, min(given.max_results, MAX_FOUND))
    except Unfound as error:
        raise ToolError(str(error)) from error
    lines = [f"{at}. {one.title}\n   {one.url}\n   {one.text}".rstrip() for at, one in enumerate(found, 1)]
    return Output("\n".join(lines) or "Nothing was found.")


TOOL = Tool(NAME, "Search the web.", "web", Input, run, title=("search: ", "query"), only_reads=True)
