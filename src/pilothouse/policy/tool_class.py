"""Classifies tool calls: `destructive` calls cannot be undone, or reach beyond the workspace.

It says who may answer, never whether something may run; so whatever only looks destructive counts as destructive.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from pilothouse.core.call import Call
from pilothouse.core.policy import ToolClass

_PROGRAMS = frozenset(
    word
    for line in (
        # delete or overwrite
        "rm rmdir unlink shred srm dd truncate wipefs mkfs fdisk parted sgdisk mkswap",
        # act as another user, or on the machine
        "sudo doas su pkexec chown chgrp chmod setfacl mount umount insmod rmmod modprobe sysctl systemctl",
        "launchctl shutdown reboot halt poweroff kill pkill killall crontab iptables nft ufw useradd userdel usermod",
        "visudo",
        # run texts that are not shown
        "eval xargs parallel osascript",
        # change shared systems
        "terraform tofu pulumi ansible ansible-playbook dropdb dropuser",
    )
    for word in line.split()
)
_DEEDS: Mapping[str, frozenset[str]] = {
    name: frozenset(deeds.split())
    for names, deeds in {
        "git": "push clean filter-branch filter-repo gc prune update-ref expire rebase --hard --merge --keep restore "
        "--force -f --discard-changes -d -D --delete drop clear",
        "find": "-delete -exec -execdir -ok -okdir -fprint -fprintf -fprint0 -fls",
        "docker podman": "rm rmi prune kill down",
        "kubectl": "delete drain apply replace scale",
        "helm": "delete uninstall upgrade",
        "npm pnpm yarn bun cargo gem poetry uv twine flit hatch": "publish upload unpublish yank",
        "gh": "delete merge close release",
        "aws gcloud az gsutil rclone": "rm delete destroy terminate purge sync",
        "rsync": "--delete --delete-after --delete-before --remove-source-files",
        "sed": "-i --in-place",
        "tar": "--remove-files --overwrite",
        "mv cp": "-f --force",
    }.items()
    for name in names.split()
}
"""Words that make a command of an everyday program destructive, at any position."""
_OWN_NAMES = frozenset({"pilothouse", "pilothouse.__main__", "__main__.py"})
_OWN_DEEDS: Mapping[str, frozenset[str]] = {
    **{name: frozenset() for name in ["chat", "up", "discord", "init", "pair", "trust", "untrust"]},
    "users": frozenset({"grant", "revoke"}),
    "rules": frozenset({"add", "remove"}),
    "asks": frozenset({"allow", "deny", "answer"}),
}
"""Our own commands that change something, and their subcommands that do; the CLI refuses them to engines, too."""
_OWN_NAMELESS = re.compile(
    r"pilothouse(\.__main__|/__main__\.py)?\s+(-\S*\s+)*(\S*[$`*?\[{]|(users|rules|asks)\s[^;&|]*[$`*?\[{])",
    re.IGNORECASE,
)
"""A subcommand of ours that only the shell knows: `pilothouse $X`."""
_SHELL_NAMES = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "."})
_SQL = re.compile(
    r"\bdrop\s+(table|database|schema|index|view|user|role)\b|\btruncate\s+table\b|\bdelete\s+from\b"
    r"|\bflush(all|db)\b",
    re.IGNORECASE,
)
_SQL_SIGNS = ("drop", "truncate", "delete", "flush")
_UNREAD_SIGNS = ("|", ">", "$'", "base64")
_TEXT_OPTION = re.compile(r"-\w*c\b")
"""Every match of `_UNREAD` contains a sign or the option; most lines contain none."""
_BETWEEN_WORDS = re.compile(r"[\s;&|()<>`{}=$,]+")
LONGEST_LINE = 2000
"""A longer line counts as destructive."""

_SHELLS = r"(ba|da|z|k|fi|a|c|tc)?sh|python[\d.]*|node|ruby|perl|php"
_UNREAD = re.compile(
    rf"\|\s*&?\s*(\S*/)?(env\s+|sudo\s+)?({_SHELLS})\b|\b({_SHELLS})\s+(-\S+\s+)*-\w*c\b|\$'|base64\s+(-\w*d|--decode)"
    r"|>\s*\|?\s*/(?!dev/(null|stdout|stderr)\b)|>\s*~"
)
_QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\.|[^"\\])*\"""")
_BEFORE = r"(?:^|[;&|(`!]|[{]\s|\b(?:then|do|else|elif|if|while|until)\s)\s*"
_NOT_YET = r"(?:\w+\+?=[^\s;&|]*\s+|\d*[<>]+&?\s*[^\s;&|]+\s+)*"
_WRAPPERS = r"env|nice|ionice|nohup|timeout|time|command|builtin|exec|stdbuf|setsid|chroot|coproc|watch"
_NAMELESS = re.compile(
    rf"{_BEFORE}{_NOT_YET}(?!(?:\[\[?|\{{)\s)[^\s;&|()<>=]*[$`*?\[{{]"
    rf"|\b(?:{_WRAPPERS})\s[^;&|]*[$`*?\[{{]|\w=[^\s;&|]*[(`].*[)`]\s+[^\s;&|)#]"
)
"""A program name that the shell still expands: `r$()m`, `/bin/r?`."""
_MAKES_NAMES = re.compile(r"[$`*?\[{(]")
"""Every match of `_NAMELESS` contains one of these characters; most lines contain none."""
_TOOL_NAME = r"(^|[_\-.])(delete|remove|drop|destroy|purge|wipe|erase|truncate|kill|terminate|revoke|uninstall|force|merge|publish|deploy)"
_HUMP = r"(?<=[a-z0-9])(?=[A-Z])"


def tool_class(call: Call | None) -> ToolClass:
    """Classify a call. An unreadable one is destructive."""
    if call is None:
        return "ordinary"  # a question, or a plan: nothing runs
    return "destructive" if _is_destructive(call) else "ordinary"


def _is_destructive(call: Call) -> bool:
    match call.kind:
        case "unreadable":
            return True
        case "command":
            return is_destructive_command(call.command)
        case "change":
            return any(_reaches_out(path, call.cwd) for path in call.paths)
        case _ if "command" in call.input:
            return is_destructive_command(call.input["command"])
        case _:
            return re.search(_TOOL_NAME, re.sub(_HUMP, "_", call.tool), re.IGNORECASE) is not None


def is_destructive_command(command: Any) -> bool:
    """Search all words of a command, however they are quoted: `"r"m`, `\\rm` and `/bin/rm` are `rm`."""
    if not isinstance(command, str):
        return True
    plain = command.replace("\\\n", "").replace("\\", "").replace("'", "").replace('"', "")
    lines = {*plain.splitlines(), *command.splitlines()}
    if any(len(line) > LONGEST_LINE or _does_harm(line) for line in lines):
        return True
    bare = _without_quoted({*command.replace("\\\n", "").splitlines()})
    return any(_MAKES_NAMES.search(line) and _NAMELESS.search(line) for line in bare)


def _without_quoted(lines: Collection[str]) -> Collection[str]:
    """Replace quoted text. With an unclosed quote, keep the lines as they are."""
    bare = [_QUOTED.sub(_blot, line) for line in lines]
    return lines if any(re.search(r"""['"]""", line) for line in bare) else bare


def _blot(quoted: re.Match[str]) -> str:
    """Replace a quoted text by one word; keep expansions visible."""
    dynamic = quoted[0].startswith('"') and re.search(r"[$`]", quoted[0])
    return re.sub(r"""[\s'"]""", "_", quoted[0]) if dynamic else "_"


def _does_harm(line: str) -> bool:
    words = [word.rpartition("/")[2] or word for word in _BETWEEN_WORDS.split(line)]
    small = line.lower()
    if not _PROGRAMS.isdisjoint(map(str.lower, words)):
        return True
    if "mkfs." in line and any(word.startswith("mkfs.") for word in words):
        return True
    for name in {word for word in words if word in _DEEDS}:
        after = words[words.index(name) + 1 :]
        if not _DEEDS[name].isdisjoint(after) or (name == "git" and _overwrites(after)):
            return True
    if ("pilothouse" in small or "run" in small) and _changes_pilothouse(line):
        return True
    if (not line.isascii() or any(sign in small for sign in _SQL_SIGNS)) and _SQL.search(line):
        return True
    unread = any(sign in line for sign in _UNREAD_SIGNS) or _TEXT_OPTION.search(line)
    return bool(unread and _UNREAD.search(line))


def _changes_pilothouse(line: str) -> bool:
    """Find our own program, or the `run` of its checkout, with a subcommand that changes something."""
    if _OWN_NAMELESS.search(line):
        return True
    words = [word.lower() for word in _BETWEEN_WORDS.split(line) if word]
    for at, word in enumerate(words):
        is_run = word.endswith("/run") or (word == "run" and at > 0 and words[at - 1] in _SHELL_NAMES)
        if not is_run and word.rpartition("/")[2] not in _OWN_NAMES:
            continue
        rest = [word for word in words[at + 1 :] if not word.startswith("-")]
        deeds = _OWN_DEEDS.get(rest[0]) if rest else None
        if deeds is not None and (not deeds or not deeds.isdisjoint(rest[1:])):
            return True
    return False


def _overwrites(words: Sequence[str]) -> bool:
    """Recognise `git checkout -- .`, which discards changes; `git checkout topic` does not."""
    return "checkout" in words and ("--" in words or "." in words)


def _reaches_out(path: str, cwd: str) -> bool:
    """Tell whether a path leads out of the folder that the call is made in."""
    if ".." in PurePosixPath(path).parts or path.startswith("~"):
        return True
    return path.startswith("/") and bool(cwd) and not PurePosixPath(path).is_relative_to(cwd)
