"""`pilothouse service`: keeps `pilothouse up` running as a service of the operating system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from pilothouse.bootstrap.configuration import models_of
from pilothouse.bootstrap.machine import is_alive, tilde
from pilothouse.bootstrap.service import KEPT_NAMES, Run, ServiceSystem, make_service, run_command
from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.channels import channel_problem
from pilothouse.cli.errors import BROKEN
from pilothouse.cli.options import json_option
from pilothouse.cli.store import load_plain, read_store
from pilothouse.cli.table import print_json
from pilothouse.config import find_paths, load
from pilothouse.core.errors import ConfigError, PilothouseError
from pilothouse.core.store import Node
from pilothouse.plugins import Broken, Plugins

NOT_INSTALLED = "The service is not installed. To install it: pilothouse service install"
UNSEEN = (
    "The service would not start {channel}: {problem}. A service does not see the variables of your shell; put the value "
    "into {file}."
)
IN_THE_WAY = "`pilothouse up` already runs, pid {pid}. Stop it with Ctrl-C: the service tries again every 10 seconds and then takes over."


@click.group("service")
def command() -> None:
    """Keep the gateway running: after you log out, after a crash, after a reboot."""


@command.command("install")
@click.option("--print", "only_print", is_flag=True, help="Print the service file, and change nothing.")
def install(only_print: bool) -> None:
    """Install and start the service. Run it again after you moved Pilothouse, or changed PATH."""
    system, plain = _system(), load_plain()
    service = make_service(os.environ, plain.paths.log_dir, plain.config.gateway.grace_s)
    if only_print:
        print(f"# {system.file}\n{system.render(service)}", end="")
        return
    if problems := list(unseen_settings(service.environment)):
        raise ConfigError("\n".join(problems))
    told = system.install(service)
    print(f"Installed and started: {tilde(system.file)}")
    for text in told:
        say(text, sys.stdout)
    if (other := foreground_gateway()) is not None:
        say(IN_THE_WAY.format(pid=other.info.pid), sys.stdout)
    say("To see whether it works: pilothouse status", sys.stdout)


@command.command("status")
@json_option
def status(as_json: bool) -> int:
    """Show whether the service runs. Ends with 1 if it does not."""
    state = _system().state()
    if as_json:
        print_json(
            {"installed": state.installed, "running": state.running, "text": state.text, "fix": state.fix}
        )
    else:
        say(f"Service: {state.text}{f' → {state.fix}' if state.fix else ''}", sys.stdout)
    return 0 if state.running else BROKEN


@command.command("logs")
@click.option(
    "-n", "--lines", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many at most."
)
@click.option("-f", "--follow", is_flag=True, help="Go on printing new lines, until Ctrl-C.")
def logs(lines: int, follow: bool) -> int:
    """Show what the service printed. The whole log is the file that `pilothouse config path` names."""
    system = _system()
    if not system.file.exists():
        raise PilothouseError(NOT_INSTALLED)
    argv = system.log_command(lines, follow=follow)
    try:
        return subprocess.run(argv, check=False).returncode
    except OSError as error:
        raise PilothouseError(f"{argv[0]} does not run: {error.strerror}") from error
    except KeyboardInterrupt:  # the way to end --follow
        return 0


@command.command("uninstall")
def uninstall() -> None:
    """Stop the service and remove it. Configuration, store and logs stay."""
    system = _system()
    if not system.file.exists():
        print("The service is not installed.")
        return
    system.uninstall()
    print(f"Stopped and removed: {tilde(system.file)}")


def unseen_settings(environ: Mapping[str, str]) -> Iterator[str]:
    """Names channels that can start here and could not in the service, where only some variables are set."""
    plugins = Plugins()
    models, paths = models_of(plugins), find_paths(os.environ)
    here = load(paths, os.environ, models).config
    kept = {name: text for name, text in os.environ.items() if name in KEPT_NAMES}
    there = load(paths, {**kept, **environ}, models, without_unset=True).config
    for row in plugins.channels():
        channel, in_service = here.channels.get(row.name), there.channels.get(row.name)
        if isinstance(row, Broken) or channel is None or not channel.enabled or in_service is None:
            continue
        problem = channel_problem(row.spec, in_service)
        if problem and not channel_problem(row.spec, channel):
            yield UNSEEN.format(channel=row.name, problem=problem.rstrip("."), file=paths.env_file)


def find_system(platform: str, environ: Mapping[str, str], run: Run = run_command) -> ServiceSystem:
    """Returns systemd or launchd. Raises `PilothouseError` where there is neither."""
    home = Path(environ.get("HOME") or Path.home())
    if platform == "darwin":
        from pilothouse.bootstrap.launchd import Launchd

        return Launchd(home, os.getuid(), run)
    if shutil.which("systemctl", path=environ.get("PATH")):
        from pilothouse.bootstrap.systemd import Systemd

        config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
        return Systemd(config, run)
    raise PilothouseError(
        "This machine has neither systemd nor launchd. Let its own service system run `pilothouse up`, and restart it "
        "when it fails."
    )


def _system() -> ServiceSystem:
    return find_system(sys.platform, os.environ)


def foreground_gateway() -> Node | None:
    """Returns a gateway that holds the store and is not the service."""
    try:
        nodes = read_store(lambda tx: tx.nodes.list()) or []
    except PilothouseError:
        return None
    held = (node for node in nodes if "engines" in node.roles and is_alive(node.info))
    return next((node for node in held if not _is_in_service(node.info.pid)), None)


def _is_in_service(pid: int) -> bool:
    """Recognises a process of a systemd unit by its control group."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as lines:
            return "pilothouse.service" in lines.read()
    except OSError:
        return True
