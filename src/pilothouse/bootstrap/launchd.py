"""The service as a launchd agent of macOS. It runs while its user is logged in."""

from __future__ import annotations

import plistlib
import re
from pathlib import Path

from pilothouse.bootstrap.service import Run, Service, ServiceState
from pilothouse.core.errors import PilothouseError

LABEL = "pilothouse.gateway"
AT_LOGIN = "It starts when you log in, and again when it fails."


class Launchd:
    def __init__(self, home: Path, uid: int, run: Run) -> None:
        self._home = home
        self._domain = f"gui/{uid}"
        self._run = run

    @property
    def file(self) -> Path:
        return self._home / "Library" / "LaunchAgents" / f"{LABEL}.plist"

    def render(self, service: Service) -> str:
        agent = {
            "Label": LABEL,
            "ProgramArguments": list(service.command),
            "EnvironmentVariables": dict(service.environment),
            "WorkingDirectory": str(service.folder),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": int(service.stop_s),
            "StandardOutPath": str(service.log_file),
            "StandardErrorPath": str(service.log_file),
        }
        return plistlib.dumps(agent).decode()

    def install(self, service: Service) -> list[str]:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        service.log_file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(self.render(service), encoding="utf-8")
        self._run(["launchctl", "bootout", f"{self._domain}/{LABEL}"])  # fails if it is not loaded yet
        ran = self._run(["launchctl", "bootstrap", self._domain, str(self.file)])
        if ran.code:
            raise PilothouseError(
                f"`launchctl bootstrap {self._domain} {self.file}` failed: {ran.text or ran.code}"
            )
        return [AT_LOGIN]

    def uninstall(self) -> None:
        self._run(["launchctl", "bootout", f"{self._domain}/{LABEL}"])
        self.file.unlink(missing_ok=True)

    def state(self) -> ServiceState:
        if not self.file.exists():
            return ServiceState(False, False, "not installed", "pilothouse service install")
        shown = self._run(["launchctl", "print", f"{self._domain}/{LABEL}"])
        if shown.code:
            return ServiceState(True, False, "installed, but not loaded", "pilothouse service install")
        if pid := re.search(r"^\s*pid = (\d+)", shown.text, re.MULTILINE):
            return ServiceState(True, True, f"running, pid {pid[1]}, starts when you log in")
        code = re.search(r"last exit code = (.+)", shown.text)
        why = f" (last exit code {code[1].strip()})" if code else ""
        return ServiceState(True, False, f"installed, but not running{why}", "pilothouse service logs")

    def log_command(self, lines: int, *, follow: bool) -> list[str]:
        agent = plistlib.loads(self.file.read_bytes())
        return ["tail", "-n", str(lines), *(["-F"] if follow else []), agent["StandardErrorPath"]]
