"""Options that several commands share."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):
        return method


class ListGroup(click.Group):
    """A group that lists when it is called alone, or with the word `list`."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args[1:] if args[:1] == ["list"] else args)


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


approval_mode_option = click.option(
    "--approval-mode",
    type=click.Choice(["minimal", "trusted", "full-access"]),
    help="What the agent may do without asking: read, also edit files, or everything.",
)


limit_option = click.option(
    "-n", "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many at most."
)


_SPAN = re.compile(r"(\d{1,6})\s*([smhdw])")
_SPAN_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def parse_since(text: str, now: float) -> float:
    """Parses `90m`, `24h`, `7d`, or an ISO 8601 day or time, local by default. Raises `ValueError`."""
    if span := _SPAN.fullmatch(text.strip().lower()):
        return now - int(span[1]) * _SPAN_S[span[2]]
    return datetime.fromisoformat(text.strip()).timestamp()


def _since(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_since(text, time.time())
    except (ValueError, OverflowError, OSError):
        raise click.BadParameter(f"{text!r} is not a time: write 90m, 24h, 7d, or 2026-11-15.") from None


since_option = click.option(
    "--since", callback=_since, metavar="TIME", help="Only newer than this: 90m, 24h, 7d, or 2026-11-15."
)


class NoContradiction(click.Command):
    """Refuses `--x --no-x`, instead of taking the last one."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = set(args)
        for param in self.params:
            yes, no = given.intersection(param.opts), given.intersection(param.secondary_opts)
            if yes and no:
                ctx.fail(f"{yes.pop()} and {no.pop()} contradict each other; give one of them.")
        return super().parse_args(ctx, args)


def address_of_api(_ctx: click.Context, _param: click.Parameter, text: str) -> str:
    """Checks the address before any question is asked."""
    if text and not re.match(r"https?://\S+$", text):
        raise click.BadParameter(f"{text!r} must begin with https:// or http://")
    return text


trust_option = click.option(
    "--trust/--no-trust",
    "trusts",
    default=None,
    help="Let engines use the folder's own settings, hooks and servers, or not. Remembered.",
)
