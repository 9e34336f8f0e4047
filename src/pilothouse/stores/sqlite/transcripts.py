"""Transcripts and their full-text index. The words of a person become quoted strings, so no query can be malformed.

The index splits words at spaces. Chinese, Japanese and Korean are written without them, or with endings, so each of their
characters is a word of the column `spaced`, and what a person looks for is a phrase there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from pilothouse.core.ids import ConversationId, ScheduleId, SessionId, TurnId
from pilothouse.core.schedule import task_place
from pilothouse.core.transcript import Entry, Transcript
from pilothouse.stores.sqlite.link import Link, Row

MAX_WORDS = 16
BEGINNING = 6
"""A quoted word of at least four letters is tried as the beginning of a word: shorter ones begin too many."""
_WORD = re.compile(r'"([^"]*)"|(\S+)')
"""A quoted phrase, or a word."""
_CJK = "々-〇ぁ-ヿㄅ-ㄯㆠ-ㆿㇰ-ㇿ㐀-䶿一-鿿가-\ud7af\uf900-\ufaffｦ-ﾟ\U00020000-\U0003ffff"
_CHARACTER = re.compile(f"[{_CJK}]")
_SPACED = re.compile(f" ?([{_CJK}]) ?")


def space(text: str) -> str:
    """Put spaces around each Chinese, Japanese or Korean character; empty if there is none."""
    return _CHARACTER.sub(r" \g<0> ", text) if _CHARACTER.search(text) else ""


def unspace(text: str) -> str:
    """Undo `space`, for the excerpt of a text."""
    return _SPACED.sub(r"\1", text)


class Term(Struct, frozen=True):
    """One word or phrase of a query, as an FTS5 string, and the columns that may have it."""

    text: str
    columns: str = "text spaced"

    def __str__(self) -> str:
        return f"{{{self.columns}}} : {self.text}"


def match_terms(words: str) -> list[Term]:
    """Return a term for each word. A word of punctuation alone has no token, would match nothing, and is left out."""
    found = [phrase or word for phrase, word in _WORD.findall(words)]
    return [_term(one) for one in found if any(char.isalnum() for char in one)][:MAX_WORDS]


def _term(text: str) -> Term:
    spaced = space(text)
    return Term(_quoted(spaced), "spaced") if spaced else Term(_quoted(text))


def _widened(term: Term) -> Term:
    """Match words that begin so. Those of the other scripts are found anywhere as it is."""
    is_short = len(term.text) < BEGINNING or term.columns == "spaced"
    return term if is_short else Term(f"{term.text} *", term.columns)


def _narrowed(terms: Sequence[Term], place: ConversationId | None, shared_in: str) -> str:
    """Restrict a query within the index, so that it reads few rows. What the rows say decides."""
    scopes: list[str] = []
    if place is not None:
        scopes += [f"place_token : {_token(place)}", f"place_token : {_token(_tasks(place))} *"]
    if place is not None and shared_in:
        scopes.append(f"folder_token : {_token(shared_in)}")
    text = " AND ".join(f"({term})" for term in terms)
    return f"({' OR '.join(scopes)}) AND {text}" if scopes else text


def _tasks(place: ConversationId) -> str:
    """Return the beginning of the conversations in which the schedules of a place work."""
    return task_place(place, ScheduleId(""))


def _token(text: str) -> str:
    return f'"{text.encode().hex().upper()}"'


def _quoted(text: str) -> str:
    return '"' + text.replace('"', " ").replace("\0", " ") + '"'


def _found(row: Row) -> Entry:
    *fields, excerpt, spaced = row
    found: Row = (*fields, unspace(spaced).strip() or excerpt)
    return Entry(*found)


def _transcript(row: Row) -> Transcript:
    session_id, workspace, name, used_at, markdown_bytes, lines_bytes = row
    return Transcript(session_id, workspace, name, used_at, (markdown_bytes, lines_bytes))


class TranscriptTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def due(self, *, limit: int = 50) -> dict[TurnId, int]:
        return dict(self._link.rows("transcripts.due", limit=limit))

    def request(self, turn_id: TurnId) -> None:
        self._link.run("transcripts.request", turn_id=turn_id)

    def add(self, turn_id: TurnId, entries: Sequence[Entry], *, complete: bool) -> None:
        rows = [msgspec.structs.asdict(entry) | {"spaced": space(entry.text)} for entry in entries]
        self._link.run_many("transcripts.add", rows)
        if complete:
            self._link.run("transcripts.complete", turn_id=turn_id)
        else:
            self._link.run("transcripts.note", turn_id=turn_id, count=len(entries))

    def entries(self, session_id: SessionId, *, limit: int = 10_000) -> list[Entry]:
        return [
            Entry(*row) for row in self._link.rows("transcripts.entries", session_id=session_id, limit=limit)
        ]

    def get(self, session_id: SessionId) -> Transcript | None:
        row = self._link.row("transcripts.get", session_id=session_id)
        return _transcript(row) if row else None

    def save(self, transcript: Transcript) -> None:
        values = msgspec.structs.asdict(transcript)
        values["markdown_bytes"], values["lines_bytes"] = values.pop("written")
        self._link.run("transcripts.save", **values)

    def search(
        self, words: str, place: ConversationId | None = None, *, shared_in: str = "", limit: int = 100
    ) -> list[Entry]:
        tasks = _tasks(place) if place is not None else ""

        def found(terms: Sequence[Term], most: int = limit) -> list[Row]:
            query = _narrowed(terms, place, shared_in)
            values = {"query": query, "place": place, "tasks": tasks, "shared_in": shared_in}
            return self._link.rows("transcripts.search", **values, limit=most)

        terms = match_terms(words)
        rows = found(terms) if terms else []
        if not rows:  # a word that nobody wrote may be the beginning of one
            wide = [(term, _widened(term)) for term in terms]
            wider = [term if term == more or found([term], 1) else more for term, more in wide]
            rows = found(wider) if wider != terms else []
        return [_found(row) for row in rows]

    def unused_since(self, before: float, *, limit: int = 10) -> list[Transcript]:
        return [
            _transcript(row)
            for row in self._link.rows("transcripts.unused_since", before=before, limit=limit)
        ]

    def prune(self, session_id: SessionId, *, limit: int = 500) -> int:
        count = self._link.run("transcripts.prune", session_id=session_id, limit=limit)
        self._link.run("transcripts.remove", session_id=session_id)
        return count
