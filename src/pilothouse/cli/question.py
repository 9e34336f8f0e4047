"""Questions on the terminal, by click, that break between words at its width as all else does."""

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
    """What somebody typed, or the default: nothing more than Enter.

    Only a terminal shows what is typed. Of a pipe there is nothing to hide, and hiding would read past it.
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
    """The last column is for the blank before the answer."""
    columns = columns_of(sys.stderr if err else sys.stdout)
    return fit(text, columns and columns - 1) + " "
