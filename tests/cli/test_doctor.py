"""`doctor`: one line per check, the exact fix, exit code 1 when something is broken."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.cli.conftest import House
from typing_extensions import override

from pilothouse.cli.doctor import Check, Disk, check_files, check_store
from pilothouse.config import Models, find_paths, load
from pilothouse.plugins import Plugins
from pilothouse.stores.sqlite import STORE


def checks(house: House, **more: str) -> dict[str, Any]:
    return {check["name"]: check for check in house.json("doctor", **more)["checks"]}


def mend(house: House) -> None:
    """The one plugin that is broken by design is taken away."""
    (house.packages / "torn.py").write_text("from tests.shelf import ABSENT as ENGINE\n")


def test_a_house_in_order_is_all_marks_and_exit_code_0(lived_in: House) -> None:
    mend(lived_in)
    done = lived_in.run("doctor")
    assert (done.returncode, done.stderr) == (0, "")
    assert {line[0] for line in done.stdout.splitlines()} == {"✓", "!"}
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
    missing = lived_in.home / "none"
    found = checks(lived_in, PILOTHOUSE__GATEWAY__DEFAULT_WORKSPACE=str(missing))
    assert found["workspace"]["fix"] == f"mkdir -p {missing}"


def test_a_channel_says_itself_what_is_missing(lived_in: House) -> None:
    lived_in.config.write_text('[store]\nkind = "shelf"\n[channels.telegraph]\n')
    found = checks(lived_in)
    assert found["channel telegraph"]["state"] == "broken"
    assert found["people"]["text"] == "nobody may use telegraph"


def test_who_holds_the_engines_is_told(lived_in: House) -> None:
    assert checks(lived_in)["engines role"]["text"].startswith("home, pid 42 on box, silent for")


def test_a_store_that_does_not_open_is_broken_and_no_store_is_fine(house: House) -> None:
    assert checks(house)["store"]["text"].startswith("none yet")
    assert not (house.home / "pilothouse.db").exists()
    (house.home / "pilothouse.db").write_bytes(b"this is no database at all" * 100)
    assert checks(house)["store"]["state"] == "broken"


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
    def is_ours(self, path: Path) -> bool:
        return self._ours


def on_disk(home: Path, disk: Disk) -> dict[str, Check]:
    config = load(find_paths({"PILOTHOUSE_HOME": str(home)}), {}, Models(stores={"sqlite": STORE.config}))
    return {check.name: check for check in check_store(Plugins(), config.config, disk)}


def test_on_a_full_disk_the_first_thing_to_do_is_to_free_some_space(tmp_path: Path) -> None:
    (tmp_path / "pilothouse.db").write_bytes(b"this is no database at all" * 100)
    assert on_disk(tmp_path, Odd(0))["store"].fix.startswith("free some space")
    assert on_disk(tmp_path, Odd(1000))["store"].fix.startswith("restore a backup")


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
