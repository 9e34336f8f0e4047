"""Proves that the gate holds: with this very program, every call is held until we have answered.

A process is started in an empty home against an API of our own on loopback, which has it call a tool. The hook must
arrive, and our "ask" must become a permission request; then, and only then, does a turn that is not in full access
start. No login is used, nothing leaves the machine, and the tool is never run. What is proven is remembered for as
long as the program stays the same: its file, and the version that it prints, for behind the shim of a version manager
another program may stand while the file is the same.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import anyio

from pilothouse.engines.claude import sending, wire
from pilothouse.engines.claude.control import CanUseTool, ControlRequest, HookCallback
from pilothouse.engines.claude.one_call_api import serving_one_call
from pilothouse.processes import (
    BASE_NAMES,
    InputFailed,
    Process,
    ProcessError,
    allowed_environment,
    open_process,
)

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

NO_HOOK = "its calls do not come to Pilothouse before they run"
NO_REQUEST = "it does not ask Pilothouse for permission"
DEAF = "it did not get as far as a call"


async def prove_gate(
    command: str, source: Mapping[str, str], state_dir: str, extra: Mapping[str, str]
) -> str:
    """Empty if the gate holds; else why turns cannot start."""
    program = shutil.which(command, path=source.get("PATH"))
    if program is None:
        return ""  # to start it will fail with better words
    known = Path(state_dir, PROOFS)
    try:
        version = await print_version(program, source, extra)
        if is_proven(known, program, version):
            return ""
        tried = identity(program, version)
        problem = await try_gate(program, source, extra)
        if not problem and identity(program, version) == tried:
            remember_proof(known, program, version)
    except OSError as error:
        return f"it could not be tried: {error}"
    return problem


async def print_version(program: str, source: Mapping[str, str], extra: Mapping[str, str]) -> str:
    """In its own words; empty where it does not say. With the home that it has: a shim finds its program there."""
    environment = allowed_environment(source, BASE_NAMES, extra)
    with anyio.move_on_after(VERSION_WITHIN_S), suppress(ProcessError):
        async with open_process(
            [program, "--version"], cwd=tempfile.gettempdir(), env=environment
        ) as process:
            process.close_input()
            async for line in process.lines():
                return line.data.decode("utf-8", "replace").strip()[:VERSION_CHARS]
    return ""


async def try_gate(program: str, source: Mapping[str, str], extra: Mapping[str, str]) -> str:
    folder = tempfile.mkdtemp(prefix="pilothouse-gate-")
    try:
        with anyio.move_on_after(WITHIN_S):
            async with serving_one_call() as url:
                return await _attempt(program, _environment(source, extra, folder, url), folder)
        return f"{DEAF} within {WITHIN_S:g} s"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(
    source: Mapping[str, str], extra: Mapping[str, str], folder: str, url: str
) -> dict[str, str]:
    """An empty home, and no way out: not even a proxy."""
    own = {**_ENVIRONMENT, "HOME": folder, "CLAUDE_CODE_TMPDIR": folder, "ANTHROPIC_BASE_URL": url}
    names = [name for name in BASE_NAMES if "PROXY" not in name.upper()]
    return allowed_environment(source, names, {**own, **extra})


async def _attempt(program: str, environment: Mapping[str, str], folder: str) -> str:
    try:
        async with open_process([program, *_ARGV], cwd=folder, env=environment) as process:
            return await _watch(process)
    except (ProcessError, OSError) as error:
        return str(error)


async def _watch(process: Process) -> str:
    with suppress(InputFailed):  # it died before it read: its last words say why
        await process.write_line(sending.request_line("begin", sending.initialize()))
        await process.write_line(sending.user_line("go", "11111111-1111-4111-8111-111111111111"))
    hooked = False
    async for line in process.lines():
        match wire.decode(line.data):
            case ControlRequest(request_id=id, request=HookCallback()):
                hooked = True
                asked = {"hookEventName": "PreToolUse", "permissionDecision": "ask"}
                await process.write_line(sending.reply_line(id, {"hookSpecificOutput": asked}))
            case ControlRequest(request=CanUseTool()):
                return "" if hooked else NO_HOOK
            case wire.Result():
                return NO_REQUEST if hooked else NO_HOOK
            case _:
                pass
    await process.wait()
    return f"{DEAF} (exit code {process.exit_code}) {process.stderr_tail()[-300:]}".strip()


def is_proven(known: Path, program: str, version: str) -> bool:
    return bool(version) and identity(program, version) in _read(known)


def remember_proof(known: Path, program: str, version: str) -> None:
    """A few are kept: who goes back to the version before need not wait."""
    proven = [*_read(known), identity(program, version)][-5:]
    try:
        known.parent.mkdir(parents=True, exist_ok=True)
        known.write_text(json.dumps(proven))
    except OSError:
        pass  # it is proven again at the next start


def identity(program: str, version: str) -> str:
    """Another file under the same name is another program, and so is another version behind the same file."""
    found = os.stat(program)
    return f"{os.path.realpath(program)}:{found.st_size}:{found.st_mtime_ns}:{version}"


def _read(known: Path) -> Sequence[str]:
    try:
        value = json.loads(known.read_text())
    except (OSError, ValueError):
        return []
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
