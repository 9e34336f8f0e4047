"""Checks paths against the workspace and against rules. A path counts by where it leads, never by how it is written.

A deny or ask rule about a folder covers everything below it, and a pattern without a slash matches at any depth. An allow
rule matches exactly; relative patterns begin at the workspace.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pilothouse.core.rules import Rule, literal_prefix, path_regex
from pilothouse.policy.filesystem import Filesystem
from pilothouse.policy.script import Word

MAX_CHARS = 4096
"""No system accepts a longer path."""
MAX_DEPTH = 50
MANY = 8
"""From this many names in one folder, listing the folder is cheaper than a look at each name."""
_MAGIC = re.compile(r"[*?]")
_NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9_.,@+=\-]{1,100}")
NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/fd/1", "/dev/fd/2"})
PROTECTED = frozenset(
    {
        ".git",
        ".hg",
        ".jj",
        ".husky",
        ".claude",
        ".codex",
        ".opencode",
        ".gemini",
        ".cursor",
        ".vscode",
        ".idea",
    }
    | {
        ".pilothouse.toml",
        ".mcp.json",
        ".envrc",
        ".gitmodules",
        ".npmrc",
        ".yarnrc.yml",
        ".pre-commit-config.yaml",
    }
)
"""Names in a workspace that other tools execute, or that widen what an engine may do. Changing them is asked about."""


class WorkspacePaths:
    def __init__(self, workspace: str, folders: Sequence[str], filesystem: Filesystem) -> None:
        self.filesystem = filesystem
        self._forbidden: dict[Rule, list[tuple[str, re.Pattern[str]]]] = {}
        self._resolved: dict[str, dict[str, str | None]] = {}
        self._patterns: dict[Rule, list[str]] = {}
        self._looks: dict[str, int] = {}
        self._linkless: set[str] = set()
        self.root = filesystem.resolve("/", workspace) if workspace.startswith("/") else None
        found = (filesystem.resolve("/", folder) for folder in folders if folder.startswith("/"))
        self.roots = tuple(place for place in (self.root, *found) if place)
        self._prefixes = tuple(root.rstrip("/") + "/" for root in self.roots)
        if self.root and len(workspace) <= MAX_CHARS:
            self._resolved["/"] = {workspace: self.root}

    def resolve(self, cwd: str, path: str) -> str | None:
        """Resolve a path. Each path, and each folder on its way, is followed once per decision."""
        return self.resolve_all(cwd, (path,))[0]

    def resolve_all(self, cwd: str, paths: Sequence[str]) -> list[str | None]:
        """Resolve many paths, in their order."""
        known = self._resolved.setdefault(cwd, {})
        linkless = self._linkless
        for path in paths:
            if path not in known:
                folder, slash, name = path.rpartition("/")
                start = known.get(folder) if folder else None if slash else cwd
                if start in linkless and _NAME.fullmatch(name) and len(path) <= MAX_CHARS:
                    known[path] = f"{start}/{name}" if start != "/" else f"/{name}"
                else:
                    known[path] = self._find(cwd, path)
        return [known[path] for path in paths]

    def _find(self, cwd: str, path: str) -> str | None:
        if len(path) > MAX_CHARS:
            return None
        folder, _, name = path.rpartition("/")
        if not folder or not name or name[0] == "~" or path.count("/") > MAX_DEPTH:
            return self._look(cwd, path)
        start = self.resolve(cwd, folder)
        return None if start is None else self._look(start, name)

    def _look(self, folder: str, path: str) -> str | None:
        looks = self._looks[folder] = self._looks.get(folder, 0) + 1
        if looks == MANY and self.filesystem.has_no_links(folder):
            self._linkless.add(folder)
        return self.filesystem.resolve(folder, path)

    def is_inside(self, real: str) -> bool:
        return real.startswith(self._prefixes) or real in self.roots

    def is_protected(self, real: str) -> bool:
        return any(part.casefold() in PROTECTED for part in self._below_root(real).split("/"))

    def shown(self, real: str) -> str:
        """Return the path as people write it in a rule: relative if inside the workspace."""
        return self._below_root(real) if self.is_inside(real) else real

    def _below_root(self, real: str) -> str:
        return next((real[len(prefix) :] for prefix in self._prefixes if real.startswith(prefix)), real)

    def expand(self, cwd: str, word: Word) -> tuple[str, ...] | None:
        """Expand a word to paths, as written; None if they cannot be told."""
        return self.filesystem.expand(cwd, word.text) if word.form == "glob" else (word.text,)

    def allowed_by(self, rules: Sequence[Rule], real: str, *, deep: bool = False) -> Rule | None:
        """Return the rule that allows a path. With `deep` it must allow everything below, too."""
        for rule in rules:
            pattern = self._absolute(rule)
            if pattern and path_regex(pattern).fullmatch(real) and (not deep or pattern.endswith("/**")):
                return rule
        return None

    def forbids(self, rule: Rule, reals: Sequence[str]) -> bool:
        """Tell whether a rule covers one of the paths, or a folder above it."""
        whole = "\n".join(reals)
        return any(
            prefix in whole and any(map(regex.fullmatch, reals)) for prefix, regex in self._generous(rule)
        )

    def forbids_below(self, rule: Rule, folder: str) -> bool:
        """Tell whether a rule may cover something below the folder."""
        for pattern in self._everywhere(rule):
            prefix = literal_prefix(pattern).rstrip("/")
            if (prefix + "/").startswith(folder.rstrip("/") + "/"):
                return True
            if prefix != pattern.rstrip("/") and (folder + "/").startswith(prefix + "/"):
                return True
        return False

    def _generous(self, rule: Rule) -> list[tuple[str, re.Pattern[str]]]:
        """Return each regex with the prefix of every path that it matches."""
        if rule not in self._forbidden:
            patterns = [pattern.rstrip("/").removesuffix("/**") + "/**" for pattern in self._everywhere(rule)]
            self._forbidden[rule] = [(literal_prefix(pattern), path_regex(pattern)) for pattern in patterns]
        return self._forbidden[rule]

    def _everywhere(self, rule: Rule) -> list[str]:
        if rule not in self._patterns:
            self._patterns[rule] = self._find_patterns(rule)
        return self._patterns[rule]

    def _find_patterns(self, rule: Rule) -> list[str]:
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
        if real is None:
            return None
        rest = pattern[len(fixed) :].strip("/") if magic else ""
        return f"{real.rstrip('/')}/{rest}" if rest else real
