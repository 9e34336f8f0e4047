"""What `doctor` says about jails: whether they can be made here, where they are wanted, and what they would break."""

from __future__ import annotations

import os
from collections.abc import Iterator

from pilothouse.bootstrap.isolation import make_jails
from pilothouse.cli.doctor_store import Check
from pilothouse.config import ConfigHolder, Loaded, isolation_in
from pilothouse.isolation.canaries import read_proofs
from pilothouse.isolation.choice import AS_ROOT
from pilothouse.isolation.jail import Jails
from pilothouse.isolation.profile import is_within
from pilothouse.isolation.support import INSTALL, MISSING, find_support
from pilothouse.isolation.system import is_system

UNUSED = "no workspace is jailed; jails can be made here"
PROVED = "jails can be made here; proved with {engines}"
GIT_SETTINGS = "~/.gitconfig"
NO_AUTHOR = "{file} is absent inside, so commits have no author unless the repository names one"
ABSENT = "commands in {folders} are absent inside"


def check_isolation(loaded: Loaded) -> Iterator[Check]:
    """Yield a line about jails, and one for each workspace that wants one and cannot have it, or would miss something."""
    support, places = find_support(), _jailed_places(loaded)
    if not places and loaded.config.isolation.kind == "none":
        problem = support.problem
        yield Check("isolation", "off", f"no workspace is jailed. {problem}" if problem else UNUSED)
        return
    if support.problem:
        state = (
            "broken"
            if loaded.config.isolation.when_missing == "refuse" and _wants_jail(loaded, places)
            else "warn"
        )
        fix = INSTALL if support.problem == MISSING else "read docs/isolation.md"
        yield Check("isolation", state, support.problem, fix)
        return
    engines = ", ".join(name for name, proof in sorted(read_proofs().items()) if proof.holds)
    yield Check("isolation", "ok", PROVED.format(engines=engines or "no engine"))
    if os.geteuid() == 0 and not _wants_jail(loaded, places):
        yield Check(
            "isolation",
            "warn",
            f'isolation = "auto" makes no jail: {AS_ROOT}',
            "run Pilothouse as another user",
        )
    jails = make_jails(ConfigHolder(loaded, lambda: loaded), _no_log)
    for place in places:
        yield from _check_place(loaded, jails, place)


def _jailed_places(loaded: Loaded) -> list[str]:
    config = loaded.config
    places = [config.gateway.default_workspace, *(row.path for row in config.workspaces.values())]
    real = dict.fromkeys(os.path.realpath(os.path.expanduser(place)) for place in places if place)
    return [place for place in real if isolation_in(loaded, place).confines]


def _wants_jail(loaded: Loaded, places: list[str]) -> bool:
    """Tell whether something does not start without a jail."""
    kinds = {loaded.config.isolation.kind, *(isolation_in(loaded, place).kind for place in places)}
    return bool(kinds - {"none", "auto"})


def _check_place(loaded: Loaded, jails: Jails, place: str) -> Iterator[Check]:
    if problem := jails.problem(place):
        state = "warn" if isolation_in(loaded, place).kind == "auto" else "broken"
        yield Check("isolation", state, problem, f"change isolation of {place}")
        return
    isolation = isolation_in(loaded, place)
    shown = (place, *isolation.allow_read, *isolation.allow_write)
    absent = [
        folder
        for folder in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep))
        if os.path.isdir(folder)
        and not is_system(folder)
        and not any(is_within(folder, one) for one in shown)
    ]
    if absent:
        text = f"{place}: {ABSENT.format(folders=', '.join(absent))}"
        yield Check("isolation", "warn", text, "add their folders to allow_read")
    settings = os.path.expanduser(GIT_SETTINGS)
    if os.path.isfile(settings) and not any(is_within(settings, one) for one in shown):
        text = f"{place}: {NO_AUTHOR.format(file=GIT_SETTINGS)}"
        yield Check("isolation", "warn", text, f"add {GIT_SETTINGS} to allow_read")


def _no_log(_event: str, **_fields: object) -> None:
    """Nothing is started here."""
