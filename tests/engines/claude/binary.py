"""The real `claude`, pinned: installed once by npm from the lock beside this file, and kept between runs.

The platform's own package holds a program that needs neither Node nor npm's install script, so none is run. Where it
cannot be installed the tests that need it are skipped, loudly; in CI they fail.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "npm"
ROOT = Path(__file__).parents[3]
VERSION = "2.1.325"
WITHIN_S = 300
NOT_TESTED = "NOT TESTED"  # tools/check.py shows such lines also where all tests passed


class NotInstalled(Exception):
    pass


def claude_binary() -> Path:
    """Its path; skips the test, or fails it in CI, where there is none."""
    found = try_install()
    if isinstance(found, Path):
        return found
    if os.environ.get("CI"):
        pytest.fail(found, pytrace=False)
    pytest.skip(found)


@cache
def try_install() -> Path | str:
    """Once per run: its path, or why there is none, which is also said where nobody overlooks it."""
    try:
        return install()
    except (NotInstalled, OSError, subprocess.TimeoutExpired) as error:
        words = f"{NOT_TESTED} with the real claude {VERSION}, which could not be installed: {error}"
        print(words, file=sys.__stderr__, flush=True)
        return words


def install() -> Path:
    lock = (HERE / "package-lock.json").read_bytes()
    folder = cache_folder() / f"claude-{VERSION}-{hashlib.sha256(lock).hexdigest()[:12]}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as held:  # two test processes: the second finds the work done
        fcntl.flock(held, fcntl.LOCK_EX)
        if not (folder / "stamp").exists():
            _install_into(folder)
    return find_binary(folder)


def cache_folder() -> Path:
    return Path(os.environ.get("PILOTHOUSE_CACHE_DIR") or ROOT / ".cache") / "engines"


def _install_into(folder: Path) -> None:
    if shutil.which("npm") is None:
        raise NotInstalled("there is no npm on PATH")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE, folder)
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
    found = _version_of(find_binary(folder))
    if VERSION not in found:
        raise NotInstalled(f"it says that it is {found!r}")
    (folder / "stamp").write_text(found)


@cache
def claude_version() -> str:
    """As it prints it."""
    return _version_of(claude_binary())


def find_binary(folder: Path) -> Path:
    packages = folder / "node_modules" / "@anthropic-ai"
    # Where both C libraries have a package, npm unpacks the one that fits; a stranger's would not start.
    found = [path for path in sorted(packages.glob("claude-code-*/claude")) if os.access(path, os.X_OK)]
    if not found:
        raise NotInstalled("its package holds no program for this machine")
    return found[0]


def _version_of(binary: Path) -> str:
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip()
