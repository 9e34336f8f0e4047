"""Keyboards that tests send."""

from msgspec import Struct


class Button(Struct, frozen=True, omit_defaults=True):
    text: str
    callback_data: str | None = None
    url: str | None = None


class Keyboard(Struct, frozen=True):
    inline_keyboard: tuple[tuple[Button, ...], ...]


def keyboard(*buttons: Button) -> Keyboard:
    """One row."""
    return Keyboard((buttons,))
