"""Draw the pictures of docs/engines/native-session.md: `python -m tools.native_session`; `tools/golden` runs it too.

The native agent plays the session, with a scripted model on loopback: it asks, edits a real file and runs a real command. What
it asks and says is rendered as Telegram shows it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import msgspec
from msgspec.structs import replace
from tests.channels.telegram.scenes import asked
from tests.engines.native.model import Call, Reply, in_order, open_model
from tools.phone import draw

from pilothouse.bootstrap.files import look_at_file
from pilothouse.core.ask import Ask, Decision, parse_reply
from pilothouse.core.engine import Brief, EngineSession
from pilothouse.core.event import Asked, EngineEvent, Notice, TurnEnded
from pilothouse.core.ids import AskId, SessionId, TurnId
from pilothouse.core.message import Content
from pilothouse.core.people import ORDINARY
from pilothouse.core.policy import NO_RULE, Ruling, Site
from pilothouse.engines.native import ENGINE
from pilothouse.engines.native.config import NativeConfig
from pilothouse.engines.native.engine import NativeEngine
from pilothouse.runtime.asks.show import with_preview
from pilothouse.testing.engine import read_turn
from pilothouse.testing.hosts import engine_host

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "images"
HOME = "/home/ann"
ASK_ID = AskId("ask-8d2j1xq4m7zr")
QUESTION = "Why does the greeting shout? Mend it, and check it."
FILES = {
    "greet.py": 'def greet(name):\n    return f"HELLO, {name}!"\n',
    "test_greet.py": 'from greet import greet\n\nassert greet("Ann") == "Hello, Ann!"\n',
}
EDIT = {"file_path": "greet.py", "old_string": "HELLO", "new_string": "Hello"}
REPLIES = (
    Reply("The word is written in capitals.", [Call("read", {"file_path": "greet.py"})]),
    Reply(calls=[Call("edit", EDIT)]),
    Reply(calls=[Call("bash", {"command": "python3 test_greet.py && echo passed"})]),
    Reply("`greet` wrote HELLO in capitals. It says Hello now, and the test passes."),
)
STATE = ".local/state/pilothouse/engines/native"
KEY = "sk-ant-not-a-real-key"
SAID = {"Which provider": "Anthropic", "Send the API key": KEY, "Which model": "claude-sonnet-4-6"}
"""What the person types, by the words of the question."""
Scene = list[str | Content]


class Person:
    """Answers every ask, and keeps what both sides said."""

    def __init__(self, session: EngineSession, folder: Path) -> None:
        self._session = session
        self._folder = folder
        self.scene: Scene = [QUESTION]

    def hear(self, event: EngineEvent) -> Awaitable[None] | None:
        match event:
            case Asked(ask=ask):
                return self._answer(ask)
            case Notice(text=text):
                self.scene.append(Content(text, "notice", turn_id=TurnId("turn-1")))
            case TurnEnded(answer=answer):
                self.scene.append(Content(answer, "answer", turn_id=TurnId("turn-1")))
            case _:
                pass
        return None

    async def _answer(self, ask: Ask) -> None:
        shown = await with_preview(ask, str(self._folder), look_at_file)
        text = msgspec.json.encode(shown).decode().replace(str(self._folder.parent), HOME)
        shown = replace(msgspec.json.decode(text, type=Ask), id=ASK_ID, asker=ENGINE.title)
        self.scene.append(asked(shown, ORDINARY))
        said = next((said for words, said in SAID.items() if words in ask.title), "Allow once")
        self.scene.append(said)
        decision = parse_reply(ask, said) if ask.kind == "question" else Decision("allow")
        await self._session.answer(ask.id, decision)  # pyrefly: ignore[missing-attribute]


async def judge(ask: Ask, site: Site) -> Ruling:
    """Decide as the mode `minimal` does for these calls: what only reads is not asked about."""
    reads = ask.call is not None and ask.call.kind == "read"
    return Ruling("allow") if reads else NO_RULE


def make_folder(home: str) -> Path:
    folder = Path(home).resolve() / "greeter"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return folder


async def play() -> Scene:
    """Return all that was said in one session."""
    with TemporaryDirectory() as made, open_model(in_order(*REPLIES)) as model:
        folder = make_folder(made)
        environment = {"PATH": os.environ["PATH"], "ANTHROPIC_BASE_URL": model.url}
        host = engine_host(folder.parent / STATE, judge=judge, environment=environment)
        brief = Brief(SessionId("one"), str(folder))
        async with NativeEngine(NativeConfig(), host) as engine, engine.open(brief) as session:
            person = Person(session, folder)
            await read_turn(session, QUESTION, person.hear)
        assert "Hello" in (folder / "greet.py").read_text(), "the edit was made"
        return person.scene


def draw_all(scene: Scene) -> dict[str, str]:
    """Return the pictures by their names: the setup, the edit, and the command with the answer."""
    notice = next(at for at, one in enumerate(scene) if isinstance(one, Content) and one.kind == "notice")
    command = notice + 3
    parts = {"setup": scene[: notice + 1], "edit": scene[notice + 1 : command], "answer": scene[command:]}
    return {f"native-{name}.svg": draw(part) for name, part in parts.items()}


def main() -> None:
    for name, picture in draw_all(anyio.run(play)).items():
        (FOLDER / name).write_text(picture)


if __name__ == "__main__":
    main()
