"""`doctor`: one line per check, the exact fix, exit code 1 when something is broken."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.conftest import House
from tests.dists import write_dist
from tests.new_store import put_new_store
from typing_extensions import override

from pilothouse.bootstrap.machine import this_node
from pilothouse.cli.doctor import check_files
from pilothouse.cli.doctor_store import Check, Disk, check_store
from pilothouse.config import Models, find_paths, load
from pilothouse.core.ids import ChannelId
from pilothouse.core.store import NodeInfo, Role, Tx
from pilothouse.plugins import Plugins
from pilothouse.runtime.channel_status import HealthNote, note_health
from pilothouse.stores.sqlite import STORE, SqliteConfig

GUEST = """
from pathlib import Path
from msgspec import Struct
from pilothouse.core.engine import EngineSpec, EngineStatus
from pilothouse.core.ids import EngineId

class Settings(Struct):
    pass

def login(settings):
    if Path("logged-in").exists():
        return EngineStatus(True, version="logged in")
    return EngineStatus(False, problem="Guest is not logged in.", fix="guest login")

def try_model(settings):
    return EngineStatus(False, problem="The model did not answer.")

def works(settings):
    return EngineStatus(True, version="1.0")

ENGINE = EngineSpec(EngineId("guest"), "Guest", Settings, None, works, login=login, try_model=try_model)
"""


def checks(house: House, **more: str) -> dict[str, Any]:
    return {check["name"]: check for check in house.json("doctor", **more)["checks"]}


def mend(house: House) -> None:
    """The one plugin that is broken by design is taken away."""
    (house.packages / "torn.py").write_text("from tests.shelf import ABSENT as ENGINE\n")


def test_a_house_in_order_is_all_marks_and_exit_code_0(lived_in: House) -> None:
    mend(lived_in)
    done = lived_in.run("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert {line[0] for line in done.stdout.splitlines()} == {"✓", "!", "–"}
    assert lived_in.json("doctor")["ok"]


def test_a_broken_plugin_is_named_with_its_error_and_hides_nothing(lived_in: House) -> None:
    done = lived_in.run("doctor")
    assert done.returncode == 1
    assert "✗ plugin torn    RuntimeError: torn apart at import → reinstall or remove puppets" in done.stdout
    assert "✓ engine puppet  1.2.3" in done.stdout
    assert "! engine absent  puppet-cli is not on PATH → npm install -g puppet-cli" in done.stdout


def test_a_missing_engine_is_broken_where_it_is_the_chosen_one(lived_in: House) -> None:
    assert checks(lived_in)["engine absent"]["state"] == "warn"
    assert (
        checks(lived_in, PILOTHOUSE__GATEWAY__DEFAULT_ENGINE="absent")["engine absent"]["state"] == "broken"
    )


def test_a_broken_configuration_is_one_line_per_problem(house: House) -> None:
    house.config.write_text("[gateway]\nbusy = 1\ngrace_s = -1\n")
    done = house.run("doctor")
    assert done.returncode == 1
    assert sum(line.startswith("✗ config") for line in done.stdout.splitlines()) == 2


def test_files_that_others_may_read_or_write_are_named_with_the_chmod(lived_in: House) -> None:
    secrets = lived_in.home / ".env"
    secrets.write_text("A=secret\n")
    secrets.chmod(0o644)
    assert checks(lived_in)["permissions"]["fix"] == f"chmod 600 {secrets}"
    lived_in.config.chmod(0o666)
    secrets.chmod(0o600)
    assert checks(lived_in)["permissions"] == {
        "name": "permissions",
        "state": "broken",
        "text": f"others may write {lived_in.config} (mode 666)",
        "fix": f"chmod 600 {lived_in.config}",
    }


def test_a_workspace_that_is_not_there_comes_with_its_mkdir(lived_in: House) -> None:
    missing = lived_in.home / "no folder"
    found = checks(lived_in, PILOTHOUSE__GATEWAY__DEFAULT_WORKSPACE=str(missing))
    assert found["workspace"]["fix"] == f"mkdir -p '{missing}'"


def test_a_workspace_that_is_the_home_folder_is_warned_of(lived_in: House) -> None:
    home = str(Path.home())
    found = checks(lived_in, HOME=home, PILOTHOUSE__GATEWAY__DEFAULT_WORKSPACE=home)["workspace"]
    assert (found["state"], found["fix"]) == ("warn", "name a folder of its own")
    assert "the approval mode there is minimal" in found["text"]


def test_a_channel_says_itself_what_is_missing(lived_in: House) -> None:
    lived_in.config.write_text('[store]\nkind = "shelf"\n[channels.telegraph]\n')
    found = checks(lived_in)
    assert found["channel telegraph"]["state"] == "broken"
    assert found["people"]["text"] == "nobody was let in yet, so nobody can use telegraph"


def test_a_webhook_that_nothing_serves_is_broken_only_while_a_gateway_runs(house: House) -> None:
    write_dist(house.packages, "hooks", {"channels": {"webhook": "pilothouse.channels.webhook:CHANNEL"}})
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    hook = f'conversation = "memory:main"\ntoken = "{"t" * 32}"\n'
    house.config.write_text(f"[channels.webhook]\nport = {port}\n[channels.webhook.hooks.ci]\n{hook}")
    free = f"nothing listens at 127.0.0.1:{port}, and the port is free"
    found = checks(house)["channel webhook"]
    assert (found["state"], found["text"]) == ("ok", f"Webhooks: {free}")

    def join(tx: Tx) -> None:
        tx.nodes.join(NodeInfo("there", "another", 1, ""), ("channels",), time.time() + 3600)

    with_store(house, join)
    found = checks(house)["channel webhook"]
    assert (found["state"], found["text"]) == ("broken", f"the gateway runs, but {free}")
    assert found["fix"] == "pilothouse up", "which names a gateway elsewhere that is in the way"


def test_a_channel_that_only_the_running_gateway_finds_in_trouble_comes_with_its_restart(
    house: House,
) -> None:
    house.config.write_text('[channels.telegraph]\ntoken = "t"\n')
    more = with_service(house, "active")

    def join(tx: Tx, info: NodeInfo, *roles: Role) -> None:
        tx.nodes.join(info, ("channels", *roles), time.time() + 3600)
        note_health(tx, ChannelId("telegraph"), HealthNote(time.time(), trouble="The line is cut."))

    def fix() -> str:
        found = checks(house, **more)["channel telegraph"]
        assert found["text"] == "the running gateway reports: The line is cut."
        return found["fix"].partition("if it stays, restart the gateway: ")[2]

    with_store(house, lambda tx: join(tx, NodeInfo("pilothouse up", "another", 1, "")))
    assert fix() == "pilothouse up", "which names a gateway elsewhere"
    unit_of(house)
    assert fix() == "pilothouse service install, which restarts it"
    with_store(house, lambda tx: join(tx, this_node("pilothouse up"), "engines"))
    assert fix() == f"kill {os.getpid()}, then pilothouse up"


def test_a_channel_beside_a_chat_that_took_over_is_not_connected(house: House) -> None:
    house.config.write_text('[channels.telegraph]\ntoken = "t"\n')
    info = NodeInfo("pilothouse chat in ~/work", "another", 1, "")
    with_store(house, lambda tx: tx.nodes.join(info, ("engines", "scheduler"), time.time() + 3600))
    rows = {row["id"]: row["trouble"] for row in house.json("channels")}
    text = "not connected: only a chat runs; close it and start pilothouse up"
    assert rows["telegraph"] == text
    assert (checks(house)["channel telegraph"]["state"], checks(house)["channel telegraph"]["text"]) == (
        "warn",
        text,
    )


def test_who_holds_the_engines_is_told(lived_in: House) -> None:
    assert checks(lived_in)["gateway"]["text"].startswith("home, pid 42 on box, has not reported for")


def test_a_gateway_that_does_not_run_is_off_and_not_broken(house: House) -> None:
    off = {"name": "gateway", "state": "off", "text": "not running", "fix": "pilothouse up"}
    assert checks(house)["gateway"] == off, "without a store too"
    with_store(house)
    assert checks(house)["gateway"] == off


def test_a_home_that_cannot_be_written_is_found_even_by_root(house: House) -> None:
    done = house.run("doctor", "--json", PILOTHOUSE_HOME="/proc/pilot")
    found = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert (done.returncode, found["store"]["state"]) == (1, "broken")
    assert "/proc/pilot/pilothouse.db cannot be created: /proc is not writable" in found["store"]["text"]
    if os.geteuid() == 0:  # for another user, a chown may help
        assert found["store"]["fix"] == "export PILOTHOUSE_HOME=~/pilothouse"


def test_the_service_is_looked_at(house: House) -> None:
    more = with_service(house, "failed")
    found = checks(house, **more)["service"]
    assert (found["state"], found["fix"]) == ("off", "pilothouse service install")
    unit_of(house)
    found = checks(house, **more)["service"]
    assert (found["state"], found["fix"]) == ("warn", "pilothouse service logs")


def with_service(house: House, state: str) -> dict[str, str]:
    """The environment of a machine whose systemd says this of every unit."""
    tools = house.home / "bin"
    tools.mkdir()
    (tools / "systemctl").write_text(f"#!/bin/sh\necho ActiveState={state}\n")
    (tools / "systemctl").chmod(0o755)
    return {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "HOME": str(house.home)}


def unit_of(house: House) -> None:
    unit = house.home / ".config/systemd/user/pilothouse.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\n")


def test_login_and_model_are_tried_and_not_guessed(house: House) -> None:
    write_dist(house.packages, "guests", {"engines": {"guest": "guest:ENGINE"}}, {"guest": GUEST})
    mend(house)
    told = house.run("init", "--yes", "--engine", "guest", "--workspace", "/").stdout
    assert "not logged in yet:\n  Guest: Guest is not logged in. → guest login\n" in told, told
    house.config.unlink()
    found = checks(house)
    assert found["login guest"]["text"] == "Guest is not logged in." and "model guest" not in found
    assert found["login guest"]["fix"] == "guest login"
    (house.home / "logged-in").write_text("")
    found = checks(house)
    assert (found["login guest"]["state"], found["model guest"]["state"]) == ("ok", "off")
    assert found["model guest"]["fix"] == "pilothouse doctor --model"
    tried = {check["name"]: check for check in house.json("doctor", "--model")["checks"]}
    assert tried["model guest"]["text"] == "The model did not answer."


def test_a_store_that_does_not_open_is_broken_and_no_store_is_fine(house: House) -> None:
    assert checks(house)["store"]["text"].startswith("none yet")
    assert not (house.home / "pilothouse.db").exists()
    (house.home / "pilothouse.db").write_bytes(b"this is no database at all" * 100)
    assert checks(house)["store"]["state"] == "broken"


def with_store(house: House, unit: Callable[[Tx], object] = lambda tx: None) -> None:
    async def make() -> None:
        async with STORE.open(SqliteConfig(path=str(house.home / "pilothouse.db"))) as store:
            await store.write(unit)

    asyncio.run(make())


class Odd(Disk):
    """A disk that tests could not have otherwise: full, or read-only, even to root."""

    def __init__(
        self, free_mb: int = 1000, *, can_create_in: bool = True, locked: str = "", ours: bool = True
    ) -> None:
        self._free_mb, self._can_create_in, self._locked, self._ours = free_mb, can_create_in, locked, ours

    @override
    def free_mb(self, folder: Path) -> int:
        return self._free_mb

    @override
    def can_create_in(self, folder: Path) -> bool:
        return self._can_create_in

    @override
    def can_write(self, file: Path) -> bool:
        return file.name != self._locked

    @override
    def permits(self, path: Path) -> bool:
        return False

    @override
    def is_ours(self, path: Path) -> bool:
        return self._ours


def on_disk(home: Path, disk: Disk) -> dict[str, Check]:
    config = load(find_paths({"PILOTHOUSE_HOME": str(home)}), {}, Models(stores={"sqlite": STORE.config}))
    return {check.name: check for check in check_store(Plugins(), config.config, disk)}


def test_on_a_full_disk_the_first_thing_to_do_is_to_free_some_space(tmp_path: Path) -> None:
    (tmp_path / "pilothouse.db").write_bytes(b"this is no database at all" * 100)
    assert on_disk(tmp_path, Odd(0))["store"].fix.startswith("free some space")
    assert on_disk(tmp_path, Odd(1000))["store"].fix.startswith("pilothouse restore BACKUP")


def test_a_store_that_cannot_be_made_is_broken(tmp_path: Path) -> None:
    found = on_disk(tmp_path, Odd(can_create_in=False))["store"]
    assert (found.state, f"{tmp_path} is not writable" in found.text) == ("broken", True)
    assert on_disk(tmp_path, Odd())["store"].state == "ok"


def test_what_may_not_be_written_is_a_permission_and_no_damage(tmp_path: Path) -> None:
    file, log = tmp_path / "pilothouse.db", tmp_path / "pilothouse.db-wal"
    folder = f"chmod u+rwx {tmp_path}"
    assert on_disk(tmp_path, Odd(can_create_in=False))["store"].fix.startswith(folder)
    for part in (file, log):
        part.write_bytes(b"")
    assert on_disk(tmp_path, Odd(can_create_in=False))["store"].fix == folder
    both = on_disk(tmp_path, Odd(can_create_in=False, locked=log.name))["store"]
    assert both.fix == f"{folder} && chmod u+rw {log}"
    for part in (file, log):
        assert on_disk(tmp_path, Odd(locked=part.name))["store"].fix == f"chmod u+rw {part}"
    foreign = on_disk(tmp_path, Odd(locked=file.name, ours=False))["store"]
    assert (foreign.state, foreign.fix) == ("broken", f"chown {os.getuid()} {file}")
    paths = find_paths({"PILOTHOUSE_HOME": str(tmp_path)})
    logs = {check.name: check.fix for check in check_files(paths, Odd(can_create_in=False))}
    assert logs["log"] == folder


def test_a21_a_store_that_others_may_read_or_replace_is_named_with_the_chmod(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(0o700)
    store = put_new_store(home / "pilothouse.db")
    assert "permissions" not in on_disk(home, Odd())
    store.chmod(0o644)
    assert on_disk(home, Odd())["permissions"].fix == f"chmod 600 {store}"
    store.chmod(0o600)
    home.chmod(0o770)
    assert on_disk(home, Odd())["permissions"].fix == f"chmod go-w {home}"
    home.chmod(0o1777)
    assert "permissions" not in on_disk(home, Odd()), "as /tmp is"


def test_a_home_that_is_a_file_is_said_to_be_one(house: House) -> None:
    file = house.home / "note"
    file.write_text("no folder")
    done = house.run("doctor", "--json", PILOTHOUSE_HOME=str(file))
    last = json.loads(done.stdout)["checks"][-1]
    assert (done.returncode, last["name"], last["state"]) == (1, "home", "broken")
    assert last["text"] == f"PILOTHOUSE_HOME={file} is a file and must be a folder"


def test_without_a_configuration_it_points_to_init(house: House) -> None:
    assert checks(house)["config"]["fix"] == "pilothouse init"


def test_at_60_columns_a_long_check_goes_on_below_its_text_and_a_path_is_never_broken(house: House) -> None:
    long = house.home / ("folder-with-a-long-name-" * 3)
    house.config.write_text(f'[gateway]\ndefault_workspace = "{long}"\n')
    house.config.chmod(0o600)
    _, screen = house.on_a_terminal("doctor", COLUMNS="60", NO_COLOR="1")
    assert f"mkdir -p {long}" in " ".join(screen.split())
    assert all(len(line) <= 60 for line in screen.splitlines() if "/" not in line)
    assert str(long) in screen
