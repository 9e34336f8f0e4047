"""The service as a systemd user unit."""

from __future__ import annotations

import getpass
from pathlib import Path

from pilothouse.bootstrap.service import Run, Service, ServiceState
from pilothouse.core.errors import PilothouseError

UNIT = "pilothouse.service"
TEXT = """\
# Written by `pilothouse service install`; a new install replaces it.
[Unit]
Description=Pilothouse gateway
# Restart for ever: a gateway that fails for an hour must still come back.
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
WorkingDirectory={folder}
{environment}
Restart=on-failure
RestartSec=10
# Wrong usage does not get better by itself.
RestartPreventExitStatus=2
# Running turns may end; only the gateway is told to stop, and it stops its engines.
KillMode=mixed
# Control groups hold the memory and the processes of jails.
Delegate=memory pids
TimeoutStopSec={stop_s:.0f}

[Install]
WantedBy=default.target
"""
NO_BUS = (
    "systemd's user manager does not answer: {text}. Log in as this user directly (by ssh, or at the machine), not with su "
    "or sudo, and try again. In a container there is usually none: let the container run `pilothouse up`."
)
LINGERS = "It starts when the machine boots, and goes on after you log out."
STOPS = "It stops when you log out. To keep it running: sudo loginctl enable-linger {user}"
FIELDS = "LoadState,ActiveState,SubState,MainPID,NRestarts,UnitFileState,ExecMainStatus"


class Systemd:
    def __init__(self, config_dir: Path, run: Run) -> None:
        self._folder = config_dir / "systemd" / "user"
        self._run = run

    @property
    def file(self) -> Path:
        return self._folder / UNIT

    def render(self, service: Service) -> str:
        program, *arguments = service.command  # variables are not expanded in the program's path
        lines = [f"Environment={_quote(f'{name}={value}')}" for name, value in service.environment.items()]
        return TEXT.format(
            command=" ".join([_quote(program), *(_quote(word).replace("$", "$$") for word in arguments)]),
            folder=_escape(str(service.folder)),
            environment="\n".join(lines),
            stop_s=service.stop_s,
        )

    def install(self, service: Service) -> list[str]:
        self._systemctl("daemon-reload")
        self._folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.render(service), encoding="utf-8")
        for words in (("daemon-reload",), ("enable", UNIT), ("restart", UNIT)):
            self._systemctl(*words)
        return [LINGERS if self._lingers(enable=True) else STOPS.format(user=getpass.getuser())]

    def uninstall(self) -> None:
        self._systemctl("disable", "--now", UNIT)
        self.file.unlink(missing_ok=True)
        self._systemctl("daemon-reload")

    def state(self) -> ServiceState:
        if not self.file.exists():
            return ServiceState(False, False, "not installed", "pilothouse service install")
        shown = self._run(["systemctl", "--user", "show", UNIT, f"--property={FIELDS}"])
        if shown.code:
            return ServiceState(True, False, NO_BUS.format(text=_last_line(shown.text)))
        facts = dict(line.split("=", 1) for line in shown.text.splitlines() if "=" in line)
        boots = "starts at boot" if self._lingers(enable=False) else "stops when you log out"
        restarts = facts.get("NRestarts", "0")
        again = "" if restarts in ("", "0") else f", restarted {restarts} times after a failure"
        if facts.get("ActiveState") == "active":
            return ServiceState(True, True, f"running, pid {facts.get('MainPID', '?')}, {boots}{again}")
        state = " ".join(filter(None, (facts.get("ActiveState"), facts.get("SubState"))))
        return ServiceState(
            True, False, f"installed, but not running ({state}){again}", "pilothouse service logs"
        )

    def log_command(self, lines: int, *, follow: bool) -> list[str]:
        words = ["journalctl", "--user", f"--unit={UNIT}", f"--lines={lines}", "--output=cat", "--no-pager"]
        return [*words, "--follow"] if follow else words

    def _systemctl(self, *words: str) -> None:
        ran = self._run(["systemctl", "--user", *words])
        if not ran.code:
            return
        text = _last_line(ran.text)
        if "bus" in text.lower():
            raise PilothouseError(NO_BUS.format(text=text))
        raise PilothouseError(f"`systemctl --user {' '.join(words)}` failed: {text}")

    def _lingers(self, *, enable: bool) -> bool:
        """Returns true if the user's services run without a login; with `enable`, tries to make it so first."""
        user = getpass.getuser()
        asked = ["loginctl", "show-user", user, "--property=Linger"]
        if self._run(asked).text == "Linger=yes":
            return True
        return enable and not self._run(["loginctl", "enable-linger", user]).code


def _quote(text: str) -> str:
    return '"' + _escape(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape(text: str) -> str:
    """Escapes what systemd would expand."""
    return text.replace("%", "%%")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason was given"
