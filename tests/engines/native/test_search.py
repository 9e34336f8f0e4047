"""Web searches of the native agent, against a search server on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Call, Reply
from tests.engines.native.rig import Rig, end_of

from pilothouse.core.event import Asked, SessionStarted, ToolFinished
from pilothouse.engines.native.config import SearchConfig
from pilothouse.engines.native.web_search import Found, read_brave, read_ddg

pytestmark = pytest.mark.anyio
PAGE = """<!DOCTYPE html><html><body>
<div class="result"><h2><a class="result__a" href="//duckduckgo.com/y.js?ad_domain=x&uddg=">An advertisement</a></h2></div>
<div class="result results_links"><h2 class="result__title">
<a rel="nofollow" class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fexample.com%2Fa%3Fb%3D1&amp;rut=x">The
 <b>first</b> &amp; best</a></h2>
<a class="result__snippet" href="//duckduckgo.com/l/?uddg=x">It says <b>this</b>.</a></div>
<div class="result"><a class="result__a" href="https://example.org/">Second</a></div>
</body></html>"""
BRAVE = {
    "web": {"results": [{"title": "B", "url": "https://b.example/", "description": "<strong>It</strong> is"}]}
}


class SearchServer:
    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.status = 200
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(
                    (self.path, {name.lower(): value for name, value in self.headers.items()})
                )
                body = json.dumps(BRAVE) if "x-subscription-token" in server.asked[-1][1] else PAGE
                self.send_response(server.status)
                self.send_header("Content-Length", str(len(body.encode())))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # pyrefly: ignore[missing-override-decorator]
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/html/"


@contextmanager
def open_search() -> Iterator[SearchServer]:
    server = SearchServer()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        thread.join()
        server.http.server_close()


@pytest.fixture
def server() -> Iterator[SearchServer]:
    with open_search() as found:
        yield found


def looking(make_rig: MakeRig, server: SearchServer, /, rules: tuple[str, ...] = (), **search: Any) -> Rig:
    replies = Reply(calls=[Call("search", {"query": "where & what"})]), Reply("Found.")
    return make_rig(*replies, rules=rules, search=SearchConfig(url=server.url, **search))


def finished(events: list[Any]) -> list[bool]:
    return [event.ok for event in events if isinstance(event, ToolFinished)]


async def test_a_search_is_asked_about_and_its_results_reach_the_model(
    make_rig: MakeRig, server: SearchServer
) -> None:
    rig = looking(make_rig, server)
    events = await rig.turn()
    assert [event.ask.title for event in events if isinstance(event, Asked)] == ["search: where & what"]
    assert server.asked[0][0] == "/html/?q=where+%26+what"
    (result,) = rig.model.requests[-1].results
    assert json.loads(result)[0]["text"].splitlines() == [
        "1. The first & best",
        "   https://example.com/a?b=1",
        "   It says this.",
        "2. Second",
        "   https://example.org/",
    ]


async def test_brave_is_asked_with_the_key_of_the_named_variable(
    make_rig: MakeRig, server: SearchServer
) -> None:
    rig = looking(make_rig, server, backend="brave", brave_api_key_env="MY_BRAVE", mode="local")
    rig.host = replace(rig.host, environment={**rig.host.environment, "MY_BRAVE": "a-fake-key"})
    assert finished(await rig.turn()) == [True]
    path, headers = server.asked[0]
    assert path.endswith("?q=where+%26+what&count=5")
    assert headers["x-subscription-token"] == "a-fake-key"
    assert "https://b.example/" in rig.model.requests[-1].results[0]


async def test_a_search_that_cannot_work_says_why(make_rig: MakeRig, server: SearchServer) -> None:
    rig = looking(make_rig, server, backend="brave")
    assert finished(await rig.turn()) == [False]
    assert "BRAVE_SEARCH_API_KEY is not set" in rig.model.requests[-1].results[0]
    server.status = 503
    rig = looking(make_rig, server)
    assert finished(await rig.turn(name="two")) == [False]
    assert "HTTP 503" in rig.model.requests[-1].results[0]


SERVER_TOOLS = {"anthropic": "web_search_20250305", "openai": "web_search"}


@pytest.mark.parametrize("provider", ["anthropic", "openai", "compatible"])
@pytest.mark.parametrize("mode", ["auto", "native", "local"])
@pytest.mark.parametrize("allowed", [True, False])
async def test_the_provider_searches_only_where_every_search_is_allowed(
    make_rig: MakeRig, provider: str, mode: str, *, allowed: bool
) -> None:
    rules = ["allow tool search"] if allowed else []
    rig = make_rig(Reply("Hello."), provider=provider, rules=rules, search=SearchConfig(mode=mode))
    events = await rig.turn()
    assert end_of(events).outcome == "completed"
    (started,) = [event for event in events if isinstance(event, SessionStarted)]
    types = [tool.get("type") for tool in rig.model.requests[0].body["tools"]]
    native = allowed and mode != "local" and provider in SERVER_TOOLS
    assert (SERVER_TOOLS.get(provider) in types) is native
    assert ("search" in started.tools) is (mode != "native" and not native)


@given(st.binary(max_size=300))
def test_any_answer_gives_a_list_of_results(data: bytes) -> None:
    for found in (read_brave(data), read_ddg(data), read_ddg(PAGE.encode() + data)):
        assert all(isinstance(one, Found) and one.url for one in found)
