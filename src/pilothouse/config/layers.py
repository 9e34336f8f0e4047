"""Merges defaults < file < environment < flags into one `Config`, and keeps the source of every setting."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from pilothouse.config.decode import Reader, metas
from pilothouse.config.model import (
    Config,
    Models,
)
from pilothouse.config.paths import Paths
from pilothouse.config.problems import InvalidConfig, Problem
from pilothouse.config.sections import read_sections
from pilothouse.config.sources import (
    ENVIRONMENT,
    FLAG,
    PREFIX,
    REFERENCE,
    Key,
    Leaf,
    Leaves,
    below,
    dotted,
    flatten,
    in_environment,
    in_file,
    merge,
    read_env_file,
    read_environment,
    read_toml,
    unset_names,
)

SWITCH: Mapping[str, Any] = {"1": True, "true": True, "0": False, "false": False}
SHORT: Mapping[str, tuple[Key, Mapping[str, Any]]] = {
    "CODELIA_APPROVAL_MODE": (("policy", "approval_mode"), {}),
    "CODELIA_SANDBOX_ROOT": (("gateway", "default_workspace"), {}),
    "CODELIA_DEBUG": (("log", "level"), {"1": "debug", "true": "debug", "0": "info", "false": "info"}),
    "CODELIA_SYSTEM_PROMPT_PATH": (("engines", "native", "system_prompt_file"), {}),
    "CODELIA_TOOL_OUTPUT_TOTAL_TRIM": (("engines", "native", "total_trim"), SWITCH),
    "CODELIA_PROVIDER_LOG": (("engines", "native", "provider_log"), SWITCH),
    "CODELIA_PROVIDER_LOG_DIR": (("engines", "native", "provider_log_dir"), {}),
    "CODELIA_MCP_OAUTH_TIMEOUT_MS": (("gateway", "mcp_login_s"), {}),
    "PILOTHOUSE_APPROVAL_MODE": (("policy", "approval_mode"), {}),
    "PILOTHOUSE_SYSTEM_PROMPT_PATH": (("engines", "native", "system_prompt_file"), {}),
    "PILOTHOUSE_PROVIDER_LOG": (("engines", "native", "provider_log"), SWITCH),
    "PILOTHOUSE_PROVIDER_LOG_DIR": (("engines", "native", "provider_log_dir"), {}),
}
"""Variables with names of their own, the keys that they set, and values that have other words there. Later ones win.
A name that ends in `_MS` gives milliseconds for a setting in seconds."""


class Loaded(Struct, frozen=True):
    """The loaded configuration. `leaves` are the explicit settings; `secrets` must not appear in any log."""

    config: Config
    warnings: tuple[Problem, ...]
    secrets: frozenset[str]
    leaves: dict[Key, Leaf]
    models: Models
    paths: Paths

    @property
    def log_file(self) -> Path:
        return Path(self.config.log.file).expanduser() if self.config.log.file else self.paths.log_file

    def __repr__(self) -> str:
        return f"Loaded({self.paths.config_file}, {len(self.leaves)} settings, {len(self.secrets)} secrets)"


def load(
    paths: Paths,
    environ: Mapping[str, str],
    models: Models | None = None,
    flags: Mapping[str, Any] | None = None,
    *,
    without_unset: bool = False,
) -> Loaded:
    """Load and check everything. Raises `InvalidConfig` with all problems at once.

    `flags` are keyed by dotted name; a `Leaf` value names another source. `without_unset` skips settings whose
    `${NAME}` is not set here: it may be set where the file is used.
    """
    models = models or Models()
    env_file = read_env_file(paths.env_file)
    problems: list[Problem] = []
    written = flatten(read_toml(paths.config_file), str(paths.config_file))
    left_out = _unset(written, {**env_file, **environ}) if without_unset else frozenset[Key]()
    written = {key: leaf for key, leaf in written.items() if key not in left_out}
    leaves = _unaliased(_expand(written, environ, env_file, paths.env_file, problems), models)
    leaves = merge(leaves, _short_names(environ))
    named = read_environment(environ, lambda at: _names(at, written, models))
    leaves = merge(leaves, _unaliased(named, models))
    leaves = merge(leaves, {tuple(key.split(".")): _flag(said) for key, said in (flags or {}).items()})

    finder = _SecretFinder(environ, env_file, paths.env_file)
    reader = Reader(leaves, str(paths.config_file), finder, finder.location_for)
    reader.problems += problems
    config = read_sections(reader, models, paths)
    _warn_about_files(reader, paths, environ, env_file)
    unjudged = set(map(dotted, left_out))
    reader.problems = [problem for problem in reader.problems if problem.key not in unjudged]
    if reader.problems or config is None:
        raise InvalidConfig(reader.problems, reader.warnings)
    secrets = reader.secrets | {value for value in env_file.values() if value}
    return Loaded(config, tuple(reader.warnings), frozenset(secrets), leaves, models, paths)


def _flag(said: Any) -> Leaf:
    return said if isinstance(said, Leaf) else Leaf(said, "the command line", FLAG)


def _short_names(environ: Mapping[str, str]) -> Leaves:
    """Read settings that also have a variable with a name of its own."""
    return {
        key: Leaf(_value(name, words, environ[name]), name, ENVIRONMENT, environ[name])
        for name, (key, words) in SHORT.items()
        if environ.get(name)
    }


def _value(name: str, words: Mapping[str, Any], text: str) -> Any:
    if name.endswith("_MS") and text.isdecimal():
        return int(text) / 1000
    return words.get(text.lower(), text)


def _names(at: Key, written: Leaves, models: Models) -> Iterable[str]:
    """Yield the known names under `at`: environment variables cannot spell case or dashes."""
    yield from dict.fromkeys(key[0] for key in below(written, at) if key)
    if at in (("engines",), ("channels",)):
        yield from getattr(models, at[0]) or ()
    if at == ("engines",):
        yield from models.engine_aliases


def _unaliased(leaves: Leaves, models: Models) -> Leaves:
    """Move sections under an engine's alias to its id; settings under the id win."""
    aliases = models.engine_aliases
    renamed = {key: ("engines", aliases[key[1]], *key[2:]) for key in leaves if _is_alias(key, aliases)}
    own = {key: leaf for key, leaf in leaves.items() if key not in renamed}
    return {**{new: leaves[old] for old, new in renamed.items()}, **own}


def _is_alias(key: Key, aliases: Mapping[str, str]) -> bool:
    return len(key) > 1 and key[0] == "engines" and key[1] in aliases


class _SecretFinder:
    """Finds a secret that no layer sets: by its full name, its declared name, or `ID_FIELD`.

    The environment wins over `.env`, as for `${NAME}`; an empty variable counts as unset.
    """

    def __init__(self, environ: Mapping[str, str], secrets: Mapping[str, str], path: Path) -> None:
        self._environ = environ
        self._secrets = secrets
        self._path = path

    def __call__(self, key: Key, kind: Any) -> Leaf | None:
        names = (full_name(key), *_secret_names(key, kind))
        for name in names:
            if text := self._environ.get(name):
                return Leaf(text, name, ENVIRONMENT)
        for name in names:
            if name in self._secrets:
                return Leaf(self._secrets[name], in_file(name, self._path))
        return None

    def location_for(self, key: Key, kind: Any) -> str:
        """Tell where to put a missing secret."""
        return f"{self._path} as {_secret_names(key, kind)[0]}=…"


def _secret_names(key: Key, kind: Any) -> tuple[str, ...]:
    declared = [m.extra["env"] for m in metas(kind) if m.extra and "env" in m.extra]
    return (*declared, "_".join(key[1:] if len(key) > 2 else key).upper().replace("-", "_"))


def full_name(key: Key) -> str:
    return PREFIX + "__".join(key).upper().replace("-", "_")


def _expand(
    leaves: Leaves,
    environ: Mapping[str, str],
    secrets: Mapping[str, str],
    env_file: Path,
    problems: list[Problem],
) -> Leaves:
    """Replace `${NAME}` by its value, and `$${NAME}` by `${NAME}`."""
    names = {**secrets, **environ}

    def value_of(value: Any) -> Any:
        if isinstance(value, list):
            return list(map(value_of, value))
        if isinstance(value, dict):
            return {name: value_of(item) for name, item in value.items()}
        if not isinstance(value, str):
            return value
        return REFERENCE.sub(lambda m: f"${{{m[2]}}}" if m[1] else names.get(m[2], ""), value)

    def origin_of(name: str) -> str:
        return in_environment(name) if name in environ else in_file(name, env_file)

    def expanded(key: Key, leaf: Leaf) -> Leaf:
        for name in unset_names(leaf.value, names):
            text = f'"${{{name}}}" is not set: put {name}=… into {env_file} or the environment'
            problems.append(Problem(leaf.source, dotted(key), text))
        value = value_of(leaf.value)
        if value == leaf.value:
            return leaf
        whole = REFERENCE.fullmatch(leaf.value) if isinstance(leaf.value, str) else None
        origin = origin_of(whole[2]) if whole else ""
        return Leaf(value, leaf.source, leaf.rank, reference=leaf.value, origin=origin)

    return {key: expanded(key, leaf) for key, leaf in leaves.items()}


def _unset(leaves: Leaves, names: Container[str]) -> frozenset[Key]:
    return frozenset(key for key, leaf in leaves.items() if unset_names(leaf.value, names))


def _warn_about_files(
    reader: Reader, paths: Paths, environ: Mapping[str, str], env_file: Iterable[str]
) -> None:
    if environ.get("PILOTHOUSE_CONFIG") and not paths.config_file.exists():
        reader.warnings.append(
            Problem(str(paths.config_file), "", "PILOTHOUSE_CONFIG names this file, but it does not exist")
        )
    secret = {full_name(key) for key in reader.secret_keys}
    for name in env_file:
        if name.startswith(PREFIX) and name not in secret:
            text = (
                f"{name} is not a secret and was ignored: .env is only for secrets, use {paths.config_file}"
            )
            reader.warnings.append(Problem(str(paths.env_file), "", text))
