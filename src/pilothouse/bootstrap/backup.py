"""Backups: one archive with the store, the configuration and the channels' own files, verified before it counts.

    store/…          the copied store
    config/…         config.toml, .env, workspaces/
    state/…          channels/, the noted heads of the audit log
    manifest.json    version, time, and the SHA-256 of every other file

The archive holds secrets (`.env`), so only its owner can read it.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

import msgspec
from msgspec import Struct

from pilothouse import __version__
from pilothouse.config import Paths
from pilothouse.core.errors import PilothouseError, StoreError
from pilothouse.core.store import StoreSpec, Tx

MANIFEST = "manifest.json"
FOLDERS = ("store", "config", "state")
STATE_FILES = ("channels/**/*", "audit-heads-*.txt")
CONFIG_FILES = (".env", "workspaces/**/*")
CHUNK = 1 << 20


class Manifest(Struct, frozen=True):
    """`store` is the name of the store's main file below `store/`."""

    version: str
    made_at: float
    store: str
    audit_rows: int
    files: dict[str, str]


def make_backup(paths: Paths, spec: StoreSpec, settings: Any, target: Path) -> Manifest:
    """Writes the archive whole or not at all, also while a gateway runs. Raises `PilothouseError` or `OSError`."""
    if spec.save is None or spec.open_read_only is None:
        raise StoreError(f"The store {spec.id} cannot be backed up by Pilothouse. Use its own tools.")
    with tempfile.TemporaryDirectory(prefix=".pilothouse-backup-", dir=target.parent) as place:
        store, draft = Path(place, "store"), Path(place, "draft.tar.gz")
        store.mkdir(mode=0o700)
        copy = spec.save(settings, store)
        rows = _verify(spec, settings, copy)
        manifest = Manifest(__version__, time.time(), copy.name, rows, {})
        _write(draft, manifest, [*_files("store", store, ("**/*",)), *_own_files(paths)])
        written = unpack(draft, None)
        draft.replace(target)
    return written


def _verify(spec: StoreSpec, settings: Any, copy: Path) -> int:
    """Checks the copied store and its audit log. Returns the number of audit rows; raises `StoreError` if it is damaged."""

    def unit(tx: Tx) -> tuple[int, str]:
        verified = tx.audit.verify()
        return verified.rows, verified.why

    assert spec.open_read_only is not None, "make_backup has checked it"
    with spec.open_read_only(msgspec.structs.replace(settings, path=str(copy))) as found:
        rows, tampered = found.read(unit)
        problem = found.check() or (f"the audit log was changed: {tampered}" if tampered else "")
    if problem:
        raise StoreError(f"No backup was made, because the store is damaged: {problem}")
    return rows


def unpack(file: Path, folder: Path | None) -> Manifest:
    """Compares every file with its SHA-256, and writes it below `folder` if given. Raises `PilothouseError`."""
    digests: dict[str, str] = {}
    manifest = b""
    try:
        with tarfile.open(file, "r:gz") as archive:
            for name, data in _members(archive):
                if name == MANIFEST:
                    manifest = data.read()
                else:
                    digests[name] = _copy(data, folder and folder / name)
        found = msgspec.json.decode(manifest, type=Manifest)
    except (EOFError, tarfile.TarError, msgspec.DecodeError, OSError) as error:
        raise PilothouseError(f"{file} is not a backup of Pilothouse, or it is damaged: {error}") from error
    if digests != found.files:
        named = sorted({*digests.items(), *found.files.items()} - (digests.items() & found.files.items()))
        raise PilothouseError(f"{file} is damaged: {named[0][0]} is not as it was saved.")
    return found


def _members(archive: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    """Yields plain files in our folders only: an archive may come from anywhere."""
    for member in archive:
        parts = PurePosixPath(member.name).parts
        is_ours = member.name == MANIFEST or (len(parts) > 1 and parts[0] in FOLDERS)
        data = archive.extractfile(member) if member.isfile() and is_ours and ".." not in parts else None
        if data is None:
            raise tarfile.TarError(f"unexpected entry {member.name!r}")
        yield member.name, data


def _copy(data: IO[bytes], target: Path | None) -> str:
    """Returns the SHA-256 of the data, and writes it if there is a target."""
    digest = hashlib.sha256()
    out: IO[bytes] = io.BytesIO()
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        out = os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
    with out:
        while chunk := data.read(CHUNK):
            digest.update(chunk)
            if target is not None:
                out.write(chunk)
    return digest.hexdigest()


def _own_files(paths: Paths) -> Iterator[tuple[str, Path]]:
    if paths.config_file.is_file():
        yield "config/config.toml", paths.config_file
    yield from _files("config", paths.config_file.parent, CONFIG_FILES)
    yield from _files("state", paths.state_dir, STATE_FILES)


def _files(head: str, folder: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, Path]]:
    for pattern in patterns:
        for file in sorted(folder.glob(pattern)):
            if file.is_file() and not file.is_symlink():
                yield f"{head}/{file.relative_to(folder).as_posix()}", file


def _write(archive_file: Path, manifest: Manifest, sources: list[tuple[str, Path]]) -> None:
    handle = os.open(archive_file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(handle, "wb") as out:
        with tarfile.open(fileobj=out, mode="w:gz", compresslevel=6) as archive:
            digests = {name: digest for name, file in sources if (digest := _add(archive, name, file))}
            data = msgspec.json.encode(msgspec.structs.replace(manifest, files=digests))
            archive.addfile(_entry(MANIFEST, len(data)), io.BytesIO(data))
        out.flush()
        os.fsync(out.fileno())


def _add(archive: tarfile.TarFile, name: str, file: Path) -> str:
    """Adds a file and returns its SHA-256; empty if it was just removed. Own files may change meanwhile: they are read
    at once, and are small. The copied store does not change, and may be large."""
    try:
        with file.open("rb") as opened:
            if not name.startswith("store/"):
                data = opened.read()
                archive.addfile(_entry(name, len(data)), io.BytesIO(data))
                return hashlib.sha256(data).hexdigest()
            digest = _copy(opened, None)
            opened.seek(0)
            archive.addfile(_entry(name, os.fstat(opened.fileno()).st_size), opened)
            return digest
    except FileNotFoundError:
        return ""


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o600, int(time.time())
    return entry
