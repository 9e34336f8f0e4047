"""Proves that the gate holds: that the installed program asks before every call.

The program is started in an empty home, against an API on loopback whose model calls one tool. The hook must arrive, and
our "ask" must become a permission request; only then do turns start that are not in full access. No login is used,
nothing leaves the machine, and the tool never runs.

A proof is kept for as long as the program's file and its printed version stay the same: behind the shim of a version
manager another program may run while the file is the same. Claude Code updates itself while a gateway runs, so its file is
looked at before each turn; a change behind a shim is noticed at the next start.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketAttribute, SocketStream

from pilothouse.core.engine import EngineHost, ProcessStart
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude import control, wire
from pilothouse.engines.claude.control import CanUseTool, ControlRequest, HookCallback
from pilothouse.processes import (
    BASE_NAMES,
    InputFailed,
    Launcher,
    Marker,
    Process,
    ProcessError,
    allowed_environment,
)

MAX_REQUEST_BYTES = 8 * 1024 * 1024
_USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}
_CALL: dict[str, Any] = {"type": "tool_use", "id": "toolu_proof", "name": "Bash", "input": {}}
_INPUT = json.dumps({"command": "touch gate-is-open", "description": "Proof"})
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"

WITHIN_S = 45.0
VERSION_WITHIN_S = 10.0
VERSION_CHARS = 100
PROOFS = "gate.json"

_ARGV = (
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--permission-prompt-tool",
    "stdio",
    "--no-session-persistence",
    "--strict-mcp-config",
    "--tools",
    "Bash",
)
_ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "sk-ant-no-key",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "NO_PROXY": "127.0.0.1",
}

NO_HOOK = "it runs calls without asking Pilothouse"
NO_REQUEST = "it does not ask Pilothouse for permission"
NO_TOOL_CALL = "the test call never happened"

UNPROVEN = (
    "Pilothouse cannot control what Claude Code does: {problem}. So turns start in full access only. "
    "Update Claude Code, then run `pilothouse doctor`."
)
REPLACED = "it was replaced each time it was tried"
TRIES = 3

_File = tuple[str, int, int, int]


@asynccontextmanager
async def serve_one_call() -> AsyncIterator[str]:
    """Serve a Messages API whose model calls one tool; yield its address."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, _serve)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - a socket's
        yield f"http://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


async def _serve(client: SocketStream) -> None:
    try:
        async with client:
            body = await _read_request(client)
            await client.send(_HEAD + render(body))
    except (anyio.BrokenResourceError, anyio.EndOfStream, ValueError):
        pass  # another request, or a client that left


async def _read_request(client: SocketStream) -> bytes:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += await client.receive()
        if len(raw) > MAX_REQUEST_BYTES:
            raise ValueError("the request is too long")
    head, _, body = raw.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    while len(body) < min(length, MAX_REQUEST_BYTES):
        body += await client.receive()
    return body


def render(body: bytes) -> bytes:
    """Return the response: the call, or, once it has its result, a closing text."""
    done = b'"tool_result"' in body
    model = json.loads(body).get("model", "") if body else ""
    begun: dict[str, Any] = {"type": "text", "text": ""} if done else _CALL
    delta = (
        {"type": "text_delta", "text": "."} if done else {"type": "input_json_delta", "partial_json": _INPUT}
    )
    message: dict[str, Any] = {
        "id": "msg_proof",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    stop = {"stop_reason": "end_turn" if done else "tool_use", "stop_sequence": None}
    events: list[tuple[str, dict[str, Any]]] = [
        (
            "message_start",
            {"message": {**message, "stop_reason": None, "stop_sequence": None, "usage": _USAGE}},
        ),
        ("content_block_start", {"index": 0, "content_block": begun}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": stop, "usage": _USAGE}),
        ("message_stop", {}),
    ]
    return b"".join(
        f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode() for name, fields in events
    )


async def prove_gate(
    launcher: Launcher, command: str, source: Mapping[str, str], state_dir: str, extra: Mapping[str, str]
) -> str:
    """Return why turns cannot start; empty if the gate holds."""
    program = shutil.which(command, path=source.get("PATH"))
    if program is None:
        return ""  # starting it fails with a better message
    known = Path(state_dir, PROOFS)
    try:
        version = await print_version(launcher, program, source, extra)
        if is_proven(known, program, version):
            return ""
        tried = identity(program, version)
        problem = await try_gate(launcher, program, source, extra)
        if not problem and identity(program, version) == tried:
            remember_proof(known, program, version)
    except OSError as error:
        return f"it could not be tried: {error}"
    return problem


async def print_version(
    launcher: Launcher, program: str, source: Mapping[str, str], extra: Mapping[str, str]
) -> str:
    """Return the version that it prints; empty if none. It keeps its HOME, where a shim finds its program."""
    environment = allowed_environment(source, BASE_NAMES, extra)
    with anyio.move_on_after(VERSION_WITHIN_S), suppress(ProcessError):
        start = ProcessStart("claude version", [program, "--version"], tempfile.gettempdir(), environment)
        async with launcher.open(start) as process:
            process.close_input()
            async for line in process.lines():
                return line.data.decode("utf-8", "replace").strip()[:VERSION_CHARS]
    return ""


async def try_gate(
    launcher: Launcher, program: str, source: Mapping[str, str], extra: Mapping[str, str]
) -> str:
    folder = tempfile.mkdtemp(prefix="pilothouse-gate-")
    try:
        with anyio.move_on_after(WITHIN_S):
            async with serve_one_call() as url:
                environment = _environment(source, extra, folder, url)
                start = ProcessStart("claude gate proof", [program, *_ARGV], folder, environment)
                return await _attempt(launcher, start)
        return f"{NO_TOOL_CALL} within {WITHIN_S:g} s"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(
    source: Mapping[str, str], extra: Mapping[str, str], folder: str, url: str
) -> dict[str, str]:
    """Return an environment with an empty home and no proxy, so that nothing leaves the machine."""
    own = {**_ENVIRONMENT, "HOME": folder, "CLAUDE_CODE_TMPDIR": folder, "ANTHROPIC_BASE_URL": url}
    names = [name for name in BASE_NAMES if "PROXY" not in name.upper()]
    return allowed_environment(source, names, {**own, **extra})


async def _attempt(launcher: Launcher, start: ProcessStart) -> str:
    try:
        async with launcher.open(start) as process:
            return await _watch(process)
    except (ProcessError, OSError) as error:
        return str(error)


async def _watch(process: Process) -> str:
    with suppress(InputFailed):  # it died before it read: its stderr says why
        await process.write_line(control.request_line("begin", control.initialize()))
        await process.write_line(control.user_line("go", "11111111-1111-4111-8111-111111111111"))
    hooked = False
    async for line in process.lines():
        match wire.decode(line.data):
            case ControlRequest(request_id=id, request=HookCallback()):
                hooked = True
                asked = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
                await process.write_line(control.reply_line(id, {"hookSpecificOutput": asked}))
            case ControlRequest(request=CanUseTool()):
                return "" if hooked else NO_HOOK
            case wire.Result():
                return NO_REQUEST if hooked else NO_HOOK
            case _:
                pass
    await process.wait()
    return f"{NO_TOOL_CALL} (exit code {process.exit_code}) {process.stderr_tail()[-300:]}".strip()


def is_proven(known: Path, program: str, version: str) -> bool:
    return bool(version) and identity(program, version) in _read(known)


def remember_proof(known: Path, program: str, version: str) -> None:
    """Keep the last five proofs, so that going back to the previous version needs no new one."""
    proven = [*_read(known), identity(program, version)][-5:]
    try:
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(proven))
    except OSError:
        pass  # the next start proves it again


def identity(program: str, version: str) -> str:
    """Return a name for the program: its path, file and version."""
    found = os.stat(program)
    return f"{os.path.realpath(program)}:{found.st_size}:{found.st_mtime_ns}:{version}"


def _read(known: Path) -> Sequence[str]:
    try:
        value = json.loads(known.read_text())
    except (OSError, ValueError):
        return []
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


class ProvenGate:
    def __init__(self, command: str, host: EngineHost, node: Marker) -> None:
        self._command = command
        self._host = host
        self._launcher = Launcher(host.jail)
        self._node = node
        self._proven: _File | None = None
        self._one_proof = anyio.Lock()

    async def prove(self) -> str:
        """Return why the gate does not hold; empty if it does. A failed proof is repeated: the program may be updated."""
        async with self._one_proof:
            problem = await self._prove()
        if problem:
            self._host.log("gate.unproven", level="error", engine="claude", problem=problem)
        return problem

    async def _prove(self) -> str:
        """Try again if the program was replaced during the proof."""
        extra = {self._node.name: self._node.value}
        for _ in range(TRIES):
            program = self._program()
            if program is None or program == self._proven:
                return ""  # starting a missing program fails with a better message
            self._proven = None
            problem = await prove_gate(
                self._launcher, self._command, self._host.environment, self._host.state_dir, extra
            )
            if program == self._program():
                self._proven = None if problem else program
                return problem
        return REPLACED

    async def need(self) -> None:
        """Raise `EngineError` unless the gate holds."""
        if problem := await self.prove():
            raise EngineError(Failure("permission", UNPROVEN.format(problem=problem)))

    def _program(self) -> _File | None:
        found = shutil.which(self._command, path=self._host.environment.get("PATH"))
        if found is None:
            return None
        try:
            file = os.stat(found)
        except OSError:
            return None
        return os.path.realpath(found), file.st_ino, file.st_size, file.st_mtime_ns
