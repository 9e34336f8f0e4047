"""Write tests/golden/words.txt, every sentence that Pilothouse says to people, by topic: `python -m tools.words`.

Sentences are read from the source, in its order: every text of two words or more that is no docstring (except a command's,
which is its help), no assertion and no log entry. `{name}` stands for a value, `[text]` for words that may be missing, and
`(one|other)` for words of which one is said.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "pilothouse"
FILE = ROOT / "tests" / "golden" / "words.txt"
DEMO = "engines/script/demo.toml"

TOPICS: dict[str, tuple[str, ...]] = {
    "Asks: who wants what, and what an answer does": (
        "core/ask_view.py",
        "core/ask.py",
        "runtime/preview.py",
        "runtime/asks/",
        "runtime/turns/asks.py",
    ),
    "Approval rules: why something is asked or denied": ("policy/", "core/policy.py", "core/call.py"),
    "Messages: queued, joined, refused, changed": ("runtime/inbox/", "runtime/conversations/"),
    "Turns: started, stopped, failed, recovered": ("runtime/turns/", "runtime/engines.py", "core/turn.py"),
    "Commands in a chat, and their replies": ("runtime/commands/",),
    "People: let in, refused, their roles": (
        "core/people.py",
        "runtime/admission.py",
        "runtime/presence.py",
        "runtime/roles.py",
        "bootstrap/people.py",
    ),
    "Budgets": ("core/budget.py", "runtime/budget/"),
    "Tools for agents": ("agent_tools/", "runtime/agent_calls/", "mcp_client/"),
    "Schedules": ("core/schedule.py", "runtime/schedules/"),
    "Delivery: late, lost and repeated messages": ("runtime/delivery/", "runtime/outbox.py"),
    "Channels: what they share, and their health": (
        "channels/",
        "core/channel.py",
        "runtime/channel_status.py",
        "core/trigger.py",
        "runtime/channel_health.py",
        "bootstrap/connections.py",
    ),
    "Telegram": ("channels/telegram/",),
    "Discord": ("channels/discord/", "bootstrap/dedicated.py", "cli/discord.py"),
    "The terminal": (
        "channels/terminal/",
        "bootstrap/chat.py",
        "bootstrap/open_asks.py",
        "bootstrap/binding.py",
    ),
    "Engines: what they share": ("engines/", "core/engine.py", "core/view.py", "core/event.py"),
    "Claude Code": ("engines/claude/",),
    "Codex": ("engines/codex/",),
    "The native agent": ("engines/native/",),
    "OpenCode": ("engines/opencode/",),
    "Programs that speak JSON-RPC": ("channels/rpc/", "channels/acp/", "client/", "cli/rpc.py", "cli/acp.py"),
    "Agents that speak ACP": ("engines/acp/",),
    "Scripts, and the demo": ("engines/script/",),
    "The command line: help, tables, errors": ("cli/", "bootstrap/terminal_text.py"),
    "pilothouse init and pair": ("cli/init", "cli/pair.py", "cli/question.py", "cli/trust.py"),
    "pilothouse up, doctor, status and service": (
        "cli/up.py",
        "cli/doctor",
        "cli/status.py",
        "cli/service.py",
        "bootstrap/",
        "runtime/gateway.py",
        "runtime/node.py",
    ),
    "Lanes": ("lanes/", "cli/lanes.py"),
    "Backup and restore": ("cli/backup.py", "bootstrap/backup.py", "bootstrap/restore.py"),
    "The configuration": ("config/", "core/secret.py"),
    "The store": ("stores/", "core/store.py", "core/queue.py", "core/audit.py", "runtime/audit.py"),
    "Programs, networks, files, and the rest": (
        "processes/",
        "isolation/",
        "http/",
        "plugins/",
        "logs/",
        "core/",
        "runtime/",
    ),
}
NOT_SAID = ("testing/", "policy/programs.py", "policy/reader_table.py", "channels/telegram/trouble.py")
"""Files with texts that people never read: tables of programs and of a platform's errors."""
_WORD = re.compile(r"[^\W\d_]{2,}")
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
_NO_SENTENCE = re.compile(
    r"(BEGIN|PRAGMA|RELEASE|ROLLBACK|SAVEPOINT|SELECT) |.*(\(\?|\[ \\t\]|%[HS])|-\w+ -|chmod |<", re.DOTALL
)
"""SQL, a regular expression, a form of dates, options or a call of a program, or HTML."""
_UNSAID_CALLS = {"log", "compile", "AssertionError", "AttributeError", "split", "splitlines"}


def render() -> str:
    """Return the golden file."""
    found: dict[str, list[str]] = {topic: [] for topic in TOPICS}
    for file in sorted(SOURCE.rglob("*.py")):
        name = str(file.relative_to(SOURCE))
        if name.startswith(NOT_SAID) or not (said := list(dict.fromkeys(sentences(file)))):
            continue
        found[topic_of(name)] += [f"[{name}]", *said, ""]
    found["Scripts, and the demo"] += [f"[{DEMO}]", *_demo(tomllib.loads((SOURCE / DEMO).read_text())), ""]
    parts = [f"{topic}\n{'=' * len(topic)}\n\n" + "\n".join(lines) for topic, lines in found.items() if lines]
    return "\n\n".join(parts)


def topic_of(name: str) -> str:
    """Return the topic whose entry fits the file most exactly."""
    fits = [
        (len(start), topic) for topic, starts in TOPICS.items() for start in starts if name.startswith(start)
    ]
    assert fits, f"{name} has sentences: add it to a topic in tools/words.py"
    return max(fits)[1]


def sentences(file: Path) -> Iterator[str]:
    for text in _texts(ast.parse(file.read_text())):
        if is_sentence(text):
            yield _indented(text)


def is_sentence(text: str) -> bool:
    """Return true for two words or more, or a longer word and a value."""
    said = _PLACEHOLDER.sub("", text)
    words = _WORD.findall(said)
    enough = len(words) > 1 or (said != text and any(len(word) > 3 for word in words))
    return enough and " " in text.strip() and not _NO_SENTENCE.match(text)


def _texts(node: ast.AST) -> Iterator[str]:
    """Yield the texts below a node, in the order of the source."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Assert():
            return
        case ast.Call(func=called) if _last_name(called) in _UNSAID_CALLS:
            return
        case ast.Constant(value=str(text)):
            yield text
            return
        case ast.JoinedStr() | ast.BinOp(op=ast.Add()) if (text := _text(node)) is not None:
            yield text
            return
        case ast.FunctionDef(decorator_list=[_, *_]) if _is_command(node):
            yield ast.get_docstring(node) or ""
        case _:
            pass
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


def _is_command(node: ast.FunctionDef) -> bool:
    return any(
        isinstance(one, ast.Call) and _last_name(one.func) in ("command", "group")
        for one in node.decorator_list
    )


def _text(node: ast.expr) -> str | None:
    """Render an expression that is certainly a text; None if it may be none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(value) or "" for value in values)
        case ast.FormattedValue(value=value):
            return _value(value)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            one, other = _text(left), _text(right)
            known = one is not None or other is not None
            return (one or _value(left)) + (other or _value(right)) if known else None
        case _:
            return None


def _value(node: ast.expr) -> str:
    """Render an inserted value: alternatives of words, or its name in braces."""
    match node:
        case ast.IfExp(body=body, orelse=other):
            one, two = (
                _text(branch) if _text(branch) is not None else _value(branch) for branch in (body, other)
            )
            return f"[{one or two}]" if not (one and two) else f"({one}|{two})"
        case ast.Constant() | ast.JoinedStr():
            return _text(node) or ""
        case _:
            return f"{{{_name(node)}}}"


def _last_name(node: ast.expr) -> str:
    return _name(node).rpartition(".")[2]


def _name(node: ast.AST) -> str:
    """Name a value shortly: `names` for `", ".join(names)`, `ask.title` for `first_line(ask.title)`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name.lstrip("_")
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return f"{owner}.{name}"
        case ast.Attribute(attr=name):
            return name
        case ast.Call(args=[ast.expr() as first, *_]) if not isinstance(first, ast.Constant):
            return _name(first)
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner)):
            return _name(owner)
        case ast.Call(func=called):
            return _name(called)
        case ast.GeneratorExp(elt=inner) | ast.ListComp(elt=inner) | ast.Subscript(value=inner):
            return _name(inner)
        case ast.BoolOp(values=[first, *_]):
            return _name(first)
        case ast.BinOp(left=left):
            return _name(left)
        case _:
            return "…"


def _indented(text: str) -> str:
    """Keep the lines of one text together."""
    return re.sub("\n(?=.)", "\n    ", text.strip("\n")).rstrip()


def _demo(value: Any) -> Iterator[str]:
    """Yield what the demo says, in its order."""
    if isinstance(value, list):
        for item in value:
            yield from _demo(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str) and key in ("say", "stream", "think", "ask", "title", "description"):
                yield _indented(item)
            elif not isinstance(item, str):
                yield from _demo(item)


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(render())
