"""The script engine as the product builds it, playing a script of ours."""

from __future__ import annotations

import os
from pathlib import Path

from pilothouse.core.engine import Engine, EngineHost
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import BlobHash, EngineId
from pilothouse.core.message import Attachment
from pilothouse.engines.script import ENGINE


class NoBlobs:
    async def get(self, blob: BlobHash) -> bytes:
        raise PilothouseError(f"there is no blob {blob} here")

    async def put(self, data: bytes, name: str, media_type: str) -> Attachment:
        raise PilothouseError("nothing is kept here")


def say_nothing(_event: str, **_fields: object) -> None:
    pass


def open_script_engine(folder: Path, script: str) -> dict[EngineId, Engine]:
    path = folder / "script.toml"
    path.write_text(script)
    host = EngineHost(NoBlobs(), dict(os.environ), str(folder), "bench", say_nothing)
    return {ENGINE.id: ENGINE.build(ENGINE.config(script=str(path)), host)}
