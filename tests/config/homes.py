"""A home with a configuration in it, and adapters that are nothing but their section types."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from pilothouse.config import Loaded, Models, Secret, find_paths, load


class Limits(Struct, frozen=True):
    per_minute: int = 5


class Hook(Struct, frozen=True):
    secret: Secret = Secret("")


class TelegramSection(Struct, frozen=True):
    token: Annotated[Secret, Meta(extra={"env": "BOT_TOKEN"})] = field(default_factory=lambda: Secret(""))
    mode: Literal["polling", "webhook"] = "polling"
    limits: Limits = field(default_factory=Limits)
    rooms: dict[str, int] = {}
    proxy: Limits | None = None
    folder: Path = Path("/")
    hook: Hook = Hook()


class EngineSection(Struct, frozen=True, rename={"model_name": "model"}):
    model_name: str | None = None
    command: str = ""


class StoreSection(Struct, frozen=True):
    path: str = ""


MODELS = Models(
    engines={"script": EngineSection, "claude-code": EngineSection, "torn": None},
    channels={"terminal": Limits, "telegram": TelegramSection},
    stores={"sqlite": StoreSection},
    engine_aliases={"cc": "claude-code"},
)


class Home:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "config.toml"
        self.secrets = folder / ".env"

    def load(
        self, text: str = "", flags: dict[str, Any] | None = None, secrets: str = "", **environ: str
    ) -> Loaded:
        self.file.write_text(text)
        if secrets:
            self.secrets.write_text(secrets)
        return self.again(flags, **environ)

    def again(self, flags: dict[str, Any] | None = None, **environ: str) -> Loaded:
        environ = {"PILOTHOUSE_HOME": str(self.folder), **environ}
        return load(find_paths(environ), environ, MODELS, flags)
