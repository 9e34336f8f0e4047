"""One scenario on one engine: a conversation of its own, in which a person talks, answers and waits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.scenarios.gateway import Gateway, Missed, until
from bench.scenarios.model import Model, Move, Script, command, say

ENDED = ("done", "failed", "cancelled")


class Stage:
    def __init__(self, gateway: Gateway, model: Model, scenario: str) -> None:
        self.gateway = gateway
        self.place = scenario
        self.model = model

    def script(self, script: Script | Move) -> None:
        self.model.script = script if callable(script) else lambda _: script

    def file(self, name: str = "") -> Path:
        """Return a path of this scenario's own in the workspace."""
        return self.gateway.workspace / f"{self.place}{name}.txt"

    def writes_once(self, answer: str = "All done.") -> None:
        """The model writes a line into the scenario's file, then answers."""
        file = self.file()
        self.script(lambda _: say(answer) if file.exists() else command(f"echo once >> {file.name}"))

    def say(self, text: str, *files: Path) -> None:
        told = self.gateway.do(text=text, place=self.place, files=list(map(str, files)))
        if told.get("state") == "refused":
            raise Missed(f"the message {text!r} was refused")

    def ask(self, number: int = 1) -> dict[str, Any]:
        """Wait for the ask with this number in the conversation."""
        return until(lambda: self._asks()[number - 1 : number], "the ask")[0]

    def _asks(self) -> list[dict[str, Any]]:
        shown = {line["ask"]: line for line in self.seen() if line["ask"]}
        return list(shown.values())

    def decide(self, verdict: str, ask: dict[str, Any] | None = None, **decision: Any) -> None:
        ask = ask or self.ask()
        told = self.gateway.do(ask=ask["ask"], payload_hash=ask["payload_hash"], verdict=verdict, **decision)
        if not told.get("accepted"):
            raise Missed(f"the answer was not accepted: {told.get('text')}")

    def allow_if_asked(self, started: Any) -> None:
        """Allow the command, unless the engine runs it unasked; wait until `started()` is true."""

        def look() -> Any:
            asks = self._asks()
            if asks and asks[-1]["ask"] not in answered:
                answered.add(asks[-1]["ask"])
                self.decide("allow", asks[-1])
            return started()

        answered = set[str]()
        until(look, "the command")

    def answer(self, words: str) -> None:
        """Wait for an answer with these words."""
        until(
            lambda: any(words in line["text"] for line in self.seen() if line["kind"] == "answer"),
            f"“{words}”",
        )

    def seen(self) -> list[dict[str, Any]]:
        return self.gateway.seen(self.place)

    def ends(self, number: int, status: str) -> None:
        """Wait for the end of the turn with this number."""
        turn = until(
            lambda: [one for one in self._turns()[number - 1 : number] if one[0] in ENDED], "the turn's end"
        )
        if turn[0][0] != status:
            raise Missed(f"the turn ended as {turn[0][0]}, not as {status}")

    def _turns(self) -> list[tuple[str, str]]:
        return self.gateway.turns(self.place)

    def count_turns(self) -> int:
        return len(self._turns())

    def failure(self) -> str:
        """Wait until the last turn has failed, for good or for now; return the failure's kind, or empty if it succeeded."""

        def look() -> list[str]:
            turns = self._turns()
            return [kind for status, kind in turns[-1:] if kind or status in ENDED]

        return until(look, "the failure")[0]

    def goes_on(self) -> None:
        """The next message is answered."""
        self.script(say(f"Better now, {self.place}."))
        self.say("And now?")
        self.answer(f"Better now, {self.place}.")
