"""`skills.list`, `context.inspect`, `theme.set` and `shell.exec`: about the folder, not about a run.

A shell command is one that the person typed at this machine: no rule is asked, but its folder stays inside the
workspace, and its time and output have bounds. Long output is kept in the store under a cache id.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import anyio.to_thread

from pilothouse.channels.request_errors import INVALID_PARAMS, RequestError
from pilothouse.channels.rpc.connection import Connection
from pilothouse.channels.rpc.model_requests import engine_of
from pilothouse.channels.rpc.params import (
    AgentsContext,
    ContextFile,
    ContextInspectParams,
    ContextInspectResult,
    ShellExecParams,
    ShellExecResult,
    SkillsContext,
    SkillsListParams,
    ThemeSetParams,
    ThemeSetResult,
    Truncated,
)
from pilothouse.channels.rpc.protocol import INTERNAL
from pilothouse.channels.rpc.skills import find_skills
from pilothouse.channels.stdio_server import Respond

MAX_SHELL_S = 300.0
PREVIEW_CHARS = 400
EXCERPT_LINES = 160
EXCERPT_BYTES = 64 * 1024
THEME_NAME = re.compile(r"[\w.-]{1,64}")
ROOT_MARKS = (".pilothouse.toml", ".git", ".jj")
AGENTS_FILES = 16


async def list_skills(client: Connection, params: SkillsListParams, respond: Respond) -> None:
    folder = _inside(client.setup.folder, params.cwd)
    await respond(
        await anyio.to_thread.run_sync(find_skills, project_root(folder), folder, client.setup.home)
    )


async def inspect_context(client: Connection, params: ContextInspectParams, respond: Respond) -> None:
    folder = client.setup.folder
    root = await anyio.to_thread.run_sync(project_root, folder)
    agents = skills = None
    if params.include_agents:
        agents = await anyio.to_thread.run_sync(agents_context, root, folder)
    if params.include_skills:
        found = await anyio.to_thread.run_sync(find_skills, root, folder, client.setup.home)
        skills = SkillsContext(str(root), str(folder), found)
    here = str(folder)
    await respond(
        ContextInspectResult(here, here, await engine_of(client), client.ui_context, agents, skills)
    )


def project_root(folder: Path) -> Path:
    """Return the nearest ancestor with a mark of a project, else the folder."""
    for one in (folder, *folder.parents):
        if any((one / mark).exists() for mark in ROOT_MARKS):
            return one
    return folder


def agents_context(root: Path, folder: Path) -> AgentsContext:
    """Find the AGENTS.md files from the root down to the folder."""
    chain = [one for one in (folder, *folder.parents) if one == root or root in one.parents][::-1]
    found = [one / "AGENTS.md" for one in chain]
    files = tuple(map(_describe, [path for path in found if path.is_file()][:AGENTS_FILES]))
    return AgentsContext(True, str(root), str(folder), tuple(map(str, chain)), files)


def _describe(path: Path) -> ContextFile:
    facts = path.stat()
    return ContextFile(str(path), facts.st_mtime_ns // 1_000_000, facts.st_size)


def theme_file(state_dir: str) -> Path:
    return Path(state_dir) / "theme"


def load_theme(state_dir: str) -> str:
    try:
        name = theme_file(state_dir).read_text("utf-8").strip()
    except (OSError, UnicodeError):
        return ""
    return name if THEME_NAME.fullmatch(name) else ""


async def set_theme(client: Connection, params: ThemeSetParams, respond: Respond) -> None:
    if not THEME_NAME.fullmatch(params.name):
        text = (
            f"The theme {params.name[:64]!r} is no name: use letters, digits, '.', '_' and '-', at most 64."
        )
        raise RequestError(INVALID_PARAMS, text)
    path = theme_file(client.host.state_dir)
    fresh = path.with_suffix(f".{os.getpid()}")
    try:
        fresh.write_text(params.name, "utf-8")
        fresh.replace(path)
    except OSError as error:
        raise RequestError(INTERNAL, f"The theme cannot be saved in {path}: {error.strerror}.") from error
    await respond(ThemeSetResult(params.name, str(path)))


def _inside(root: Path, cwd: str) -> Path:
    """Return the folder that `cwd` names, links resolved. Raises `RequestError` if it is outside the workspace."""
    try:
        folder = (root / cwd).resolve()
        is_dir = folder.is_dir()
    except (OSError, ValueError) as error:  # too long, or with a NUL
        raise RequestError(INVALID_PARAMS, f"The folder {cwd[:100]!r} cannot be read: {error}.") from error
    if folder != root and root not in folder.parents:
        raise RequestError(INVALID_PARAMS, f"The folder {cwd!r} is outside the workspace {root}.")
    if not is_dir:
        raise RequestError(INVALID_PARAMS, f"The folder {folder} does not exist.")
    return folder


async def run_shell(client: Connection, params: ShellExecParams, respond: Respond) -> None:
    if not params.command.strip() or not 0 < params.timeout_seconds <= MAX_SHELL_S:
        limits = f"`command` must not be empty, and `timeout_seconds` be over 0 and at most {MAX_SHELL_S:.0f}"
        raise RequestError(INVALID_PARAMS, f"The parameters are wrong: {limits}.")
    folder = await anyio.to_thread.run_sync(_inside, client.setup.folder, params.cwd)
    end = await client.setup.run_shell(params.command, folder, params.timeout_seconds)
    stdout, out_id = await _excerpt(client, end.stdout, "stdout.txt")
    stderr, err_id = await _excerpt(client, end.stderr, "stderr.txt")
    await respond(
        ShellExecResult(
            params.command[:PREVIEW_CHARS],
            end.exit_code,
            stdout,
            stderr,
            Truncated(bool(out_id), bool(err_id), bool(out_id or err_id)),
            round(end.duration_s * 1000),
            out_id,
            err_id,
            end.problem,
        )
    )


async def _excerpt(client: Connection, data: bytes, name: str) -> tuple[str, str]:
    """Return the text, or its first and last lines with the cache id of all of it."""
    text = data.decode("utf-8", "replace")
    lines = text.split("\n")
    if len(lines) <= EXCERPT_LINES and len(data) <= EXCERPT_BYTES:
        return text, ""
    kept = await client.host.blobs.put(data, name, "text/plain")
    half = EXCERPT_LINES // 2
    short = [line[:1000] for line in lines]
    head, tail = "\n".join(short[:half]), "\n".join(short[half:][-half:])
    each = EXCERPT_BYTES // 2
    return f"{head[:each]}\n… ({len(data)} bytes in all)\n{tail[-each:]}", kept.blob
