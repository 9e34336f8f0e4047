"""Turns and asks as they come, for the golden files: what people see of them is reviewed as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.calls import with_call

from pilothouse.core.ask import Ask, AskKind, Option, RuleOffer, hash_payload
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    Notice,
    PlanChanged,
    PlanItem,
    ResumeToken,
    SessionStarted,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolKind,
    ToolStarted,
    TurnEnded,
    Usage,
)
from pilothouse.core.ids import AskId, BlobHash, CallId, EngineId, TurnId
from pilothouse.core.message import Attachment, CommandButton, Content, DoneStep
from pilothouse.core.people import Approvers, Authority
from pilothouse.core.view import TurnView, fold
from pilothouse.runtime.asks.show import ask_text, is_long

STARTED = SessionStarted(ResumeToken(EngineId("claude"), "5f0c1f7e"), "claude-opus-5-5")


def view_of(*events: EngineEvent) -> TurnView:
    """One event a second."""
    view = TurnView(turn_id=TurnId("turn-3f9k2a7c1d5e"))
    for at, event in enumerate(events):
        view = fold(view, event, float(at))
    return view


def call(id: str, kind: ToolKind, title: str, parent: str | None = None, **detail: object) -> ToolStarted:
    return ToolStarted(ToolCall(CallId(id), kind, title, detail, CallId(parent) if parent else None))


def done(id: str, ok: bool = True) -> ToolFinished:
    return ToolFinished(CallId(id), ok)


def ask(kind: AskKind, title: str, payload: dict[str, Any], **more: Any) -> Ask:
    return with_call(
        Ask(AskId("ask-8d2j1xq4m7zr"), kind, title, payload, hash_payload(payload), asker="Claude", **more)
    )


PUSH = ask(
    "approval",
    "git push --force origin main",
    {"tool": "Bash", "input": {"command": "git push --force origin main", "timeout": 5000}},
    why="not on your allow list: git push",
    offers=(RuleOffer("session", "allow command git push"), RuleOffer("always", "allow command git push")),
)
EDIT = ask(
    "approval",
    "edit: src/app.py",
    {
        "tool": "Edit",
        "input": {"file_path": "/srv/app/src/app.py", "old_string": "a", "new_string": "b"},
        "cwd": "/srv/app",
    },
    preview="--- a/src/app.py\n+++ b/src/app.py\n@@ -1,2 +1,2 @@\n import os\n-a = 1\n+b = 1\n",
)
COLOUR = ask(
    "question",
    "Which **colour** shall it have?",
    {"question": "Which colour?"},
    options=(Option("1", "Red"), Option("2", "Blue"), Option("3", "Green")),
)
PARTS = ask(
    "question",
    "What shall I build?",
    {"question": "What?"},
    options=(
        Option("1", "The server: a small one, with the three routes that we spoke about"),
        Option("2", "The page"),
    ),
    many=True,
    free_text=True,
)
PLAN = ask(
    "plan",
    "# The plan\n\n1. Look\n2. Write\n3. Test",
    {"tool": "ExitPlanMode", "input": {"plan": "# The plan\n\n1. Look\n2. Write\n3. Test"}},
)
LONG = ask(
    "approval",
    "file: data/table.csv",
    {"tool": "Write", "input": {"file_path": "data/table.csv", "content": "1,2,3,4\n" * 900}},
)
HIDDEN = ask("approval", "rm \u202e-rf/ safe\u200b", {"command": "rm \u202e-rf/ safe\u200b\nls"})

VIEWS: dict[str, tuple[TurnView, float]] = {
    "thinking": (view_of(STARTED), 3.0),
    "working": (
        view_of(
            STARTED,
            PlanChanged((PlanItem("Look", "done"), PlanItem("Write the tests", "active"), PlanItem("Run"))),
            call("1", "read", "tool: Read src/app.py", file_path="/srv/app/src/app.py"),
            done("1"),
            call("2", "file_change", "edit: src/app.py", file_path="/srv/app/src/app.py", added=12, removed=3),
            done("2"),
            call("3", "search", "grep: def main"),
            done("3", ok=False),
            call("4", "web", "fetch: https://example.com/docs"),
            done("4"),
            call("5", "command", "python -m pytest -q tests --maxfail=1 -k 'not slow and not the others'"),
        ),
        75.0,
    ),
    "sub-agents": (
        view_of(
            STARTED,
            call("1", "subagent", "task: find the bug"),
            call("2", "subagent", "task: write the docs"),
            *(step for n in range(3, 7) for step in (call(str(n), "read", f"tool: Read f{n}.py", "1"), done(str(n)))),
            call("7", "command", "ls docs", "2"),
        ),
        30.0,
    ),
    "writing": (view_of(STARTED, TextDelta("b", "The answer is **this**:\n\n```python\nprint('half a")), 9.0),
    "waiting": (view_of(STARTED, call("1", "command", "git push --force"), Asked(PUSH)), 4000.0),
    "retrying": (view_of(STARTED, Notice("warning", "api_retry", "The API is overloaded; again in 5 s.")), 9.0),
    "ended": (view_of(STARTED, call("1", "command", "ls"), done("1"), TurnEnded("completed", "Done.", usage=Usage(0.01))), 9.0),
}  # fmt: skip
PAYLOAD = Attachment("ask-8d2j1xq4m7zr.json", "application/json", 7200, BlobHash("3" * 64))


MEMBERS = Approvers(("member",))


def asked(ask: Ask, approvers: Approvers = MEMBERS) -> Content:
    """An ask as the gateway sends it: a payload that is too long to be read goes along as a file."""
    files = (PAYLOAD,) if is_long(ask) else ()
    return Content(ask_text(ask, Authority(approvers)), "ask", files, TurnId("turn-1"), ask=ask)


ASKS: dict[str, Ask] = {
    "push": PUSH, "edit": EDIT, "colour": COLOUR, "parts": PARTS, "plan": PLAN, "long": LONG, "hidden": HIDDEN,
}  # fmt: skip

ANSWER = """\
# What changed

I moved `parse()` out of **app.py** and into *parse.py*, see [the docs](https://example.com/docs) and
[app.py](src/app.py#L10). `__init__.py` and src/*.py are as they were; List<int> too.

- [x] tests
- [ ] docs
  - the page about `parse`
  - ```sh
    ./check
    ```

1. first
2. second

| Step | Time |
|:-----|-----:|
| parse | 3 ms |
| 日本語 | 12 ms |

| File | What was done to it | Lines |
|---|---|---|
| src/app.py | Everything about parsing went away, and with it two bugs | −120 |
| src/parse.py | New | 97 |

> One more thing:
> it is **fast**.

```python
def parse(text: str) -> list[str]:
    return text.split()
```

---

[error]: not a definition
"""
FILES = (
    Attachment("chart.png", "image/png", 40_000, BlobHash("0" * 64)),
    Attachment("data.csv", "text/csv", 400, BlobHash("1" * 64)),
    Attachment("video.mp4", "video/mp4", 73_000_000, BlobHash("2" * 64)),
)
CONTENTS: dict[str, Content] = {
    "answer": Content(ANSWER, "answer", turn_id=TurnId("turn-1"), usage=Usage(0.0234, 12_345, 678)),
    "reply": Content("It is done.", "reply", reply_to="77"),
    "list": Content(
        "The engine is claude. There are: claude, script.",
        "reply",
        buttons=(CommandButton("script", "/engine script"),),
    ),
    "steps": Content(
        "The tests pass again.",
        "answer",
        turn_id=TurnId("turn-1"),
        steps=(
            DoneStep("npm test", ok=False, is_command=True),
            DoneStep("src/login.ts"),
            DoneStep("npm test -- --watch=false", is_command=True),
            DoneStep("docs/a_b.md"),
        ),
    ),
    "files": Content("Here they are.", "answer", FILES, TurnId("turn-1")),
    "nothing": Content(" \n ", "notice"),
    "too long": Content(
        "# Report\n\n" + "A line that goes on and on.\n\n" * 2000, "answer", turn_id=TurnId("turn-1")
    ),
}


def two_parts() -> Content:
    """An answer whose code goes over the edge of a message."""
    lines = "\n".join(f"line_{n} = {n}  # what happens here" for n in range(140))
    return Content(
        f"Look:\n\n```python\n{lines}\n```\n\nThat is **all**.", "answer", turn_id=TurnId("turn-1")
    )


def all_contents() -> Iterable[tuple[str, Content]]:
    yield from CONTENTS.items()
    yield "two parts", two_parts()
