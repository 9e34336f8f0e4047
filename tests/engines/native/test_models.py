"""What is known about models: one that the bundled list lacks is looked up once and kept; and what each is sent."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from tests.engines.native.conftest import MakeRig
from tests.engines.native.model import Reply
from tests.engines.native.rig import ask, end_of

from pilothouse.engines.native.engine import NativeEngine
from pilothouse.testing.engine import resumed

pytestmark = pytest.mark.anyio
FACTS = {
    "limit": {"context": 50_000, "output": 4_000},
    "cost": {"input": 1_000, "output": 2_000},
    "reasoning": False,
}
LISTED = {"openai": {"models": {"scripted": FACTS}}}


@contextmanager
def open_list(asked: list[str]) -> Iterator[str]:
    """Serve a list of models, and note each request. Yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            data = json.dumps(LISTED).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name  # pyrefly: ignore[missing-override-decorator]
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/api.json"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_a_model_that_is_not_listed_is_looked_up_once_and_kept(make_rig: MakeRig) -> None:
    rig, asked = make_rig(Reply("Hello."), provider="openai", context_window=None), list[str]()
    with open_list(asked) as url:
        for name in ("one", "two"):
            engine = NativeEngine(rig.config, rig.host, models_url=url)
            async with engine, engine.open(rig.brief(name)) as session:
                for _ in range(2):
                    usage = end_of(await ask(session, "Hello")).usage
                    assert usage is not None
                    assert usage.context_window == 50_000
                    assert usage.cost_usd == pytest.approx((13 * 1_000 + 7 * 2_000) / 1_000_000)
    assert asked == ["/api.json"]
    assert {request.body["max_output_tokens"] for request in rig.model.requests} == {4_000}
    assert not any("include" in request.body for request in rig.model.requests)


@pytest.mark.parametrize(
    ("provider", "model", "sent"),
    [
        ("anthropic", "claude-sonnet-4-6", {"thinking", "output_config"}),
        ("anthropic", "not-listed", {"thinking", "output_config"}),
        ("anthropic", "claude-haiku-4-5", set[str]()),
        ("openai", "gpt-5.4", {"include", "reasoning"}),
        ("openai", "gpt-4.1-mini", set[str]()),
    ],
)
async def test_only_a_model_that_takes_it_is_told_how_to_think(
    make_rig: MakeRig, provider: str, model: str, sent: set[str]
) -> None:
    rig = make_rig(Reply("Hello."), provider=provider, model=model, effort="high")
    await rig.turn()
    about_thinking = {"thinking", "output_config", "include", "reasoning"}
    assert rig.model.requests[0].body.keys() & about_thinking == sent


async def test_a_model_that_does_not_think_never_gets_the_thoughts_of_another(make_rig: MakeRig) -> None:
    rig = make_rig(Reply("Hm.", thinking="So?"), provider="openai", model="gpt-5.4")
    token = end_of(await rig.turn()).resume
    async with rig.engine(model="gpt-4.1") as engine, engine.open(resumed(rig.brief(), token)) as session:
        await ask(session, "go on")
    assert "sealed" not in rig.model.requests[-1].text
