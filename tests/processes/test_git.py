"""A hostile repository runs nothing by commands that only read (A7), with the real git."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId
from pilothouse.core.policy import Site
from pilothouse.policy.decide import PolicyEnv, decide
from pilothouse.processes.git import git_problem, safe_git

PLAIN = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *words: str, env: Mapping[str, str] = PLAIN) -> str:
    done = subprocess.run(
        ["git", *words], cwd=folder, env=dict(env), capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def touch(folder: Path) -> None:
    """Make git look at unchanged and at changed files again, and write its index."""
    for name in (".gitattributes", "a.txt"):
        os.utime(folder / name, (1, time.time()))


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, and a changed file."""
    folder = tmp_path_factory.mktemp("clean").resolve() / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / ".gitattributes").write_text("*.txt diff=any filter=any\n")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    git(folder, "remote", "add", "origin", "https://example.org/x.git")
    git(folder, "config", "branch.main.remote", "origin")
    (folder / "a.txt").write_text("two\n")
    return folder


@pytest.fixture
def bait(tmp_path: Path) -> Path:
    """A program that leaves a mark beside itself."""
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat 2>/dev/null\nexit 0\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def hostile(clean: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(clean, tmp_path.resolve() / "work", symlinks=True))


def ruling(folder: Path, command: str, *, trusted: bool = False) -> str:
    ask = Ask(AskId("a"), "approval", command, call=Call("command", "Bash", str(folder), command))
    site = Site(str(folder), trusted=trusted)
    return decide(ask, (), site, PolicyEnv(git_problem=git_problem)).outcome


SETTINGS = {
    "core.fsmonitor": ("git status", True),
    "core.hooksPath": ("git status", True),
    "diff.external": ("git diff", False),
    "diff.any.textconv": ("git diff", False),
    "diff.any.command": ("git diff", False),
    "filter.any.clean": ("git status", False),
    "filter.any.process": ("git status", False),
    "include.path": ("git status", False),
}
"""The command that runs what the setting names, and whether our environment alone prevents that."""


@pytest.mark.parametrize("setting", SETTINGS)
def test_a7_a_setting_that_names_a_program_is_asked_about(hostile: Path, bait: Path, setting: str) -> None:
    command, overridden = SETTINGS[setting]
    value = str(bait)
    if setting == "core.hooksPath":
        (bait.parent / "hooks").mkdir()
        shutil.copy(bait, bait.parent / "hooks" / "post-index-change")
        value = str(bait.parent / "hooks")
    if setting == "include.path":
        value = str(bait.parent / "more")
        Path(value).write_text(f"[core]\n\tfsmonitor = {bait}\n")
    assert git_problem(str(hostile)) == ""
    git(hostile, "config", setting, value)
    assert ruling(hostile, command) == ruling(hostile / ".git" / "..", command) == "ask"
    assert ruling(hostile, command, trusted=True) == "allow"
    if overridden:
        touch(hostile)
        git(hostile, *command.split()[1:], env=safe_git(PLAIN, trusted=False))
        assert not (bait.parent / "ran").exists()
    touch(hostile)
    git(hostile, *command.split()[1:])
    assert (bait.parent / "ran").exists(), "the test shows nothing: git did not run it"


def test_a7_a_hook_and_a_submodule_are_asked_about(hostile: Path, clean: Path, bait: Path) -> None:
    (hostile / ".git" / "hooks").mkdir(exist_ok=True)
    hook = hostile / ".git" / "hooks" / "post-index-change"
    shutil.copy(bait, hook)
    assert ruling(hostile, "git status") == "ask"
    touch(hostile)
    git(hostile, "status", env=safe_git(PLAIN, trusted=False))
    assert not (bait.parent / "ran").exists()
    hook.unlink()
    assert ruling(hostile, "git status") == "allow"
    shutil.copytree(clean, hostile / "sub", symlinks=True)
    git(hostile, "add", "sub")
    git(hostile / "sub", "config", "filter.any.clean", str(bait))
    touch(hostile / "sub")
    git(hostile, "status", env=safe_git(PLAIN, trusted=False))
    assert (bait.parent / "ran").exists(), "the test shows nothing: git did not look into the submodule"
    assert (ruling(hostile, "git status"), ruling(hostile, "git diff")) == ("ask", "ask")
    assert "submodules" in git_problem(str(hostile))


def test_a7_a_repository_is_found_as_git_finds_it(hostile: Path, clean: Path, bait: Path) -> None:
    git(hostile, "worktree", "add", "-q", "tree")
    git(hostile, "config", "extensions.worktreeConfig", "true")
    tree, inner = hostile / "tree", hostile / "a" / "b"
    inner.mkdir(parents=True)
    assert {git_problem(str(place)) for place in (hostile, tree, inner)} == {""}
    (inner / ".git" / "objects").mkdir(parents=True)  # not complete: git goes on upwards
    (inner / ".git" / "refs").mkdir()
    (inner / ".git" / "HEAD").write_text("nothing")
    git(tree, "config", "--worktree", "core.fsmonitor", str(bait))
    assert (git_problem(str(hostile)), git_problem(str(tree))) == ("", "sets core.fsmonitor")
    git(hostile, "config", "core.fsmonitor", str(bait))
    assert {git_problem(str(place)) for place in (hostile, inner)} == {"sets core.fsmonitor"}
    assert git_problem("/") == git_problem(str(clean.parent)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "[core] fsmonitor = x",
        '[diff "a b"]\n\tTextConv = x',
        "[filter.any]\nclean = x",
        "[core]\r\nFSMONITOR = x\r\n",
        '[remote "o"]\n\turl = a\\\n[core]\n\tuploadpack = x',
        '[remote "o"]\n\tuploadpack = x',
        "[core]\n\tworktree = /",
        "[include]\n\tpath = x",
        "\ufeff[core]\n\tbare = false",
        '[branch "x]"]\n[core]\x0bfsmonitor = x',
    ],
)
def test_a7_a_file_of_settings_that_is_not_plain_is_asked_about(hostile: Path, text: str) -> None:
    (hostile / ".git" / "config").write_bytes(text.encode())
    assert "sets" in git_problem(str(hostile))


def test_a7_a_file_that_never_ends_or_cannot_be_read_is_asked_about(hostile: Path) -> None:
    config = hostile / ".git" / "config"
    config.unlink()
    os.mkfifo(config)
    assert "cannot be checked" in git_problem(str(hostile))
    config.unlink()
    config.symlink_to("/dev/zero")
    assert "cannot be checked" in git_problem(str(hostile))


def test_settings_of_the_user_are_kept_beside_ours(clean: Path) -> None:
    own = {**PLAIN, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Ada"}
    for environment in (safe_git(own, trusted=False), safe_git(safe_git(own, trusted=True), trusted=False)):
        told = git(
            clean, "config", "--show-scope", "--get-regexp", "user.name|hooks|bare|fsm", env=environment
        )
        assert "command\tuser.name Ada" in told
        assert "command\tcore.hookspath /dev/null" in told
        assert "command\tsafe.barerepository explicit" in told
        assert "command\tcore.fsmonitor false" in told
    assert "hooksPath" not in str(safe_git(own, trusted=True)), "people need their hooks in a trusted folder"
    for wrong in ("", "x", "-1"):
        assert "core.hookspath" in git(
            clean, "config", "-l", env=safe_git({**PLAIN, "GIT_CONFIG_COUNT": wrong}, trusted=False)
        )
