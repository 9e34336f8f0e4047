"""Files of transcripts, in the folder `.pilothouse/conversations` of a workspace, which the agent there may read.

The agent may have changed what is there: a link or anything but a plain file is refused, so nothing outside of the folder is
ever written. The folder keeps itself out of git.
"""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path

from anyio import to_thread

FOLDER = (".pilothouse", "conversations")


async def append_file(workspace: str, name: str, size: int, data: bytes) -> int | None:
    """Cuts the file to `size`, appends, and returns its new size; None if it is smaller. With size 0 it is replaced.

    Raises `OSError`."""
    return await to_thread.run_sync(partial(_append, workspace, name, size, data))


async def remove_file(workspace: str, name: str) -> None:
    await to_thread.run_sync(partial(_remove, workspace, name))


def _append(workspace: str, name: str, size: int, data: bytes) -> int | None:
    path = _folder(workspace) / name
    if size == 0:
        return _replace(path, data)
    try:
        file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # missing, or something else has its name
        return None
    with os.fdopen(file, "wb", buffering=0) as opened:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1 or about.st_size < size:
            return None
        opened.truncate(size)
        opened.seek(size)
        opened.write(data)
    return size + len(data)


def _replace(path: Path, data: bytes) -> int:
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(data)
    draft.replace(path)
    return len(data)


def _remove(workspace: str, name: str) -> None:
    root = os.path.realpath(workspace)
    if os.path.isdir(root):
        Path(root, *FOLDER, name).unlink(missing_ok=True)


def _folder(workspace: str) -> Path:
    """Returns the folder, which is made if need be. Raises `OSError` if a link leads out of the workspace."""
    folder = Path(os.path.realpath(workspace))
    if not folder.is_dir():
        raise OSError(0, f"there is no folder {folder}")
    for part in FOLDER:
        folder /= part
        folder.mkdir(mode=0o700, exist_ok=True)
        if os.path.realpath(folder) != str(folder):
            raise OSError(0, f"{folder} is a link")
    if not os.path.lexists(folder / ".gitignore"):
        (folder / ".gitignore").write_text("*\n")
    return folder
