"""Gemini, for all ACP agents: the real program behind our engine, and the same one driven by hand on its standard streams."""

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

from pilothouse.core.ids import EngineId
from pilothouse.engines.acp import wire
from pilothouse.engines.acp.agents import AGENTS
from pilothouse.engines.acp.config import AcpConfig
from pilothouse.engines.acp.engine import AcpEngine
from pilothouse.engines.acp.link import GREETING
from pilothouse.engines.jsonrpc import encode_message

AGENT = AGENTS["gemini"]
MODEL = "gemini-2.5-pro"


def serving() -> AbstractContextManager[str]:
    return open_model_process("bench.hosting.gemini")


def program() -> str:
    from tests.engines.acp.real import PROGRAMS

    (found,) = PROGRAMS["gemini"].command
    return found


def prepare(folder: Path, url: str) -> None:
    from tests.engines.acp.real import SETTINGS

    own = folder / "home" / ".gemini"
    own.mkdir(parents=True)
    (own / "settings.json").write_text(json.dumps(SETTINGS[own.name]))


def engine(folder: Path, url: str, program: str) -> AcpEngine:
    config = AcpConfig(command=[program, "--acp"], model=MODEL)
    return AcpEngine(EngineId("gemini"), AGENT, config, host(folder, _environment(folder, url)))


@contextmanager
def bare(folder: Path, url: str, program: str) -> Iterator[BareAgent]:
    for name, text in AGENT.files.items():
        (folder / name).write_text(text)
    argv = [program, "--acp", *(word.replace("{folder}", str(folder)) for word in AGENT.args)]
    environment = {**_environment(folder, url), **AGENT.environment, **AGENT.untrusted}
    with open_program(argv, environment, str(folder)) as opened:
        yield BareAgent(opened, str(folder))


class BareAgent:
    def __init__(self, program: LineProgram, folder: str) -> None:
        self._program = program
        self._number = 0
        program.write(GREETING)
        program.read_to(b'"id":0')
        opened = self._request("session/new", {"cwd": folder, "mcpServers": list[str]()})
        self._session = {"sessionId": opened["sessionId"]}
        self._request("session/set_model", {**self._session, "modelId": MODEL})

    def turn(self, text: str) -> float:
        began = time.perf_counter()
        number = self._send("session/prompt", {**self._session, "prompt": [{"type": "text", "text": text}]})
        self._program.read_to(b'"agent_message_chunk"')
        took = time.perf_counter() - began
        self._program.read_to(b'"id":%d' % number)
        return took

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = self._send(method, params)
        return json.loads(self._program.read_to(b'"id":%d' % number))["result"]

    def _send(self, method: str, params: dict[str, Any]) -> int:
        self._number += 1
        self._program.write(encode_message(wire.HEAD, id=self._number, method=method, params=params))
        return self._number


def _environment(folder: Path, url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "LANG": "C.UTF-8",
        "GEMINI_API_KEY": "no-key-at-all",
        "GOOGLE_GEMINI_BASE_URL": url,
    }


def main() -> None:
    """Serve the scripted model until its input ends. Its code is imported here: it is no part of what is measured."""
    from tests.engines.acp.model_api import Reply, open_model

    with open_model(lambda _: Reply(ANSWER)) as api:
        serve(api.url)


CONTESTANT = Contestant(serving, program, prepare, engine, bare)

if __name__ == "__main__":
    main()
