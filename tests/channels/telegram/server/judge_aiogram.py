"""A process of its own that says whether aiogram's models would take a request, an answer or an update.

Every method must exist; required fields, types, and no unknown field, nested ones too. aiogram takes 4 s to import,
so one process serves all tests of a run: the first that needs it starts it, and it ends when the last has gone.
Reactions are judged by python-telegram-bot's list, which aiogram lacks.
"""

import asyncio
import fcntl
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

LINGER_S = 3.0
START_S = 120.0
LINE_BYTES = 64 << 20


class Judge:
    """Asks the process. Questions are answered in the order in which they came."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    async def request(self, method: str, params: Mapping[str, Any]) -> str:
        """Why aiogram would not send this; empty if it would."""
        return await self._ask({"request": method, "value": params})

    async def result(self, method: str, result: object) -> str:
        return await self._ask({"result": method, "value": result})

    async def update(self, update: Mapping[str, Any]) -> str:
        return await self._ask({"update": "", "value": update})

    async def _ask(self, question: Mapping[str, Any]) -> str:
        async with self._turn:
            self._writer.write(json.dumps(question).encode() + b"\n")
            await self._writer.drain()
            return json.loads(await self._reader.readline())


@asynccontextmanager
async def open_judge(folder: Path) -> AsyncIterator[Judge]:
    """`folder` is shared by all who shall have the same process."""
    path = folder / "aiogram.sock"
    reader, writer = await _connect(path)
    try:
        yield Judge(reader, writer)
    finally:
        writer.close()


async def _connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(START_S):
        while True:
            try:
                return await asyncio.open_unix_connection(str(path), limit=LINE_BYTES)
            except (FileNotFoundError, ConnectionRefusedError):
                start_judge(path)
                await asyncio.sleep(0.05)


def start_judge(path: Path) -> None:
    """Starts the process unless one is starting: it holds a lock for as long as it lives."""
    lock = path.with_suffix(".lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return
    path.unlink(missing_ok=True)
    # The child inherits the locked file: the lock is free again when the child ends, and not before.
    os.set_inheritable(lock.fileno(), True)
    log = os.open(path.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    root = Path(__file__).parents[4]
    os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "tests.channels.telegram.server.judge_aiogram", str(path)],
        {**os.environ, "PYTHONPATH": str(root)},
        file_actions=[(os.POSIX_SPAWN_DUP2, log, 1), (os.POSIX_SPAWN_DUP2, log, 2)],
    )
    os.close(log)
    lock.close()


# Within the process.


class Bench:
    def __init__(self) -> None:
        import aiogram.methods
        import pydantic
        from aiogram.enums import ChatAction
        from aiogram.types import Update
        from telegram.constants import ReactionEmoji

        self._model = pydantic.BaseModel
        self._adapter = pydantic.TypeAdapter
        self._invalid = pydantic.ValidationError
        self._update = pydantic.TypeAdapter(Update)
        self._actions = {action.value for action in ChatAction}
        self._emoji = {emoji.value for emoji in ReactionEmoji}
        kinds: list[Any] = [kind for kind in vars(aiogram.methods).values() if isinstance(kind, type)]
        self._methods: dict[str, Any] = {
            kind.__api_method__.lower(): kind
            for kind in kinds
            if isinstance(getattr(kind, "__api_method__", None), str)
        }
        self._results: dict[str, Any] = {}

    def judge(self, question: Mapping[str, Any]) -> str:
        value = question["value"]
        if "update" in question:
            return self._fits(self._update.validate_python, value)
        method = question.get("request") or question["result"]
        model = self._methods.get(method.lower())
        if model is None:
            return f"method {method} not found"
        if "request" in question:
            return self._fits(model.model_validate, value) or self._rules(model.__api_method__, value)
        if method not in self._results:
            self._results[method] = self._adapter(model.__returning__)
        return self._fits(self._results[method].validate_python, value)

    def _fits(self, validate: Any, value: object) -> str:
        try:
            found = validate(value)
        except self._invalid as error:
            faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()[:3]]
            return "; ".join(faults)
        unknown = list(self._unknown(found, ""))
        return f"unknown fields {', '.join(unknown)}" if unknown else ""

    def _unknown(self, value: object, path: str) -> Iterator[str]:
        if isinstance(value, self._model):
            yield from (f"{path}{name}" for name in value.model_extra or ())
            for name in type(value).model_fields:
                yield from self._unknown(getattr(value, name), f"{path}{name}.")
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            for n, item in enumerate(value):
                yield from self._unknown(item, f"{path}{n}.")

    def _rules(self, method: str, value: Mapping[str, Any]) -> str:
        if method == "sendChatAction" and value["action"] not in self._actions:
            return f"wrong parameter action in request: {value['action']}"
        if method == "setMessageReaction":
            wrong = [
                r["emoji"] for r in value.get("reaction") or () if r.get("emoji", "👍") not in self._emoji
            ]
            return f"REACTION_INVALID {wrong[0]}" if wrong else ""
        return ""


async def serve(path: str) -> None:
    bench = Bench()
    visitors = 0
    gone = asyncio.Event()
    gone.set()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visitors
        visitors += 1
        try:
            while line := await reader.readline():
                writer.write(json.dumps(bench.judge(json.loads(line))).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            visitors -= 1
            gone.set()
            writer.close()

    async with await asyncio.start_unix_server(visit, path, limit=LINE_BYTES):
        while True:
            gone.clear()
            try:
                await asyncio.wait_for(gone.wait(), LINGER_S)
            except TimeoutError:
                if not visitors:
                    return


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
