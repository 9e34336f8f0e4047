"""`pilothouse watch` in real processes: it waits, it follows, and it says clearly what it cannot find."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest
from tests.cli.conftest import House
from tests.dists import write_dist

from pilothouse.cli.watch import likeliest
from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import ChannelId, ConversationId, EngineId, SessionId
from pilothouse.core.message import Address
from pilothouse.core.store import Tx
from pilothouse.engines.polled_log import PolledLog, Read
from pilothouse.stores.sqlite import STORE

ID = "01941f2a-3b4c-7d8e-9f0a-1b2c3d4e5f6a"
OTHER = "01941fff-3b4c-7d8e-9f0a-1b2c3d4e5f6a"
WITHIN_S = 100.0


@pytest.fixture
def watched(house: House) -> House:
    write_dist(house.packages, "engines", {"engines": {"claude": "pilothouse.engines.claude:ENGINE"}})
    return house


def log_of(house: House, id: str = ID, folder: str = "-srv-app") -> Path:
    path = house.home / ".claude" / "projects" / folder / f"{id}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def prompt(text: str) -> str:
    return json.dumps({"type": "user", "sessionId": ID, "message": {"role": "user", "content": text}}) + "\n"


def answer(text: str, id: str = "m1") -> str:
    message = {"id": id, "content": [{"type": "text", "text": text}], "stop_reason": "end_turn"}
    return json.dumps({"type": "assistant", "sessionId": ID, "message": message}) + "\n"


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


class Watching:
    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self._folder = folder

    @property
    def text(self) -> str:
        return (self._folder / "out").read_text()

    @property
    def aside(self) -> str:
        return (self._folder / "err").read_text()

    def until(self, holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not holds():
            assert time.monotonic() < deadline, self.text + self.aside
            assert self.process.poll() is None, self.aside
            time.sleep(0.02)


@contextmanager
def watching(house: House, folder: Path, *words: str) -> Iterator[Watching]:
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "pilothouse", "watch", *words],
            env=house.environ(HOME=str(house.home)),
            stdout=out,
            stderr=err,
            cwd=house.home,
        )
    try:
        yield Watching(process, folder)
        process.send_signal(signal.SIGINT)
        assert process.wait(WITHIN_S) == 0, "leaving is no error"
        said = (folder / "err").read_text()
        assert "Traceback" not in said and "error:" not in said
    finally:
        process.kill()
        process.wait()


def test_only_the_last_turn_of_before_is_shown_and_then_all_that_comes(
    watched: House, tmp_path: Path
) -> None:
    log = log_of(watched)
    add(log, prompt("old") + answer("long ago") + prompt("new") + answer("just now", "m2"))
    with watching(watched, tmp_path, ID) as seen:
        seen.until(lambda: "✓ done" in seen.text)
        add(log, prompt("next")[:20])
        add(log, prompt("next")[20:] + answer("soon", "m3"))
        seen.until(lambda: seen.text.count("✓ done") == 2)
        assert seen.text == "\n› new\n\njust now\n✓ done\n\n› next\n\nsoon\n✓ done\n"
        assert seen.aside == f"watching {ID}; Ctrl-C leaves\n"


def test_a_session_that_has_not_begun_is_waited_for(watched: House, tmp_path: Path) -> None:
    with watching(watched, tmp_path, ID, "--json") as seen:
        seen.until(lambda: "waiting for" in seen.aside)
        add(log_of(watched, folder="-wherever"), prompt("hi") + answer("hello"))
        seen.until(lambda: "turn_ended" in seen.text)
        types = [json.loads(line)["type"] for line in seen.text.splitlines()]
        assert types == ["session_started", "prompt_added", "text_set", "turn_ended"]


def test_a_log_is_found_by_its_path_and_read_anew_when_it_is_replaced(watched: House, tmp_path: Path) -> None:
    log = tmp_path / "copy.jsonl"
    add(log, prompt("one") + answer("first"))
    with watching(watched, tmp_path, str(log)) as seen:
        seen.until(lambda: "first" in seen.text)
        add(tmp_path / "next", prompt("two") + answer("second"))
        (tmp_path / "next").rename(log)
        seen.until(lambda: "second" in seen.text)


def test_a_folder_means_the_session_that_was_used_last_in_it(watched: House, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    add(
        log_of(watched, folder=str(work).replace("/", "-").replace("_", "-")),
        prompt("hi") + answer("in here"),
    )
    with watching(watched, tmp_path, f"{work}/") as seen:
        seen.until(lambda: "in here" in seen.text)


def test_our_own_id_leads_to_the_engines_session(watched: House, tmp_path: Path) -> None:
    add(log_of(watched), prompt("hi") + answer("ours"))
    keep_session(watched, "session-abc", ResumeToken(EngineId("claude"), ID, "/srv/app"))
    with watching(watched, tmp_path, "session-a") as seen:
        seen.until(lambda: "ours" in seen.text)


def test_a_session_of_an_engine_without_logs_is_not_called_unknown(watched: House) -> None:
    keep_session(watched, "session-abc", ResumeToken(EngineId("script"), "x", "/srv/app"))
    done = watched.run("watch", "session-abc", HOME=str(watched.home))
    assert done.returncode == 1
    assert "session-abc belongs to script, which keeps no log" in done.stderr


def keep_session(house: House, id: str, resume: ResumeToken | None) -> None:
    engine = resume.engine if resume else EngineId("claude")
    conversation = ConversationId("memory:main")

    def unit(tx: Tx) -> None:
        tx.conversations.ensure(Conversation(conversation, Address(ChannelId("memory"), "main"), 0.0))
        tx.sessions.add(Session(SessionId(id), conversation, engine, "/w", 0.0, 0.0, resume=resume))

    async def write() -> None:
        async with STORE.open(STORE.config(path=str(house.home / "pilothouse.db"))) as store:
            await store.write(unit)

    anyio.run(write)


@pytest.mark.parametrize(
    "word", ["nonsense", "deadbeef", "01", "/no/such/folder", "/no/such/log.jsonl", "01941*"]
)
def test_an_unknown_session_is_one_clear_line(watched: House, word: str) -> None:
    done = watched.run("watch", word, HOME=str(watched.home))
    assert (done.returncode, done.stdout) == (1, "")
    assert f'there is no session "{word}"' in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_beginning_that_several_share_names_them(watched: House) -> None:
    for id in (ID, OTHER):
        add(log_of(watched, id), prompt("hi"))
    done = watched.run("watch", "01941f", HOME=str(watched.home))
    assert done.returncode == 1
    assert ID in done.stderr
    assert OTHER in done.stderr


def test_a_session_without_a_token_says_what_to_do(watched: House) -> None:
    keep_session(watched, "session-abc", None)
    done = watched.run("watch", "session-abc", HOME=str(watched.home))
    assert done.returncode == 1
    assert "send it a message first" in done.stderr


def test_of_several_engines_the_last_used_session_of_a_folder_and_the_one_that_exists_are_taken() -> None:
    @asynccontextmanager
    async def nothing() -> AsyncIterator[Read]:
        raise NotImplementedError
        yield

    coming, old, new = (PolledLog(str(at), lambda at=at: at, nothing, 1.0) for at in (0.0, 1.0, 2.0))
    assert likeliest([old, new, coming], is_path=True) == [new]
    assert likeliest([coming, old], is_path=False) == [old]
    assert likeliest([old, new], is_path=False) == [old, new]
    assert likeliest([coming], is_path=False) == [coming]
