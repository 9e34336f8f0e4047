"""A jailed program does not hold the key of its model: it has a placeholder, and only its model's server gets the key."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import anyio
import httpx2
import pytest
from tests.isolation.canary import Stage, jails, need_jail, raise_again
from tests.isolation.test_jail import output, start

from pilothouse.core.isolation import HeldKey, Needs
from pilothouse.engines.codex import jail as codex
from pilothouse.engines.opencode import jail as opencode
from pilothouse.isolation.keys import PLACEHOLDER, open_keys, put_in
from pilothouse.processes import Launcher

KEY = "sk-canary-5d02-key"

CLIENT = """
import os, sys, urllib.request
plain = urllib.request.build_opener(urllib.request.ProxyHandler({}))
def ask(name, url, key):
    try:
        print(name, plain.open(urllib.request.Request(url, b"{}", {"x-api-key": key}), timeout=20).read().decode())
    except OSError as error:
        print(name, getattr(error, "code", type(error).__name__))
base, key = os.environ["MODEL_URL"], os.environ["MODEL_KEY"]
ask("model", base + "/messages", key)
ask("guess", base + "/messages", "sk-guess")
ask("other", os.environ["OTHER"], key)
seen = [open(f"/proc/{pid}/environ", "rb").read() for pid in os.listdir("/proc") if pid.isdigit()]
print("environ", sum(sys.argv[1].encode()[::-1] in one for one in seen), len(seen) > 0)
"""


class _Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.path, dict(self.headers), body))  # type: ignore[attr-defined]
        self.send_response(307 if self.path.endswith("/moved") else 200)
        if self.path.endswith("/moved"):
            self.send_header("Location", self.server.elsewhere)  # type: ignore[attr-defined]
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._send(b"first ")
        if self.path.endswith("/slow"):
            self.server.released.wait(30)  # type: ignore[attr-defined]
        self._send(b"answer")
        self._send(b"")

    def _send(self, piece: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.flush()

    def log_message(self, *words: Any) -> None:  # pyrefly: ignore[missing-override-decorator, bad-override]
        pass


@contextmanager
def model() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    server.asked, server.released, server.elsewhere = list[Any](), Event(), ""
    server.url = f"http://127.0.0.1:{server.server_port}/v1"
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()


def holding(url: str) -> Needs:
    return Needs(endpoints=(url,), keys=(HeldKey("MODEL_KEY", url, "MODEL_URL"),))


@pytest.mark.parametrize("network", ["open", "model", "none"])
async def test_the_key_reaches_its_model_and_nobody_else(network: str, stage: Stage, tmp_path: Path) -> None:
    need_jail()
    with model() as ours, model() as other:
        begun = start(
            stage, "", argv=[sys.executable, "-I", "-c", CLIENT, KEY[::-1]], needs=holding(ours.url)
        )
        begun.environment.update(MODEL_KEY=KEY, MODEL_URL=ours.url, OTHER=other.url)  # pyrefly: ignore[missing-attribute]
        made = jails(stage, tmp_path, network=network)
        told = dict(
            line.split(" ", 1)
            for line in (await output(Launcher(made.open), begun)).splitlines()
            if " " in line
        )
        sent = [(path, headers["x-api-key"]) for path, headers, _ in map(_lowered, ours.asked)]
        others = [headers["x-api-key"] for _, headers, _ in map(_lowered, other.asked)]
    assert told["model"] == "first answer"
    assert told["guess"] == "401"
    assert told["environ"] == "0 True"
    assert sent == [("/v1/messages", KEY)]
    assert all(one.startswith(PLACEHOLDER) for one in others)
    assert len(others) == (1 if network == "open" else 0), told
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in kept if KEY.encode() in path.read_bytes()]


def _lowered(asked: tuple[str, dict[str, str], bytes]) -> tuple[str, dict[str, str], bytes]:
    path, headers, body = asked
    return path, {name.lower(): value for name, value in headers.items()}, body


async def test_an_answer_streams_and_a_redirect_takes_no_key_along(stage: Stage) -> None:
    with model() as ours, model() as other:
        ours.elsewhere = f"{other.url}/there"
        begun = start(stage, "", needs=holding(ours.url))
        begun.environment.update(MODEL_KEY=f"{KEY}\n", MODEL_URL=ours.url)  # pyrefly: ignore[missing-attribute]
        async with (
            open_keys(begun, "open", raise_again) as told,
            httpx2.AsyncClient(trust_env=False, timeout=30) as client,
        ):
            url = told.environment["MODEL_URL"]
            headers = {"Authorization": f"Bearer {told.environment['MODEL_KEY']}"}
            with anyio.fail_after(20):
                async with client.stream(
                    "POST", f"{url}/slow", headers=headers, content=b"x" * 70_000
                ) as answer:
                    pieces = answer.aiter_raw()
                    assert await anext(pieces) == b"first "
                    ours.released.set()
                    assert await anext(pieces) == b"answer"
                moved = await client.post(f"{url}/moved", headers=headers)
        assert moved.status_code == 307
        assert other.asked == []
        path, sent, body = _lowered(ours.asked[0])
    assert (path, sent["authorization"], len(body)) == ("/v1/slow", f"Bearer {KEY}", 70_000)
    assert sent["host"] == f"127.0.0.1:{ours.server_port}"


async def test_a_program_that_hangs_up_ends_the_request_of_its_model(stage: Stage) -> None:
    asked, ended = anyio.Event(), anyio.Event()

    async def hang(client: Any) -> None:
        async with client:
            await client.receive()
            asked.set()
            async for _ in client:
                continue
            ended.set()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        url = f"http://127.0.0.1:{listener.extra(anyio.abc.SocketAttribute.local_port)}"
        begun = start(stage, "", needs=holding(url))
        begun.environment.update(MODEL_KEY=KEY)  # pyrefly: ignore[missing-attribute]
        async with anyio.create_task_group() as tasks, open_keys(begun, "open", raise_again) as told:
            tasks.start_soon(listener.serve, hang)
            port = int(told.environment["MODEL_URL"].rpartition(":")[2])
            async with await anyio.connect_tcp("127.0.0.1", port) as client:
                head = f"GET / HTTP/1.1\r\nHost: x\r\nx-api-key: {told.environment['MODEL_KEY']}\r\n\r\n"
                await client.send(head.encode())
                with anyio.fail_after(20):
                    await asked.wait()
            with anyio.fail_after(20):
                await ended.wait()
            tasks.cancel_scope.cancel()


async def test_a_model_that_cannot_be_reached_is_told_without_the_key(stage: Stage) -> None:
    begun = start(stage, "", needs=holding("http://127.0.0.1:9/v1"))
    begun.environment.update(MODEL_KEY=KEY)  # pyrefly: ignore[missing-attribute]
    async with (
        open_keys(begun, "open", raise_again) as told,
        httpx2.AsyncClient(trust_env=False, timeout=30) as client,
    ):
        answer = await client.get(
            told.environment["MODEL_URL"], headers={"x-api-key": told.environment["MODEL_KEY"]}
        )
    assert answer.status_code == 502
    assert "127.0.0.1:9 cannot be reached" in answer.text
    assert KEY not in answer.text


async def test_without_a_network_a_model_beyond_this_machine_gets_no_address(stage: Stage) -> None:
    begun = start(stage, "", needs=holding("https://model.example.org"))
    begun.environment.update(MODEL_KEY=KEY)  # pyrefly: ignore[missing-attribute]
    async with open_keys(begun, "none", raise_again) as told:
        assert "MODEL_URL" not in told.environment
        assert told.environment["MODEL_KEY"].startswith(PLACEHOLDER)


def test_opencode_and_codex_name_the_keys_of_their_providers(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "opencode" / "opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text(
        """{ // a comment with "quotes"
        "provider": {
          "mine": {"options": {"baseURL": "https://m.example/v1", "apiKey": "{env:MINE}"}},
          "written": {"options": {"baseURL": "https://w.example/v1", "apiKey": "sk-in-the-file"}},
          "openai": {"options": {"baseURL": "https://gateway.example//v1"}}, /* more */
        },}"""
    )
    environment = {"HOME": str(tmp_path), "MINE": "a", "OPENAI_API_KEY": "b"}
    keys = opencode.held_keys(environment)
    assert keys == {
        "mine": HeldKey("MINE", "https://m.example/v1"),
        "openai": HeldKey("OPENAI_API_KEY", "https://gateway.example//v1"),
    }
    told = json.loads(
        opencode.with_addresses({opencode.OWN_SETTINGS: '{"share": "x"}'}, keys)[opencode.OWN_SETTINGS]
    )
    assert told["share"] == "x"
    assert told["provider"]["mine"]["options"]["baseURL"] == keys["mine"].stand_in
    file.write_text("[nonsense")
    assert list(opencode.held_keys(environment)) == ["openai"]
    providers = {
        "a": {"env_key": "A", "base_url": "https://a.example"},
        "b": {"base_url": "https://b.example"},
        "c": 1,
    }
    (flag, words) = codex.address_words({"model_providers": providers})
    assert flag == "-c"
    assert words == f'model_providers.a.base_url="{HeldKey("A", "https://a.example").stand_in}"'
    assert codex.address_words({"model_providers": []}) == []


@pytest.mark.parametrize(
    ("name", "value", "passes"),
    [
        (b"x-api-key", b"P", True),
        (b"authorization", b"Bearer P", True),
        (b"authorization", b"Basic P", False),
        (b"authorization", b"Bearer aP", False),
        (b"anthropic-beta", b"P", False),
    ],
)
def test_the_key_is_put_into_headers_for_keys_alone(name: bytes, value: bytes, passes: bool) -> None:
    keys = {PLACEHOLDER: "key"}
    sent = [(name, value.replace(b"P", PLACEHOLDER.encode()))]
    assert put_in(sent, keys) == ([(name, value.replace(b"P", b"key"))] if passes else None)
    quoted = [(b"x-api-key", PLACEHOLDER.encode()), (b"anthropic-beta", PLACEHOLDER.encode())]
    assert put_in(quoted, keys) is None, "a server may quote the other header in its answer"
