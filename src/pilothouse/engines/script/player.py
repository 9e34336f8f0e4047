"""The program behind the script engine: `python -m pilothouse.engines.script.player SCRIPT`.

It speaks the protocol of docs/engines/script.md: one JSON object per line, commands on stdin, events on stdout. One
process serves many sessions; every turn has a thread. It uses only the standard library, to start fast and to serve as a
template for your own engine: keep `main` and `Session`, and put your agent where `Play` is.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import uuid
from typing import Any

from pilothouse.engines.script import faults
from pilothouse.engines.script.play import Cue, Interrupted, Over, Play
from pilothouse.engines.script.steps import Script, ScriptError, Table, load_script

PROTOCOL = 1


class Output:
    """Writes whole lines to stdout, which all sessions share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def line(self, message: Table) -> None:
        self.raw(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        with self._lock:
            while data:
                data = data[os.write(1, data) :]


class Refused(Exception):
    """A session cannot be opened."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.failure = {"kind": kind, "text": text}


class Turn:
    """One prompt, and the thread that plays its steps. It is also the `Stage` of its `Play`."""

    def __init__(self, session: Session, number: int, prompt: str) -> None:
        self.number = number
        self.cue = Cue()
        self.over = False
        self._session = session
        self._prompt = prompt

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def event(self, event: Table) -> None:
        self._session.line("event", turn=self.number, event=event)

    def media(self, name: str, media_type: str, data: str) -> None:
        self._session.line("media", turn=self.number, name=name, media_type=media_type, data=data)

    def raw(self, data: bytes) -> None:
        self._session.out.raw(data)

    def _run(self) -> None:
        session = self._session
        play = Play(session.script, self._prompt, self, self.cue, session.cwd, session.servers)
        self.event(
            {"type": "session_started", "resume": session.token, "cwd": session.cwd, "model": "script"}
        )
        outcome, failure = self._play(play)
        if play.hang_after_result:
            faults.hung.set()
        self.over = True
        session.ended += 1
        self.event(
            {
                "type": "turn_ended",
                "outcome": outcome,
                "answer": play.answer,
                "failure": failure,
                "usage": play.usage,
                "resume": session.token,
            }
        )
        if play.hang_after_result:
            faults.hang()

    def _play(self, play: Play) -> tuple[str, Table | None]:
        steps = self._session.script.pick(self._prompt, self._session.ended)
        if steps is None:
            return "failed", {"kind": "bad_request", "text": "The script has no turn for this prompt."}
        try:
            play.run(steps)
        except Interrupted:
            return "cancelled", None
        except Over as over:
            return over.outcome, over.failure
        except Exception as error:  # noqa: BLE001 - one turn's bug must not end the other sessions
            return "failed", {"kind": "crash", "text": f"The player failed: {error!r}"}
        return "completed", None


class Session:
    """The memory between turns: the session's id, and how many turns have ended."""

    def __init__(self, out: Output, id: str, script: Script, command: Table) -> None:
        self.out = out
        self.script = script
        self.cwd: str = command.get("cwd", "")
        self.servers: Table = command.get("mcp_servers", {})
        self._id = id
        self._name, self.ended = parse_resume(command.get("resume"))
        self._turn: Turn | None = None

    @property
    def token(self) -> Table:
        return {"engine": "script", "value": f"{self._name}.{self.ended}", "cwd": self.cwd}

    def line(self, kind: str, **fields: Any) -> None:
        self.out.line({"type": kind, "session": self._id, **fields})

    def prompt(self, command: Table) -> None:
        if self._turn and not self._turn.over:
            return  # the host never sends this
        self._turn = Turn(self, command["turn"], command["text"])
        self._turn.start()

    def answer(self, command: Table) -> None:
        if self._turn:
            self._turn.cue.answer(command["ask"], command["decision"])

    def interrupt(self, _: Table) -> None:
        if self._turn:
            self._turn.cue.interrupt()

    def steer(self, command: Table) -> None:
        turn = self._turn
        accepted = turn is not None and not turn.over
        if turn is not None and accepted:
            text = f"Noted: {command['text']}"
            turn.event({"type": "text_set", "block_id": f"steered-{uuid.uuid4().hex[:8]}", "text": text})
        self.line("steered", accepted=accepted)


def parse_resume(value: str | None) -> tuple[str, int]:
    """Return the session's id and the number of its ended turns; a new id without a token."""
    if value is None:
        return str(uuid.uuid4()), 0
    name, _, ended = value.rpartition(".")
    try:
        return str(uuid.UUID(name)), int(ended)
    except ValueError:
        text = f"There is no session {value!r} here; a token looks like <uuid>.<turns>. Start a new session."
        raise Refused("stale_session", text) from None


class Player:
    """All sessions of this process. `take` never blocks: slow work runs in a turn's thread."""

    def __init__(self, script: str, out: Output) -> None:
        self._script = script
        self._out = out
        self._sessions: dict[str, Session] = {}
        self._loaded: tuple[tuple[int, ...], Script] | None = None

    def take(self, command: Table) -> None:
        match command["type"]:
            case "open":
                self._open(command["session"], command)
            case "close":
                if session := self._sessions.pop(command["session"], None):
                    session.interrupt(command)
            case "prompt" | "answer" | "interrupt" | "steer" as verb:
                if session := self._sessions.get(command["session"]):
                    getattr(session, verb)(command)

    def _open(self, id: str, command: Table) -> None:
        try:
            session = Session(self._out, id, self._load(), command)
        except Refused as refused:
            self._out.line({"type": "refused", "session": id, "failure": refused.failure})
            return
        self._sessions[id] = session
        session.line("opened", resume=session.token["value"])

    def _load(self) -> Script:
        """Return the script, read again if the file has changed."""
        stamp = stamp_of(self._script)
        try:
            if self._loaded is None or self._loaded[0] != stamp:
                self._loaded = (stamp, load_script(self._script))
        except ScriptError as error:
            raise Refused("bad_request", str(error)) from None
        return self._loaded[1]


def stamp_of(path: str) -> tuple[int, ...]:
    """Return a value that changes with the file; empty if there is none."""
    try:
        found = os.stat(os.path.expanduser(path))
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino


def main(script: str) -> None:
    faults.listen()
    out = Output()
    capabilities = {"steer": True, "parallel": True}
    out.line({"type": "hello", "protocol": PROTOCOL, "name": "player", "capabilities": capabilities})
    player = Player(script, out)
    for line in sys.stdin.buffer:
        if faults.hung.is_set():
            faults.hang()
        player.take(json.loads(line))
    if faults.hung.is_set():
        faults.hang()
    os._exit(0)  # the host has ended: turns that still run have no reader


if __name__ == "__main__":
    main(sys.argv[1])
