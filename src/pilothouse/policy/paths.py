"""Checks paths against the workspace and against rules. A path counts by where it leads, never by how it is written.

A deny or ask rule about a folder covers everything below it, and a pattern without a slash matches at any depth. An allow
rule matches exactly; relative patterns begin at the workspace.
"""

from __future__ import annotations

import glob
import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from pilothouse.core.policy import Rule, literal_prefix, path_regex
from pilothouse.policy.reader_table import word_set

MAX_CHARS = 4096
"""No system accepts a longer path."""
MAX_DEPTH = 50
MAX_LINKS = 40
MAX_MATCHES = 500
MAX_MAGIC = 2
"""Maximum number of names with wildcards in a pattern: each multiplies the folders to list."""
_MAGIC = re.compile(r"[*?]")
NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/fd/1", "/dev/fd/2"})
PROTECTED = word_set("""
.git .hg .svn .jj .gitmodules .gitattributes .gitconfig .githooks .husky .huskyrc .lefthook .lefthook.yml lefthook.yml
lefthook.yaml lefthook-local.yml .pre-commit-config.yaml .overcommit.yml .lintstagedrc
.claude .codex .opencode .gemini .cursor .windsurf .continue .roo .cline .clinerules .cursorrules .windsurfrules .goosehints
.aider.conf.yml claude.md claude.local.md agents.md agents.override.md gemini.md .mcp.json .pilothouse.toml
.vscode .idea .zed .fleet .vim .nvim .vimrc .gvimrc .exrc .nvimrc .nvim.lua .emacs .emacs.d .dir-locals.el
.envrc .direnv .tool-versions mise.toml .mise.toml .mise .asdfrc .sdkmanrc .npmrc .yarnrc .yarnrc.yml .yarn .pnp.cjs .pnpmfile.cjs
bunfig.toml .cargo .pypirc pip.conf .condarc .venv venv .virtualenv pyvenv.cfg sitecustomize.py usercustomize.py node_modules
.tox .nox __pypackages__
.github .gitlab .gitlab-ci.yml .circleci .travis.yml .drone.yml .woodpecker .woodpecker.yml .buildkite .forgejo .gitea
azure-pipelines.yml bitbucket-pipelines.yml appveyor.yml jenkinsfile .devcontainer .devcontainer.json .gitpod.yml
.profile .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv .zprofile .zlogin .zlogout .kshrc .cshrc
.tcshrc .login .inputrc .xinitrc .xprofile .xsession .tmux.conf .screenrc .gdbinit .lldbinit .pythonrc .irbrc .pryrc .rprofile
.config .local .ssh .gnupg .aws .kube .docker .netrc .pgpass .git-credentials .ipython .jupyter .m2 .gradle .subversion
""")
"""Names that other tools execute or obey, or that widen what an engine may do, in small letters. Changing them is asked."""
_PROGRAM = re.compile(r"(?:^|/)(?:s?bin|Scripts)/[^/.]*(?:\.\d+)*$")
"""Programs by their place, such as those of a virtual environment: `env/bin/pip3.11`, not `src/bin/main.rs`."""
_ATTACHED = re.compile(r"-\w[/~.\w]")
GitProblem = Callable[[str], str] | None


def paths_in(word: str) -> Iterator[str]:
    """Yield the paths that are a part of a word: `--file=a`, `-fa`, `@a`, `host:a`."""
    if "=" in word:
        yield word.partition("=")[2]
    if word[:1] == "-" and _ATTACHED.match(word):
        yield word[2:]
    if word[:1] == "@":
        yield word[1:]
    if ":" in word:
        yield from word.split(":")


def joined(folder: str, path: str) -> str:
    """Join and normalise a path without following links."""
    return "/" + posixpath.normpath(posixpath.join(folder, path)).lstrip("/")


class Filesystem:
    """Looks at the disk. `~` is the home folder; an unreadable path is None.

    A `folder` is `/` or a path that `resolve` gave: it is not looked at again."""

    def __init__(self, home: str | None = None) -> None:
        self._home = home or os.path.expanduser("~")

    def resolve(self, folder: str, path: str) -> str | None:
        """Return the real path, every link followed; a missing file is where it would be created."""
        if path[:1] == "~":
            if path[1:2] not in ("", "/"):
                return None
            path = self._home + path[1:]
        try:
            return _follow("" if path[:1] == "/" else folder.rstrip("/"), path)
        except (OSError, ValueError):
            return None

    def expand(self, folder: str, pattern: str) -> tuple[str, ...] | None:
        """Return the paths that a pattern matches now; None if too many, or if shells differ about it."""
        pattern = self._home + pattern[1:] if pattern.startswith("~/") else pattern
        stars = sum("*" in part for part in pattern.split("/"))
        if re.search(r"[?\[\\(]|\*\*", pattern) or stars > MAX_MAGIC or not pattern.isascii():
            return None  # shells differ about brackets, `?` and `**`, by their settings and from Python
        try:
            found = tuple(islice(glob.iglob(pattern, root_dir=folder), MAX_MATCHES + 1))
        except (OSError, ValueError):
            return None
        return None if len(found) > MAX_MATCHES else found

    def is_git_dir(self, folder: str) -> bool:
        """Tell whether git might use the folder as a repository, whose `config` may name programs to run.

        git (2.39) wants HEAD, and objects and refs either here or in the folder that the file `commondir` names. Any one
        of them beside HEAD is enough for us: a false yes only asks a person."""
        head, *others = (os.path.join(folder, name) for name in ("HEAD", "commondir", "objects", "refs"))
        return os.path.lexists(head) and any(map(os.path.lexists, others))

    def has_git_dir(self, folder: str) -> bool:
        """Tell whether git would find the folder's repository in its `.git`."""
        inner = os.path.join(folder, ".git")
        return self.is_git_dir(inner) or os.path.isfile(inner)


def _follow(real: str, path: str) -> str:
    """Follow links like `os.path.realpath`, but raise `OSError` for a loop or an unreadable folder.

    `real` has no links any more; only what comes after it is looked at."""
    pending = [path] if "/" not in path and path not in ("", ".") else _parts(path)
    links = 0
    while pending:
        part = pending.pop()
        if part == "..":
            real = real.rpartition("/")[0]
            continue
        there = f"{real}/{part}"
        if there == "/proc":
            raise OSError(f"{path!r} is a different file for each process")
        try:
            target = os.readlink(there)
        except PermissionError:
            raise
        except OSError:  # no link, or nothing there: what would be made, would be made here
            real = there
            continue
        links += 1
        if links > MAX_LINKS:
            raise OSError(f"{path!r} has too many links")
        if target.startswith("/"):
            real = ""
        pending.extend(_parts(target))
    return real or "/"


def _parts(path: str) -> list[str]:
    """Return the names of a path, the last one first."""
    return [part for part in path.split("/")[::-1] if part and part != "."]


class WorkspacePaths:
    def __init__(
        self, workspace: str, folders: Sequence[str], filesystem: Filesystem, git_problem: GitProblem = None
    ) -> None:
        self.filesystem, self.git_problem = filesystem, git_problem
        self._resolved: dict[str, dict[str, str | None]] = {}
        self.root = filesystem.resolve("/", workspace) if workspace.startswith("/") else None
        found = (filesystem.resolve("/", folder) for folder in folders if folder.startswith("/"))
        self.roots = tuple(place for place in (self.root, *found) if place)
        self._prefixes = tuple(root.rstrip("/") + "/" for root in self.roots)
        if self.root and len(workspace) <= MAX_CHARS:
            self._resolved["/"] = {workspace: self.root}

    def resolve(self, cwd: str, path: str) -> str | None:
        """Resolve a path. Each path, and each folder on its way, is followed once per decision."""
        known = self._resolved.setdefault(cwd, {})
        if path not in known:
            known[path] = self._find(cwd, path) if len(path) <= MAX_CHARS else None
        return known[path]

    def _find(self, cwd: str, path: str) -> str | None:
        folder, _, name = path.rpartition("/")
        if not folder or not name or name[0] == "~" or path.count("/") > MAX_DEPTH:
            return self.filesystem.resolve(cwd, path)
        start = self.resolve(cwd, folder)
        return None if start is None else self.filesystem.resolve(start, name)

    def is_inside(self, real: str) -> bool:
        return real.startswith(self._prefixes) or real in self.roots

    def is_protected(self, real: str) -> bool:
        below = self._below_root(real)
        return not PROTECTED.isdisjoint(below.casefold().split("/")) or _PROGRAM.search(below) is not None

    def may_change(self, real: str) -> bool:
        """Tell whether the mode `trusted` may change the file."""
        return self.is_inside(real) and not self.is_protected(real)

    def is_in_git_dir(self, folder: str) -> bool:
        """Check the folder and its parents, as git does. The workspace's own `.git` does not count."""
        return any(map(self.filesystem.is_git_dir, self._upward(folder)))

    def has_repository(self, folder: str) -> bool:
        """Tell whether the repository of a folder begins inside the workspace."""
        return any(map(self.filesystem.has_git_dir, self._upward(folder)))

    def _upward(self, folder: str) -> Iterator[str]:
        while self.is_inside(folder):
            yield folder
            if folder == "/":
                return
            folder = folder.rpartition("/")[0] or "/"

    def shown(self, real: str) -> str:
        """Return the path as people write it in a rule: relative if inside the workspace."""
        return self._below_root(real) if self.is_inside(real) else real

    def _below_root(self, real: str) -> str:
        return next((real[len(prefix) :] for prefix in self._prefixes if real.startswith(prefix)), real)

    def allowed_by(self, rules: Sequence[Rule], real: str, *, deep: bool = False) -> Rule | None:
        """Return the rule that allows a path. With `deep` it must allow everything below, too."""
        for rule in rules:
            pattern = self._absolute(rule)
            if pattern and path_regex(pattern).fullmatch(real) and (not deep or pattern.endswith("/**")):
                return rule
        return None

    def forbids(self, rule: Rule, reals: Sequence[str]) -> bool:
        """Tell whether a rule covers one of the paths, or a folder above it."""
        patterns = [pattern.rstrip("/").removesuffix("/**") + "/**" for pattern in self._everywhere(rule)]
        return any(path_regex(pattern).fullmatch(real) for pattern in patterns for real in reals)

    def rule_below(self, rules: Sequence[Rule], folder: str) -> Rule | None:
        """Return a rule that may cover something below the folder."""
        return next((rule for rule in rules if self.forbids_below(rule, folder)), None)

    def forbids_below(self, rule: Rule, folder: str) -> bool:
        """Tell whether a rule may cover something below the folder."""
        place = folder.rstrip("/") + "/"
        for pattern in self._everywhere(rule):
            prefix = literal_prefix(pattern).rstrip("/") + "/"
            if prefix.startswith(place) or (prefix != pattern.rstrip("/") + "/" and place.startswith(prefix)):
                return True
        return False

    def leaves_home(self, rule: Rule) -> bool:
        """Tell whether a rule about paths may cover something outside of the home folder, which every jail hides."""
        home = f"{self.resolve('/', '~')}/"
        return rule.kind in ("path", "read") and not all(
            one.startswith(home) for one in self._everywhere(rule)
        )

    def _everywhere(self, rule: Rule) -> list[str]:
        pattern = rule.pattern.rstrip("/")
        if pattern.startswith("**/"):
            return [f"/{pattern}"]
        if "/" not in pattern and not pattern.startswith("~"):
            return [f"/**/{pattern}"]
        found = self._absolute(rule)
        return [found] if found else []

    def _absolute(self, rule: Rule) -> str | None:
        """Return the rule's pattern with the links in its fixed part followed."""
        pattern = rule.pattern
        base = "/" if pattern.startswith(("/", "~")) else self.root
        magic = _MAGIC.search(pattern)
        fixed = pattern[: magic.start()].rpartition("/")[0] if magic else pattern.rstrip("/")
        real = self.resolve(base, fixed) if base and fixed else base
        if real is None and fixed.startswith("/"):
            real = fixed
        if real is None:
            return None
        rest = pattern[len(fixed) :].strip("/") if magic else ""
        return f"{real.rstrip('/')}/{rest}" if rest else real
