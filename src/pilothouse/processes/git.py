"""Keeps git from running programs that an untrusted repository names.

A clone brings no settings, but an archive or a shared folder may bring a `.git/config` that names programs, which even
`git status` runs. `safe_git` overrides the settings that have a fixed name, for every process of an agent. Filters and diff
drivers have any name, and submodules have settings of their own: `git_problem` finds these, so that a person is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from stat import S_ISREG

_EVERYWHERE = {"safe.bareRepository": "explicit", "core.fsmonitor": "false"}
_UNTRUSTED = {"core.hooksPath": "/dev/null"}
_COUNT, _KEY, _VALUE = "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_{}", "GIT_CONFIG_VALUE_{}"
MAX_BYTES = 100_000
MAX_INDEX_BYTES = 64 << 20

_HARMLESS = {
    "core": "repositoryformatversion filemode bare logallrefupdates ignorecase precomposeunicode symlinks autocrlf eol safecrlf "
    "sparsecheckout sparsecheckoutcone untrackedcache longpaths quotepath abbrev compression commentchar",
    "extensions": "objectformat refstorage worktreeconfig",
    "remote": "url pushurl fetch push mirror tagopt prune gh-resolved",
    "user": "name email signingkey",
    "pull": "rebase ff",
    "push": "default autosetupremote followtags",
    "commit": "gpgsign",
    "lfs": "repositoryformatversion",
    **dict.fromkeys(("advice", "branch", "color", "gc", "init", "maintenance"), "*"),
}
"""Settings with which commands that only read run nothing else. In a section with `*`, all of them."""
_HEADER = re.compile(r'[ \t]*\[([A-Za-z0-9-]+)(?:\.[A-Za-z0-9.-]+|[ \t]+"(?:[^"\\]|\\.)*")?\][ \t\r]*')
_SETTING = re.compile(r"[ \t]*([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[^\x00-\x08\x0a-\x1f]*(?<!\\))?\r?")
_NOTHING = re.compile(r"[ \t]*(?:[#;].*)?\r?")
_HEAD = re.compile(rb"ref:\s*refs/|[0-9a-f]{40}")
_SUBMODULE = b"\x00\x00\xe0\x00"
"""The file mode of a submodule, as it stands in every version of an index. Other bytes may look the same by chance."""


def safe_git(environment: Mapping[str, str], *, trusted: bool) -> dict[str, str]:
    """Return the environment with settings for git that outrank those of a repository, behind the ones it has.

    Hooks are switched off in untrusted folders only: people need theirs. `diff.external` cannot be overridden: git (2.39)
    takes an empty one for a program that does not run.
    """
    given = environment.get(_COUNT, "")
    start = int(given) if given.isascii() and given.isdigit() else 0
    found = {"GIT_PAGER": "cat", **environment}
    for at, (name, value) in enumerate((_EVERYWHERE if trusted else _EVERYWHERE | _UNTRUSTED).items(), start):
        found |= {_KEY.format(at): name, _VALUE.format(at): value, _COUNT: str(at + 1)}
    return found


def git_problem(folder: str) -> str:
    """Tell what could make a reading git command run a program in this folder; empty if nothing could."""
    try:
        return next(filter(None, (_problem(place) for place in _repository(folder))), "")
    except (OSError, ValueError) as error:
        return f"cannot be checked ({type(error).__name__})"


def _repository(folder: str) -> Iterator[str]:
    """Yield the folders with the settings of the repository that git would find, going upwards."""
    while True:
        inner = os.path.join(folder, ".git")
        if os.path.isfile(inner):
            place = os.path.join(folder, _first_line(inner).removeprefix("gitdir:").strip())
            break
        if place := next(filter(_is_git_dir, (inner, folder)), ""):
            break
        if (above := os.path.dirname(folder)) == folder:
            return
        folder = above
    yield place
    if os.path.lexists(os.path.join(place, "commondir")):
        yield os.path.join(place, _first_line(os.path.join(place, "commondir")))


def _is_git_dir(place: str) -> bool:
    """Tell whether git uses a folder: of one that is not complete it looks for a repository further up."""
    head = os.path.join(place, "HEAD")
    if not os.path.lexists(head):
        return False
    common = os.path.join(place, "commondir")
    if os.path.lexists(common):
        place = os.path.join(place, _first_line(common))
    whole = all(os.path.isdir(os.path.join(place, name)) for name in ("objects", "refs"))
    return whole and (os.path.islink(head) or _HEAD.match(_read(head, MAX_BYTES)) is not None)


def _problem(place: str) -> str:
    for name in ("config", "config.worktree"):
        path = os.path.join(place, name)
        if os.path.lexists(path) and (odd := _odd_setting(_read(path, MAX_BYTES).decode("latin-1"))):
            return f"sets {odd}"
    if os.path.lexists(os.path.join(place, "hooks", "post-index-change")):
        return "has a hook that reading commands run"
    indexes = [name for name in os.listdir(place) if name == "index" or name.startswith("sharedindex.")]
    if any(_SUBMODULE in _read(os.path.join(place, name), MAX_INDEX_BYTES) for name in indexes):
        return "has submodules with settings of their own"
    return ""


def _odd_setting(text: str) -> str:
    """Return the first setting that is not known to be harmless, or the first line that is not plain."""
    section = ""
    for line in text.split("\n"):
        if _NOTHING.fullmatch(line):
            continue
        if header := _HEADER.fullmatch(line):
            section = header[1].lower()
            continue
        setting = _SETTING.fullmatch(line)
        known = _HARMLESS.get(section, "").split()
        if setting is None or (setting[1].lower() not in known and known != ["*"]):
            return f"{section}.{setting[1]}" if setting else repr(line.strip()[:60])
    return ""


def _first_line(path: str) -> str:
    return os.fsdecode(_read(path, MAX_BYTES).split(b"\n", 1)[0]).rstrip("\r")


def _read(path: str, most: int) -> bytes:
    """Read a plain file. Raises `ValueError` for anything else: a pipe would never end."""
    if not S_ISREG(os.stat(path).st_mode):
        raise ValueError(f"{path} is no plain file")
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{path} is too large")
    return data
