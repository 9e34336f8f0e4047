"""The scenarios: each is one function, and an entry of `SCENARIOS`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping

from bench.scenarios.gateway import Missed, running, stays, until
from bench.scenarios.model import ASK, BEGIN, DROP, OVERFLOW, Move, ask_by_tool, command, fail, say
from bench.scenarios.stage import Stage

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAACAAAAAgCAIAAAD8GO2jAAAAKElEQVR4nO3NsQ0AAAzCMP5/un0CNkuZ41wybXsHAAAAAAAAAAAAxR4yw/wuPL6Q"
    "kAAAAABJRU5ErkJggg=="
)
WORD = "the word is plum"
LATE_S = 20.0
LONG_S = 1800.0


def expect(holds: object, reason: str) -> None:
    if not holds:
        raise Missed(reason)


def approve(stage: Stage) -> None:
    stage.writes_once()
    stage.say("Go")
    stage.ask()
    expect(not stage.file().exists(), "it ran before it was allowed")
    stage.decide("allow")
    stage.answer("All done.")
    expect(stage.file().read_text() == "once\n", "it did not run once")


def deny(stage: Stage) -> None:
    stage.script(command(f"touch {stage.file().name}"))
    stage.say("Go")
    stage.decide("deny")
    stage.ends(1, "cancelled")
    expect(not stage.file().exists(), "it ran although it was denied")
    stage.goes_on()


def deny_with_reason(stage: Stage) -> None:
    why = "not on a Friday"
    seen, call = len(stage.model.texts), command(f"touch {stage.file().name}")
    other = say("Then not."), call
    # Where an agent takes no words during a turn, the reason follows its end.
    stage.script(
        lambda text: say("As you wish.") if why in text else other[len(stage.model.texts) == seen + 1]
    )
    stage.say("Go")
    stage.decide("deny", text=why)
    stage.answer("As you wish.")
    stage.ends(1, "done")
    expect(not stage.file().exists(), "it ran although it was denied")


def always(stage: Stage) -> None:
    stage.writes_once()
    stage.say("Go")
    stage.decide("allow", remember="always")
    stage.answer("All done.")
    stage.file().unlink()
    stage.writes_once("Done again.")
    stage.say("Once more")
    until(lambda: stage.file().exists() or stage.seen()[-1]["ask"], "the second command")
    expect(stage.file().exists(), "it was asked again")
    stage.answer("Done again.")


def question(stage: Stage) -> None:
    seen = len(stage.model.texts)
    stage.script(lambda _: say("So be it.") if len(stage.model.texts) > seen + 1 else ASK)
    stage.say("Ask me")
    stage.ask()
    stage.say("Blue")
    stage.answer("So be it.")
    expect("Blue" in stage.model.texts[-1].rpartition("Which colour?")[2], "the model did not get the answer")


def long_question(stage: Stage) -> None:
    """A person takes half an hour to answer: the call waits, and returns the answer."""
    stage.script(ask_by_tool)
    stage.say("Ask me")
    stage.ask()
    seen = len(stage.model.texts)
    stays(lambda: len(stage.model.texts) == seen, "the call did not wait", LONG_S)
    stage.script(say("So be it."))
    stage.say("Blue")
    stage.answer("So be it.")
    expect("Blue" in stage.model.texts[-1].rpartition("Which colour?")[2], "the model did not get the answer")


def stop_text(stage: Stage) -> None:
    stage.script(BEGIN)
    stage.say("Tell me a story")
    until(lambda: any("Once upon" in line["text"] for line in stage.seen()), "the beginning of the text")
    stage.say("/stop")
    stage.ends(1, "cancelled")
    stage.goes_on()


def stop_command(stage: Stage) -> None:
    words = f"sleep 98{abs(hash(str(stage.gateway.home))) % 10_000_000}"
    stage.script(command(f"{words} & {words}"))
    stage.say("Go")
    stage.allow_if_asked(lambda: len(running(words)) == 2)
    stage.say("/stop")
    stage.ends(1, "cancelled")
    until(lambda: not running(words), "the end of the command", LATE_S)
    stage.goes_on()


def steer(stage: Stage) -> None:
    words = "take the short way"
    begun, released = stage.file(), stage.file("-released")
    wait = f"touch {begun.name}; while [ ! -e {released.name} ]; do sleep 0.2; done"
    long_way = say("The long way.")
    stage.script(
        lambda text: (
            say("Short it is.") if words in text else long_way if released.exists() else command(wait)
        )
    )
    stage.say("Go")
    stage.allow_if_asked(begun.exists)
    stage.say(words)
    until(lambda: not stage.gateway.waiting(stage.place), "the message's way into the turn", LATE_S)
    released.touch()
    stage.answer("Short it is.")
    expect(stage.count_turns() == 1, "it became a turn of its own")


def engine_killed(stage: Stage) -> None:
    _begin_to_remember(stage)
    stage.gateway.kill_engine()
    _remember(stage)


def gateway_killed(stage: Stage) -> None:
    _begin_to_remember(stage)
    stage.gateway.kill()
    stage.gateway.start()
    _remember(stage)


def _begin_to_remember(stage: Stage) -> None:
    """One turn ends; the next one is in the middle of its text."""
    stage.script(say("Noted."))
    stage.say(f"Remember: {WORD}")
    stage.answer("Noted.")
    stage.script(BEGIN)
    stage.say("Tell me a story")
    until(lambda: any("Once upon" in line["text"] for line in stage.seen()), "the beginning of the text")


def _remember(stage: Stage) -> None:
    asked = "And the word?"
    known = say("I remember."), say("I have forgotten.")
    stage.script(lambda text: known[WORD not in text] if asked in text else say("A story."))
    stage.say(asked)
    stage.answer("I ")
    expect(not any("forgotten" in line["text"] for line in stage.seen()), "the session was lost")
    stage.answer("I remember.")


def ask_over_restart(stage: Stage) -> None:
    stage.writes_once()
    stage.say("Go")
    ask = stage.ask()
    stage.gateway.kill()
    expect(not stage.file().exists(), "it ran before it was allowed")
    stage.gateway.start()
    stage.decide("allow", ask)
    stage.answer("All done.")
    expect(stage.file().read_text() == "once\n", "it did not run once")


def image(stage: Stage) -> None:
    file = stage.gateway.home / "dot.png"
    file.write_bytes(base64.b64decode(PNG))
    stage.script(lambda text: say("A dot." if PNG[:60] in text else "No picture."))
    stage.say("What is this?", file)
    stage.answer("")
    stage.answer("A dot.")


def failing(move: Move, *kinds: str, stage: Stage) -> None:
    """The turn fails with one of these kinds, and the conversation goes on."""
    stage.script(move)
    stage.say("Go")
    kind = stage.failure()
    expect(kind in kinds, f"the failure is {kind or 'none'}, not {' or '.join(kinds)}")
    stage.script(say("Later."))
    stage.say("/stop")
    stage.goes_on()


def shutdown(stage: Stage) -> None:
    """The gateway ends while an engine is warm and a command runs: nothing of them is left."""
    begun = stage.file()
    stage.script(command(f"touch {begun.name}; sleep 977"))
    stage.say("Go")
    stage.allow_if_asked(begun.exists)
    stage.gateway.stop()


def _fails(move: Move, *kinds: str) -> Callable[[Stage], None]:
    return lambda stage: failing(move, *kinds, stage=stage)


SCENARIOS: Mapping[str, Callable[[Stage], None]] = {
    "approve": approve,
    "deny": deny,
    "deny-with-reason": deny_with_reason,
    "always": always,
    "question": question,
    "stop-text": stop_text,
    "stop-command": stop_command,
    "steer": steer,
    "engine-killed": engine_killed,
    "gateway-killed": gateway_killed,
    "ask-over-restart": ask_over_restart,
    "image": image,
    "401": _fails(fail(401), "auth"),
    "429": _fails(fail(429), "rate_limit", "quota"),
    "500": _fails(fail(500), "overloaded", "transport"),
    "overflow": _fails(OVERFLOW, "context_overflow"),
    "dropped-stream": _fails(DROP, "transport"),
    "shutdown": shutdown,
    "long-question": long_question,
}
UNASKED = frozenset({"long-question"})
"""Scenarios that last so long that they are played only by name."""
