"""Threads of somebody's terminal -> events, for `pilothouse watch`.

A terminal's Codex listens nowhere. An app-server of ours in the user's own `CODEX_HOME` is asked for the last turns again and
again; it opens no thread, so it starts nothing and changes no settings. It tells items when they are complete, and a running
turn as an interrupted one that has no end (measured with 0.166.0).
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import msgspec

from pilothouse.core.engine import FoundSession, ProcessStart, Step
from pilothouse.core.errors import EngineError
from pilothouse.core.event import PromptAdded
from pilothouse.core.outcome import Failure
from pilothouse.engines.codex import wire
from pilothouse.engines.codex.config import CodexConfig
from pilothouse.engines.codex.failures import explain_refusal
from pilothouse.engines.codex.home import user_home
from pilothouse.engines.codex.link import GREETING
from pilothouse.engines.codex.program import find_program
from pilothouse.engines.codex.thread_list import asked_in, list_params, read_sessions, rows_of, turns_params
from pilothouse.engines.codex.threads import is_thread_id
from pilothouse.engines.codex.translate import TurnTranslator
from pilothouse.engines.codex.usage import TurnUsage
from pilothouse.engines.codex.wire_items import read_item
from pilothouse.engines.jsonrpc import encode_message
from pilothouse.engines.link import Exit
from pilothouse.engines.polled_log import PolledLog, Read, named_folder
from pilothouse.processes import BASE_NAMES, Launcher, ProcessError, ProcessLimits, allowed_environment

LOOK_EVERY_S = 1.0
ANSWER_S = 20.0
LAST_TURNS = 5
SHORTEST = 4
MAX_LINE_BYTES = 96 * 1024 * 1024

Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
OpenServer = Callable[[], AbstractAsyncContextManager[Ask]]


class TurnsReader:
    """`read` for every state of the thread's last turns, oldest first: returns what is new, at first the last turn."""

    def __init__(self, thread: str, cwd: str) -> None:
        self._thread = thread
        self._cwd = cwd
        self._turn: TurnTranslator | None = None
        self._over: set[str] = set()
        self._seen: set[tuple[str, str]] = set()

    def read(self, turns: Sequence[dict[str, Any]]) -> Sequence[Step]:
        if not self._over and self._turn is None:
            self._over = {str(turn.get("id")) for turn in turns[:-1]}
        new = [turn for turn in turns if turn.get("id") and str(turn["id"]) not in self._over]
        return [step for turn in new for step in self._take(str(turn["id"]), turn)]

    def _take(self, id: str, told: dict[str, Any]) -> Sequence[Step]:
        steps = self._open(id)
        turn = self._turn
        assert turn is not None
        for item in rows_of(told, "items"):
            place = (id, str(item.get("id")))
            if place not in self._seen:
                self._seen.add(place)
                prompt = asked_in(item)
                heard = wire.ItemCompleted(read_item(item), self._thread, id)
                steps += turn.emit([PromptAdded(prompt)]) if prompt else turn.take(heard)
        if _is_over(told):
            self._over.add(id)
            steps += turn.take(wire.TurnCompleted(_read_turn(id, told), self._thread))
        return steps

    def _open(self, id: str) -> list[Step]:
        """Begin a turn, after the end of one that was left open."""
        before = self._turn
        if before is not None and before.turn_id == id:
            return []
        left: list[Step] = []
        if before is not None and not before.ended:
            before.interrupted = True
            left = list(before.end(Exit()))
        turn = self._turn = TurnTranslator(self._thread, TurnUsage(""), cwd=self._cwd)
        turn.turn_id = id
        return [*left, *turn.begin()]


def _is_over(turn: Mapping[str, Any]) -> bool:
    status = turn.get("status")
    return status != "inProgress" and (status != "interrupted" or turn.get("completedAt") is not None)


def _read_turn(id: str, told: Mapping[str, Any]) -> wire.Turn:
    try:
        return msgspec.convert({key: told.get(key) for key in ("id", "status", "error")}, wire.Turn)
    except msgspec.ValidationError:
        return wire.Turn(id, str(told.get("status")))


def find_watched(config: CodexConfig, environment: Mapping[str, str], word: str) -> Sequence[PolledLog]:
    """Return the logs that a word may mean: a thread, the beginning of its id, or a folder."""
    home, folder, word = user_home(config.home, environment), named_folder(word), word.lower()
    is_id = len(word) >= SHORTEST and set(word) <= set("0123456789abcdef-")
    if not (home / "sessions").is_dir() or not (folder or is_id):
        return []
    try:
        open_server = partial(
            _open_server, find_program(config.command, environment.get("PATH")), home, environment
        )
        found = anyio.run(_find, open_server, str(folder or ""), word)
    except EngineError:
        return []  # it is not installed, or does not start: then no session of it runs
    return [_watched(open_server, one) for one in found]


async def _find(open_server: OpenServer, folder: str, word: str) -> Sequence[FoundSession]:
    async with open_server() as ask:
        if folder:
            return read_sessions(await ask("thread/list", {**list_params(folder), "limit": 1}))
        if is_thread_id(word):
            try:
                known = await ask("thread/read", {"threadId": word})
            except EngineError:
                return []
            return read_sessions({"data": [known.get("thread")]})
        listed = read_sessions(await ask("thread/list", {**list_params(""), "limit": 100}))
        return [one for one in listed if one.resume.value.startswith(word)]


def _watched(open_server: OpenServer, found: FoundSession) -> PolledLog:
    open_reader = partial(_open_reader, open_server, found)
    return PolledLog(found.resume.value, lambda: found.used_at, open_reader, LOOK_EVERY_S)


@asynccontextmanager
async def _open_reader(open_server: OpenServer, found: FoundSession) -> AsyncIterator[Read]:
    thread = found.resume.value
    reader, params = TurnsReader(thread, found.resume.cwd), turns_params(thread, LAST_TURNS, last=True)
    async with open_server() as ask:

        async def read() -> Sequence[Step]:
            return reader.read(rows_of(await ask("thread/turns/list", params))[::-1])

        yield read


@asynccontextmanager
async def _open_server(program: str, home: Path, environment: Mapping[str, str]) -> AsyncIterator[Ask]:
    """Yield a function that asks an app-server in the user's own home. Raises `EngineError`."""
    numbers = count(1)
    start = ProcessStart(
        "codex app-server",
        [program, "app-server"],
        os.getcwd(),
        allowed_environment(environment, BASE_NAMES, {"CODEX_HOME": str(home)}),
    )
    limits = ProcessLimits(max_line_bytes=MAX_LINE_BYTES)
    try:
        async with Launcher().open(start, limits) as process:
            lines = process.lines()

            async def answer_to(id: int, message: bytes) -> dict[str, Any]:
                await process.write_line(message)
                with anyio.move_on_after(ANSWER_S):
                    async for line in lines:
                        heard = wire.decode(line.data)
                        if isinstance(heard, wire.Reply) and heard.id == id:
                            return _result(heard)
                raise EngineError(
                    Failure("crash", "Codex's app-server did not answer.", detail=process.stderr_tail())
                )

            async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
                id = next(numbers)
                return await answer_to(id, encode_message({}, id=id, method=method, params=params))

            await answer_to(0, GREETING)
            await process.write_line(encode_message({}, method="initialized"))
            yield ask
    except ProcessError as error:
        raise EngineError(Failure("crash", f"Codex's app-server did not run: {error}")) from error


def _result(reply: wire.Reply) -> dict[str, Any]:
    if reply.error is not None:
        raise EngineError(explain_refusal(reply.error.message))
    return reply.result
