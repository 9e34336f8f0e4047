"""One message on a terminal: the answer on stdout, all else on stderr, and an honest exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.terminal_rig import Edges, Seen, Stay, check_golden, leave_mark, settled
from tests.channels.terminal_scene import ANSWER, APPROVAL

from pilothouse.channels.terminal.config import OneShot
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Receipt
from pilothouse.core.errors import TryLater
from pilothouse.core.event import Asked, SessionStarted, TextDelta, TurnEnded, decode_event
from pilothouse.core.ids import AskId, MessageId, TurnId
from pilothouse.core.message import Content, ContentKind, InboundMessage
from pilothouse.testing.desk import MessageState

pytestmark = pytest.mark.anyio


async def test_in_a_pipe_the_answer_is_written_as_it_is(tmp_path: Path) -> None:
    seen = await Stay(tmp_path, OneShot("fix it"), Edges(), pace_s=1.0).play()
    assert seen.stdout == ANSWER
    assert seen.exit_code == 0
    check_golden("oneshot-pipe.stderr", seen.stderr)


@pytest.mark.parametrize("width", [60, 100])
async def test_on_a_terminal_it_is_drawn(tmp_path: Path, width: int) -> None:
    edges = Edges(tty=True, together=True, width=width)
    seen = await Stay(tmp_path, OneShot("fix it"), edges, pace_s=1.0).play()
    assert all(len(line) <= width for line in settled(seen.stdout).split("\n"))
    check_golden(f"oneshot-tty-{width}.txt", settled(seen.stdout))


async def test_colour_is_only_there_where_it_is_wanted(tmp_path: Path) -> None:
    plain = await Stay(tmp_path / "a", OneShot("fix it"), Edges(tty=True, dumb=True)).play()
    bright = await Stay(tmp_path / "b", OneShot("fix it"), Edges(tty=True, color=True)).play()
    assert "\x1b[32m✓" in bright.stderr
    assert "\x1b" not in plain.stdout + plain.stderr


async def test_a_dumb_terminal_gets_lines_and_nothing_else(tmp_path: Path) -> None:
    edges = Edges(tty=True, together=True, dumb=True, width=60)
    seen = await Stay(tmp_path, OneShot("fix it"), edges, pace_s=1.0).play()
    assert not set("\x1b\r⠋⠙⠹⠸") & set(seen.stdout)
    check_golden("oneshot-dumb.txt", seen.stdout)


async def test_the_status_line_is_rewritten_in_place(tmp_path: Path) -> None:
    seen = await Stay(tmp_path, OneShot("fix it"), Edges(tty=True), pace_s=1.0).play()
    assert "\r\x1b[2K⠋ Reading …/auth/login.py · 3s · step 1" in seen.stderr
    assert "Reading" not in settled(seen.stderr)


async def test_json_is_the_turns_events_and_nothing_else(tmp_path: Path) -> None:
    seen = await Stay(tmp_path, OneShot("fix it"), Edges(), json=True).play()
    events = [decode_event(line) for line in seen.stdout.splitlines()]
    assert len(events) == 21
    assert seen.stderr == ""
    check_golden("oneshot.jsonl", seen.stdout)


async def test_json_leaves_other_turns_out(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("hello"), Edges(), json=True)
    (conversation,) = stay.channel.holds()
    stay.desk.publish(conversation, TurnId("other"), stay.clock.now(), SessionStarted(model="other"))
    seen = await stay.play()
    assert "other" not in seen.stdout
    assert len(seen.stdout.splitlines()) == 1


async def test_json_of_a_conversation_with_a_long_past_is_this_turn_alone_and_asks_for_it_a_few_times(
    tmp_path: Path,
) -> None:
    stay = Stay(tmp_path, OneShot("fix it"), Edges(), json=True)
    (conversation,) = stay.channel.holds()
    old = [TextDelta("b", "old"), TurnEnded("completed", "old")] * 10_000
    stay.desk.publish(conversation, TurnId("old"), stay.clock.now(), *old)
    seen = await stay.play()
    check_golden("oneshot.jsonl", seen.stdout)
    assert len(stay.desk.queries) < 20


async def test_a_long_turn_before_ours_is_passed_over_in_batches(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("slow"), Edges(), json=True)
    (conversation,) = stay.channel.holds()
    other = [TextDelta("b", "other")] * 20_000
    async with stay.playing():
        stay.desk.publish(conversation, TurnId("other"), stay.clock.now(), *other)
        stay.edges.press_ctrl_c()
    assert "other" not in stay.seen().stdout
    assert len(stay.desk.queries) < 20


async def test_a_failed_turn_says_so_once_and_exits_with_1(tmp_path: Path) -> None:
    seen = await Stay(tmp_path, OneShot("break it"), Edges()).play()
    assert seen.exit_code == 1
    assert seen.stdout == ""
    assert seen.stderr.count("stopped without finishing") == 1
    assert "exit status 9" not in seen.stderr


async def test_the_detail_of_a_failure_is_for_those_who_ask(tmp_path: Path) -> None:
    seen = await Stay(tmp_path, OneShot("break it"), Edges(), verbose=True).play()
    assert "exit status 9" in seen.stderr


async def test_a_refused_message_exits_with_1(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("hello"), Edges())
    stay.desk.receipts.append(Receipt("refused", text="You may not."))
    seen = await stay.play()
    assert (seen.exit_code, seen.stdout) == (1, "")
    assert "You may not." in seen.stderr


async def test_nothing_to_send_is_said(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot(" \n"), Edges())
    seen = await stay.play()
    assert seen.exit_code == 1
    assert "nothing to send" in seen.stderr
    assert stay.desk.accepted == []


async def test_a_command_goes_to_the_desk_and_its_reply_to_stdout(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("/status"), Edges())
    stay.desk.receipts.append(Receipt("queued", text="All is well."))
    seen = await stay.play()
    assert [command.line for command in stay.desk.commands] == ["/status"]
    assert (seen.stdout, seen.exit_code) == ("All is well.\n", 0)


@pytest.mark.parametrize("tty", [False, True])
async def test_a_delivered_reply_is_plain_text_without_fences(tmp_path: Path, tty: bool) -> None:
    seen = await _told(Stay(tmp_path, OneShot("/help"), Edges(tty=tty)))
    assert (seen.stdout, seen.exit_code) == ("/help   this\n/stop   stops\n", 0)
    assert "Starting" not in seen.stderr


async def test_a_command_has_no_events(tmp_path: Path) -> None:
    seen = await _told(Stay(tmp_path, OneShot("/help"), Edges(), json=True))
    assert (seen.stdout, seen.exit_code) == ("", 0)
    assert seen.stderr == "A command has no events. Its reply:\n/help   this\n/stop   stops\n"


async def _told(stay: Stay) -> Seen:
    id = MessageId("message-1")
    stay.desk.receipts.append(Receipt("queued", id))
    stay.desk.messages[id] = MessageState("done")
    async with stay.playing():
        asked = stay.desk.commands[0].native_id
        text = "```\n/help   this\n/stop   stops\n```"
        (part,) = stay.channel.render(Content(text, "reply", reply_to=asked))
        await stay.channel.send(stay.channel.address, part)
        stay.desk.settle(id, MessageState("done", delivered=True))
    return stay.seen()


@pytest.mark.parametrize("kind", ["answer", "notice"])
async def test_a_stopped_turn_leaves_stdout_empty(tmp_path: Path, kind: ContentKind) -> None:
    stay = Stay(tmp_path, OneShot("hello"), Edges())
    (conversation,) = stay.channel.holds()
    id, turn = MessageId("message-1"), TurnId("t")
    stay.desk.on_accept = lambda message, id: stay.desk.settle(id, MessageState("claimed", turn))
    async with stay.playing():
        stay.desk.publish(conversation, turn, 0.0, SessionStarted(), TextDelta("b", "Starting."))
        for content in (Content("Stopping.", "reply", reply_to="x"), Content("It waits.", "notice")):
            await stay.channel.send(stay.channel.address, stay.channel.render(content)[0])
        stay.desk.publish(conversation, turn, 0.0, TurnEnded("cancelled"))
        (part,) = stay.channel.render(Content("Starting.\n\nStopped.", kind, turn_id=turn))
        await stay.channel.send(stay.channel.address, part)
        stay.desk.settle(id, MessageState("done", turn, delivered=True))
    seen = stay.seen()
    assert (seen.stdout, seen.exit_code) == ("", 1)
    assert [seen.stderr.count(word) for word in ("Starting.", "Stopping.", "It waits.", "stopped")] == [1] * 4
    assert "Stopped." not in seen.stderr, "the closing line says so"


async def test_the_words_of_a_turn_that_ended_badly_and_was_not_delivered_go_to_stderr(
    tmp_path: Path,
) -> None:
    stay = Stay(tmp_path, OneShot("hello"), Edges())
    (conversation,) = stay.channel.holds()
    turn = TurnId("t")

    def accepted(message: object, id: MessageId) -> None:
        events = SessionStarted(), TextDelta("b", "Starting."), TurnEnded("cancelled")
        stay.desk.publish(conversation, turn, 0.0, *events)
        stay.desk.settle(id, MessageState("done", turn, delivered=True))

    stay.desk.on_accept = accepted
    seen = await stay.play()
    assert seen.stdout == ""
    assert "  Starting.\n" in seen.stderr


async def test_words_so_far_are_the_answers_and_the_news_of_a_wait_is_not(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("hello"), Edges())
    (conversation,) = stay.channel.holds()
    id, turn = MessageId("message-1"), TurnId("t")
    stay.desk.on_accept = lambda message, id: stay.desk.settle(id, MessageState("claimed", turn))

    async def send(text: str, kind: ContentKind) -> None:
        (part,) = stay.channel.render(Content(text, kind, turn_id=turn))
        await stay.channel.send(stay.channel.address, part)

    async with stay.playing():
        stay.desk.publish(conversation, turn, 0.0, SessionStarted(), TextDelta("b", "Half."))
        await send("Half.", "notice")
        await send("It goes on at nine.", "notice")
        stay.desk.publish(conversation, turn, 0.0, TurnEnded("completed", "Done."))
        await send("Done.", "answer")
        stay.desk.settle(id, MessageState("done", turn, delivered=True))
    assert stay.seen().stdout == "Half.\nDone.\n"
    assert "It goes on at nine." in stay.seen().stderr


async def test_without_a_tty_an_ask_is_denied_aloud(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("approve"), Edges())
    seen = await stay.play()
    (answer,) = stay.desk.answers
    assert (answer.decision.verdict, answer.decision.text) == ("deny", "nobody can answer here")
    assert answer.payload_hash == APPROVAL.payload_hash
    assert "Denied: Run a command? (nobody can answer here)" in seen.stderr


async def test_without_a_tty_an_ask_that_was_sent_to_somebody_waits_for_them(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("hello"), Edges())
    (conversation,) = stay.channel.holds()
    turn, whose = TurnId("t"), "From root's terminal chat. Also sent to: Alice."
    stay.desk.on_accept = lambda message, id: stay.desk.settle(id, MessageState("claimed", turn))
    async with stay.playing():
        until = stay.clock.now() + 6 * 3600
        asked = Asked(Ask(AskId("a"), "approval", "Run make?", whose=whose, asker="Claude", expires_at=until))
        why = Asked(Ask(AskId("b"), "question", "Why?", {"reason_for": "a"}, free_text=True))
        stay.desk.publish(conversation, turn, 0.0, SessionStarted(), asked, why, TextDelta("b", "Done."))
        stay.desk.publish(conversation, turn, 0.0, TurnEnded("completed", "Done."))
        stay.desk.settle(MessageId("message-1"), MessageState("done", turn, delivered=True))
    assert stay.desk.answers == [], "and the reason of a denial is asked of whoever denied it"
    told = " ".join(stay.seen().stderr.split())
    assert f"Claude asks: Run make? {whose} Waiting for the answer, 6 hours at most; Ctrl-C stops." in told


async def test_the_title_of_a_denied_ask_is_told_whole(tmp_path: Path) -> None:
    title = "May I " + "really " * 40 + "do it?"
    stay = Stay(tmp_path, OneShot("hello"), Edges(width=40))
    (conversation,) = stay.channel.holds()
    turn = TurnId("t")

    def accepted(message: object, id: MessageId) -> None:
        asked = Asked(Ask(AskId("a"), "approval", title))
        stay.desk.publish(conversation, turn, 0.0, SessionStarted(), asked)
        stay.desk.settle(id, MessageState("claimed", turn))

    def answered(answer: object) -> None:
        stay.desk.publish(conversation, turn, 0.0, TurnEnded("completed", "Then not."))
        stay.desk.settle(MessageId("message-1"), MessageState("done", turn, delivered=True))

    stay.desk.on_accept, stay.desk.on_answer = accepted, answered
    assert f"Denied: {title} (nobody can answer here)\n" in (await stay.play()).stderr


async def test_ctrl_c_stops_the_turn_and_exits_with_130(tmp_path: Path) -> None:
    edges = Edges()
    stay = Stay(tmp_path, OneShot("slow"), edges)
    async with stay.playing():
        edges.press_ctrl_c()
        await stay.desk.until(lambda: bool(stay.desk.commands))
    assert [command.line for command in stay.desk.commands] == ["/stop"]
    assert stay.seen().exit_code == 130
    assert "■ stopped" in stay.seen().stderr


async def test_a_second_ctrl_c_leaves_at_once(tmp_path: Path) -> None:
    edges = Edges()
    stay = Stay(tmp_path, OneShot("slow"), edges)
    stay.desk.on_command = lambda command: None
    async with stay.playing():
        edges.press_ctrl_c()
        edges.press_ctrl_c()
    assert stay.seen().exit_code == 130


async def test_a_store_that_is_locked_for_a_while_is_told_once_and_waited_for(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("approve"), Edges())
    stay.desk.troubles["answer"] = 2
    accepted = stay.desk.on_accept

    def troubled(message: InboundMessage, id: MessageId) -> None:
        stay.desk.troubles["query"] = 5
        accepted(message, id)

    stay.desk.on_accept = troubled
    seen = await stay.play()
    assert (seen.exit_code, seen.stdout) == (0, "You said: answered:deny:nobody can answer here\n")
    assert seen.stderr.count("The store is locked. Trying again.") == 1
    assert seen.stderr.count("The store is locked. Once more:") == 2


async def test_ctrl_c_stops_the_turn_as_soon_as_the_store_lets_it(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("slow"), Edges())
    stay.desk.troubles["command"] = 3
    async with stay.playing():
        stay.edges.press_ctrl_c()
    assert stay.seen().exit_code == 130
    assert "■ stopped" in stay.seen().stderr


async def test_what_cannot_be_sent_for_the_store_is_refused_and_not_half_sent(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("hello"), Edges())
    stay.desk.troubles["query"] = 1
    seen = await stay.play()
    assert (seen.exit_code, stay.desk.accepted) == (1, [])
    assert "The store is locked." in seen.stderr


async def test_the_answer_to_another_question_is_left_for_others(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("slow"), Edges())
    async with stay.playing():
        (part,) = stay.channel.render(Content("An old answer.", "answer", turn_id=TurnId("old")))
        with pytest.raises(TryLater, match="one message"):
            await stay.channel.send(stay.channel.address, part)
        stay.edges.press_ctrl_c()
    seen = stay.seen()
    assert "old answer" not in seen.stdout + seen.stderr


async def test_it_is_a_turn_by_itself_and_here_for_nothing_else(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("slow"), Edges())
    asked, stopped_by = MessageId("asked"), MessageId("stop")
    stay.desk.receipts = [Receipt("queued", asked), Receipt("queued", stopped_by)]
    async with stay.playing():
        assert (stay.desk.accepted[0].alone, stay.channel.messages()) == (True, (asked,))
        stay.edges.press_ctrl_c()
    assert stay.channel.messages() == (asked, stopped_by)


async def test_an_answer_that_was_never_delivered_here_is_shown_from_the_log(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("hello"), Edges())
    (conversation,) = stay.channel.holds()

    def accepted(message: object, id: object) -> None:
        stay.desk.publish(conversation, TurnId("t"), 0.0, SessionStarted(), TurnEnded("completed", "Hi."))
        stay.desk.messages.update({m: MessageState("done", TurnId("t"), True) for m in stay.desk.messages})

    stay.desk.on_accept = accepted
    assert (await stay.play()).stdout == "Hi.\n"


async def test_escapes_in_an_answer_never_reach_a_terminal(tmp_path: Path) -> None:
    seen = await Stay(tmp_path, OneShot("evil"), Edges(tty=True)).play()
    assert seen.stdout == "\nclean text\n"


async def test_a_closed_terminal_lets_an_answer_wait(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("hello"), Edges())
    await stay.play()
    with pytest.raises(TryLater, match="closed"):
        await stay.channel.send(stay.channel.address, stay.channel.render(Content("late"))[0])


async def test_a_reader_that_went_away_ends_it_quietly(tmp_path: Path) -> None:
    edges = Edges()
    stay = Stay(tmp_path, OneShot("hello"), edges, json=True)
    edges.stdout.close()
    async with stay.playing():
        pass
    assert stay.channel.exit_code == 1


async def test_a_mark_that_is_ahead_of_the_log_hides_nothing(tmp_path: Path) -> None:
    stay = Stay(tmp_path, OneShot("fix it"), Edges(), json=True)
    leave_mark(tmp_path, stay.channel.address, 99_999)
    check_golden("oneshot.jsonl", (await stay.play()).stdout)
