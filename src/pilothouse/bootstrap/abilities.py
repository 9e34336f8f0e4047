"""Abilities of each engine.

The abilities are read from the engine's own classes, by the same protocols that the gateway finds with `isinstance`; so no
list can promise what an adapter lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from pilothouse.core.engine import (
    Answerable,
    EngineSpec,
    Forks,
    Interruptible,
    ListsCommands,
    ListsModels,
    ListsSessions,
    Steerable,
    Wakes,
)
from pilothouse.runtime.engine_report import Has

Test = Callable[[EngineSpec, type, type], bool]


class Ability(Struct, frozen=True):
    """`means` is a sentence for the documentation; `has` is given the spec, the engine's class and its session's."""

    means: str
    has: Test


def _on_session(protocol: type) -> Test:
    return lambda _spec, _engine, session: issubclass(session, protocol)


def _on_engine(protocol: type) -> Test:
    return lambda _spec, engine, _session: issubclass(engine, protocol)


ABILITIES: Mapping[str, Ability] = {
    "steer": Ability("a message reaches the running turn", _on_session(Steerable)),
    "interrupt": Ability("`/stop` ends the turn and keeps the session", _on_session(Interruptible)),
    "ask": Ability("approvals and questions reach people", _on_session(Answerable)),
    "images": Ability(
        "images reach the model as they are",
        lambda _s, _e, session: getattr(session, "accepts_images", False),
    ),
    "resume": Ability("a session goes on after a restart", lambda _s, engine, _x: hasattr(engine, "open")),
    "fork": Ability("`/resume ID at` goes back to an earlier message", _on_engine(Forks)),
    "sessions": Ability("`/sessions` lists those begun elsewhere", _on_engine(ListsSessions)),
    "terminal": Ability(
        "a session moves to a terminal and back by a line", lambda spec, _e, _x: spec.resume_lines is not None
    ),
    "commands": Ability("`/help` lists its own commands, and passes them on", _on_engine(ListsCommands)),
    "models": Ability("`/model` lists its models", _on_engine(ListsModels)),
    "watch": Ability(
        "`pilothouse watch` shows a session that runs elsewhere",
        lambda spec, _e, _x: spec.find_logs is not None,
    ),
    "replay": Ability(
        "`pilothouse replay` reads its recorded output", lambda spec, _e, _x: spec.translator is not None
    ),
    "wakes": Ability("it may begin a turn by itself", _on_engine(Wakes)),
}


def abilities_of(spec: EngineSpec) -> dict[str, Has]:
    """Return what an engine can do; empty if its classes are not known. Loads the engine's code."""
    if spec.classes is None:
        return {}
    engine, session = spec.classes()
    return {
        name: "some" if name in spec.varies else "yes" if ability.has(spec, engine, session) else "no"
        for name, ability in ABILITIES.items()
    }
