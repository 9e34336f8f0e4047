"""The findings of `doctor` about jails: whether they can be made here, where they are wanted, and what they would break."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

from pilothouse.bootstrap.agent_processes import make_jails
from pilothouse.cli.doctor_store import Check
from pilothouse.config import ConfigHolder, Loaded, isolation_in
from pilothouse.core.isolation import Isolation, Kind
from pilothouse.isolation.canaries import AS_ROOT, find_proof, read_proofs
from pilothouse.isolation.cgroup import find_bases
from pilothouse.isolation.jail import Jails
from pilothouse.isolation.limits import bounds_of, describe_limits
from pilothouse.isolation.profile import is_within
from pilothouse.isolation.runtime import INSTALL as INSTALL_RUNTIME
from pilothouse.isolation.runtime import find_runtime
from pilothouse.isolation.support import INSTALL, MISSING, find_support
from pilothouse.isolation.system import is_system

UNUSED = 'no agent is jailed: isolation = "none" is configured'
PROVED = "jails can be made here; proved with {engines}"
CONTAINERS = "containers can be made here with {program}; not proved with any engine"
LIMITS_FIX = "pilothouse service install, so that control groups hold the limits: docs/isolation.md"
ABSENT = "commands in {folders} are absent inside"
LOGINS = (
    ("Claude Code on Bedrock", ".aws", "CLAUDE_CODE_USE_BEDROCK"),
    ("Claude Code on Vertex", ".config/gcloud", "CLAUDE_CODE_USE_VERTEX"),
    ("git push by ssh", ".ssh", ""),
    ("git push by a credential helper", ".git-credentials", ""),
    ("git push by gh", ".config/gh", ""),
)
"""Each with its place below the home folder, and the variable that switches it on."""


def check_isolation(loaded: Loaded, trusted: Sequence[tuple[str, bool]] = ()) -> Iterator[Check]:
    """Yield a line about jails, and one for each workspace that wants one and cannot have it, or would miss something.

    `trusted` are the trusted folders, each with whether a jail was chosen for it: "auto" jails no other of them."""
    places = _confined_places(loaded)
    kinds = {isolation_in(loaded, place).kind for place in places} | {loaded.config.isolation.kind}
    problem = find_support().problem if kinds & {"jail", "auto"} else ""
    if kinds & {"jail", "auto"}:
        yield from _check_jails(loaded, kinds, problem)
    elif "container" not in kinds:
        yield Check("isolation", "off", UNUSED)
    if loaded.config.isolation.kind == "container" and not places:
        yield _check_container(loaded)
    jails = make_jails(ConfigHolder(loaded, lambda: loaded), _no_log)
    open_ones = {folder for folder, chosen in trusted if not chosen}
    for place in places:
        kind = isolation_in(loaded, place).kind
        if kind == "auto" and (place in open_ones or os.geteuid() == 0):
            continue
        if kind == "container" or not problem:
            yield from _check_place(loaded, jails, place)


def _check_jails(loaded: Loaded, kinds: AbstractSet[Kind], problem: str) -> Iterator[Check]:
    """Tell whether jails can be made here. Where they are only automatic, nothing breaks if they cannot."""
    if "jail" not in kinds and os.geteuid() == 0:
        yield Check("isolation", "off", f"no agent is jailed: {AS_ROOT}")
    elif problem:
        refuses = loaded.config.isolation.when_missing == "refuse" and "jail" in kinds
        helps = "jail" in kinds or problem == MISSING
        fix = INSTALL if problem == MISSING else "read docs/isolation.md"
        state = "broken" if refuses else "warn" if helps else "off"
        yield Check("isolation", state, f"no agent is jailed: {problem}", fix)
    else:
        proofs = sorted(read_proofs().items())
        engines = ", ".join(
            f"{name} {proof.version}".strip() for name, proof in proofs if find_proof(name, "open")
        )
        yield Check("isolation", "ok", PROVED.format(engines=engines or "no engine"))
        yield _check_limits(loaded, wanted="jail" in kinds)


def _check_limits(loaded: Loaded, *, wanted: bool) -> Check:
    """The limits of a workspace without settings of its own. Limits that do not hold are a warning where somebody wanted jails."""
    bounds = bounds_of(Isolation("jail", limits=loaded.config.isolation.limits))
    text, whole = describe_limits(bounds, find_bases(), is_root=os.geteuid() == 0)
    return Check("limits", "warn" if wanted and not whole else "ok", f"a jail has {text}", LIMITS_FIX)


def _check_container(loaded: Loaded) -> Check:
    runtime = find_runtime(isolation_in(loaded, "/").container)
    if runtime.problem:
        return Check("isolation", "broken", runtime.problem, INSTALL_RUNTIME)
    return Check("isolation", "ok", CONTAINERS.format(program=runtime.program))


def _confined_places(loaded: Loaded) -> list[str]:
    config = loaded.config
    places = [config.gateway.default_workspace, *(row.path for row in config.workspaces.values())]
    real = dict.fromkeys(os.path.realpath(os.path.expanduser(place)) for place in places if place)
    return [place for place in real if isolation_in(loaded, place).confines]


def _check_place(loaded: Loaded, jails: Jails, place: str) -> Iterator[Check]:
    if problem := jails.look(place):
        state = "warn" if isolation_in(loaded, place).kind == "auto" else "broken"
        yield Check("isolation", state, problem, f"change isolation of {place}")
        return
    isolation = isolation_in(loaded, place)
    if isolation.kind == "container":
        program = jails.runtime(isolation.container).program
        yield Check("isolation", "ok", f"{place}: {CONTAINERS.format(program=program)}")
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
    wanted = [*find_logins(os.environ), *_server_paths(loaded)]
    hidden = [(what, path) for what, path in wanted if not _is_shown(path, shown)]
    if hidden:
        text = f"{place}: absent inside are {', '.join(f'{path} ({what})' for what, path in hidden)}"
        yield Check("isolation", "warn", text, "add to allow_read what agents there may read")


def _is_shown(path: str, shown: Sequence[str]) -> bool:
    real = os.path.realpath(path)
    return is_system(real) or any(is_within(real, os.path.realpath(one)) for one in shown)


def find_logins(environ: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the logins of this machine that a jail hides, each with the path that it is in. Those that fail inside for another
    reason, such as a keyring, are in docs/isolation.md."""
    home = environ.get("HOME") or os.path.expanduser("~")
    found = [
        (what, os.path.join(home, name))
        for what, name, variable in LOGINS
        if not variable or environ.get(variable)
    ]
    found += [("apiKeyHelper of Claude Code", path) for path in _key_helper(environ, home)]
    return [(what, path) for what, path in found if os.path.exists(path)]


def _key_helper(environ: Mapping[str, str], home: str) -> list[str]:
    """Return the paths that the command names."""
    folder = environ.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude")
    try:
        settings = json.loads(Path(folder, "settings.json").read_bytes())
        words = shlex.split(str(settings.get("apiKeyHelper") or ""))
    except (OSError, ValueError, AttributeError):
        return []
    told = [re.sub(r"^~(?=/)", home, word) for word in words]
    return [word for word in told if os.path.isabs(word)]


def _server_paths(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """Yield the folders that the configured MCP servers run in, or load their code from. The file of a program is shown by itself."""
    for name, server in loaded.config.mcp.servers.items():
        if server.transport != "stdio":
            continue
        files = [word for word in server.args if os.path.isabs(word) and os.path.isfile(word)]
        folders = [os.path.expanduser(server.cwd), *map(os.path.dirname, files)]
        for folder in dict.fromkeys(one for one in folders if os.path.isabs(one)):
            yield f"the MCP server {name}", folder


def _no_log(_event: str, **_fields: object) -> None:
    """Drop the entry: nothing is started here."""
