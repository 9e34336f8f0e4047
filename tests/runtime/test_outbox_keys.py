"""The outbox keys that are looked up again: stored rows of any earlier version hold them, so none may change."""

from __future__ import annotations

import pytest
from msgspec import Raw

from pilothouse.core.ask import Ask, AskRow
from pilothouse.core.ids import AskId, ChannelId, ConversationId, MessageId, SessionId, TurnId
from pilothouse.core.queue import QueueRow
from pilothouse.runtime.outbox import (
    alert_key,
    ask_key,
    end_elsewhere_key,
    end_key,
    is_alert,
    notice_key,
    parse_ask_key,
    reply_key,
    retired_key,
    row_of_notice,
    tool_key,
    tool_of,
)

HERE, THERE = ConversationId("telegram:1#2"), ConversationId("discord:3:4")
ASKED = AskRow(
    Ask(AskId("ask-1"), "approval", "make?", {}), HERE, SessionId("s"), TurnId("t"), "", "open", 0.0
)


def row(key: str) -> QueueRow:
    return QueueRow(1, MessageId("out-9"), key, HERE, HERE, "notice", Raw(b"{}"), "queued", 0.0, 0, 0.0)


def test_every_key_is_as_earlier_versions_stored_it() -> None:
    assert [
        reply_key(MessageId("msg-1")),
        end_key(TurnId("turn-1")),
        end_elsewhere_key(TurnId("turn-1"), THERE),
        retired_key(SessionId("session-1")),
        notice_key(MessageId("out-1")),
        notice_key(MessageId("out-1"), THERE),
        alert_key(ChannelId("telegram"), 5.0, "trouble", THERE),
        ask_key(ASKED, "asked", HERE),
        ask_key(ASKED, "closed", THERE),
        tool_key(TurnId("turn-1"), "send_file", "0a1b", 2),
    ] == [
        "reply:msg-1",
        "end:turn-1",
        "end:turn-1:discord:3:4",
        "retired:session-1",
        "undelivered:out-1",
        "undelivered:out-1:discord:3:4",
        "alert:telegram:5.0:trouble:discord:3:4",
        "ask:ask-1:asked",
        "ask:ask-1:closed:discord:3:4",
        "tool:turn-1:send_file:0a1b:2",
    ]


def test_a_key_of_a_tool_names_the_tool() -> None:
    assert tool_of(row(tool_key(TurnId("turn-1"), "send_file", "0a1b", 2))) == "send_file"
    assert tool_of(row(end_key(TurnId("turn-1")))) is None


@pytest.mark.parametrize("elsewhere", [None, THERE])
def test_a_notice_names_the_row_that_it_is_about(elsewhere: ConversationId | None) -> None:
    assert row_of_notice(row(notice_key(MessageId("out-1"), elsewhere))) == "out-1"
    assert row_of_notice(row("end:out-1")) is None


@pytest.mark.parametrize("place", [HERE, THERE])
def test_a_key_of_an_ask_gives_the_key_of_the_same_place_on_another_occasion(place: ConversationId) -> None:
    key = parse_ask_key(row(ask_key(ASKED, "settled", place)))
    assert key is not None and (key.ask, key.occasion) == ("ask-1", "settled")
    assert key.on("closed") == ask_key(ASKED, "closed", place)
    assert parse_ask_key(row("end:ask-1")) is None


def test_an_alert_belongs_to_one_channel() -> None:
    alert = row(alert_key(ChannelId("tele"), 5.0, "over", THERE))
    assert is_alert(alert, ChannelId("tele")) and not is_alert(alert, ChannelId("telegram"))
