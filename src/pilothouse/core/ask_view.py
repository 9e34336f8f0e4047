"""An ask as people see it: its headline and reason in words, its values as plain lines, and what a lasting yes allows. Pure.

`headline` begins every ask on every channel, so a phone's notification shows it. It is made from the typed `Call` when
the ask is shown: the stored title and the hashed payload stay as the engine sent them. Long values are shortened, and a
`more` line says by how much; `/show`, or the channel's own view, gives the full text. What a preview does not show of the
call is shown beside it (`beside_preview`): nobody says yes to what they did not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, Remember, input_of
from pilothouse.core.call import Call
from pilothouse.core.errors import ConfigError
from pilothouse.core.policy import Rule, parse_rule
from pilothouse.core.text import code_block, first_line, reveal_hidden

BRIEF_LINES = 40
BRIEF_CHARS = 3000
LINE_CHARS = 400
MORE = "… "
"""Start of the line that says how much is missing; no line of a diff starts so."""
VALUE_LINES = 20
VALUE_CHARS = 4000

_SHOWN_APART = ("tool", "input", "cwd")

Sort = Literal["value", "more", "diff", "where", "why"]


class AskLine(Struct, frozen=True):
    """One line. A line without a `name` continues the one before it."""

    sort: Sort
    text: str
    name: str = ""


def ask_lines(ask: Ask) -> list[AskLine]:
    """The lines between an ask's title and its answers."""
    lines = [AskLine("diff", line) for line in shorten(ask.preview).split("\n")] if ask.preview else []
    if not ask.of_house:
        lines += [line for name, value in _values(ask) for line in _value(name, value)]
    cwd = ask.payload.get("cwd")
    if isinstance(cwd, str) and cwd and input_of(ask) is not None:
        lines.append(AskLine("where", cwd, "in"))
    if ask.whose:
        lines.append(AskLine("where", ask.whose))
    if ask.why:
        lines.append(AskLine("why", " ".join(ask.why.split()), "why"))
    return lines


def whole_ask(ask: Ask) -> list[AskLine]:
    """The diff and the payload to the last character, and the hash that an answer is bound to."""
    diff = [AskLine("diff", line) for line in ask.preview.split("\n")] if ask.preview else []
    payload = msgspec.json.format(msgspec.json.encode(ask.payload), indent=2).decode()
    return [
        *diff,
        *(AskLine("value", line) for line in payload.split("\n")),
        AskLine("where", ask.payload_hash, "sha256"),
    ]


def is_cut(diff: str) -> bool:
    """Tell whether a preview is shortened beside a question."""
    return shorten(diff).rpartition("\n")[2].startswith(MORE)


def shorten(diff: str) -> str:
    """Shorten a diff to fit beside a question; the last line says how much is missing. Idempotent."""
    lines = diff.split("\n")
    if lines[-1].startswith(MORE) and len(lines) <= BRIEF_LINES + 1 and len(diff) <= BRIEF_CHARS + LINE_CHARS:
        return diff
    kept, room = list[str](), BRIEF_CHARS
    for long in lines[:BRIEF_LINES]:
        line = long if len(long) <= LINE_CHARS else long[: LINE_CHARS - 1] + "…"
        if len(line) > room:
            break
        room -= len(line) + 1
        kept.append(line)
    if kept == lines:
        return diff
    missing = len(lines) - len(kept)
    more = f"{missing} more line{'' if missing == 1 else 's'}" if missing else "the lines above go on"
    return "\n".join([*kept, f"{MORE}{more}"])


def beside_preview(ask: Ask) -> dict[str, Any]:
    """Return the part of the input that a preview does not show; the whole input if the call is not known."""
    change = ask.call.change if ask.call is not None else None
    return _without(ask, () if change is None else change.shown)


def beside_headline(ask: Ask) -> dict[str, Any]:
    """Return the part of the input that neither the headline nor the preview, if there is one, shows."""
    named = () if ask.call is None else ask.call.shown
    change = ask.call.change if ask.call is not None and ask.preview else None
    return _without(ask, (*named, *(() if change is None else change.shown)))


def _without(ask: Ask, shown: tuple[str, ...]) -> dict[str, Any]:
    given = ask.payload.get("input")
    return {key: value for key, value in given.items() if key not in shown} if isinstance(given, dict) else {}


def command_of(ask: Ask) -> str | None:
    """The command line that would run, if the ask is about one."""
    given = input_of(ask)
    command = (ask.payload if given is None else given).get("command")
    return command if isinstance(command, str) and command.strip() else None


def rule_offered(ask: Ask, remember: str) -> str:
    """The rule that this allow would save; empty if none is offered."""
    return next((offer.rule for offer in ask.offers if offer.remember == remember), "")


def _values(ask: Ask) -> Iterator[tuple[str, Any]]:
    """Yield the values that the title does not already show. The title of a call is not shown."""
    given = input_of(ask)
    if given is not None:
        tool = ask.payload.get("tool")
        told = " ".join(ask.title.split())
        if isinstance(tool, str) and not told.startswith(tool) and command_of(ask) is None:
            yield "tool", tool
        yield from ((name, value) for name, value in ask.payload.items() if name not in _SHOWN_APART)
        shown = beside_preview(ask) if ask.preview else given
        is_told = ask.call is None
        yield from ((name, value) for name, value in shown.items() if not (is_told and _repeats(told, value)))
    elif not ask.payload.items() <= {"kind": ask.kind, "title": ask.title}.items():
        yield from ask.payload.items()


def _repeats(title: str, value: Any) -> bool:
    return isinstance(value, str) and "\n" not in value.strip() and " ".join(value.split()) == title


def _value(name: str, value: Any) -> Iterator[AskLine]:
    words = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    lines = words[:VALUE_CHARS].split("\n")
    shown = lines[:VALUE_LINES]
    yield AskLine("value", shown[0], name)
    yield from (AskLine("value", line) for line in shown[1:])
    missing = words.count("\n") + 1 - len(shown)
    if missing:
        yield AskLine("more", f"… and {missing} more lines")
    elif len(words) > VALUE_CHARS:
        yield AskLine("more", f"… and {len(words) - VALUE_CHARS:,} more characters")


def payload_text(ask: Ask) -> str:
    """Format the whole payload: each value under its name."""
    given = input_of(ask)
    return join_values(ask.payload.items() if given is None else [*beside_input(ask), *given.items()])


def beside_input(ask: Ask) -> list[tuple[str, Any]]:
    """Return the values beside the input, even if the input has the same names."""
    return [(key, value) for key, value in ask.payload.items() if key != "input"]


def join_values(values: Iterable[tuple[str, Any]]) -> str:
    return "\n".join(_named(key, value) for key, value in values)


def _named(key: str, value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"


ONE_LINE = 200
"""A longer command, or one of several lines, stands in a block of its own below the headline."""
MOST = 1500
"""The longest payload that is shown whole. Of a longer one the first `CUT` characters are shown; the attached payload has all of it."""
CUT = 600
SUBJECT = 120

ALLOW: dict[Remember, str] = {
    "once": "Allow once",
    "session": "Allow for this session",
    "always": "Always allow",
}
"""The labels of buttons that allow, on every channel."""
_MARKDOWN_BLOCKS = ("#", ">", "-", "*", "+", "|", "`", "    ")


def headline(ask: Ask) -> str:
    """Say who wants what, in Markdown. A text that does not fit on the line stands in a block below it."""
    line, rest = head_and_rest(ask)
    if not rest:
        return line
    if ask.call is None or ask.kind != "approval":
        return f"{line}\n\n{rest}"
    return f"{line}\n{code_block(rest if len(rest) <= MOST else rest[:CUT])}"


def head_and_rest(ask: Ask) -> tuple[str, str]:
    """Return the line that says who wants what, and the text that does not fit on it, in full; empty if all does."""
    if ask.of_house:
        return ask.title, ""
    who = ask.asker or "The engine"
    if ask.kind == "plan":
        return f"{who} has a plan:", ask.title
    if ask.kind == "question" or ask.call is None:
        return (f"{who} asks: {ask.title}", "") if _is_lone_line(ask.title) else (f"{who} asks:", ask.title)
    verb, what = _wish(ask.call)
    if not _fits_in_line(what):
        return f"{who} wants to {verb}:", what or " "
    return f"{who} wants to {verb} {f'`{what}`' if ask.call.kind == 'command' else what}", ""


def whole_headline(ask: Ask) -> str:
    """Return the headline in full for lists in a terminal, with hidden characters made visible."""
    return reveal_hidden("\n".join(part for part in head_and_rest(ask) if part.strip()))


def remark(ask: Ask) -> str:
    """Return what the engine says below the title of a call, which the headline leaves out."""
    is_call = ask.kind == "approval" and ask.call is not None and not ask.of_house
    return ask.title.partition("\n")[2] if is_call else ""


def hidden_chars(ask: Ask) -> int:
    """Count the characters of a long command that the headline leaves out."""
    what = object_of(ask)
    return len(what) - CUT if len(what) > MOST else 0


def object_of(ask: Ask) -> str:
    """Return what an engine's call is about, in full, as the headline writes it; empty for other asks."""
    return "" if ask.of_house or ask.kind != "approval" or ask.call is None else _wish(ask.call)[1]


def subject(ask: Ask, limit: int = SUBJECT) -> str:
    """Name what an ask is about in one line, for lists and closing lines: `npm test`, or `edit main.py`."""
    if ask.of_house or ask.kind != "approval" or ask.call is None:
        return first_line(reveal_hidden(ask.title), limit)
    verb, what = _wish(ask.call)
    return first_line(reveal_hidden(what if ask.call.kind == "command" else f"{verb} {what}"), limit)


def reason(ask: Ask) -> str:
    """Say in a sentence why a person is asked, without repeating what the headline names; empty if nobody said why."""
    why = " ".join(ask.why.split())
    head, _, named = why.partition(": ")
    if named and ask.call is not None and named in _whole_names(ask.call):
        why = head
    if not why:
        return ""
    return f"{why[0].upper()}{why[1:]}{'' if why[-1] in '.!?' else '.'}"


def offer_lines(ask: Ask) -> list[str]:
    """Say what the lasting answers allow besides this call, one line for each different set of rules."""
    buttons: dict[str, list[str]] = {}
    for offer in ask.offers:
        where = " (in this folder)" if offer.remember == "always" else ""
        buttons.setdefault(offer.rule, []).append(f"“{ALLOW[offer.remember]}”{where}")
    return [
        f"{' and '.join(names)} also {'cover' if len(names) > 1 else 'covers'}: {describe_offer(rule)}"
        for rule, names in buttons.items()
    ]


def describe_offer(rules: str) -> str:
    """Describe the rules of an offer, which are one on each line, as the object of "allow"."""
    commands: list[str] = []
    others: list[str] = []
    for line in rules.splitlines():
        try:
            rule = parse_rule(line)
        except ConfigError:
            others.append(line)
            continue
        if rule.kind == "command":
            commands.append(f"`{' '.join(rule.words)}`")
        else:
            others.append(_allowed_by(rule))
    with_arguments = [f"{_listed(commands)} with any arguments"] if commands else []
    return _listed([*with_arguments, *others])


def _listed(texts: Sequence[str]) -> str:
    *first, last = texts or ("",)
    return f"{', '.join(first)} and {last}" if first else last


def _allowed_by(rule: Rule) -> str:
    words = " ".join(rule.words)
    match rule.kind:
        case "command" | "glob":
            return f"commands like `{words}`"
        case "path":
            return f"changes to {words}"
        case "read":
            return f"reading {words}"
        case "domain":
            return f"fetching from {words}"
        case "mcp":
            server, *tool = rule.words
            return (
                f"the tool {tool[0]} of the server {server}" if tool else f"every tool of the server {server}"
            )
        case "skill" | "tool":
            return f"the {rule.kind} {words}"


def _is_lone_line(title: str) -> bool:
    """False for a title that begins a block of Markdown: on the line of other words it would not be one any more."""
    return "\n" not in title.strip() and not title.startswith(_MARKDOWN_BLOCKS)


def _wish(call: Call) -> tuple[str, str]:
    """Return the verb and its object, as in `run` and `npm test`."""
    match call.kind:
        case "command":
            return "run", call.command
        case "read":
            return ("search" if call.deep else "read"), _paths(call)
        case "change":
            whole = call.change is not None and call.change.content is not None
            return ("write" if whole else "edit"), _paths(call)
        case "web":
            return "fetch", call.url or call.host
        case "mcp":
            return "use", f"{call.server_tool} of {call.server}"
        case "skill":
            return "use", f"the skill {call.skill}"
        case "notes" | "tool" | "unreadable":
            return "use", call.tool or "a tool"


def _paths(call: Call) -> str:
    first, *others = call.paths or (".",)
    more = f" and {len(others)} more" if others else ""
    return f"{_relative(first, call.cwd)}{more}"


def _relative(path: str, cwd: str) -> str:
    whole = PurePosixPath(path)
    inside = bool(cwd) and whole.is_relative_to(cwd) and ".." not in whole.parts
    return str(whole.relative_to(cwd)) if inside else path


def _whole_names(call: Call) -> tuple[str, ...]:
    """Return what the headline names in full."""
    wish = _wish(call)[1]
    return (wish, *call.paths, call.host) if call.kind != "command" else (wish,)


def _fits_in_line(what: str) -> bool:
    return 0 < len(what) <= ONE_LINE and "`" not in what and what.isprintable() and what == what.strip()
