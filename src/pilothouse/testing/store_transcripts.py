"""Conformance of stores: transcripts and the search in them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pilothouse.core.ids import ConversationId, ScheduleId, SessionId
from pilothouse.core.schedule import task_place
from pilothouse.core.store import Store, Tx
from pilothouse.core.transcript import Entry, Transcript
from pilothouse.testing.store_builders import C1, C2, S1, S2, T1, T2, StoreSuite, conversation, turn

SHARED, PRIVATE = ConversationId("memory:shared"), ConversationId("memory:private")
THREAD = ConversationId("memory:forum#7")


def entry(text: str, **fields: Any) -> Entry:
    return replace(Entry(S1, C1, "/w", T1, 1.0, "person", "Ann", text), **fields)


def end(tx: Tx, *ids: str) -> None:
    """Run turns to their end, one after the other."""
    for id in ids:
        tx.turns.add(turn(id))
        tx.turns.move(turn(id).id, "running")
        tx.turns.move(turn(id).id, "done", ended_at=5.0)


def texts(found: list[Entry]) -> list[str]:
    return [one.text for one in found]


class TranscriptSuite(StoreSuite):
    async def test_an_ended_turn_is_due_until_it_is_complete(self, store: Store) -> None:
        await store.write(lambda tx: end(tx, "t2", "t1"))
        assert list((await store.read(lambda tx: tx.transcripts.due())).items()) == [(T2, 0), (T1, 0)]
        await store.write(lambda tx: tx.transcripts.add(T1, [entry("hello")], complete=True))
        assert await store.read(lambda tx: tx.transcripts.due()) == {T2: 0}
        assert await store.read(lambda tx: tx.transcripts.entries(S1)) == [entry("hello")]

    async def test_a_live_turn_is_stored_in_portions(self, store: Store) -> None:
        def begin(tx: Tx) -> None:
            tx.turns.add(turn("t1"))
            tx.turns.move(T1, "running")

        await store.write(begin)
        assert await store.read(lambda tx: tx.transcripts.due()) == {}
        await store.write(lambda tx: tx.transcripts.request(T1))
        assert await store.read(lambda tx: tx.transcripts.due()) == {T1: 0}
        await store.write(lambda tx: tx.transcripts.add(T1, [entry("a"), entry("b")], complete=False))
        assert await store.read(lambda tx: tx.transcripts.due()) == {}
        await store.write(lambda tx: tx.turns.move(T1, "done", ended_at=5.0))
        assert await store.read(lambda tx: tx.transcripts.due()) == {T1: 2}

    async def test_a_transcript_is_kept_with_the_sizes_of_its_files(self, store: Store) -> None:
        first = Transcript(S1, "/w", "2026-11-18-hello", 5.0)
        await store.write(lambda tx: tx.transcripts.save(first))
        later = replace(first, used_at=9.0, written=(120, 80))
        await store.write(lambda tx: tx.transcripts.save(later))
        assert await store.read(lambda tx: tx.transcripts.get(S1)) == later
        assert await store.read(lambda tx: tx.transcripts.get(S2)) is None
        assert await store.read(lambda tx: tx.transcripts.unused_since(9.0)) == []
        assert await store.read(lambda tx: tx.transcripts.unused_since(9.5)) == [later]

    async def test_all_words_are_found_by_their_beginnings_newest_first(self, store: Store) -> None:
        said = [entry("Deploy the shop"), entry("the Café is deployed", at=2.0), entry("nothing of this")]
        await store.write(lambda tx: tx.transcripts.add(T1, said, complete=True))

        async def found(words: str) -> list[str]:
            return texts(await store.read(lambda tx: tx.transcripts.search(words)))

        assert await found("deploy") == ["the Café is deployed", "Deploy the shop"]
        assert await found("DEPLOY cafe") == ["the Café is deployed"]
        assert await found('"the shop"') == ["Deploy the shop"]
        assert await found("deploy missing") == []
        assert texts(await store.read(lambda tx: tx.transcripts.search("the", limit=1))) == [
            "the Café is deployed"
        ]

    async def test_short_words_and_words_without_spaces_between_them_are_found(self, store: Store) -> None:
        said = [
            entry("The CI is red, go on"),
            entry("用户登录PR超时 and more", at=2.0),
            entry("パスワードを忘れた", at=3.0),
            entry("로그인을 고쳐 줘", at=4.0),
        ]
        await store.write(lambda tx: tx.transcripts.add(T1, said, complete=True))

        async def found(words: str) -> list[str]:
            return texts(await store.read(lambda tx: tx.transcripts.search(words)))

        assert await found("ci") == await found("GO") == ["The CI is red, go on"]
        for words in ("登录", "户", "登录 超时", "录PR", "pr", '"登录PR超时"', "more 用户"):
            assert await found(words) == ["用户登录PR超时 and more"], words
        assert await found("スワ") == ["パスワードを忘れた"]
        assert await found("로그인") == ["로그인을 고쳐 줘"]
        assert await found("录登") == await found("超 登录 ci") == []
        await store.write(lambda tx: tx.transcripts.prune(S1))
        assert await found("登录") == [], "what is deleted leaves the index"

    @pytest.mark.parametrize(
        "words",
        [
            "",
            "   ",
            '"',
            '""',
            "*",
            "(",
            "AND",
            "text:",
            "NEAR(",
            "-",
            "a OR",
            "^",
            "\0",
            "'; --",
            "{x}",
            "😀",
        ],
    )
    async def test_no_words_are_an_error(self, store: Store, words: str) -> None:
        await store.write(lambda tx: tx.transcripts.add(T1, [entry("plain")], complete=True))
        assert await store.read(lambda tx: tx.transcripts.search(words)) == []

    async def test_a_place_finds_its_own_words_and_shared_ones_of_a_workspace(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.conversations.ensure(conversation(SHARED))
            tx.conversations.ensure(conversation(PRIVATE, private=True))
            said = [
                entry("here word"),
                entry("shared word", conversation_id=SHARED),
                entry("private word", conversation_id=PRIVATE),
                entry("word elsewhere", conversation_id=C2, workspace="/other"),
                entry("alike word", conversation_id=ConversationId("memory:-1")),
                entry("task word", conversation_id=task_place(C1, ScheduleId("s1"))),
                entry("task of a thread word", conversation_id=task_place(THREAD, ScheduleId("s2"))),
            ]
            tx.transcripts.add(T1, said, complete=True)

        await store.write(unit)
        assert texts(await store.read(lambda tx: tx.transcripts.search("word", C1))) == [
            "task word",
            "here word",
        ]
        assert texts(await store.read(lambda tx: tx.transcripts.search("word", THREAD))) == [
            "task of a thread word"
        ]
        wider = await store.read(lambda tx: tx.transcripts.search("word", C1, shared_in="/w"))
        assert texts(wider) == ["task word", "shared word", "here word"]
        assert len(await store.read(lambda tx: tx.transcripts.search("word"))) == 7

    async def test_pruned_entries_are_no_longer_found(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.transcripts.add(T1, [entry(f"word {number}") for number in range(3)], complete=True)
            tx.transcripts.add(T2, [entry("word of another", session_id=SessionId("s9"))], complete=True)
            tx.transcripts.save(Transcript(S1, "/w", "name", 1.0))

        await store.write(unit)
        assert await store.write(lambda tx: tx.transcripts.prune(S1, limit=2)) == 2
        assert await store.read(lambda tx: tx.transcripts.get(S1)) is not None
        assert await store.write(lambda tx: tx.transcripts.prune(S1, limit=2)) == 1
        assert await store.write(lambda tx: tx.transcripts.prune(S1, limit=2)) == 0
        assert await store.read(lambda tx: tx.transcripts.get(S1)) is None
        assert texts(await store.read(lambda tx: tx.transcripts.search("word"))) == ["word of another"]

    async def test_entries_outlive_their_turn(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            end(tx, "t1", "t2")
            tx.transcripts.add(T1, [entry("kept words")], complete=True)

        await store.write(unit)
        await store.write(lambda tx: tx.prune(100.0))
        assert await store.read(lambda tx: tx.turns.get(T1)) is None
        assert await store.read(lambda tx: tx.transcripts.due()) == {}
        assert texts(await store.read(lambda tx: tx.transcripts.search("kept"))) == ["kept words"]
