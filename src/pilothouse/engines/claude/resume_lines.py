"""Resume lines: how a session moves between a chat and a terminal.

Both spellings are understood, ours (`claude-code resume ID`) and the CLI's own (`claude --resume ID`, `-r ID`), with or
without backticks, with the `cd` that `/session` prints. A line counts only if nothing else stands on it; of several,
the last wins; none of them reaches the model.
"""

from __future__ import annotations

import re
import shlex

from pilothouse.core.event import ResumeToken
from pilothouse.engines.claude.launch import is_session_id
from pilothouse.engines.claude.turns import ENGINE_ID

# Anybody's message is searched: nowhere may two spans of blanks stand side by side, or a long one takes for ever.
_LINE = re.compile(
    r"""^[ \t]*(?:(?P<tick>`+)[ \t]*)?(?:\$[ \t]+)?
        (?:cd[ \t]+(?P<cwd>'(?:[^'\n]|'"'"')*'|"[^"\n]*"|[^\s`&;|]+)[ \t]*&&[ \t]*)?
        claude(?:-code)?[ \t]+(?:resume[ \t]+|--resume(?:[ \t]+|=)|-r[ \t]+)
        (?P<id>[0-9a-f][0-9a-f-]{7,63})
        (?(tick)[ \t]*(?P=tick))[ \t]*\r?$\n?""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_EMPTY_FENCE = re.compile(r"^[ \t]*```[^\n`]*\n\s*```[ \t]*\r?$\n?", re.MULTILINE)


def parse_resume_lines(text: str) -> tuple[ResumeToken | None, str]:
    """What to resume, if anything, and the prompt without its resume lines. The folder is empty unless a line said it."""
    found = list(_LINE.finditer(text))
    if not found:
        return None, text
    last = found[-1]
    rest = _EMPTY_FENCE.sub("", _LINE.sub("", text)).strip()
    return ResumeToken(ENGINE_ID, last["id"].lower(), _unquoted(last["cwd"] or "")), rest


def read_token(word: str) -> ResumeToken | None:
    """A bare id, as the CLI writes it."""
    id = word.strip("` ").lower()
    return ResumeToken(ENGINE_ID, id) if is_session_id(id) else None


def render_resume_line(token: ResumeToken) -> str:
    """For under an answer: short, and understood again when somebody sends it back."""
    return f"`claude --resume {token.value}`"


def render_session_command(token: ResumeToken) -> str:
    """For `/session`: the real command, for a terminal. Claude finds a session by the folder it ran in."""
    command = f"claude --resume {shlex.quote(token.value)}"
    return f"cd {shlex.quote(token.cwd)} && {command}" if token.cwd else command


def _unquoted(word: str) -> str:
    try:
        return "".join(shlex.split(word))
    except ValueError:
        return ""
