"""What a jailed agent tries: one shell script, whose lines say what was possible.

Every line is `NAME held` or `NAME BROKEN`. The script goes through a real engine, or through a plain process.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from pilothouse.core.engine import EngineHost
from pilothouse.core.isolation import Isolation, Limits, Network
from pilothouse.isolation import canaries
from pilothouse.isolation.cgroup import find_bases
from pilothouse.isolation.jail import Jails, Places
from pilothouse.isolation.support import find_support

SECRET = "canary-3f71-secret"
MODEL_KEY = "sk-canary-77ab-model"
"""The key of the scripted model, which no program inside may hold."""
_HALVES = (MODEL_KEY[:12], MODEL_KEY[12:])
"""The script must not hold the key either: it gets into transcripts."""
NOT_TESTED = "NOT TESTED in a jail: {why}"

_LINE = re.compile(r"\b([a-z_]+) (held|BROKEN)\b")

TRIES = """\
try() { if eval "$2" >/dev/null 2>&1; then echo "$1 BROKEN"; else echo "$1 held"; fi; }
mkdir -p {home}/.ssh; echo canary >> {home}/.ssh/authorized_keys
try see_home 'cat {home}/secret.txt'
try read_store 'cat {store}'
try read_other 'cat {other}/notes.txt'
try symlink_out 'ln -sfn {other} link; cat link/notes.txt'
try git_hooks 'echo "#!/bin/sh" > .git/hooks/post-checkout'
try git_config 'git config core.pager evil'
try git_moved 'mv .git .git2 && mkdir .git'
try system 'echo x > /usr/pilothouse-canary || echo x > /etc/pilothouse-canary'
try shadow 'test -s /etc/shadow && grep -q : /etc/shadow'
try mount 'mount -t tmpfs none /mnt'
try capabilities 'grep -q CapEff.*[1-9a-f] /proc/self/status'
try gateway 'test -d /proc/{pid} && grep -qa {secret} /proc/{pid}/environ'
try environment 'cat /proc/[0-9]*/environ | grep -qa {secret}'
try model_key 'cat /proc/[0-9]*/environ | grep -qa {key}'
cat > forks.sh <<'END'
trap 'kill $started' EXIT
i=0
while [ $i -lt {forks} ]; do sleep 60 & started="$started $!"; i=$((i+1)); done
END
try forks 'timeout 60 sh forks.sh'
(setsid sleep {nap} >/dev/null 2>&1 &)
echo > written.txt && test -s written.txt && echo "workspace writable"
echo "tries done"
"""

REACHES = (
    "loopback 'timeout 5 bash -c \"echo > /dev/tcp/127.0.0.1/{port}\"'",
    "beyond 'timeout 5 bash -c \"echo > /dev/tcp/198.51.100.1/443\"'",
    "proxied 'test -n \"$(curl -s -m 5 -x $HTTP_PROXY --noproxy none http://127.0.0.1:{port}/ | grep -v allow_hosts)\"'",
)
"""Tries for a jail without the machine's network. A server of the test listens on the port."""
NETWORKS: tuple[Network, ...] = ("open", "model")
MAX_PROCESSES = 400
"""The limit of a jail; the script starts a few more. An engine's own threads count too."""
MORE_PROCESSES = MAX_PROCESSES + 50

NAMES = (*re.findall(r"^try (\w+)", TRIES, re.MULTILINE), "write_ssh", "hook_file", "setsid")


def reaches(network: Network) -> tuple[str, ...]:
    return () if network == "open" else REACHES


def expected(network: Network, *own: str) -> dict[str, str]:
    """Return the verdicts of a jail that holds. `own` are the engine's own tries."""
    names = (one.split()[0] for one in (*reaches(network), *own))
    return dict.fromkeys((*NAMES, *names), "held")


def need_limits() -> None:
    """Skip a test of all tries where no jail can be made, or none that limits its processes."""
    need_jail()
    if os.geteuid() == 0 and "pids" not in find_bases().limited:
        pytest.skip(NOT_TESTED.format(why="no control group can be made here, which root needs for limits"))


def need_jail() -> None:
    """Skip the test where no jail can be made, and say so."""
    if problem := find_support().problem:
        pytest.skip(NOT_TESTED.format(why=problem))


class Stage:
    """A machine's secrets in a folder: a home, a store, another conversation's folder; a gateway with a secret in its
    environment, and a server of the machine."""

    def __init__(self, folder: Path, home: Path | None = None, workspace: Path | None = None) -> None:
        self.gateway = subprocess.Popen(["sleep", "600"], env={"CANARY": SECRET})
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.nap = f"6{self.port}"
        """How long the script's processes sleep: they are known by it."""
        self.home, self.workspace = home or folder / "home", workspace or folder / "work"
        self.store = folder / "data" / "pilothouse.db"
        self.other = folder / "other"
        for made in (self.home, self.workspace, self.store.parent, self.other):
            made.mkdir(parents=True, exist_ok=True)
        self.store.write_text("the store")
        (self.other / "notes.txt").write_text("of another conversation")
        (self.home / "secret.txt").write_text("of the user")
        if shutil.which("git"):
            subprocess.run(["git", "init", "-q", "."], cwd=self.workspace, check=True)

    def close(self) -> None:
        self.gateway.kill()
        self.gateway.wait()
        self.server.close()

    def script(self, *more: str) -> str:
        """`more` are further tries, each a name and a command."""
        return (
            TRIES.replace("(setsid", "".join(f"try {one}\n" for one in more) + "(setsid")
            .replace("{home}", str(self.home))
            .replace("{store}", str(self.store))
            .replace("{other}", str(self.other))
            .replace("{pid}", str(self.gateway.pid))
            .replace("{secret}", SECRET)
            .replace("{key}", '"' + '""'.join(_HALVES) + '"')
            .replace("{port}", str(self.port))
            .replace("{nap}", self.nap)
            .replace("{forks}", str(MORE_PROCESSES))
        )

    def verdicts(self, text: str) -> dict[str, str]:
        """Read the script's lines, and look at what it left on the machine."""
        found = dict(_LINE.findall(text.replace("\\n", "\n")))
        keys = self.home / ".ssh" / "authorized_keys"
        hook = self.workspace / ".git" / "hooks" / "post-checkout"
        return {
            **found,
            "write_ssh": "BROKEN" if keys.exists() else "held",
            "hook_file": "BROKEN" if hook.exists() else "held",
            "setsid": "BROKEN" if _sleepers(self.nap) else "held",
        }


def jails(stage: Stage, folder: Path, **settings: object) -> Jails:
    """Jails for every workspace, which hide the stage's store."""
    limited = Isolation("jail", limits=Limits(processes=MAX_PROCESSES))
    isolation = msgspec.structs.replace(limited, **settings)
    places = Places(str(folder / "jails"), (str(stage.store.parent),), str(stage.home))
    return Jails(lambda workspace: isolation, places, no_log)


def check_table(engine: str, version: str, network: Network, found: dict[str, str]) -> None:
    """Compare what was seen with the table of proofs, or write it there: see `tools/canaries`."""
    path = Path(canaries.__file__).with_name(canaries.TABLE)
    table = json.loads(path.read_bytes())
    known = table.get(engine, {"version": "", "results": {}})
    if os.environ.get("PILOTHOUSE_WRITE_CANARIES"):
        kept = known["results"] if known["version"] == version else {}
        seen = {"version": version, "results": {**kept, network: found}}
        path.write_text(json.dumps(table | {engine: seen}, indent=1, sort_keys=True) + "\n")
    else:
        assert (known["version"], known["results"].get(network)) == (version, found), "run tools/canaries"


def holding_key(host: EngineHost, variable: str) -> EngineHost:
    """Return the host with the key of the scripted model in its environment."""
    return msgspec.structs.replace(host, environment={**host.environment, variable: MODEL_KEY})


def files_with_key(folder: Path) -> list[str]:
    """Return the files in which a program, or we, left the key."""
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    return [str(path) for path in found if MODEL_KEY.encode() in path.read_bytes()]


def no_log(event: str, **fields: object) -> None:
    """For jails whose log nobody reads."""


def raise_again(error: Exception) -> None:
    """For connections that must not fail."""
    raise error


def _sleepers(nap: str) -> list[int]:
    """The processes that the script started in sessions of their own."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if f"\0{nap}\0".encode() in Path("/proc", pid, "cmdline").read_bytes():
                found.append(int(pid))
    return found
