"""Installed packages for tests: real metadata with real entry points, in a folder of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SRC = Path(__file__).parent.parent / "src"
ROOT = SRC.parent


def write_dist(
    folder: Path, name: str, points: Mapping[str, Mapping[str, str]], modules: Mapping[str, str] | None = None
) -> Path:
    """A package that Python takes for installed when `folder` is on its path."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines: list[str] = []
    for group, entries in points.items():
        lines += [f"[pilothouse.{group}]", *(f"{key} = {target}" for key, target in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for module, text in (modules or {}).items():
        (folder / f"{module}.py").write_text(text)
    return folder
