"""`pilothouse asks`: lists open asks and answers them from the shell.

The user of the shell answers as `terminal:NAME`, an owner, by the same rules as in a chat.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pilothouse.cli.errors import BROKEN
from pilothouse.cli.options import ListGroup, json_option, limit_option
from pilothouse.cli.store import load_plain, read_store, write_store
from pilothouse.cli.table import ago, plain, print_json, print_table
from pilothouse.core.ask import ASK_STATES, Decision, Remember, parse_reply
from pilothouse.core.errors import PilothouseError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pilothouse.core.ask import AskRow
    from pilothouse.core.store import Tx

HEADS = ("ASK", "KIND", "RESULT", "ENDS IN", "YES", "WHERE", "WHAT")


@click.group("asks", cls=ListGroup, invoke_without_command=True)
@limit_option
@click.option("--all", "every", is_flag=True, help="Include settled asks.")
@json_option
@click.pass_context
def command(ctx: click.Context, limit: int, every: bool, as_json: bool) -> None:
    """List open asks, newest first, and answer them."""
    if ctx.invoked_subcommand is not None:
        return
    from pilothouse.cli.ask_outcome import outcome

    states = ASK_STATES if every else ()

    def unit(tx: Tx) -> list[tuple[AskRow, str]]:
        return [(row, outcome(tx, row)) for row in tx.asks.newest(states=states, limit=limit)]

    found = read_store(unit) or []
    if as_json:
        print_json([_document(row) for row, _ in found])
        return
    now = time.time()
    print_table(
        HEADS,
        [_line(row, result, now) for row, result in found],
        "No asks yet." if every else "No open asks.",
        optional=("KIND", "YES", "ENDS IN") if every else ("KIND", "YES"),
        wrap=True,
    )


@command.command("show")
@click.argument("id")
@json_option
def show(id: str, as_json: bool) -> None:
    """Show one ask in full: exactly what is asked, who may answer, and how it ended."""
    from pilothouse.cli.ask_outcome import facts
    from pilothouse.core.ask_view import payload_text, remark, whole_headline
    from pilothouse.runtime.asks.outcome import changed_payload

    def unit(tx: Tx) -> tuple[AskRow, dict[str, str]] | None:
        row = _find(tx, id)
        return None if row is None else (row, facts(tx, row, time.time()))

    found = read_store(unit)
    if found is None:
        raise PilothouseError(_unknown(id))
    row, told = found
    if as_json:
        print_json(_document(row))
        return
    from pilothouse.core.text import reveal_hidden

    ask = row.ask
    print("\n".join(f"{key:<7} {value}" for key, value in told.items()))
    words = reveal_hidden(remark(ask))
    print("\n".join(["", whole_headline(ask), *([words] if words else [])]))
    print(f"\n{reveal_hidden(payload_text(ask))}")
    for option in ask.options:
        print(f"  {plain(option.key)}  {plain(option.label)}")
    if changed := changed_payload(row):
        print(f"\nChanged to:\n\n{reveal_hidden(changed)}")


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
    from pilothouse.bootstrap.policy import make_classify
    from pilothouse.core.ids import EngineId
    from pilothouse.core.message import Author, clean_text
    from pilothouse.runtime.asks.answers import Answer, Answers
    from pilothouse.runtime.gateway import TOPICS
    from pilothouse.runtime.ports import new_id
    from pilothouse.runtime.settings import Settings

    loaded, user = load_plain(), terminal_user()
    config = loaded.config
    settings = Settings(
        EngineId(""),
        config.gateway.default_workspace,
        people=make_people(config),
        approvals=make_approvals(config),
    )
    classify = make_classify(loaded.paths, config)
    answers, by = Answers(settings, new_id, classify, TOPICS), Author(user, user.partition(":")[2])

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


def _line(row: AskRow, result: str, now: float) -> tuple[object, ...]:
    from pilothouse.core.ask_view import whole_headline

    ends = (
        "-" if row.ask.expires_at is None or row.state != "open" else ago(max(0.0, row.ask.expires_at - now))
    )
    yes = f"{len(row.votes)} of {row.authority.approvers.quorum}" if row.state == "open" else "-"
    return (
        row.ask.id,
        row.subject,
        result,
        ends,
        yes,
        row.conversation_id or "-",
        whole_headline(row.ask),
    )
