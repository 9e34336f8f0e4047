"""An ask in words: who wants what, why a person is asked, and what a lasting yes allows. Pure.

`headline` begins every ask on every channel, so a phone's notification shows it. It is made from the typed `Call` when
the ask is shown: the stored title and the hashed payload stay as the engine sent them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from pilothouse.core.ask import Ask, Remember
from pilothouse.core.call import Call
from pilothouse.core.errors import ConfigError
from pilothouse.core.policy import Rule, parse_rule
from pilothouse.core.text import code_block, first_line, reveal_hidden

ONE_LINE = 200
"""A longer command, or one of several lines, stands in a block of its own below the headline."""
MOST = 1500
"""Of what is longer, the first `CUT` characters are shown; the attached payload has all of it."""
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
