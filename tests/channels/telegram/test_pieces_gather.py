"""Albums and pastes are joined, nothing overtakes within a conversation, and nothing is lost or doubled."""

from collections.abc import Iterable
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.channels.telegram.pieces import QUIET_S, SeenUpdate, gather, place_of
from pilothouse.channels.telegram.wire import Chat, Message, Origin, Update, User

LONG = "x" * 4096
numbers = count(1)


def message(
    text: str = "",
    *,
    chat: int = 7,
    sender: int = 7,
    album: str | None = None,
    at: int = 100,
    thread: int | None = None,
    reply_to: int | None = None,
    forwarded: bool = False,
) -> Update:
    number = next(numbers)
    kind = "private" if chat > 0 else "supergroup"
    said = Message(
        number,
        Chat(chat, kind),
        at,
        User(sender, first_name="A"),
        text=text or None,
        media_group_id=album,
        message_thread_id=thread,
        is_topic_message=thread is not None,
        reply_to_message=None if reply_to is None else Message(reply_to, Chat(chat, kind)),
        forward_origin=Origin(sender_user=User(99, first_name="B")) if forwarded else None,
    )
    return Update(number, said)


def seen(updates: Iterable[Update], at: float = 0.0) -> list[SeenUpdate]:
    return [SeenUpdate(update, at) for update in updates]


def test_a_short_message_is_ready_at_once() -> None:
    update = message("hi")
    assert gather(seen([update]), 0.0).ready == ((update,),)


def test_an_album_waits_for_its_pieces_until_it_is_quiet() -> None:
    pieces = [message(album="g") for _ in range(3)]
    first = gather(seen(pieces[:2]), 0.5)
    assert (first.ready, first.wait_s) == ((), 0.5)
    bits = [*seen(pieces[:2]), SeenUpdate(pieces[2], 0.9)]
    assert gather(bits, 1.5).ready == ()
    assert gather(bits, 0.9 + QUIET_S).ready == (tuple(pieces),)


def test_a_paste_is_complete_with_its_first_short_piece() -> None:
    pieces = [message(LONG), message(LONG, at=101), message("the end", at=101)]
    assert gather(seen(pieces[:2]), 0.0).ready == ()
    assert gather(seen(pieces), 0.0).ready == (tuple(pieces),)


def test_what_is_no_piece_is_not_joined() -> None:
    later = [message(LONG), message("much later", at=200)]
    assert [len(group) for group in gather(seen(later), 0.0).ready] == [1, 1]
    # Both would have fitted into one message: no app cuts that.
    command = [message("x" * 4000), message("/stop")]
    assert [len(group) for group in gather(seen(command), 0.0).ready] == [1, 1]
    answer = [message(LONG), message("rest", reply_to=3)]
    assert [len(group) for group in gather(seen(answer), 0.0).ready] == [1, 1]
    other = [message(LONG, chat=-5), message("me too", chat=-5, sender=8)]
    assert [len(group) for group in gather(seen(other), QUIET_S).ready] == [1, 1]
    topics = [message(LONG, chat=-5, thread=1), message("rest", chat=-5, thread=2)]
    assert [len(group) for group in gather(seen(topics), QUIET_S).ready] == [1, 1]
    albums = [message(album="g"), message(album="h")]
    assert [len(group) for group in gather(seen(albums), QUIET_S).ready] == [1, 1]


def test_a_piece_may_look_like_a_command_and_each_may_be_a_reply() -> None:
    looks = [message(LONG), message("/stop words/of the list")]
    assert gather(seen(looks), 0.0).ready == (tuple(looks),)
    command = [message("/goal " + "x" * 4090), message("the rest of its text")]
    assert gather(seen(command), 0.0).ready == (tuple(command),)
    replies = [message(LONG, reply_to=3), message("rest", reply_to=3)]
    assert gather(seen(replies), 0.0).ready == (tuple(replies),)


def test_forwards_belong_to_the_comment_before_them_and_wait_for_nobody() -> None:
    together = [
        message("Summarise these"),
        message("a", forwarded=True),
        message("b", forwarded=True, at=102),
    ]
    assert gather(seen(together), 0.0).ready == (tuple(together),)
    apart = [message("a", forwarded=True), message("thanks"), message("b", forwarded=True, at=110)]
    assert [len(group) for group in gather(seen(apart), 0.0).ready] == [1, 1, 1]
    album = [message("Look"), message(album="g", forwarded=True), message(album="g", forwarded=True)]
    assert gather(seen(album), QUIET_S).ready == (tuple(album),)


def test_a_plain_message_waits_for_nothing_and_a_forward_waits_for_more_of_them() -> None:
    for plain in (message("hello"), message("/status"), message()):
        assert gather(seen([plain]), 0.0, 0.3).ready == ((plain,),)
    comment, forward = message("Summarise these"), message("a", forwarded=True)
    first = gather(seen([comment, forward]), 0.1, 0.3)
    assert (first.ready, first.wait_s) == ((), 0.3 - 0.1)
    later = message("b", forwarded=True)
    bits = [*seen([comment, forward]), SeenUpdate(later, 0.2)]
    assert gather(bits, 0.4, 0.3).ready == ()
    assert gather(bits, 0.5, 0.3).ready == ((comment, forward, later),)


def test_somebody_elses_words_do_not_tear_an_album_apart_and_wait_behind_it() -> None:
    first, other, second = (
        message(chat=-5, album="g"),
        message("hm", chat=-5, sender=8),
        message(chat=-5, album="g"),
    )
    bits = seen([first, other, second])
    assert gather(bits, 0.0).ready == ()
    assert gather(bits, QUIET_S).ready == ((first, second), (other,))


def test_another_conversation_and_a_button_wait_for_nobody() -> None:
    held, free, press = message(album="g"), message("hi", chat=9), Update(next(numbers))
    gathered = gather(seen([held, free, press]), 0.0)
    assert gathered.ready == ((free,), (press,))
    assert [bit.update for bit in gathered.held] == [held]


pieces = st.builds(
    message,
    st.sampled_from(["hi", LONG, "/stop", ""]),
    chat=st.sampled_from([7, 8, -5]),
    sender=st.sampled_from([7, 8]),
    album=st.sampled_from([None, None, "g", "h"]),
    at=st.integers(100, 108),
    forwarded=st.booleans(),
)


@given(
    st.lists(pieces, max_size=12),
    st.lists(st.floats(0, 1), min_size=12, max_size=12),
    st.floats(0, 4),
    st.sampled_from([0.0, 0.3]),
)
def test_nothing_is_lost_doubled_or_overtaken(
    updates: list[Update], gaps: list[float], now: float, forward_wait_s: float
) -> None:
    bits: list[SeenUpdate] = []
    at = 0.0
    for update, gap in zip(updates, gaps, strict=False):
        at += gap
        bits.append(SeenUpdate(update, at))
    gathered = gather(bits, now, forward_wait_s)
    ready = [update for group in gathered.ready for update in group]
    held = [bit.update for bit in gathered.held]
    assert sorted(update.update_id for update in (*ready, *held)) == [update.update_id for update in updates]
    # The first piece of each group is in order within its conversation, and none that is held was overtaken.
    for place in {place_of(update) for update in updates}:
        heads = [group[0].update_id for group in gathered.ready if place_of(group[0]) == place]
        assert heads == sorted(heads)
        waiting = [update.update_id for update in held if place_of(update) == place]
        if waiting and heads:
            assert heads[-1] < min(waiting)
    assert (gathered.wait_s > 0) == bool(held)
    assert gather(bits, now + 100, forward_wait_s).held == ()
