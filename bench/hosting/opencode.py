"""OpenCode: the real server behind our engine, and the same one driven by hand over HTTP and its event stream."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from bench.hosting.contestants import Contestant, host
from bench.measuring.model_process import ANSWER, open_model_process, serve

from pilothouse.engines.opencode.config import OpenCodeConfig
from pilothouse.engines.opencode.engine import OpenCodeEngine
from pilothouse.engines.opencode.launch import USER, server_environment, write_gate
from pilothouse.engines.opencode.message_ids import MessageIds
from pilothouse.engines.opencode.rules import session_rules

WITHIN_S = 60.0
PASSED = "OPENCODE_DISABLE_MODELS_FETCH"
MODEL = {"providerID": "scripted", "modelID": "scripted-model"}


def serving() -> AbstractContextManager[str]:
    return open_model_process("bench.hosting.opencode")


def program() -> str:
    from tests.engines.opencode.binary import opencode_binary

    return str(opencode_binary())


def prepare(folder: Path, url: str) -> None:
    from tests.engines.opencode.rig import keep_from_installing, settings

    own = folder / "home" / ".config" / "opencode"
    own.mkdir(parents=True)
    (own / "opencode.json").write_text(json.dumps(settings(url)))
    keep_from_installing(own)


def engine(folder: Path, url: str, program: str) -> OpenCodeEngine:
    return OpenCodeEngine(_config(program), host(folder, _environment(folder)))


@contextmanager
def bare(folder: Path, url: str, program: str) -> Iterator[BareServer]:
    password, gate = secrets.token_urlsafe(32), write_gate(str(folder))
    made = host(folder, _environment(folder))
    environment = server_environment(_config(program), made, password, gate, {}, trusted=False)
    with subprocess.Popen(
        [program, "serve", "--hostname", "127.0.0.1", "--port", "0"],
        env=environment,
        cwd=gate.parent,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            said = (re.search(r"listening on http://(\S+)", line) for line in process.stdout)
            yield BareServer(next(found[1] for found in said if found), password, str(folder))
        finally:
            process.terminate()


class BareServer:
    def __init__(self, address: str, password: str, folder: str) -> None:
        login = b64encode(f"{USER}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
        self._query = urlencode({"directory": folder})
        self._line = HTTPConnection(address, timeout=WITHIN_S)
        self._new_id = MessageIds(time.time)
        self._wait_for_health(address)
        rules = session_rules([], [], free=False)
        self._session = json.loads(self._post("/session", {"title": "bare", "permission": rules}))["id"]
        self._events = self._follow(address)

    def turn(self, text: str) -> float:
        parts = [{"type": "text", "text": text}]
        began = time.perf_counter()
        body = {"messageID": self._new_id(), "parts": parts, "model": MODEL}
        self._post(f"/session/{self._session}/prompt_async", body)
        self._read_to(b'"message.part.delta"')
        took = time.perf_counter() - began
        self._read_to(b'"session.idle"')
        return took

    def _wait_for_health(self, address: str) -> None:
        """Ask in short intervals: a server that has just begun to listen never answers its first requests."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            line = HTTPConnection(address, timeout=2.0)
            try:
                line.request("GET", "/global/health", headers=self._headers)
                if line.getresponse().status == 200:
                    return
            except OSError:
                time.sleep(0.1)
            finally:
                line.close()
        raise RuntimeError("the bare server does not answer")

    def _follow(self, address: str) -> HTTPResponse:
        line = HTTPConnection(address, timeout=WITHIN_S)
        line.request("GET", "/global/event", headers=self._headers)
        return line.getresponse()

    def _post(self, path: str, body: dict[str, Any]) -> bytes:
        self._line.request("POST", f"{path}?{self._query}", json.dumps(body).encode(), self._headers)
        answer = self._line.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"the bare server answered {answer.status} to {path}")
        return data

    def _read_to(self, mark: bytes) -> None:
        while line := self._events.readline():
            if mark in line:
                return
        raise RuntimeError("the bare server ended")


def _config(program: str) -> OpenCodeConfig:
    return OpenCodeConfig(command=program, environment=[PASSED])


def _environment(folder: Path) -> dict[str, str]:
    home = str(folder / "home")
    own = {"HOME": home, "LANG": "C.UTF-8", "SCRIPTED_KEY": "no-key-at-all", PASSED: "1"}
    return {"PATH": os.environ["PATH"], **own}


def main() -> None:
    """Serve the scripted API until its input ends. Its code is imported here: it is no part of what is measured."""
    from tests.engines.codex.api import say
    from tests.engines.opencode.api import open_chat

    with open_chat(say(ANSWER)) as api:
        serve(api.url)


CONTESTANT = Contestant(serving, program, prepare, engine, bare)

if __name__ == "__main__":
    main()
