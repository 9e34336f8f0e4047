"""`pilothouse service`: the files that systemd and launchd get, and what is asked of them.

Neither runs here as a user's service system. The unit is judged by `systemd-analyze` where there is one, the agent by
`plistlib`; the commands go to programs that write them down.
"""

from __future__ import annotations

import getpass
import os
import plistlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.cli.conftest import House, with_bots

from pilothouse.bootstrap.launchd import Launchd
from pilothouse.bootstrap.service import Ran, Service, find_program, make_service
from pilothouse.bootstrap.systemd import Systemd
from pilothouse.cli.service import find_system
from pilothouse.core.errors import PilothouseError

ODD = {"PATH": '/opt/100% "odd"/bin:/usr/bin', "PILOTHOUSE_HOME": "/srv/a home"}
RECORDER = """#!/bin/sh
echo "${0##*/} $*" >>"$CALLS"
case "$*" in
    *show-user*) echo "Linger=$LINGER" ;;
    *enable-linger*) exit "${LINGER_CODE:-0}" ;;
    *"show pilothouse"*) printf 'LoadState=loaded\\nActiveState=%s\\nSubState=x\\nMainPID=42\\nNRestarts=3\\n' "$ACTIVE" ;;
    *"$FAILS"*) echo "Failed to connect to bus: No medium found" >&2; exit 1 ;;
esac
"""


def odd_service(folder: Path) -> Service:
    return Service((f"{folder}/a $dir/pilothouse", "up"), ODD, folder, folder / "service.log", 90.0)


class Machine:
    """A house whose systemd is made of programs that write down their calls."""

    def __init__(self, house: House, folder: Path) -> None:
        self.house, self.bin, self.calls_file = house, folder / "bin", folder / "calls"
        self.bin.mkdir()
        for name in ("systemctl", "loginctl", "journalctl"):
            (self.bin / name).write_text(RECORDER)
            (self.bin / name).chmod(0o755)
        self.unit = house.home / ".config/systemd/user/pilothouse.service"

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        given = {"PATH": path, "HOME": str(self.house.home), "CALLS": str(self.calls_file)}
        defaults = {"LINGER": "no", "ACTIVE": "active", "FAILS": "(nothing)"}
        return self.house.run("service", *words, **given | defaults | more)

    def calls(self) -> list[str]:
        found = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.unlink(missing_ok=True)
        return found


@pytest.fixture
def machine(house: House, tmp_path: Path) -> Machine:
    with_bots(house)
    return Machine(house, tmp_path)


def test_it_is_installed_started_shown_and_removed(machine: Machine) -> None:
    user = getpass.getuser()
    assert "not installed → pilothouse service install" in machine.run("status").stdout
    done = machine.run("install")
    assert done.returncode == 0, done.stderr
    assert "goes on after you log out" in done.stdout
    assert done.stdout.splitlines()[-1] == "To see whether it works: pilothouse status"
    assert machine.calls() == [
        "systemctl --user daemon-reload",
        "systemctl --user daemon-reload",
        "systemctl --user enable pilothouse.service",
        "systemctl --user restart pilothouse.service",
        f"loginctl show-user {user} --property=Linger",
        f"loginctl enable-linger {user}",
    ]
    text = machine.unit.read_text()
    assert f'Environment="PILOTHOUSE_HOME={machine.house.home}"' in text and "Restart=on-failure" in text
    shown = machine.run("status", LINGER="yes")
    assert (shown.returncode, shown.stdout) == (
        0,
        "Service: running, pid 42, starts at boot, restarted 3 times after a failure\n",
    )
    failed = machine.run("status", ACTIVE="failed")
    assert failed.returncode == 1 and "not running (failed x)" in failed.stdout
    machine.calls()
    assert machine.run("logs", "-n", "7").returncode == 0
    (said,) = machine.calls()
    assert said.startswith("journalctl --user --unit=pilothouse.service --lines=7")
    assert machine.run("uninstall").returncode == 0
    assert "systemctl --user disable --now pilothouse.service" in machine.calls()
    assert not machine.unit.exists()
    assert machine.run("uninstall").stdout == "The service is not installed.\n"
    assert machine.run("logs").returncode == 1


def test_who_may_not_linger_reads_the_command_for_it(machine: Machine) -> None:
    done = machine.run("install", LINGER_CODE="1")
    assert f"sudo loginctl enable-linger {getpass.getuser()}" in done.stdout


def test_without_a_user_manager_nothing_is_written_and_the_way_out_is_said(machine: Machine) -> None:
    done = machine.run("install", FAILS="daemon-reload")
    assert done.returncode == 1 and "systemd's user manager does not answer" in done.stderr
    assert not machine.unit.exists()


def test_printing_changes_nothing(machine: Machine) -> None:
    done = machine.run("install", "--print")
    assert done.stdout.startswith(f"# {machine.unit}\n") and "[Service]" in done.stdout
    assert not machine.unit.exists() and machine.calls() == []


def test_a_token_that_only_the_shell_has_stops_the_install_and_is_written_nowhere(machine: Machine) -> None:
    token = "123456:" + "A" * 35
    machine.house.config.write_text("[channels.telegram]\n")
    done = machine.run("install", TELEGRAM_TOKEN=token)
    assert done.returncode == 1 and "would not start telegram" in done.stderr
    assert f"{machine.house.home}/.env" in done.stderr and not machine.unit.exists()
    (machine.house.home / ".env").write_text(f"TELEGRAM_TOKEN={token}\n")
    assert machine.run("install", TELEGRAM_TOKEN=token).returncode == 0
    assert token not in machine.unit.read_text()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "a $dir" / "pilothouse"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "pilothouse.service"
    text = Systemd(tmp_path, lambda _: Ran(0, "")).render(odd_service(tmp_path))

    def verify(said: str) -> str:
        unit.write_text(said)
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
        command = ["systemd-analyze", "verify", "--user", "--man=no", str(unit)]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100, check=False)
        return done.stdout + done.stderr

    assert verify(text) == ""
    assert "restart specifier" in verify(text.replace("on-failure", "on-falure")), "it does look"


def test_the_agent_of_launchd_says_the_same(tmp_path: Path) -> None:
    calls: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> Ran:
        calls.append(argv)
        return Ran(0, "\tstate = running\n\tpid = 42\n" if "print" in argv else "")

    system, service = Launchd(tmp_path, 501, run), odd_service(tmp_path)
    assert system.state().fix == "pilothouse service install"
    system.install(service)
    agent = plistlib.loads(system.file.read_bytes())
    assert (agent["ProgramArguments"], agent["EnvironmentVariables"]) == (list(service.command), ODD)
    assert agent["KeepAlive"] == {"SuccessfulExit": False} and agent["RunAtLoad"] is True
    assert calls[-1] == ["launchctl", "bootstrap", "gui/501", str(system.file)]
    assert (system.state().running, system.state().text) == (True, "running, pid 42, starts when you log in")
    assert system.log_command(5, follow=True) == ["tail", "-n", "5", "-F", str(service.log_file)]
    system.uninstall()
    assert not system.file.exists() and calls[-1][:2] == ["launchctl", "bootout"]


def test_a_checkout_is_started_by_its_script_which_survives_an_update(tmp_path: Path) -> None:
    environ = {"PILOTHOUSE_RUN": "/srv/pilothouse/run", "PATH": "/usr/bin", "TELEGRAM_TOKEN": "1:secret"}
    assert find_program(environ) == ("/srv/pilothouse/run",)
    made = make_service(environ, tmp_path, 30.0)
    assert made.command == ("/srv/pilothouse/run", "up") and made.environment == {"PATH": "/usr/bin"}


def test_where_there_is_neither_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(PilothouseError, match="neither systemd nor launchd"):
        find_system("linux", {"PATH": str(tmp_path), "HOME": str(tmp_path)})
