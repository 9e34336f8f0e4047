"""Whether an engine works on this machine, as it says itself. Light: `doctor` and `engines` load no gateway for it."""

from __future__ import annotations

from pilothouse.config import Adapter
from pilothouse.core.engine import EngineSpec, EngineStatus


def probe(spec: EngineSpec, engine: Adapter | None) -> EngineStatus:
    """What the engine says about itself on this machine; a probe that breaks is an answer too."""
    if engine is None:
        return EngineStatus(
            False, problem="its section in the configuration is wrong", fix="pilothouse config check"
        )
    if not engine.enabled:
        return EngineStatus(False, problem="disabled", fix=f"set engines.{spec.id}.enabled = true")
    try:
        return spec.probe(engine.settings)
    except Exception as error:  # noqa: BLE001 - a plugin's fault is data here
        return EngineStatus(False, problem=f"its probe broke: {type(error).__name__}: {error}")
