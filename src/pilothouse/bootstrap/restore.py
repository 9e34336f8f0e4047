"""Puts a backup in place. The files that it replaces are moved into a folder of their own, never deleted."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.bootstrap.backup import Manifest, unpack
from pilothouse.config import Paths
from pilothouse.core.errors import PilothouseError
from pilothouse.core.store import StoreSpec, Tx


class Restored(Struct, frozen=True):
    manifest: Manifest
    replaced: Path | None
    """The folder that holds the files from before; None if there were none."""


def restore_backup(
    file: Path, paths: Paths, spec: StoreSpec, settings: Any, store_file: Path, stamp: str
) -> Restored:
    """Verifies the whole archive, its store and its audit log before anything is changed."""
    folder = store_file.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix=".pilothouse-restore-", dir=folder) as place:
        draft = Path(place)
        manifest = unpack(file, draft)
        copy = draft / "store" / manifest.store
        if not copy.is_file():
            raise PilothouseError(f"{file} has no store in it.")
        if problem := asyncio.run(_check(spec, msgspec.structs.replace(settings, path=str(copy)))):
            raise PilothouseError(f"The store in {file} is damaged: {problem}")
        moves = dict(_moves(draft, manifest, paths, store_file))
        journals = [store_file.with_name(store_file.name + tail) for tail in ("-wal", "-shm")]
        replaced = _move_away([*moves.values(), *journals], folder / f"replaced-{stamp}")
        _put(moves)
    return Restored(manifest, replaced)


async def _check(spec: StoreSpec, settings: Any) -> str:
    """Opens the copy as a gateway would, which brings an older schema up to date."""

    def audit(tx: Tx) -> str:
        return tx.audit.verify().why

    async with spec.open(settings) as store:
        problem = await store.check() if hasattr(store, "check") else ""
        return problem or await store.read(audit)


def _moves(draft: Path, manifest: Manifest, paths: Paths, store_file: Path) -> list[tuple[Path, Path]]:
    """Pairs each part of the unpacked archive with its place."""
    store, config, state = draft / "store", draft / "config", draft / "state"
    beside = paths.config_file.parent
    pairs = [
        (store / manifest.store, store_file),
        (store / f"{manifest.store}.blobs", store_file.with_name(f"{store_file.name}.blobs")),
        (config / "config.toml", paths.config_file),
        (config / ".env", paths.env_file),
        (config / "workspaces", beside / "workspaces"),
        (state / "channels", paths.state_dir / "channels"),
        *((heads, paths.state_dir / heads.name) for heads in state.glob("audit-heads-*.txt")),
    ]
    return [(source, place) for source, place in pairs if source.exists() or place == store_file]


def _move_away(places: list[Path], folder: Path) -> Path | None:
    there = [place for place in places if place.exists()]
    if not there:
        return None
    folder.mkdir(mode=0o700)
    for place in there:
        os.rename(place, folder / place.name)
    return folder


def _put(moves: Mapping[Path, Path]) -> None:
    for source, place in moves.items():
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.rename(source, place)
