"""Web searches by DuckDuckGo's page without scripts, or by Brave's API: a request, and the results in its answer."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec
from msgspec import Struct

from pilothouse.core.call import host_of
from pilothouse.core.secret import Secret
from pilothouse.engines.native.config import SearchBackend, SearchConfig
from pilothouse.engines.native.providers import is_here

DDG_URL = "https://html.duckduckgo.com/html/"
BRAVE_URL = "https://api.search.brave.com/res/v1/web/search"
MAX_BYTES = 2 * 1024 * 1024
WAIT_S = 20.0
TEXT_CHARS = 500


class SearchServer(Struct, frozen=True):
    """The address of searches."""

    backend: SearchBackend
    url: str
    key: Secret
    key_variable: str


class Unfound(Exception):
    """The search failed; the text is for the model."""


class Found(Struct, frozen=True):
    title: str
    url: str
    text: str = ""


def search_server(config: SearchConfig, environment: Mapping[str, str]) -> SearchServer:
    is_brave = config.backend == "brave"
    variable = config.brave_api_key_env
    key = Secret(environment.get(variable, "").strip() if is_brave else "", variable)
    return SearchServer(config.backend, config.url or (BRAVE_URL if is_brave else DDG_URL), key, variable)


async def find(server: SearchServer, query: str, most: int) -> list[Found]:
    """Return at most so many results, best first. Raises `Unfound`."""
    if server.backend == "brave" and not server.key:
        raise Unfound(f"Brave needs a key, and {server.key_variable} is not set. Tell the person.")
    data = await _ask(server, query, most)
    return (read_brave(data) if server.backend == "brave" else read_ddg(data))[:most]


async def _ask(server: SearchServer, query: str, most: int) -> bytes:
    from pilothouse.http.client import Failed, open_http

    brave = server.backend == "brave"
    words = urlencode({"q": query, **({"count": most} if brave else {})})
    headers = {"accept": "application/json" if brave else "text/html"}
    if brave:
        headers["x-subscription-token"] = server.key.reveal()
    async with open_http(direct=is_here(server.url)) as http:
        url = f"{server.url}?{words}"
        reply = await http.ask("GET", url, headers=headers, limit=MAX_BYTES, wait_s=WAIT_S, whole_s=WAIT_S)
    if isinstance(reply, Failed):
        raise Unfound(f"{host_of(server.url)} could not be reached, or sent too much. Try again later.")
    if reply.status != 200:
        hint = f" Check {server.key_variable}." if brave and reply.status in (401, 403, 422) else ""
        raise Unfound(f"{host_of(server.url)} answered HTTP {reply.status} to the search.{hint}")
    return reply.data


def read_brave(data: bytes) -> list[Found]:
    """Read Brave's answer. Anything that is not one holds no results."""
    try:
        results = msgspec.json.decode(data)["web"]["results"]
    except (msgspec.MsgspecError, UnicodeError, RecursionError, KeyError, TypeError):
        return []
    rows = [row for row in results if isinstance(row, dict)] if isinstance(results, list) else []
    found = [
        Found(_line(row.get("title")), _line(row.get("url")), _plain(row.get("description"))) for row in rows
    ]
    return [one for one in found if one.url]


def read_ddg(data: bytes) -> list[Found]:
    reader = _DdgReader()
    reader.feed(data.decode("utf-8", "replace"))
    reader.close()
    return reader.found()


class _DdgReader(HTMLParser):
    """Reads links of the class `result__a`, and the excerpts `result__snippet` after them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._rows: list[tuple[str, list[str], list[str]]] = []
        self._into: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # pyrefly: ignore[missing-override-decorator]
        told = dict(attrs)
        classes = (told.get("class") or "").split()
        if tag == "a" and "result__a" in classes:
            self._rows.append((_target(told.get("href") or ""), [], []))
            self._into = self._rows[-1][1]
        elif "result__snippet" in classes and self._rows:
            self._into = self._rows[-1][2]

    def handle_endtag(self, tag: str) -> None:  # pyrefly: ignore[missing-override-decorator]
        if tag in ("a", "div", "td"):
            self._into = None

    def handle_data(self, data: str) -> None:  # pyrefly: ignore[missing-override-decorator]
        if self._into is not None:
            self._into.append(data)

    def found(self) -> list[Found]:
        return [
            Found(_line("".join(title)), url, _line("".join(text))) for url, title, text in self._rows if url
        ]


def _target(href: str) -> str:
    """Return the address behind a link of DuckDuckGo's own; empty for an advertisement or another scheme."""
    try:
        parts = urlsplit(href if "://" in href else f"https:{href}" if href.startswith("//") else href)
    except ValueError:
        return ""
    if (parts.hostname or "").endswith("duckduckgo.com"):
        named = parse_qs(parts.query).get("uddg", [""])[0]
        return (
            named if named.startswith(("https://", "http://")) and "duckduckgo.com/y.js" not in named else ""
        )
    return href if parts.scheme in ("http", "https") else ""


def _plain(value: Any) -> str:
    """Remove the marks that Brave puts around words that were found."""
    text = value if isinstance(value, str) else ""
    return _line(text.replace("<strong>", "").replace("</strong>", ""))


def _line(value: Any) -> str:
    return " ".join(value.split())[:TEXT_CHARS] if isinstance(value, str) else ""
