"""A new SQLite store, as its first start leaves it.

Making one runs every migration, which takes longer than most of what a test does with it. That it is made right is
proven in `tests/stores`; whoever only needs one gets a copy here.
"""

from __future__ import annotations

import os
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pilothouse.stores.sqlite.link import connect, make_durable, make_file
from pilothouse.stores.sqlite.migrate import load_migrations, migrate


def put_new_store(path: Path) -> Path:
    """Where none is yet."""
    if not path.exists():
        make_file(path)
        path.write_bytes(_image())
    return path


@cache
def _image() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "new.db")
        make_file(path)
        with closing(connect(path, 10.0)) as db:
            make_durable(db, path)
            migrate(db, path, load_migrations())
        assert os.listdir(folder) == [path.name], "the journal is in the file"
        return path.read_bytes()
