"""Previews: what a file change would do, as a diff that anybody can apply."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.ask import Ask
from pilothouse.core.ask_view import BRIEF_CHARS, BRIEF_LINES, LINE_CHARS, beside_preview, shorten
from pilothouse.core.call import Change
from pilothouse.core.ids import AskId
from pilothouse.engines.claude.calls import call_of
from pilothouse.runtime.preview import WHOLE_CHARS, Found, diff_of, render_change

TEXT = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"
LINES = st.lists(st.sampled_from(["a", "b", "c", "", "-x", "+y", "@@ z"]), max_size=14)


def preview(tool: str, found: Found, cwd: str = "/work", **given: Any) -> str:
    change = change_of(tool, given)
    assert change is not None
    return render_change(change, found, cwd)


def change_of(tool: str, given: Any) -> Change | None:
    call = call_of({"tool": tool, "input": given})
    assert call is not None
    return call.change


def beside(tool: str, given: dict[str, Any]) -> dict[str, Any]:
    payload = {"tool": tool, "input": given}
    return beside_preview(Ask(AskId("a"), "approval", tool, payload, call=call_of(payload)))


def apply_diff(before: list[str], diff: str) -> list[str]:
    """As `patch` would: an independent reading of the format."""
    after, at = list[str](), 0
    for line in diff.split("\n")[2:]:
        if header := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@", line):
            start = int(header[1]) - (0 if header[2] == "0" else 1)
            after += before[at:start]
            at = start
        elif line.startswith("+"):
            after.append(line[1:])
        else:
            assert before[at] == line[1:]
            after += [line[1:]] if line.startswith(" ") else []
            at += 1
    return after + before[at:]


@given(LINES, LINES)
def test_a_diff_applied_to_the_file_gives_what_would_be_written(old: list[str], new: list[str]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    diff = diff_of(before, after, "f")
    assert apply_diff(old, diff) == new if old != new else diff == "(nothing would change)"


def test_an_edit_shows_its_lines_with_those_around_them() -> None:
    diff = preview("Edit", Found(TEXT), file_path="/work/a/b.txt", old_string="five", new_string="5\nfive")
    assert diff.split("\n") == [
        "--- a/b.txt",
        "+++ a/b.txt",
        "@@ -2,6 +2,7 @@",
        " two",
        " three",
        " four",
        "+5",
        " five",
        " six",
        " seven",
    ]


def test_a_new_file_comes_from_nowhere_and_an_old_one_from_itself() -> None:
    new = preview("Write", Found(), file_path="/work/n.txt", content="a\nb\n")
    assert new == "--- /dev/null\n+++ n.txt\n@@ -0,0 +1,2 @@\n+a\n+b"
    old = preview("Write", Found("a\n"), file_path="/work/n.txt", content="a\nb\n")
    assert old == "--- n.txt\n+++ n.txt\n@@ -1 +1,2 @@\n a\n+b"


def test_several_edits_are_one_diff_and_each_sees_what_the_one_before_left() -> None:
    edits = [{"old_string": "one", "new_string": "ONE"}, {"old_string": "ONE", "new_string": "1"}]
    diff = preview("MultiEdit", Found(TEXT), file_path="/work/a.txt", edits=edits)
    assert "-one" in diff and "+1" in diff and "ONE" not in diff


def test_replace_all_replaces_all() -> None:
    diff = preview(
        "Edit", Found("a\nb\na\n"), file_path="x", old_string="a", new_string="c", replace_all=True
    )
    assert diff.count("\n+c") == 2


@pytest.mark.parametrize(
    ("found", "old", "said"),
    [
        (Found(TEXT), "eleven", "not in the file as it is now"),
        (Found("a\na\n"), "a", "in the file 2 times"),
        (Found(), "one", "there is no such file now"),
        (Found(problem="it is not text"), "one", "it is not text"),
    ],
)
def test_what_cannot_be_compared_is_said_and_what_was_asked_is_shown(
    found: Found, old: str, said: str
) -> None:
    diff = preview("Edit", found, file_path="/work/a.txt", old_string=old, new_string="new")
    assert said in diff.split("\n")[0]
    assert f"-{old}" in diff and "+new" in diff


def test_a_notebook_s_cell_is_compared_with_itself_alone() -> None:
    cells = [{"id": "c0", "source": ["a = 1\n", "b = 2"]}, {"id": "c1", "source": "print(a)"}]
    found = Found(json.dumps({"cells": cells}))
    diff = preview(
        "NotebookEdit", found, notebook_path="/work/n.ipynb", cell_id="c0", new_source="a = 1\nb = 3"
    )
    assert diff.split("\n")[0] == "(replace n.ipynb cell c0)"
    assert "-b = 2\n+b = 3" in diff and "print" not in diff
    gone = preview(
        "NotebookEdit",
        found,
        notebook_path="/work/n.ipynb",
        cell_id="cell-1",
        edit_mode="delete",
        new_source="",
    )
    assert "-print(a)" in gone
    broken = preview("NotebookEdit", Found("{"), notebook_path="/work/n.ipynb", cell_id="c0", new_source="x")
    assert "cannot be read" in broken and "+x" in broken


def test_a_diff_that_the_engine_made_is_shown_as_it_is() -> None:
    assert preview("apply_patch", Found(TEXT), diff="--- a\n+++ a\n") == "--- a\n+++ a\n"


@pytest.mark.parametrize(
    "given",
    [
        {"command": "rm -rf build"},
        {"file_path": "a.txt"},
        {"notebook_path": "a.ipynb"},
        {"path": "src", "pattern": "x"},
        {"file_path": 7, "content": "x"},
        {"content": "no path"},
        {"file_path": "a", "edits": ["what"]},
    ],
)
def test_what_changes_no_file_has_no_preview(given: dict[str, Any]) -> None:
    assert change_of("x", given) is None
    assert change_of("x", "text") is None


@given(st.text(alphabet="ab\n", max_size=9000) | st.integers(0, 9000).map("x".__mul__))
def test_what_stands_beside_a_question_is_short_and_says_what_is_missing(diff: str) -> None:
    short = shorten(diff)
    assert len(short.split("\n")) <= BRIEF_LINES + 1
    assert len(short) <= BRIEF_CHARS + LINE_CHARS
    assert shorten(short) == short
    kept, *_ = short.split("\n… ")
    assert short == diff or "\n… " in short or short.startswith("… ")
    assert diff.startswith(kept.rstrip("…")) or short.startswith("… ")


def test_huge_changes_are_bounded_and_quick() -> None:
    before = "".join(f"line {n}\n" for n in range(60_000))
    after = "".join(f"other {n % 7}\n" for n in range(60_000))
    began = time.perf_counter()
    diff = preview("Write", Found(before), file_path="a", content=after)
    assert len(diff) < WHOLE_CHARS + 200
    assert "more characters" in diff.split("\n")[-1]
    assert time.perf_counter() - began < 5


def test_line_ends_alone_are_told_in_words() -> None:
    assert diff_of("a\r\nb\r\n", "a\nb\n", "f") == "(only line ends would change)"


@pytest.mark.parametrize(
    ("tool", "given", "left"),
    [
        ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True}, {}),
        ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y", "then": "rm"}, {"then": "rm"}),
        ("Write", {"file_path": "a", "path": "b", "content": "x"}, {"path": "b"}),
        ("Write", {"file_path": "a", "content": "x", "": "rm"}, {"": "rm"}),
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}, {}),
        ("mcp__x__apply", {"diff": "--- a", "path": "b", "patch": "+c"}, {"path": "b", "patch": "+c"}),
        ("mcp__x__send", {"path": "a", "content": "x"}, {"path": "a", "content": "x"}),
        (
            "NotebookEdit",
            {"notebook_path": "n", "cell_id": "1", "new_source": "x", "cell_type": "code"},
            {"cell_type": "code"},
        ),
        (
            "NotebookEdit",
            {"notebook_path": "n", "cell_id": "1", "new_source": "x", "edit_mode": "delete"},
            {"new_source": "x"},
        ),
    ],
)
def test_what_a_preview_does_not_show_is_left_to_be_shown_beside_it(
    tool: str, given: dict[str, Any], left: dict[str, Any]
) -> None:
    assert change_of(tool, given) is not None
    assert beside(tool, given) == left


def test_an_edit_with_something_more_in_it_is_shown_as_it_is() -> None:
    edits = [{"old_string": "x", "new_string": "y", "run": "rm"}]
    assert beside("MultiEdit", {"file_path": "a", "edits": edits}) == {"edits": edits}


def test_the_whole_input_is_shown_where_the_call_is_not_known() -> None:
    given = {"file_path": "a", "old_string": "x", "new_string": "y"}
    ask = Ask(AskId("a"), "approval", "Edit", {"tool": "Edit", "input": given}, preview="-x\n+y")
    assert beside_preview(ask) == given


def test_that_a_text_is_replaced_everywhere_shows_where_the_file_does_not() -> None:
    found = Found(problem="it is not text")
    assert "@@ everywhere @@" in preview(
        "Edit", found, file_path="a", old_string="x", new_string="y", replace_all=True
    )
