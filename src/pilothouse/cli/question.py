"""Questions on the terminal, wrapped at its width."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from pilothouse.bootstrap.terminal_text import columns_of, fit


def ask_for(
    question: str,
    default: str = "",
    *,
    hidden: bool = False,
    value_proc: Callable[[str], Any] | None = None,
) -> Any:
    """Returns what was typed, or the default for an empty line.

    `hidden` applies to a terminal only: hidden input is read from the terminal even if stdin is a pipe.
    """
    shown = f"{question} [{default}]:" if default else f"{question}:"
    return click.prompt(
        _fitted(shown),
        default,
        hidden and sys.stdin.isatty(),
        value_proc=value_proc,
        prompt_suffix="",
        show_default=False,
    )


def ask_yes(question: str, *, default: bool, err: bool = False) -> bool:
    shown = f"{question} [{'Y/n' if default else 'y/N'}]:"
    return click.confirm(_fitted(shown, err=err), default, prompt_suffix="", show_default=False, err=err)


def _fitted(text: str, *, err: bool = False) -> str:
    """Wraps, leaving the last column for the space before the answer."""
    columns = columns_of(sys.stderr if err else sys.stdout)
    return fit(text, columns and columns - 1) + " "
