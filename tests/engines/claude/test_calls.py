"""Claude's tools as calls, and the hashes of asks, by which stored answers are found again."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pilothouse.core.call import Call, Cell, Change, Replacement
from pilothouse.engines.claude.asks import asks_of
from pilothouse.engines.claude.calls import call_of
from pilothouse.engines.claude.control import CanUseTool

EDIT = {"file_path": "/work/a.py", "old_string": "1", "new_string": "2", "replace_all": False}


@pytest.mark.parametrize(
    ("tool", "given", "digest"),
    [
        (
            "Bash",
            {"command": "git push", "description": "Push it"},
            "9b1ad8adf87f3e8dc51c847553f23d4e7d34b275cf9fab6a4a44c42a3c7cf457",
        ),
        ("Edit", EDIT, "fd4d20191ed88a77120af364e506dd1e6853d23f0475e903767e816510b399f4"),
    ],
)
def test_the_hash_of_an_ask_is_the_one_from_before_asks_had_calls(
    tool: str, given: dict[str, Any], digest: str
) -> None:
    (ask,) = asks_of("r1", CanUseTool(tool, given), "/work")
    assert ask.payload == {"tool": tool, "input": given, "cwd": "/work"}
    assert ask.payload_hash == digest
    assert ask.call == call_of(ask.payload)


@pytest.mark.parametrize(
    ("tool", "given", "call"),
    [
        ("Bash", {"command": "ls"}, Call("command", "Bash", "/w", "ls", shown=("command",))),
        ("Bash", {"command": 7}, Call("unreadable", "Bash", "/w")),
        ("Read", {"file_path": "a"}, Call("read", "Read", "/w", paths=("a",), shown=("file_path",))),
        ("Read", {"file_path": " a"}, Call("unreadable", "Read", "/w")),
        ("Grep", {"pattern": "x"}, Call("read", "Grep", "/w", paths=(".",), deep=True)),
        ("Glob", {"pattern": "src/**/*.py"}, Call("read", "Glob", "/w", paths=("src",), deep=True)),
        ("Glob", {"pattern": "../x"}, Call("read", "Glob", "/w", paths=("/",), deep=True)),
        (
            "Edit",
            EDIT,
            Call(
                "change",
                "Edit",
                "/w",
                paths=("/work/a.py",),
                shown=("file_path",),
                change=Change("/work/a.py", (Replacement("1", "2"),), shown=tuple(EDIT)),
            ),
        ),
        (
            "Write",
            {"file_path": "a", "content": "x"},
            Call(
                "change",
                "Write",
                "/w",
                paths=("a",),
                shown=("file_path",),
                change=Change("a", content="x", shown=("file_path", "content")),
            ),
        ),
        (
            "NotebookEdit",
            {"notebook_path": "n", "cell_id": "1", "new_source": "x", "edit_mode": "turn"},
            Call(
                "change",
                "NotebookEdit",
                "/w",
                paths=("n",),
                shown=("notebook_path",),
                change=Change("n", cell=Cell("1", "x"), shown=("notebook_path", "cell_id", "new_source")),
            ),
        ),
        (
            "WebFetch",
            {"url": "https://Example.org/x"},
            Call("web", "WebFetch", "/w", host="example.org", url="https://Example.org/x", shown=("url",)),
        ),
        ("Skill", {"skill": "/pdf"}, Call("skill", "Skill", "/w", skill="pdf")),
        ("TodoWrite", {"todos": []}, Call("notes", "TodoWrite", "/w")),
        (
            "mcp__hub__find",
            {"q": "x"},
            Call("mcp", "mcp__hub__find", "/w", server="hub", server_tool="find", input={"q": "x"}),
        ),
        ("Browser", {"x": 1}, Call("tool", "Browser", "/w", input={"x": 1})),
    ],
)
def test_each_tool_becomes_a_call(tool: str, given: dict[str, Any], call: Call) -> None:
    found = call_of({"tool": tool, "input": given, "cwd": "/w"})
    assert found == call
    assert msgspec.json.decode(msgspec.json.encode(found), type=Call) == call


def test_what_names_no_tool_is_no_call() -> None:
    assert call_of({"question": "Which colour?"}) is None
    assert call_of({"tool": "Bash", "input": "rm"}) == Call("unreadable", "Bash")
