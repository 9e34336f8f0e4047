"""`/watch`: a pull request whose failed checks and reviews wake this conversation. A hook of GitHub's brings them.

An agent does the same by the tool `watch_pull_request`.
"""

from __future__ import annotations

import re

import msgspec

from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.commands.call import CommandCall, NotDone, Reply
from pilothouse.runtime.facts import WATCHERS

MOST = 50
_PULL = re.compile(r"(?:https?://[^/\s]+/)?([\w.-]+/[\w.-]+)(?:/pull/|#)([0-9]{1,9})(?:[/?#]\S*)?")
USAGE = "Name a pull request as owner/name#7 or by its address; `/watch off owner/name#7` ends it."
NONE = "No pull request is watched here."
ENDED = "{pull} is no longer watched here."
BEGUN = (
    "Watching {pull}: a failed check wakes me once for each commit, and so does a review. GitHub tells me of them if "
    "Settings → Webhooks of the repository lists a webhook for me. Without one, send "
    "`/tasks add every 30m Look at the checks and reviews of {pull}`."
)


def watch(call: CommandCall) -> Reply:
    """Watch a pull request here, stop watching it, or list those that are watched."""
    words = call.args.split()
    if not words:
        here = watched_by(call.tx, call.conversation.id)
        return Reply("\n".join([*(here or [NONE]), USAGE]))
    ends = words[0].lower() in ("off", "stop")
    try:
        return Reply(set_watch(call.tx, call.conversation.id, " ".join(words[ends:]), ends=ends))
    except ConfigError as error:
        return NotDone(str(error))


def set_watch(tx: Tx, place: ConversationId, said: str, *, ends: bool = False) -> str:
    """Watch a pull request in a conversation, or stop watching it; return the sentence about it. Raises `ConfigError`."""
    named = _PULL.fullmatch(said.strip("`<> "))
    if named is None:
        raise ConfigError(f"{first_line(said)!r} is not a pull request. {USAGE}")
    pull = f"{named[1]}#{named[2]}".lower()
    watchers = [id for id in _watchers(tx, pull) if id != place]
    if not ends and len(watched_by(tx, place)) >= MOST:
        raise ConfigError(f"{MOST} pull requests are watched here, which is the most. `/watch off` ends one.")
    kept = watchers if ends else [*watchers, place]
    tx.set_fact(WATCHERS.of(pull), msgspec.json.encode(kept).decode() if kept else "")
    return ENDED.format(pull=pull) if ends else BEGUN.format(pull=pull)


def watched_by(tx: Tx, place: ConversationId) -> list[str]:
    found = tx.facts_of(WATCHERS.of(""))
    return [pull for pull, watchers in found if watchers and place in msgspec.json.decode(watchers)]


def addresses_watching(tx: Tx, pull: str) -> list[Address]:
    """Return the conversations that watch a pull request, `owner/name#7` in small letters."""
    known = tx.conversations.some(_watchers(tx, pull))
    return [place.address for place in known.values()]


def _watchers(tx: Tx, pull: str) -> list[ConversationId]:
    kept = tx.get_fact(WATCHERS.of(pull))
    return msgspec.json.decode(kept, type=list[ConversationId]) if kept else []
