"""The entry point of the native engine. Cheap to import: the rest is loaded when it is used."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from pilothouse.core.call import Call
from pilothouse.core.engine import Engine, EngineHost, EngineSpec, EngineStatus, TrustedFile
from pilothouse.core.ids import EngineId
from pilothouse.core.outcome import Failure, ModelCallRecord
from pilothouse.engines.native.config import NativeConfig, ProviderName
from pilothouse.engines.workspace_files import BOOTSTRAP, WORKSPACE_FILES

if TYPE_CHECKING:
    from pilothouse.engines.native.key_file import Login


def build(config: NativeConfig, host: EngineHost) -> Engine:
    from pilothouse.engines.native.engine import NativeEngine

    return NativeEngine(config, host)


def probe(config: NativeConfig) -> EngineStatus:
    """Check that there is a key, or a server that needs none."""
    return _probe(config, None)


def probe_with(config: NativeConfig, state_dir: str) -> EngineStatus:
    """As `probe`, with the keys, the login and the choices that were given in a chat."""
    from pilothouse.engines.native.key_file import KeyFile, with_kept

    kept = KeyFile(state_dir).read()
    return _probe(with_kept(config, kept), kept.login)


def _probe(config: NativeConfig, login: Login | None) -> EngineStatus:
    from pilothouse.engines.native.providers import choose_target

    target = choose_target(config, None, os.environ, login)
    if isinstance(target, Failure):
        fix = target.fix.format(machine="this machine")
        return EngineStatus(False, problem=target.text, fix=fix, asks=target.kind == "auth")
    return EngineStatus(True, version=target.title)


def read_calls(state_dir: str, turn_id: str, at: float) -> Sequence[ModelCallRecord]:
    from pathlib import Path

    from pilothouse.engines.native.run_log import read_calls

    return read_calls(Path(state_dir, "sessions"), turn_id, at)


def log_out(state_dir: str) -> Sequence[str]:
    import anyio

    from pilothouse.engines.native.key_file import KeyFile

    return anyio.run(KeyFile(state_dir).clear)


def call_of(payload: Mapping[str, Any]) -> Call | None:
    from pilothouse.engines.native.calls import call_of

    return call_of(payload)


def classes() -> tuple[type, type]:
    from pilothouse.engines.native.engine import NativeEngine
    from pilothouse.engines.native.session import NativeSession

    return NativeEngine, NativeSession


ENGINE = EngineSpec(
    id=EngineId("native"),
    title="Native agent",
    short_name="The native agent",
    config=NativeConfig,
    build=build,
    probe=probe,
    probe_with=probe_with,
    call_of=call_of,
    read_calls=read_calls,
    classes=classes,
    providers=get_args(ProviderName),
    compact_line="/compact",
    tool_line="/tool",
    log_out=log_out,
    tools_here=True,
    falls_back=True,
    trusted_files=(
        TrustedFile(".agents/skills", "skills, which may run programs"),
        TrustedFile("AGENTS.md", "instructions", runs=False),
        *(
            TrustedFile(name, "words for the system prompt", runs=False)
            for name in (*WORKSPACE_FILES, BOOTSTRAP)
        ),
    ),
)
