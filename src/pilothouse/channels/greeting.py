"""What we say where we were added: how to talk to us there, as short as can be. Shared by every channel with groups."""

from __future__ import annotations

from pilothouse.core.trigger import Trigger, describe_trigger

HELLO = (
    "Hello. Here I react to commands, and to {heard}.{name} /bind chooses the folder that I work in, /trigger what I "
    "react to."
)
MY_NAME = " My name is @{name}."


def greeting(name: str, trigger: Trigger) -> str:
    return HELLO.format(heard=describe_trigger(trigger), name=MY_NAME.format(name=name) if name else "")
