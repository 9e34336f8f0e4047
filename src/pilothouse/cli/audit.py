"""`pilothouse audit` lists who did what; `pilothouse audit verify` detects changes to that list."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path

import click
import msgspec

from pilothouse.bootstrap.audit_heads import heads_file, parse_head, read_heads, render_head
from pilothouse.bootstrap.terminal_text import columns_of, say
from pilothouse.cli.errors import BROKEN, say_error
from pilothouse.cli.options import ListGroup, json_option, limit_option, since_option
from pilothouse.cli.store import NOTHING_YET, load_plain, read_store
from pilothouse.cli.table import plain, print_json, print_table
from pilothouse.core.audit import AuditHead, AuditRow, Verified
from pilothouse.core.store import Tx
from pilothouse.runtime.facts import STORE_NAME

HEADS = ("ROW", "TIME", "WHO", "WHAT", "DETAIL")
OLDER = "{count} older {rows} not shown: -n 1000 shows more, --since 7d all of a week."
ALL = 2**62
ROOMY = 80
"""With fewer columns the year is left out, to make room for the details."""


@click.group("audit", cls=ListGroup, invoke_without_command=True)
@limit_option
@since_option
@json_option
@click.pass_context
def command(ctx: click.Context, limit: int, since: float | None, as_json: bool) -> None:
    """List who was let in or refused, who asked and answered, what ran and why; newest first.

    With --since, everything since then.
    """
    if ctx.invoked_subcommand is not None:
        return
    wanted = limit if since is None else ALL
    rows, older = read_store(lambda tx: _list(tx, wanted, since)) or ([], 0)
    if as_json:
        print_json([_plain(row) for row in rows])
        return
    columns = columns_of(sys.stdout)
    form = "%Y-%m-%d %H:%M:%S" if columns is None or columns >= ROOMY else "%m-%d %H:%M:%S"
    print_table(HEADS, [_cells(row, form) for row in rows], NOTHING_YET, wrap=True, whole=HEADS[1:-1])
    if older:
        say(OLDER.format(count=f"{older:,}", rows="row" if older == 1 else "rows"))


def _list(tx: Tx, limit: int, since: float | None) -> tuple[list[AuditRow], int]:
    """Returns the newest rows, and how many older ones `limit` left out."""
    rows = tx.audit.list(limit=limit, since=since)
    return rows, tx.audit.head().seq - len(rows) if since is None else 0


@command.command("verify")
@click.option(
    "--head", "told", multiple=True, metavar="N:HASH", help="A head that you noted; may be repeated."
)
@click.option(
    "--heads", "file", type=click.Path(path_type=Path), help="The file of noted heads, or a copy of it."
)
@json_option
def verify_command(told: tuple[str, ...], file: Path | None, as_json: bool) -> int:
    """Find any edit, deletion, insertion or reorder in the audit log. Ends with 1 if there is one."""
    given = [parse_head(text) for text in told]
    found = read_store(lambda tx: _verify(tx, given, file))
    verified, noted = found or (Verified(0, AuditHead()), 0)
    if as_json:
        print_json({**msgspec.to_builtins(verified), "intact": verified.intact, "noted_heads": noted})
    elif verified.intact:
        print(f"Intact: {verified.rows} rows, {noted} noted heads agree.")
        print(f"Head: {render_head(verified.head)}")
    else:
        kept = (
            f"Rows 1 to {verified.rows} are unchanged." if verified.rows else "No earlier row is unchanged."
        )
        say_error(f"The audit log was changed: {verified.why}. {kept}")
    return 0 if verified.intact else BROKEN


def _verify(tx: Tx, given: list[AuditHead], file: Path | None) -> tuple[Verified, int]:
    kept = file or heads_file(load_plain().paths.state_dir, tx.get_fact(STORE_NAME) or "")
    noted = [*given, *read_heads(kept)]
    return tx.audit.verify(noted), len(noted)


def _plain(row: AuditRow) -> dict[str, object]:
    return {**msgspec.to_builtins(row), "detail": _detail(row)}


def _detail(row: AuditRow) -> dict[str, object]:
    """Decodes the detail; an older version wrote plain text."""
    try:
        found = msgspec.json.decode(row.detail) if row.detail else {}
    except msgspec.DecodeError:
        found = None
    return found if isinstance(found, dict) else {"text": row.detail}


def _cells(row: AuditRow, form: str) -> tuple[object, ...]:
    when = datetime.fromtimestamp(row.at).astimezone().strftime(form)
    told = "  ".join(f"{key}={plain(value)}" for key, value in _detail(row).items())
    return row.seq, when, row.who, row.what, told
