"""A real program, pinned: installed once by npm from a lock, and kept between runs.

The platform's own package holds a program that needs neither Node nor npm's install script, so none is run. Where it
cannot be installed the tests that need it are skipped, and `./check` says so; in CI they fail.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WITHIN_S = 300


class NotInstalled(Exception):
    pass


class NpmPackages:
    """Packages of a lock: `lock` is a folder with a package-lock.json."""

    def __init__(self, name: str, version: str, lock: Path) -> None:
        self._name = name
        self._version = version
        self._lock = lock

    def path(self) -> Path:
        """The path of what is wanted of them; skips the test, or fails it in CI, where there is none."""
        found = self.installed
        if isinstance(found, Path):
            return found
        if os.environ.get("CI"):
            pytest.fail(found, pytrace=False)
        pytest.skip(found)

    @cached_property
    def installed(self) -> Path | str:
        """Its path, or why there is none."""
        try:
            return self._install()
        except (NotInstalled, OSError, subprocess.TimeoutExpired) as error:
            return f"NOT TESTED with the real {self._name} {self._version}, which could not be installed: {error}"

    def prepare(self) -> None:
        """Install it, beside others. `installed` tells what came of it: a cached property waits for all its likes."""
        with suppress(NotInstalled, OSError, subprocess.TimeoutExpired):
            self._install()

    def _install(self) -> Path:
        lock = (self._lock / "package-lock.json").read_bytes()
        folder = cache_folder() / f"{self._name}-{self._version}-{hashlib.sha256(lock).hexdigest()[:12]}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with folder.with_suffix(".lock").open(
            "w"
        ) as held:  # two test processes: the second finds the work done
            fcntl.flock(held, fcntl.LOCK_EX)
            if not (folder / "stamp").exists():
                self._install_into(folder)
        return self._find(folder)

    def _install_into(self, folder: Path) -> None:
        if shutil.which("npm") is None:
            raise NotInstalled("there is no npm on PATH")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._lock, folder)
        done = subprocess.run(
            ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=WITHIN_S,
            check=False,
        )
        if done.returncode != 0:
            raise NotInstalled(f"npm ci ended with {done.returncode}: {done.stderr.strip()[-600:]}")
        (folder / "stamp").write_text(self._check(folder))

    def _check(self, folder: Path) -> str:
        """Raises `NotInstalled` if it is not what was wanted; returns a word about it."""
        return self._version

    def _find(self, folder: Path) -> Path:
        return folder / "node_modules"


class NpmProgram(NpmPackages):
    """`pattern` finds the program below node_modules, and `interpreter` the one that runs it, if any."""

    def __init__(self, name: str, version: str, lock: Path, pattern: str, interpreter: str = "") -> None:
        super().__init__(name, version, lock)
        self._pattern = pattern
        self._interpreter = interpreter

    @cached_property
    def version(self) -> str:
        """As it prints it."""
        return _version_of(self.command)

    @property
    def command(self) -> list[str]:
        program = self.path()
        return self._words(program, next(one for one in program.parents if one.name == "node_modules"))

    def _words(self, program: Path, modules: Path) -> list[str]:
        interpreters = sorted(modules.glob(self._interpreter)) if self._interpreter else []
        return [*map(str, interpreters[:1]), str(program)]

    def _check(self, folder: Path) -> str:  # pyrefly: ignore[missing-override-decorator]
        found = _version_of(self._words(self._find(folder), folder / "node_modules"))
        if self._version not in found:
            raise NotInstalled(f"it says that it is {found!r}")
        return found

    def _find(self, folder: Path) -> Path:  # pyrefly: ignore[missing-override-decorator]
        # Where both C libraries have a package, npm unpacks the one that fits; a stranger's would not start.
        paths = sorted((folder / "node_modules").glob(self._pattern))
        found = [path for path in paths if self._interpreter or os.access(path, os.X_OK)]
        if not found:
            raise NotInstalled("its package holds no program for this machine")
        return found[0]


def cache_folder() -> Path:
    return Path(os.environ.get("PILOTHOUSE_CACHE_DIR") or ROOT / ".cache") / "engines"


def _version_of(words: list[str]) -> str:
    done = subprocess.run([*words, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()
