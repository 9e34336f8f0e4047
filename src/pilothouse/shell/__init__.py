"""Command text → segments, and paths → where they lead. The parser is loaded with the first that needs it."""

from pilothouse.shell.ground import RealGround
from pilothouse.shell.segmenting import BashSegmenter

__all__ = ["BashSegmenter", "RealGround"]
