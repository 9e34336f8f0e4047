"""`webfetch`: the text of a public page, by the guarded fetch. Redirects are named and not followed."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Annotated

from msgspec import Meta, Struct

from pilothouse.core.call import host_of
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench

MAX_BYTES = 1024 * 1024
_HIDDEN = frozenset({"script", "style", "noscript", "template", "svg"})
_BLOCKS = frozenset(
    {"p", "div", "br", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section", "td"}
)


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    url: Annotated[str, Meta(description="An https address.")]


class _TextReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # pyrefly: ignore[missing-override-decorator]
        self._hidden += tag in _HIDDEN
        if tag in _BLOCKS:
            self._parts.append("\n")

    def handle_endtag(self, tag: str) -> None:  # pyrefly: ignore[missing-override-decorator]
        self._hidden -= tag in _HIDDEN and self._hidden > 0

    def handle_data(self, data: str) -> None:  # pyrefly: ignore[missing-override-decorator]
        if not self._hidden:
            self._parts.append(data)

    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._parts).splitlines())
        return "\n".join(line for line in lines if line)


def plain_text(page: str) -> str:
    """Return the readable text of a page; anything that is no HTML stays as it is."""
    if "<html" not in page[:2000].lower() and "<!doctype html" not in page[:2000].lower():
        return page
    reader = _TextReader()
    reader.feed(page)
    reader.close()
    return reader.text()


async def run(given: Input, bench: Workbench) -> Output:
    from pilothouse.http.allowlist import Hosts, Unfetched
    from pilothouse.http.fetch import Fetcher

    try:
        fetch = Fetcher(Hosts([host_of(given.url)]))
    except ValueError as error:
        raise ToolError(f"This address cannot be fetched: {error}") from error
    page = await fetch(given.url, MAX_BYTES)
    if isinstance(page, Unfetched):
        raise ToolError(f"The page was not fetched: {page.text}.")
    return Output(plain_text(page.decode("utf-8", "replace")) or "[the page has no text]")


TOOL = Tool(
    "webfetch",
    "Fetch a public web page and return its text.",
    "web",
    Input,
    run,
    title=("fetch: ", "url"),
    only_reads=True,
)
