"""Lines of text that carry a session between a chat and a terminal.

A line counts only if nothing else stands on it, with or without backticks, a prompt sign, or the `cd` that `/session`
prints; of several, the last wins; none of them reaches the model.
"""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Callable

from pilothouse.core.engine import ResumeLines
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId
from pilothouse.core.outcome import Failure

# Every message is searched: two adjacent spans of blanks would take quadratic time on a long one.
_LINE = r"""^[ \t]*(?:(?P<tick>`+)[ \t]*)?(?:\$[ \t]+)?
        (?:cd[ \t]+(?P<cwd>'(?:[^'\n]|'"'"')*'|"[^"\n]*"|[^\s`&;|]+)[ \t]*&&[ \t]*)?
        {words}
        (?P<id>{id})
        (?(tick)[ \t]*(?P=tick))[ \t]*\r?$\n?"""
HEX_ID = r"[0-9a-f][0-9a-f-]{7,63}"
_EMPTY_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n\s*```[ \t]*\r?$\n?", re.MULTILINE)


def make_resume_lines(
    engine: EngineId,
    words: str,
    command: str,
    is_id: Callable[[str], bool],
    *,
    shown: bool,
    id_pattern: str = HEX_ID,
    beside: str = "",
) -> ResumeLines:
    """Return the lines of an engine: `words` is a pattern for what stands before the id, `command` what we write there.

    Ids of hexadecimal digits may be written in any case, others as they are.
    """
    pattern = re.compile(_LINE.format(words=words, id=id_pattern), re.IGNORECASE | re.MULTILINE | re.VERBOSE)
    clean = str.lower if id_pattern == HEX_ID else str.strip

    def parse(text: str) -> tuple[ResumeToken | None, str]:
        found = list(pattern.finditer(text))
        if not found:
            return None, text
        last = found[-1]
        rest = _EMPTY_FENCE.sub("", pattern.sub("", text)).strip()
        return ResumeToken(engine, clean(last["id"]), _unquoted(last["cwd"] or "")), rest

    def read(word: str) -> ResumeToken | None:
        id = clean(word.strip("` "))
        return ResumeToken(engine, id) if is_id(id) else None

    def in_terminal(token: ResumeToken) -> str:
        line = f"{command} {shlex.quote(token.value)}"
        return f"cd {shlex.quote(token.cwd)} && {line}" if token.cwd else line

    def short(token: ResumeToken) -> str:
        return f"`{command} {token.value}`"

    return ResumeLines(parse, read, in_terminal, short, shown, command.split(maxsplit=1)[0], beside)


def check_resume(
    token: ResumeToken | None, engine: EngineId, title: str, is_id: Callable[[str], bool]
) -> None:
    """Refuse a session of another engine, and an id that cannot be one of this engine's. Raises `EngineError`."""
    if token is None:
        return
    if token.engine != engine:
        text = f"This session belongs to the engine {token.engine!r}, not to {title}. Start a new session."
        raise EngineError(Failure("stale_session", text))
    if not is_id(token.value):
        raise EngineError(Failure("stale_session", f"{token.value!r} is no session of {title}."))


def is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return ""
