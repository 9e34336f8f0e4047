"""Finds the file change in a tool's input, by its shape. Pure.

A path, and either a text that replaces another, a whole new content, a notebook's cell, or a diff that the tool's engine
made itself. `Change.shown` names the values that a preview shows; people see all others beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from pilothouse.core.call import Cell, CellMode, Change, Replacement

_PATHS = ("file_path", "notebook_path", "path", "filePath", "filename")
_OLD = ("old_string", "old_str", "oldString", "oldText")
_NEW = ("new_string", "new_str", "newString", "newText")
_CONTENTS = ("content", "contents", "file_text")
_DIFFS = ("unified_diff", "diff", "patch")
_MODES: Mapping[str, CellMode] = {"replace": "replace", "insert": "insert", "delete": "delete"}


def find_change(given: Mapping[str, Any], *, is_known: bool) -> Change | None:
    """Return the change; None if there is none.

    Of a tool that is not known to change files, a preview shows only a diff of its own: what it does with a path and a
    content is a guess, and a diff against a file hides what is equal.
    """
    path = _first(given, _PATHS)
    if diff := _first(given, _DIFFS):
        return Change(path or "", diff=diff, shown=tuple(_named(given, _DIFFS)))
    change = _change_at(path, given) if path else None
    if change is None or not is_known:
        return change
    return msgspec.structs.replace(change, shown=(*_named(given, _PATHS), *_keys_of(change, given)))


def _change_at(path: str, given: Mapping[str, Any]) -> Change | None:
    if "notebook_path" in given:
        return _cell_change(path, given)
    listed = given.get("edits")
    edits = listed if isinstance(listed, list) else [given]
    found = [_replacement(edit) for edit in edits if isinstance(edit, dict)]
    replacements = tuple(one for one in found if one is not None)
    if replacements and len(replacements) == len(edits):
        return Change(path, replacements)
    content = _first(given, _CONTENTS)
    return None if content is None else Change(path, content=content)


def _cell_change(path: str, given: Mapping[str, Any]) -> Change | None:
    source, mode = given.get("new_source"), _MODES.get(str(given.get("edit_mode")), "replace")
    if not isinstance(source, str) and mode != "delete":
        return None
    text = source if isinstance(source, str) else ""
    return Change(path, cell=Cell(str(given.get("cell_id") or ""), text, mode))


def _keys_of(change: Change, given: Mapping[str, Any]) -> Iterator[str]:
    if change.cell is not None:
        deletes = change.cell.mode == "delete"
        seen = ("cell_id", "edit_mode") if deletes else ("cell_id", "edit_mode", "new_source")
        yield from (key for key in seen if isinstance(value := given.get(key), str) and _is_shown(key, value))
    elif change.content is not None:
        yield from _named(given, _CONTENTS)
    elif isinstance(edits := given.get("edits"), list):
        yield from ("edits",) if all(edit.keys() <= set(_edit_keys(edit)) for edit in edits) else ()
    else:
        yield from _edit_keys(given)


def _is_shown(key: str, value: str) -> bool:
    return key != "edit_mode" or value in _MODES


def _edit_keys(edit: Mapping[str, Any]) -> Iterator[str]:
    yield from (*_named(edit, _OLD), *_named(edit, _NEW))
    if isinstance(edit.get("replace_all"), bool):
        yield "replace_all"


def _replacement(edit: Mapping[str, Any]) -> Replacement | None:
    old, new = _first(edit, _OLD), _first(edit, _NEW)
    if old is None or new is None:
        return None
    return Replacement(old, new, edit.get("replace_all") is True)


def _first(given: Mapping[str, Any], keys: tuple[str, ...]) -> str | None:
    return next((given[key] for key in _named(given, keys)), None)


def _named(given: Mapping[str, Any], keys: tuple[str, ...]) -> list[str]:
    """Return the first of these keys that holds a text."""
    return [key for key in keys if isinstance(given.get(key), str)][:1]
