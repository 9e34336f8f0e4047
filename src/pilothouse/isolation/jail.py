"""Puts a jail around a process that starts for an agent, by the settings of its workspace.

Rules: a process without a workspace runs no agent, and is started as it is. Where a jail is wanted and cannot be made,
nothing starts, unless the operator chose otherwise; then it is logged and told.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import anyio.to_thread
import msgspec

from pilothouse.core.engine import ProcessStart
from pilothouse.core.isolation import OPEN, Container, Isolation, Kind, Needs
from pilothouse.isolation.canaries import AS_ROOT, find_proof, reason_for_none
from pilothouse.isolation.cgroup import Bases, enter_words, find_bases, open_group
from pilothouse.isolation.contained import contain, container_name, note_container, remove_noted
from pilothouse.isolation.container import Runtime
from pilothouse.isolation.container_files import ENGINE
from pilothouse.isolation.host_answers import AskPeople, HostAnswers
from pilothouse.isolation.hosts import Target
from pilothouse.isolation.keys import open_keys
from pilothouse.isolation.layout import Places, make_profile
from pilothouse.isolation.limits import bounds_of, limiter_words
from pilothouse.isolation.network import Wiring, open_network
from pilothouse.isolation.pins import check_words
from pilothouse.isolation.profile import Profile, jail_arguments, refusal
from pilothouse.isolation.repository import write_author
from pilothouse.isolation.runtime import find_runtime, remove_container
from pilothouse.isolation.support import Support, Trial, find_support
from pilothouse.isolation.uploads import uploads_folder
from pilothouse.isolation.versions import RunningVersions
from pilothouse.processes.errors import SpawnFailed, SpawnProblem

NO_JAIL = (
    "The workspace {workspace} wants isolation = {kind!r}, which is not available here, so nothing was started. {problem} "
    "A .pilothouse.toml that cannot be read wants a jail too: pilothouse config check shows what is wrong in it."
)
OPENED = "Not isolated: the workspace {workspace} wants isolation = {kind!r}, which is not available here. {problem}"
JAILED = "jailed, network: {network}"
SIMILAR = "jailed (proved with {proved}, this is {version}), network: {network}"
OTHER_VERSION = "in a jail, proved with version {proved}, this one is {version}, network: {network}"
UNPROVED = "in a jail, not proved with this engine, network: {network}"
COMMANDS_ONLY = "commands in a {kind}, network: {network}; file tools run in Pilothouse itself, where the {kind} does not hold them"
CONTAINED = "in a container, not proved with this engine, network: {network}"
NOT_ISOLATED = "NOT ISOLATED"
NOT_KNOWN = "not known yet: whether this machine can isolate is being tried"
MAX_COPY_BYTES = 16_000_000
HOME, NETWORK = "home", "network"
_DROPPED = ("XDG_RUNTIME_DIR", "TMPDIR")


async def nobody(workspace: str, host: str) -> str:
    """Answer for a process without a gateway, where nobody can be asked."""
    return "no"


class Jails:
    """`settings` are asked anew for every start, so that a reload counts for the next one. Only `open` and `look` wait until it is
    known what can be made here; before that, the other methods take what is wanted for possible."""

    def __init__(
        self,
        settings: Callable[[str], Isolation],
        places: Places,
        log: Callable[..., None],
        support: Callable[[], Support] = find_support,
        runtime: Callable[[Container], Runtime] = find_runtime,
        bases: Callable[[], Bases] = find_bases,
        user: int | None = None,
        lanes: str = "",
    ) -> None:
        """`lanes` is the folder of ours that holds the worktrees of lanes."""
        self._settings = settings
        self.places = places
        self._log = log
        self._support = Trial(support)
        self._user = os.geteuid() if user is None else user
        self._trusted: dict[str, bool] = {}
        self._runtime = runtime
        self._runtimes: dict[Container, Trial[Runtime]] = {}
        self._bases = bases
        self._lanes = os.path.realpath(lanes) if lanes else ""
        self.ask_people: AskPeople = nobody
        """Asks about hosts; set once there is a gateway."""
        self._open_asks: Counter[str] = Counter()
        self.tools_here: Callable[[str], bool] = lambda _: False
        """Tells whether the file tools of an engine run in Pilothouse itself; set where engines are known."""
        self.version_of: Callable[[str], str] = lambda _: ""
        """Returns the version of an engine's program before one runs, as far as it is known, for words alone."""
        self.versions = RunningVersions()

    def note_trust(self, real: str, trusted: bool, jail: bool) -> None:
        """Learn whether a folder is trusted, and whether its owner chose a jail for it: "auto" asks."""
        self._trusted.pop(real, None)
        if trusted:
            self._trusted[real] = jail

    def _isolation(self, workspace: str, engine: str) -> Isolation:
        """Return the settings of a workspace; "auto" becomes a jail or none."""
        isolation = self._settings(workspace)
        if isolation.kind != "auto":
            return isolation
        kind: Kind = "none" if self._reason_for_none(workspace, engine) else "jail"
        return msgspec.structs.replace(isolation, kind=kind)

    def _reason_for_none(self, workspace: str, engine: str) -> str:
        trusted = self._trusted.get(os.path.realpath(workspace))
        problem = AS_ROOT if self._user == 0 else self.problem(workspace)
        return reason_for_none(workspace, engine, self._settings(workspace).network, trusted, problem)

    def isolation(self, workspace: str, engine: str = "") -> Isolation:
        """`EngineHost.isolation`."""
        isolation = self._isolation(workspace, engine)
        return OPEN if self._opens(isolation, workspace) else isolation

    def _opens(self, isolation: Isolation, workspace: str) -> bool:
        """Tell whether processes are started without the jail that is wanted."""
        return isolation.confines and isolation.when_missing == "open" and bool(self.problem(workspace))

    def missing(self, workspace: str) -> str:
        """Say that processes start without the isolation that was configured; empty if they do not. "auto" promises none."""
        isolation = self._settings(workspace)
        if isolation.kind == "auto" or not self._opens(isolation, workspace):
            return ""
        return OPENED.format(kind=isolation.kind, workspace=workspace, problem=self.problem(workspace))

    def uploads(self, workspace: str, engine: str) -> str:
        """`EngineHost.uploads`. Empty without a jail."""
        isolation = self._isolation(workspace, engine)
        if isolation.kind != "jail" or self.problem(workspace):
            return ""
        return uploads_folder(self.places.uploads, os.path.realpath(workspace))

    def look(self, workspace: str) -> str:
        """As `problem`, once it is known. Blocks."""
        if (trial := self._trial(workspace)) is not None:
            trial.find()
        return self.problem(workspace)

    async def _look_in_thread(self, workspace: str) -> str:
        return await anyio.to_thread.run_sync(self.look, workspace, abandon_on_cancel=True)

    def problem(self, workspace: str) -> str:
        """Say why the wanted jail cannot be made; empty if it can, if that is not known yet, or if none is wanted."""
        if (trial := self._trial(workspace)) is None:
            return ""
        known = trial.known()
        found = refusal(os.path.realpath(workspace), self.places.home, self.places.hidden, self._lanes)
        return found or (known.problem if known else "")

    def _trial(self, workspace: str) -> Trial[Support] | Trial[Runtime] | None:
        isolation = self._settings(workspace)
        if isolation.kind == "container":
            return self._runtime_trial(isolation.container)
        return self._support if isolation.confines else None

    def runtime(self, container: Container) -> Runtime:
        """Return how containers are made here. Blocks until it is known."""
        return self._runtime_trial(container).find()

    def _runtime_trial(self, container: Container) -> Trial[Runtime]:
        return self._runtimes.setdefault(container, Trial(partial(self._runtime, container)))

    def describe(self, workspace: str, engine: str) -> str:
        """Say how an engine is shut in there, as far as it was proved; empty if nobody wants it to be."""
        isolation, trial = self._isolation(workspace, engine), self._trial(workspace)
        if isolation.confines and trial is not None and trial.known() is None:
            return NOT_KNOWN
        if self._settings(workspace).kind == "auto" and not isolation.confines:
            return f"{NOT_ISOLATED}: {self._reason_for_none(workspace, engine)}"
        if not isolation.confines:
            return ""
        if problem := self.problem(workspace):
            return f"{NOT_ISOLATED}: {problem}" if isolation.when_missing == "open" else problem
        if self.tools_here(engine):
            return COMMANDS_ONLY.format(kind=isolation.kind, network=isolation.network)
        if isolation.kind == "container":
            return CONTAINED.format(network=isolation.network)
        words = UNPROVED if (proof := find_proof(engine, isolation.network)) is None else JAILED
        version = self.version_of(engine)
        if proof is not None and version != proof.version:
            words = SIMILAR if proof.fits(version) else OTHER_VERSION
        proved = proof.version if proof else ""
        return words.format(network=isolation.network, proved=proved, version=version or "not known")

    def header(self, workspace: str, engine: str) -> str:
        """Return what `describe` says, in the few words that a header has room for."""
        text = self.describe(workspace, engine)
        return NOT_ISOLATED if text.startswith(NOT_ISOLATED) else text

    @asynccontextmanager
    async def open(self, start: ProcessStart, engine: str = "") -> AsyncGenerator[ProcessStart, None]:
        """`EngineHost.jail`. Raises `SpawnFailed` where the wanted jail cannot be made."""
        problem = await self._look_in_thread(start.workspace) if start.workspace else ""
        isolation = self._isolation_of(start, engine)
        if not isolation.confines:
            yield start
            return
        if problem:
            text = NO_JAIL.format(workspace=start.workspace, kind=isolation.kind, problem=problem)
            raise SpawnFailed(text, argv0=start.argv[0], cwd=start.cwd, reason=SpawnProblem.OTHER)
        opened = self._open_container if isolation.kind == "container" else self._open_jail
        if isolation.kind == "container" and engine:
            start = msgspec.structs.replace(start, environment={**start.environment, ENGINE: engine})
        with open_scratch(self.places.scratch) as scratch:
            note, failed = partial(self._note_refused, start), partial(self._note_failed, start)
            ask = HostAnswers(start.workspace, self.ask_people, self._open_asks)
            async with (
                open_keys(start, isolation.network, failed) as told,
                open_network(isolation, told, scratch / NETWORK, note, failed, ask) as wiring,
                opened(told, isolation, scratch, wiring) as jailed,
            ):
                with self._note_version(start, isolation, engine):
                    yield jailed

    def _note_version(
        self, start: ProcessStart, isolation: Isolation, engine: str
    ) -> AbstractContextManager[None]:
        """Only jails were proved, and only one without the machine's network makes turns quieter."""
        if isolation.kind != "jail" or isolation.network == "open" or not engine:
            return nullcontext()
        return self.versions.note(
            engine, start, (start.workspace, *isolation.allow_write, *start.needs.write)
        )

    def _isolation_of(self, start: ProcessStart, engine: str) -> Isolation:
        """Return what a process is started with: what its engine was told, so that a process is what its key says."""
        if not start.workspace:
            return OPEN
        if problem := self.missing(start.workspace):
            self._log("isolation.missing", level="warning", process=start.name, problem=problem)
        return self.isolation(start.workspace, engine) if start.isolation is None else start.isolation

    @asynccontextmanager
    async def _open_jail(
        self, start: ProcessStart, isolation: Isolation, scratch: Path, wiring: Wiring
    ) -> AsyncGenerator[ProcessStart, None]:
        bounds, bases = bounds_of(isolation), self._bases()
        with open_group(bases, bounds.memory_bytes, bounds.processes) as groups:
            make = partial(self._jailed, start, isolation, scratch / HOME, wiring)
            jailed = await anyio.to_thread.run_sync(make, (*limiter_words(bounds, bases),))
            yield msgspec.structs.replace(jailed, argv=[*enter_words(groups), *jailed.argv])

    @asynccontextmanager
    async def _open_container(
        self, start: ProcessStart, isolation: Isolation, scratch: Path, wiring: Wiring
    ) -> AsyncGenerator[ProcessStart, None]:
        runtime = self.runtime(isolation.container)
        command = [runtime.program, *runtime.options]
        note_container(scratch, command)
        make = partial(self._contained, start, isolation, scratch, wiring, runtime)
        try:
            yield await anyio.to_thread.run_sync(make)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(remove_container, command, container_name(scratch))

    def _note_refused(self, start: ProcessStart, target: Target) -> None:
        self._log("isolation.host_refused", process=start.name, workspace=start.workspace, host=str(target))

    def _note_failed(self, start: ProcessStart, error: Exception) -> None:
        self._log("isolation.connection_failed", level="warning", process=start.name, error=repr(error))

    def _jailed(
        self,
        start: ProcessStart,
        isolation: Isolation,
        private_home: Path,
        wiring: Wiring,
        limiter: tuple[str, ...],
    ) -> ProcessStart:
        profile = self._profile(start, isolation, private_home, wiring)
        limited = msgspec.structs.replace(profile, limiter=(*limiter, *check_words(profile.guarded)))
        argv = [self._support.find().program, *jail_arguments(limited, wiring.argv)]
        environment = {**inside(start.environment), **wiring.environment}
        return msgspec.structs.replace(start, argv=argv, environment=environment)

    def _contained(
        self, start: ProcessStart, isolation: Isolation, scratch: Path, wiring: Wiring, runtime: Runtime
    ) -> ProcessStart:
        profile = self._profile(start, isolation, scratch / HOME, wiring)
        environment = {**inside(start.environment), **wiring.environment}
        started = msgspec.structs.replace(start, argv=wiring.argv, environment=environment)
        return contain(started, isolation, profile, scratch, runtime)

    def _profile(
        self, start: ProcessStart, isolation: Isolation, private_home: Path, wiring: Wiring
    ) -> Profile:
        """Raises `SpawnFailed` for a workspace that is not there."""
        home = start.environment.get("HOME") or self.places.home
        if not os.path.isdir(start.workspace):
            text = f"The workspace {start.workspace} does not exist. Create it, or choose another."
            raise SpawnFailed(text, argv0=start.argv[0], cwd=start.cwd, reason=SpawnProblem.MISSING_FOLDER)
        profile = make_profile(start, isolation, self.places, home, private_home, wiring)
        copy_files(start.needs, home, private_home)
        write_author(home, private_home)
        for source in start.needs.mounts.values():
            os.makedirs(source, mode=0o700, exist_ok=True)
        return profile


def inside(environment: Mapping[str, str]) -> dict[str, str]:
    """Drop the variables that name folders which are not inside."""
    return {name: value for name, value in environment.items() if name not in _DROPPED}


def copy_files(needs: Needs, home: str, private_home: Path) -> None:
    """Copy files into the private home. One that is missing, too large or outside of the home folder is left out."""
    for path in needs.copies:
        relative = os.path.relpath(path, home)
        if relative.startswith("..") or not os.path.isfile(path) or os.path.getsize(path) > MAX_COPY_BYTES:
            continue
        target = private_home / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        target.chmod(0o600)


@contextmanager
def open_scratch(folder: str) -> Iterator[Path]:
    """Make the folders of one jail, its private home and its sockets, and remove them afterwards."""
    path = Path(folder, f"{os.getpid()}-{secrets.token_hex(6)}")
    for name in (HOME, NETWORK):
        (path / name).mkdir(parents=True, mode=0o700)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def sweep_scratch(folder: str) -> None:
    """Remove the private homes that killed gateways left."""
    with suppress(OSError):
        for name in os.listdir(folder):
            pid = name.partition("-")[0]
            if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                remove_noted(Path(folder, name))
                shutil.rmtree(Path(folder, name), ignore_errors=True)
