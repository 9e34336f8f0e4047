"""Changes of files as diffs of the protocol: pairs of old and new text. Pure.

A change that was asked for comes from its `Call`. A change that ran unasked is read from the tool's input, as far as that
names a path with texts; what is not understood is shown as text.
"""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Any

from pilothouse.channels.acp.wire import TextBlock, ToolContent, ToolDiff, ToolText
from pilothouse.core.ask import Ask
from pilothouse.core.call import Change
from pilothouse.core.text import code_block, reveal_hidden

_PATHS = ("file_path", "path", "filePath", "notebook_path")
_OLD = ("old_string", "oldString", "old_str", "oldText")
_NEW = ("new_string", "newString", "new_str", "newText")
_CONTENT = ("content", "contents", "file_text")


def tool_text(text: str) -> ToolText:
    return ToolText(TextBlock(text))


def diffs_of(ask: Ask) -> tuple[ToolContent, ...]:
    """Return the diffs of the change that an ask is about; its preview as text if it has no such pairs."""
    change = ask.call.change if ask.call is not None else None
    cwd = ask.call.cwd if ask.call is not None else ""
    found = pairs_of(change, cwd) if change is not None else ()
    if found or not ask.preview:
        return found
    return (tool_text(code_block(reveal_hidden(ask.preview))),)


def pairs_of(change: Change, cwd: str) -> tuple[ToolContent, ...]:
    path = absolute(change.path, cwd)
    if not path or change.cell is not None:
        return ()
    if change.content is not None:
        return (ToolDiff(path, change.content),)
    return tuple(ToolDiff(path, one.new, one.old) for one in change.replacements)


def diffs_in(given: Mapping[str, Any], cwd: str) -> tuple[ToolContent, ...]:
    """Return the diffs that a tool's input names."""
    path = absolute(path_in(given), cwd)
    edits = given.get("edits")
    if not path:
        return ()
    if isinstance(edits, list):
        pairs = [_pair(path, edit) for edit in edits if isinstance(edit, dict)]
        return tuple(pair for pair in pairs if pair is not None)
    if pair := _pair(path, given):
        return (pair,)
    content = _text(given, _CONTENT)
    return () if content is None else (ToolDiff(path, content),)


def path_in(given: Mapping[str, Any]) -> str:
    return _text(given, _PATHS) or ""


def absolute(path: str, cwd: str) -> str:
    """Return an absolute path; empty if the path is empty, or relative to an unknown folder."""
    found = os.path.normpath(os.path.join(cwd, path)) if path else ""
    return found if os.path.isabs(found) else ""


def _pair(path: str, given: Mapping[str, Any]) -> ToolDiff | None:
    old, new = _text(given, _OLD), _text(given, _NEW)
    return None if old is None or new is None else ToolDiff(path, new, old)


def _text(given: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((value for key in keys if isinstance(value := given.get(key), str)), None)
