"""`pilothouse asks`: lists open asks and answers them from the shell.

The user of the shell answers as `terminal:NAME`, an owner, by the same rules as in a chat.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pilothouse.cli.errors import BROKEN
from pilothouse.cli.options import json_option, limit_option
from pilothouse.cli.store import load_plain, read_store, write_store
from pilothouse.cli.table import ago, plain, print_json, print_table
from pilothouse.core.ask import ASK_STATES, Decision, Remember, parse_reply
from pilothouse.core.errors import PilothouseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.core.ask import AskRow
    from pilothouse.core.store import Tx

HEADS = ("ASK", "KIND", "STATE", "ENDS IN", "YES", "WHERE", "WHAT")


@click.group("asks", invoke_without_command=True)
@limit_option
@click.option("--all", "every", is_flag=True, help="Include settled asks.")
@json_option
@click.pass_context
def command(ctx: click.Context, limit: int, every: bool, as_json: bool) -> None:
    """List open asks, newest first, and answer them."""
    if ctx.invoked_subcommand is not None:
        return
    states = ASK_STATES if every else ()
    found = read_store(lambda tx: tx.asks.newest(states=states, limit=limit)) or []
    if as_json:
        print_json([_document(row) for row in found])
        return
    now = time.time()
    print_table(
        HEADS,
        [_line(row, now) for row in found],
        "nothing waits for an answer",
        optional=("KIND", "YES"),
        wrap=True,
    )


@command.command("show")
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show one ask in full: exactly what is asked, and who may answer."""
    from pilothouse.core.people import describe_approvers
    from pilothouse.runtime.asks.text import payload_text

    row = read_store(lambda tx: _find(tx, id))
    if row is None:
        raise PilothouseError(_unknown(id))
    if as_json:
        print_json(_document(row))
        return
    ask = row.ask
    facts = {
        "ask": ask.id,
        "kind": f"{row.subject}, {row.state}",
        "where": row.conversation_id or "-",
        "sha256": ask.payload_hash,
        "needs": describe_approvers(row.authority.approvers) or "the requester, an admin or an owner",
        "yes": ", ".join(vote.by for vote in row.votes) or "-",
        "why": plain(ask.why) or "-",
    }
    print("\n".join(f"{key:<7} {value}" for key, value in facts.items()))
    print(f"\n{_lines(ask.title)}\n\n{_lines(payload_text(ask))}")
    for option in ask.options:
        print(f"  {plain(option.key)}  {plain(option.label)}")


@command.command("allow")
@click.argument("id")
@click.option("--session", "remember", flag_value="session", help="Also for the rest of its session.")
@click.option("--always", "remember", flag_value="always", help="Always in its workspace.")
@json_option
def allow(id: str, remember: Remember | None, as_json: bool) -> None:
    """Say yes."""
    _answer(id, lambda _row: Decision("allow", remember=remember or "once"), as_json)


@command.command("deny")
@click.argument("id")
@click.option("--reason", default="", help="Sent to the engine, which goes on. Without one the turn stops.")
@json_option
def deny(id: str, reason: str, as_json: bool) -> None:
    """Say no."""
    _answer(id, lambda _row: Decision("deny", text=reason), as_json)


@command.command("answer")
@click.argument("id")
@click.argument("words", nargs=-1, required=True, metavar="TEXT|OPTION…")
@json_option
def answer(id: str, words: tuple[str, ...], as_json: bool) -> None:
    """Answer a question: options by number, key or label, or in words."""

    def decide(row: AskRow) -> Decision:
        chosen = [parse_reply(row.ask, word) for word in words]
        if all(one.options for one in chosen):
            return Decision("answer", tuple(dict.fromkeys(key for one in chosen for key in one.options)))
        return parse_reply(row.ask, " ".join(words))

    _answer(id, decide, as_json)


def _answer(id: str, decide: Callable[[AskRow], Decision], as_json: bool) -> None:
    from pilothouse.bootstrap.people import make_approvals, make_people, terminal_user
    from pilothouse.core.ids import EngineId
    from pilothouse.core.message import Author, clean_text
    from pilothouse.policy.tool_class import tool_class
    from pilothouse.runtime.asks.answers import Answer, Answers
    from pilothouse.runtime.clock import new_id
    from pilothouse.runtime.settings import Settings
    from pilothouse.runtime.topics import TOPICS

    config, user = load_plain().config, terminal_user()
    settings = Settings(
        EngineId(""),
        config.gateway.default_workspace,
        people=make_people(config),
        approvals=make_approvals(config),
    )
    answers, by = Answers(settings, new_id, tool_class, TOPICS), Author(user, user.partition(":")[2])

    def unit(tx: Tx) -> tuple[bool, str]:
        row = _find(tx, id)
        if row is None:
            raise PilothouseError(_unknown(id))
        decision = decide(row)
        decision = msgspec.structs.replace(decision, text=clean_text(decision.text))
        taken = answers.take(
            tx, Answer(row.ask.id, row.ask.payload_hash, decision, by, time.time()), tell=True
        )
        return taken.answered.accepted, taken.answered.text

    accepted, text = write_store(unit)
    if as_json:
        print_json({"accepted": accepted, "text": text})
    elif accepted:
        print(plain(text))
    if not accepted and not as_json:
        raise PilothouseError(plain(text))
    if not accepted:
        raise SystemExit(BROKEN)


def _find(tx: Tx, id: str) -> AskRow | None:
    """Finds an ask by its id or an unambiguous beginning of it."""
    from pilothouse.core.ask import matching_asks

    found = matching_asks(tx.asks.find(id) or tx.asks.find(f"ask-{id}"), id)
    if len(found) > 1:
        names = ", ".join(row.ask.id for row in found[:5])
        raise PilothouseError(f"Several asks begin with {id!r}: {names}. Give more of the id.")
    return found[0] if found else None


def _unknown(id: str) -> str:
    return f"There is no ask {id!r}. `pilothouse asks` lists the open ones."


def _document(row: AskRow) -> dict[str, Any]:
    return msgspec.to_builtins(row)


def _line(row: AskRow, now: float) -> tuple[object, ...]:
    ends = (
        "-" if row.ask.expires_at is None or row.state != "open" else ago(max(0.0, row.ask.expires_at - now))
    )
    yes = f"{len(row.votes)} of {row.authority.approvers.quorum}"
    return (
        row.ask.id,
        row.subject,
        row.state,
        ends,
        yes,
        row.conversation_id or "-",
        row.ask.title,
    )


def _lines(text: str) -> str:
    """Replaces control characters in each line."""
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in text.split("\n"))
