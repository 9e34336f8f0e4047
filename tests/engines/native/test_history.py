"""The history is a fold over lines, and no line order leaves a call without a result."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.native.pairs import unpaired

from pilothouse.core.errors import EngineError
from pilothouse.core.event import PlanItem
from pilothouse.engines.native.dialects.anthropic import AnthropicDialect
from pilothouse.engines.native.dialects.chat import ChatDialect
from pilothouse.engines.native.dialects.dialect import Dialect
from pilothouse.engines.native.dialects.responses import ResponsesDialect
from pilothouse.engines.native.history import (
    CUT_OFF,
    Begun,
    Compacted,
    Conversation,
    Ended,
    History,
    Planned,
    Record,
    Steered,
)
from pilothouse.engines.native.messages import Message, ModelCall, Replied, Result, Said, Text, Use

DIALECTS: tuple[Dialect, ...] = (AnthropicDialect(), ResponsesDialect(), ChatDialect())


def request_of(dialect: Dialect, messages: list[Message]) -> dict[str, object]:
    return dialect.request(ModelCall("m", "system", messages, (), 100, lambda _image: ""))


def write(folder: Path, *records: Record) -> History:
    history = History(folder)
    for record in records:
        history.add(record)
    return history


def reload(folder: Path) -> Conversation:
    history = History(folder)
    history.load()
    return history.conversation


def test_a_history_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    records = [
        Begun("/w", 1.0),
        Said("Hi"),
        Replied((Text("Hm"), Use("a", "read", {"file_path": "x"}))),
        Result("a", "text"),
        Planned((PlanItem("one", "done"),)),
        Replied((Text("Done"),)),
        Ended("completed", 2.0, 77),
    ]
    before = write(tmp_path, *records).conversation
    after = reload(tmp_path)
    assert after.messages == before.messages
    assert (after.todos, after.tokens, after.begun) == ((PlanItem("one", "done"),), 77, Begun("/w", 1.0))
    assert (tmp_path / "history.jsonl").stat().st_mode & 0o777 == 0o600


def test_text_that_cannot_be_stored_is_the_same_before_and_after_a_restart(tmp_path: Path) -> None:
    history = write(tmp_path, Said("caf\udce9"))
    assert history.conversation.messages == reload(tmp_path).messages == [Said("caf\ufffd")]


def test_a_torn_last_line_is_cut_off_and_the_next_one_is_whole(tmp_path: Path) -> None:
    write(tmp_path, Said("one"))
    with (tmp_path / "history.jsonl").open("ab") as file:
        file.write(b'{"type":"replied","blo')
    history = History(tmp_path)
    history.load()
    history.add(Said("two"))
    assert reload(tmp_path).messages == [Said("one"), Said("two")]


@pytest.mark.parametrize("text", [b"no json\n", b'{"type":"strange"}\n', b"\xff\xfe\n"])
def test_a_foreign_file_is_a_stale_session(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "history.jsonl").write_bytes(text)
    with pytest.raises(EngineError) as raised:
        History(tmp_path).load()
    assert raised.value.failure.kind == "stale_session"


def test_words_for_a_running_turn_wait_behind_the_results() -> None:
    uses = (Use("a", "read"), Use("b", "read"))
    conversation = Conversation([Said("go"), Replied(uses), Result("b", "B"), Steered(Said("faster"))])
    assert conversation.messages[-1] == Result("b", "B")
    conversation.add(Result("a", "A"))
    assert conversation.messages[-2:] == [Result("a", "A"), Said("faster")]


def test_words_that_come_during_a_compaction_follow_the_summary() -> None:
    conversation = Conversation([Said("go"), Replied((Text("Done"),)), Steered(Said("keep the database"))])
    conversation.add(Compacted(Said("summary")))
    assert conversation.messages == [Said("summary"), Said("keep the database")]


def test_a_cut_call_gets_a_result_before_the_next_prompt() -> None:
    conversation = Conversation([Said("go"), Replied((Use("a", "bash"),)), Said("again")])
    assert conversation.messages[-2:] == [Result("a", CUT_OFF, ok=False), Said("again")]


def steered(text: str) -> Record:
    return Steered(Said(text))


def replied(names: list[str], text: str) -> Record:
    return Replied((*([Text(text)] if text else []), *(Use(name, "read") for name in names)))


ids = st.sampled_from(["a", "b", "c", "d"])
words = st.text(max_size=3)
records = st.lists(
    st.one_of(
        st.builds(Said, words),
        st.builds(steered, words),
        st.builds(replied, st.lists(ids, unique=True, max_size=3), words),
        st.builds(Result, ids, words),
        st.just(Compacted(Said("summary"))),
        st.just(Ended("cancelled")),
    ),
    max_size=12,
)


@given(records)
def test_whatever_was_written_no_dialect_sees_a_call_without_its_result(written: list[Record]) -> None:
    conversation = Conversation([*written, Said("next")])
    for dialect in DIALECTS:
        assert unpaired(request_of(dialect, conversation.messages)) == set()
