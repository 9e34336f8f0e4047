"""The checks of `pilothouse doctor` about engines, channels and the service. Each one tries what it reports.

Nothing is repeated from an earlier run: a trouble that a gateway noted counts only while that gateway runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from pilothouse.bootstrap.engine_reports import survey_enabled
from pilothouse.cli.channels import (
    channel_findings,
    channel_identity,
    channel_problem,
    channel_trouble,
    is_left_to_chat,
    is_served,
)
from pilothouse.cli.doctor_store import Check, State
from pilothouse.cli.engines import engine_problem
from pilothouse.cli.service import find_system, foreground_gateway
from pilothouse.cli.status import ONLY_CHAT
from pilothouse.config import AUTO, Adapter, Config
from pilothouse.core.channel import ChannelSpec
from pilothouse.core.engine import EngineSpec, EngineStatus
from pilothouse.core.errors import PilothouseError
from pilothouse.isolation.canaries import describe_proof
from pilothouse.plugins import Broken, Plugins
from pilothouse.runtime.engine_report import EngineReport

SCRIPTED = "script"
NOT_TRIED = "not tried, because a message to it may cost a little"
TRY_MODEL = "pilothouse doctor --model"


def check_engines(plugins: Plugins, config: Config, *, model: bool = False) -> Iterator[Check]:
    """Warns of an engine that does not work; it is broken only if it is the default, or no real engine works."""
    found = survey_enabled(plugins, config)
    real = any(one.status.available for one in found if one.id != SCRIPTED)
    wanted = config.gateway.default_engine
    chosen = SCRIPTED if wanted == AUTO and not real else wanted
    for one in found:
        name, status = one.id, one.status
        bad: State = "broken" if name == chosen or (wanted == AUTO and name != SCRIPTED) else "warn"
        state: State = "ok" if status.available else "broken" if name == chosen else "warn"
        works = (status.version or "works", status.note, describe_proof(name, status.version))
        text = status.problem or " · ".join(filter(None, works))
        yield Check(f"engine {name}", state, text, status.fix)
        if status.available and (engine := config.engines.get(name)) is not None:
            yield from _check_working(one, plugins.engine(name), engine, bad, model=model)
    if chosen == SCRIPTED and wanted == AUTO:
        fix = next((one.status.fix for one in found if one.status.fix), "")
        yield Check("engines", "warn", "no real engine works here, so the scripted demo answers", fix)


def _check_working(
    one: EngineReport, spec: EngineSpec, engine: Adapter, bad: State, *, model: bool
) -> Iterator[Check]:
    """Checks what an installed engine needs besides its program: its gate, its login, its model."""
    if problem := engine_problem(spec, engine):
        yield Check(f"engine {one.id}", bad, problem)
    if one.login is not None:
        yield _from_status(f"login {one.id}", one.login, bad)
        if not one.login.available:
            return
    if spec.try_model is None:
        return
    if model:
        yield _from_status(f"model {one.id}", spec.try_model(engine.settings), bad)
    else:
        yield Check(f"model {one.id}", "off", NOT_TRIED, TRY_MODEL)


def _from_status(name: str, status: EngineStatus, bad: State) -> Check:
    return Check(name, "ok" if status.available else bad, status.problem or status.version, status.fix)


def check_channels(plugins: Plugins, config: Config) -> Iterator[Check]:
    """Asks each platform who we are, which tries the token and the network."""
    for row in plugins.channels():
        channel = config.channels.get(row.name)
        if isinstance(row, Broken) or channel is None or not channel.enabled:
            continue
        name = f"channel {row.name}"
        if problem := channel_problem(row.spec, channel):
            yield Check(name, "broken", problem)
            continue
        met = channel_identity(row.spec, channel)
        if met.problem:
            yield Check(name, "broken", met.problem)
            continue
        if is_left_to_chat(row.name):
            yield Check(name, "warn", ONLY_CHAT)
            continue
        if met.idle:
            yield _check_idle(name, row.spec, met.idle)
            continue
        found = [Check(name, "warn", one.text, one.fix) for one in channel_findings(row.spec, channel)]
        if trouble := channel_trouble(row.spec.id):
            fix = f"if it stays, restart the gateway: {_restart()}"
            found.append(Check(name, "warn", f"the running gateway reports: {trouble}", fix))
        title = f"{row.spec.title}: {met.name} answers" if met.name else row.spec.title
        yield from found or [Check(name, "ok", title)]


def _check_idle(name: str, spec: ChannelSpec, tried: str) -> Check:
    """Checks a channel that nobody answers for: fine unless a gateway runs that should."""
    if is_served():
        trouble = channel_trouble(spec.id)
        why = f"; it reports: {trouble}" if trouble else ""
        return Check(name, "broken", f"the gateway runs, but {tried}{why}", _restart())
    return Check(name, "ok", f"{spec.title}: {tried}")


def _restart() -> str:
    """Returns what restarts the gateway."""
    if (found := foreground_gateway()) is not None:
        return f"kill {found.info.pid}, then pilothouse up"
    is_in_service = any(check.state == "ok" for check in check_service())
    return "pilothouse service install, which restarts it" if is_in_service else "pilothouse up"


def check_service() -> Iterator[Check]:
    try:
        state = find_system(sys.platform, os.environ).state()
    except PilothouseError:
        return
    if not state.installed:
        text = "not installed, so the gateway ends when its terminal closes"
        yield Check("service", "off", text, state.fix)
    else:
        yield Check("service", "ok" if state.running else "warn", state.text, state.fix)
