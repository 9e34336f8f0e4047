"""`pilothouse engines`: lists the engines, whether they work here, their models, and what each can do."""

from __future__ import annotations

from collections.abc import Sequence

import click

from pilothouse.bootstrap.configuration import load_checked
from pilothouse.bootstrap.engine_reports import in_full, survey
from pilothouse.cli.options import json_option
from pilothouse.cli.table import print_json, print_table
from pilothouse.config import Adapter
from pilothouse.core.engine import EngineSpec
from pilothouse.isolation.canaries import describe_proof
from pilothouse.plugins import Plugins
from pilothouse.runtime.engine_report import EngineReport, state_line

SHOWN = ("steer", "interrupt", "ask", "images", "resume", "fork")
"""Abilities that are listed here; the documentation has all."""
MODELS_SHOWN = 6


@click.command("engines")
@json_option
def command(as_json: bool) -> None:
    """List the engines: whether they work here, their models, and what each can do."""
    plugins = Plugins()
    loaded = load_checked(plugins)
    found = [
        in_full(plugins, loaded.config, loaded.paths.state_dir, one) for one in survey(plugins, loaded.config)
    ]
    if as_json:
        print_json([document(one) for one in found])
        return
    cells = [(one.id, one.status.version or "-", state_line(one)) for one in found]
    print_table(("ENGINE", "VERSION", "STATE"), cells, "no engine is installed", wrap=True)
    print()
    known = [one for one in found if one.can or one.models]
    jails = [(one.id, describe_proof(one.id, one.status.version)) for one in found]
    print_table(("ENGINE", "IN A JAIL"), jails, wrap=True)
    print()
    print_table(("ENGINE", "CAN"), [(one.id, _can(one)) for one in known], wrap=True)
    print()
    print_table(("ENGINE", "MODELS"), [(one.id, _models(one.models)) for one in known], wrap=True)


def document(one: EngineReport) -> dict[str, object]:
    """Returns the report as JSON. `logged_in` is null where nothing can be said."""
    status, login = one.status, one.login
    return {
        "id": one.id,
        "title": one.title,
        "available": status.available,
        "version": status.version,
        "problem": status.problem,
        "fix": status.fix,
        "note": status.note,
        "logged_in": None if login is None else login.available,
        "login": "" if login is None else login.problem or login.version,
        "login_fix": "" if login is None else login.fix,
        "models": list(one.models),
        "can": one.can,
        "jail": describe_proof(one.id, status.version),
        "package": one.package,
    }


def _can(one: EngineReport) -> str:
    shown = [
        f"{name} (some programs)" if one.can[name] == "some" else name for name in SHOWN if _has(one, name)
    ]
    return ", ".join(shown) or "-"


def _has(one: EngineReport, name: str) -> bool:
    return one.can.get(name, "no") != "no"


def _models(models: Sequence[str]) -> str:
    more = f", … {len(models) - MODELS_SHOWN} more" if len(models) > MODELS_SHOWN else ""
    return f"{', '.join(models[:MODELS_SHOWN])}{more}" if models else "the one that its program is set to"


def engine_problem(spec: EngineSpec, engine: Adapter) -> str:
    """Returns what the engine's longer check finds wrong; empty if nothing."""
    try:
        return spec.examine(engine.settings) if spec.examine else ""
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return f"its check failed: {type(error).__name__}: {error}"
