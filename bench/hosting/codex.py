"""Codex: the real app-server behind our engine, and the same one driven by hand."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from bench.hosting.contestants import Contestant, host
from bench.measuring.line_program import LineProgram, open_program
from bench.measuring.model_process import ANSWER, open_model_process, serve

from pilothouse.core.engine import Brief
from pilothouse.core.ids import SessionId
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.engine import CodexEngine
from pilothouse.engines.codex.home import make_home
from pilothouse.engines.codex.link import GREETING
from pilothouse.engines.codex.threads import thread_params, turn_params
from pilothouse.engines.jsonrpc import encode_message

CONFIG = CodexConfig()


def serving() -> AbstractContextManager[str]:
    return open_model_process("bench.hosting.codex")


def program() -> str:
    from tests.engines.codex.binary import codex_binary  # with it comes pytest, which is not measured

    return str(codex_binary())


def prepare(folder: Path, url: str) -> None:
    from tests.engines.codex.rig import SETTINGS

    (folder / "home" / ".codex").mkdir(parents=True, exist_ok=True)
    (folder / "home" / ".codex" / "config.toml").write_text(SETTINGS.format(model="gpt-5.5", url=url))


def engine(folder: Path, url: str, program: str) -> CodexEngine:
    return CodexEngine(CodexConfig(command=program), host(folder, _environment(folder)))


@contextmanager
def bare(folder: Path, url: str, program: str) -> Iterator[BareServer]:
    make_home(folder / "home" / ".codex", folder / "own")
    environment = {**_environment(folder), "CODEX_HOME": str(folder / "own")}
    with open_program([program, "app-server"], environment, str(folder)) as opened:
        yield BareServer(opened, Brief(SessionId("bare"), str(folder)))


class BareServer:
    def __init__(self, program: LineProgram, brief: Brief) -> None:
        self._program = program
        self._number = 0
        program.write(GREETING)
        program.read_to(b'"id":0')
        program.write(b'{"method":"initialized"}')
        self._send("thread/start", thread_params(CONFIG, brief, ""))
        started = json.loads(program.read_to(b'"id":%d' % self._number))
        self._turn = {"threadId": started["result"]["thread"]["id"], **turn_params(CONFIG, brief)}

    def turn(self, text: str) -> float:
        began = time.perf_counter()
        self._send("turn/start", {**self._turn, "input": [{"type": "text", "text": text}]})
        self._program.read_to(b'"item/agentMessage/delta"')
        took = time.perf_counter() - began
        self._program.read_to(b'"turn/completed"')
        return took

    def _send(self, method: str, params: dict[str, Any]) -> None:
        self._number += 1
        self._program.write(encode_message({}, id=self._number, method=method, params=params))


def _environment(folder: Path) -> dict[str, str]:
    home = str(folder / "home")
    return {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8", "SCRIPTED_KEY": "no-key-at-all"}


def main() -> None:
    """Serve the scripted API until its input ends. Its code is imported here: it is no part of what is measured."""
    from tests.engines.codex.api import open_api, say

    with open_api(say(ANSWER)) as api:
        serve(api.url)


CONTESTANT = Contestant(serving, program, prepare, engine, bare)

if __name__ == "__main__":
    main()
