"""The engines that are measured. Another one is another module here with a `CONTESTANT`, and a line in `MODULES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.measuring.script import NoBlobs, say_nothing

from pilothouse.core.engine import Engine, EngineHost


class Bare(Protocol):
    """The same program, driven by hand."""

    def turn(self, text: str) -> float:
        """Seconds from the message to the first piece of the answer; read to the turn's end."""
        ...


class Contestant(NamedTuple):
    """`serving` is a scripted model in a process of its own, and gives its address."""

    serving: Callable[[], AbstractContextManager[str]]
    program: Callable[[], str]
    prepare: Callable[[Path, str], None]
    """Make the home of a user in a folder, whose model is at an address. It may import test code: it is not measured."""
    engine: Callable[[Path, str, str], Engine]
    """Given a folder, the model's address and the program."""
    bare: Callable[[Path, str, str], AbstractContextManager[Bare]]


MODULES: Mapping[str, str] = {name: f"bench.hosting.{name}" for name in ("codex", "opencode", "gemini")}


def contestant(name: str) -> Contestant:
    """Import one of them. The others are not imported: their code would count as memory."""
    found = import_module(MODULES[name]).CONTESTANT
    assert isinstance(found, Contestant)
    return found


def host(folder: Path, environment: dict[str, str]) -> EngineHost:
    return EngineHost(NoBlobs(), environment, str(folder), "bench", say_nothing)
