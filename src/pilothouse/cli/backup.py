"""`pilothouse backup FILE` and `pilothouse restore FILE`."""

from __future__ import annotations

import os
import shlex
import sys
import time
from datetime import datetime
from pathlib import Path

import click

from pilothouse.bootstrap.machine import is_alive, tilde
from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.question import ask_yes
from pilothouse.cli.store import load_plain, read_store, store_and_settings, store_file
from pilothouse.core.errors import ConfigError, PilothouseError
from pilothouse.core.store import Node
from pilothouse.core.text import file_size

SAVED = "Saved {file} ({size}): store, configuration and tokens, verified. Keep it private."
RUNNING = "{name} is running (pid {pid}). Stop it first: Ctrl-C, or `pilothouse service uninstall`. Nothing was changed."
QUESTION = "Replace the store, the configuration and the tokens on this machine? The present ones are kept."


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def command(file: Path, force: bool) -> None:
    """Save the store, the configuration and the tokens in one verified file. The gateway may run meanwhile."""
    from pilothouse.bootstrap.backup import make_backup

    target, plain = file.expanduser().absolute(), load_plain()
    if target.exists() and not force:
        raise ConfigError(f"{target} exists. Name another file, or use --force to replace it.")
    if not target.parent.is_dir():
        raise ConfigError(
            f"There is no folder {target.parent}. Make it: mkdir -p {shlex.quote(str(target.parent))}"
        )
    spec, settings = store_and_settings(plain)
    try:
        make_backup(plain.paths, spec, settings, target)
    except OSError as error:
        raise PilothouseError(f"{target} cannot be written: {error.strerror}. No backup was made.") from error
    size = file_size(target.stat().st_size)
    say(SAVED.format(file=tilde(target), size=size), sys.stdout)


@click.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
def restore_command(file: Path, yes: bool) -> None:
    """Put a backup in place. Needs a stopped gateway; what is there now is kept in a folder beside the store."""
    from pilothouse.bootstrap.restore import restore_backup

    source, plain = file.expanduser().absolute(), load_plain()
    if not source.is_file():
        raise ConfigError(f"There is no file {source}.")
    place = store_file(plain.config.store)
    if place is None:
        raise ConfigError(
            f"The store {plain.config.store.id} cannot be restored by Pilothouse. Use its own tools."
        )
    if (node := _running(time.time())) is not None:
        raise PilothouseError(RUNNING.format(name=node.info.name, pid=node.info.pid))
    if not yes and not ask_yes(QUESTION, default=False):
        print("Nothing was changed.")
        return
    spec, settings = store_and_settings(plain)
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")  # noqa: DTZ005 - a name for people
    try:
        restored = restore_backup(source, plain.paths, spec, settings, place, stamp)
    except OSError as error:
        raise PilothouseError(f"The backup cannot be put in place: {error}") from error
    made = datetime.fromtimestamp(restored.manifest.made_at).astimezone().strftime("%Y-%m-%d %H:%M")
    print(f"Restored the backup of {made}.")
    if restored.replaced is not None:
        print(f"The files that were there before are in {tilde(restored.replaced)}")
    wanted = store_file(load_plain().config.store)
    if wanted is not None and wanted != place:
        move = f"mv {shlex.quote(str(place))}* {shlex.quote(str(wanted.parent))}/"
        say(f"The restored configuration keeps its store elsewhere: {move}", sys.stdout)
    say("Next: pilothouse doctor", sys.stdout)


def _running(now: float) -> Node | None:
    """Returns a process that uses the store. Without a store that can be read there is nobody to disturb."""
    try:
        nodes = read_store(lambda tx: tx.nodes.list()) or []
    except PilothouseError:
        return None
    return next((node for node in nodes if _is_in_use(node, now)), None)


def _is_in_use(node: Node, now: float) -> bool:
    """A process of this machine is looked for; one of another machine counts while its lease lasts."""
    alive = is_alive(node.info)
    return node.info.pid != os.getpid() and (node.lease_until > now if alive is None else alive)
