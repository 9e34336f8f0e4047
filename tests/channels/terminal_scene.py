"""A small gateway for the terminal: each word that a person may say starts a scene. Also a program of its own.

python -m tests.channels.terminal_scene STATE_DIR [--json] [--verbose] [TEXT]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from tests.calls import with_call

from pilothouse.channels.terminal.channel import TerminalChannel
from pilothouse.channels.terminal.config import ChatFacts, Interactive, Mode, OneShot, TerminalConfig
from pilothouse.channels.terminal.streams import Streams, WallClock, system_streams
from pilothouse.core.ask import Ask, Option, RuleOffer, hash_payload
from pilothouse.core.call import Call
from pilothouse.core.channel import ChannelHost, MenuCommand, Receipt
from pilothouse.core.clock import Clock
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    Notice,
    PlanChanged,
    PlanItem,
    SessionStarted,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Usage,
)
from pilothouse.core.ids import AskId, BlobHash, CallId, MessageId, SessionId, TurnId
from pilothouse.core.message import Attachment, Content, InboundMessage, conversation_id
from pilothouse.core.outcome import Failure
from pilothouse.testing.desk import Answer, Command, MessageState, ScriptedDesk

HEADER = "pilothouse 0.1.0 · script · /work/demo"
ANSWER = """\
The bug was in the **session cookie**: it never expired.

```python
def expires(now: float) -> float:
    return now + 3600
```

1. It is set for one hour now.
2. A test covers it.
"""
STEPS: tuple[EngineEvent, ...] = (
    SessionStarted(model="script-1"),
    PlanChanged((PlanItem("Find the bug", "active"), PlanItem("Fix it"), PlanItem("Test it"))),
    TextDelta("b1", "I'll look at the login code first."),
    ToolStarted(ToolCall(CallId("c1"), "read", "Read", {"path": "/work/demo/src/auth/login.py"})),
    ToolFinished(CallId("c1"), ok=True),
    PlanChanged((PlanItem("Find the bug", "done"), PlanItem("Fix it", "active"), PlanItem("Test it"))),
    ToolStarted(
        ToolCall(CallId("c2"), "file_change", "Edit", {"path": "src/auth/login.py", "added": 3, "removed": 1})
    ),
    ToolFinished(CallId("c2"), ok=True),
    Notice("info", "retry", "The model was busy; trying again."),
    ToolStarted(ToolCall(CallId("c3"), "command", "pytest -q")),
    ToolFinished(CallId("c3"), ok=False, output="1 failed"),
)
PAYLOAD = {"command": "rm -rf build"}
APPROVAL = Ask(
    AskId("ask-1"),
    "approval",
    "Run a command?",
    PAYLOAD,
    hash_payload(PAYLOAD),
    call=Call("command", "Bash", command="rm -rf build"),
    asker="Claude",
)
QUESTION = Ask(
    AskId("ask-2"),
    "question",
    "Which colour?",
    {},
    hash_payload({}),
    (Option("r", "Red"), Option("b", "Blue")),
    asker="Claude",
)
WORDS = Ask(
    AskId("ask-3"), "question", "What is its name?", {}, hash_payload({}), free_text=True, asker="Claude"
)
PUSH = with_call(
    Ask(
        AskId("ask-4"),
        "approval",
        "git push origin main",
        {"tool": "Bash", "input": {"command": "git push origin main", "timeout": 5}, "cwd": "/work/demo"},
        "hash-4",
        why="no rule matches",
        offers=(
            RuleOffer("session", "allow command git push"),
            RuleOffer("always", "allow command git push origin"),
        ),
        asker="Claude",
    )
)
DIFF = "\n".join(["--- a.py", "+++ a.py", "@@ -1,60 +1,61 @@", "-old", *(f"+new {n}" for n in range(60))])
EDIT = with_call(
    Ask(
        AskId("ask-5"),
        "approval",
        "edit: a.py",
        {"tool": "Edit", "input": {"file_path": "a.py", "old_string": "old", "new_string": "new"}},
        "hash-5",
        preview=DIFF,
        asker="Claude",
    )
)
SIZES = Ask(
    AskId("ask-6"),
    "question",
    "Which sizes?",
    {},
    hash_payload({}),
    (Option("1", "Small"), Option("2", "Middle"), Option("3", "Large")),
    many=True,
    asker="Claude",
)
RAN: tuple[EngineEvent, ...] = (
    SessionStarted(),
    ToolStarted(ToolCall(CallId("c1"), "command", "python3 main.py")),
    ToolFinished(CallId("c1"), ok=True, output="4"),
    ToolStarted(ToolCall(CallId("c2"), "file_change", "Edit", {"path": "/work/demo/main.py"})),
    ToolFinished(CallId("c2"), ok=True),
    ToolStarted(ToolCall(CallId("c3"), "read", "Read", {"path": "/etc/passwd"})),
    ToolFinished(CallId("c3"), ok=True),
)
COMMANDS = (MenuCommand("status", "what runs here", "member"), MenuCommand("stop", "stop it", "member"))
KEY = Ask(
    AskId("ask-key"), "question", "Which key?", {"question": "Which key?", "secret": True}, free_text=True
)
ASKS = {
    "approve": APPROVAL,
    "choose": QUESTION,
    "name": WORDS,
    "key": KEY,
    "push": PUSH,
    "edit": EDIT,
    "sizes": SIZES,
}
BROKEN = Failure("crash", "The engine stopped without finishing its turn.", detail="exit status 9")
LOST = Failure("crash", "Pilothouse restarted while this was running.")


class Scene:
    """`pace_s` lets a person watch; tests leave it at zero and wait for what they see."""

    def __init__(self, desk: ScriptedDesk, clock: Clock, pace_s: float = 0.0) -> None:
        self.desk = desk
        self._clock = clock
        self._pace_s = pace_s
        self._turns = 0
        self._open: dict[AskId, tuple[TurnId, MessageId]] = {}
        self._stoppable: tuple[TurnId, MessageId] | None = None
        self._work, self._todo = anyio.create_memory_object_stream[tuple[str, TurnId, MessageId]](100)
        desk.on_accept, desk.on_command, desk.on_answer = self._accepted, self._commanded, self._answered

    async def run(self, channel: TerminalChannel) -> None:
        self._channel = channel
        self._conversation = conversation_id(channel.address)
        async with anyio.create_task_group() as group:
            group.start_soon(self._play_all)
            try:
                await channel.run(self.desk)
            finally:
                group.cancel_scope.cancel()
                self._work.close()
                self._todo.close()

    def wait_for_answer(self, ask: Ask) -> None:
        """An ask of before, whose turn is gone."""
        self.desk.open_asks.append(ask)
        self._open[ask.id] = TurnId("turn-resumed"), MessageId("message-0")

    def _accepted(self, message: InboundMessage, id: MessageId) -> None:
        self._turns += 1
        first = f"sent:{message.attachments[0].name}" if message.attachments else message.text.split()[0]
        self._work.send_nowait((first, TurnId(f"turn-{self._turns}"), id))

    def _commanded(self, command: Command) -> None:
        if command.line == "/stop" and self._stoppable:
            turn, message = self._stoppable
            self._stoppable = None
            self._work.send_nowait(("stopped", turn, message))

    def _answered(self, answer: Answer) -> None:
        turn, message = self._open.pop(answer.ask_id)
        self.desk.open_asks = [ask for ask in self.desk.open_asks if ask.id != answer.ask_id]
        self._publish(turn, AskChanged(answer.ask_id, "answered", answer.by.id, "settled"))
        if any(other == turn for other, _ in self._open.values()):
            return
        reason = (
            f":{answer.decision.text}" if answer.decision.verdict == "deny" and answer.decision.text else ""
        )
        said = answer.decision
        more = "" if said.remember == "once" else f":{said.remember}"
        more += "".join(f":{key}" for key in said.options if len(said.options) > 1)
        more += "" if said.input is None else f":{json.dumps(said.input)}"
        self._work.send_nowait((f"answered:{said.verdict}{reason}{more}", turn, message))

    async def _play_all(self) -> None:
        async for word, turn, message in self._todo:
            await self._play(word, turn, message)

    async def _play(self, word: str, turn: TurnId, message: MessageId) -> None:
        self.desk.settle(message, MessageState("claimed", turn))
        match word:
            case "fix":
                await self._pace(turn, STEPS)
                for delta in ANSWER.splitlines(keepends=True):
                    await self._pace(turn, [TextDelta("b2", delta)])
                await self._end(turn, message, ANSWER)
            case "slow":
                self._stoppable = turn, message
                self._publish(turn, *STEPS[:4])
            case "approve" | "choose" | "name" | "key" | "push" | "edit" | "sizes":
                self.desk.open_asks.append(ASKS[word])
                self._open[ASKS[word].id] = turn, message
                self._publish(turn, SessionStarted(), Asked(ASKS[word]))
            case "two":
                for ask in (APPROVAL, QUESTION):
                    self.desk.open_asks.append(ask)
                    self._open[ask.id] = turn, message
                self._publish(turn, SessionStarted(), Asked(APPROVAL), Asked(QUESTION))
            case "stream":
                self._stoppable = turn, message
                self._publish(turn, SessionStarted(), TextDelta("b", "The first words of a long"))
            case "ran":
                self._publish(turn, *RAN)
                await self._end(turn, message, "The tool said 4.")
            case "lost":  # the gateway restarts while it waits: the ask stays open, and is shown again
                self._open[APPROVAL.id] = TurnId(f"{turn}-resumed"), message
                self._publish(turn, SessionStarted(), Asked(APPROVAL))
                await self._end(turn, message, LOST.text, TurnEnded("failed", failure=LOST))
                again = Content(f"Still open: {APPROVAL.title}", "ask", turn_id=turn, ask=APPROVAL)
                for part in self._channel.render(again):
                    await self._channel.send(self._channel.address, part)
            case "break":
                self._publish(turn, SessionStarted(), TextDelta("b", "Let me see."))
                await self._end(turn, message, BROKEN.text, TurnEnded("failed", failure=BROKEN))
            case "stopped":
                self._publish(turn, ToolFinished(CallId("c1"), ok=False))
                await self._end(turn, message, "Stopped.", TurnEnded("cancelled"))
            case "evil":
                await self._end(turn, message, "clean \x1b]52;c;ZXZpbA==\x07\x1b[2Jtext")
            case "picture":
                file = Attachment("plot.png", "image/png", 52_300, BlobHash("0" * 64))
                await self._end(turn, message, "Here it is.", files=(file,))
            case _:
                await self._end(turn, message, f"You said: {word}")

    async def _pace(self, turn: TurnId, events: Sequence[EngineEvent]) -> None:
        for event in events:
            self._publish(turn, event)
            if self._pace_s:
                await self._clock.sleep(self._pace_s)

    async def _end(
        self,
        turn: TurnId,
        message: MessageId,
        text: str,
        end: TurnEnded | None = None,
        files: tuple[Attachment, ...] = (),
    ) -> None:
        end = end or TurnEnded("completed", text, usage=Usage(cost_usd=0.0234))
        self._publish(turn, end)
        status = "failed" if end.outcome == "failed" else "done"
        self.desk.settle(message, MessageState(status, turn))
        for part in self._channel.render(Content(text, "answer", files, turn)):
            await self._channel.send(self._channel.address, part)
        self.desk.settle(message, MessageState(status, turn, delivered=True))

    def _publish(self, turn: TurnId, *events: EngineEvent) -> None:
        self.desk.publish(self._conversation, turn, self._clock.now(), *events)


class NoBlobs:
    async def get(self, blob: BlobHash) -> bytes:
        return b""

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        return Attachment(name, media_type, len(data), BlobHash("0" * 64))


def make_channel(
    state_dir: Path, mode: Mode, streams: Streams, clock: Clock | None = None, **options: Any
) -> TerminalChannel:
    host = ChannelHost(NoBlobs(), str(state_dir), _silent, clock or WallClock(), COMMANDS)
    facts = ChatFacts(options.pop("header", HEADER))
    options = {"place": "/work/demo", "user": "ada", "facts": facts, **options}
    return TerminalChannel(TerminalConfig(), host, mode=mode, streams=streams, clock=clock, **options)


def _silent(*words: object, **fields: object) -> None:
    pass


async def play(state_dir: Path, text: str | None, pace_s: float, **options: Any) -> int:
    mode: Mode = Interactive() if text is None else OneShot(text)
    channel = make_channel(state_dir, mode, system_streams(), **options)
    desk = ScriptedDesk()
    desk.lists["models"] = ["opus", "haiku"]
    desk.lists["sessions"] = [("fix the build · 2h ago", SessionId("session-7"))]
    scene = Scene(desk, WallClock(), pace_s)
    if "--deaf" in sys.argv:
        desk.on_command = lambda command: None
    if "--busy" in sys.argv:
        waits = Receipt("queued", MessageId("message-2"), "It waits for the turn before it.")
        desk.receipts += [Receipt("queued", MessageId("message-1")), waits]
    if "--trouble" in sys.argv:
        desk.troubles.update(answer=1, query=1)
    if "--open-ask" in sys.argv:
        scene.wait_for_answer(APPROVAL)
    await scene.run(channel)
    return channel.exit_code


def main() -> None:
    arguments = sys.argv[1:]
    flags = [word for word in arguments if word.startswith("--")]
    folder, *text = [word for word in arguments if not word.startswith("--")]
    pace_s = 0.6 if "--slowly" in flags else 0.0
    if not text and not sys.stdin.isatty() and "--talk" not in flags:
        text = [sys.stdin.read()]
    options: dict[str, Any] = {"json": "--json" in flags, "verbose": "--verbose" in flags}
    if "--here" in flags:
        options["place"] = folder
    sys.exit(anyio.run(lambda: play(Path(folder), text[0] if text else None, pace_s, **options)))


if __name__ == "__main__":
    main()
