"""A part carries its payload through the store, says when it is a repeat, and lets no file be lost without a word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pilothouse.channels.discord.payload import (
    FILES,
    TEXT,
    Button,
    Document,
    Message,
    Payload,
    Progress,
    Row,
    Select,
    SelectOption,
    body_of,
    fit_files,
    unpack,
)
from pilothouse.channels.parts import pack
from pilothouse.channels.text import utf16_units
from pilothouse.core.ids import BlobHash
from pilothouse.core.message import AGAIN_MARK, Attachment

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
BUTTONS = st.builds(Button, WORDS, WORDS, st.sampled_from(["primary", "danger"]), WORDS)
SELECTS = st.builds(
    Select, WORDS, st.lists(st.builds(SelectOption, WORDS, WORDS), max_size=3).map(tuple), max=st.just(2)
)
ROWS = st.lists(st.builds(Row, st.lists(BUTTONS | SELECTS, max_size=2).map(tuple)), max_size=2).map(tuple)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=TEXT // 2)
PAYLOADS: st.SearchStrategy[Payload] = st.one_of(
    st.builds(
        Message,
        text=TEXTS,
        rows=ROWS,
        silent=st.booleans(),
        reply_to=WORDS,
        pings=st.lists(WORDS, max_size=2).map(tuple),
        documents=st.lists(st.builds(Document, WORDS, TEXTS), max_size=2).map(tuple),
        names=st.lists(WORDS, max_size=3).map(tuple),
    ),
    st.builds(Progress, text=TEXTS, rows=ROWS, silent=st.booleans()),
)
FILE = Attachment("chart.png", "image/png", 4000, BlobHash("0" * 64))
LARGE = Attachment("video.mp4", "video/mp4", 73 << 20, BlobHash("1" * 64))


@given(PAYLOADS)
def test_a_payload_comes_out_of_its_part_as_it_went_in(payload: Payload) -> None:
    part = pack(payload, about={"kind": "answer"})
    assert unpack(part) == payload
    assert part.text == payload.text
    assert part.data["kind"] == "answer"


@given(PAYLOADS, st.integers(0, TEXT))
def test_a_repeat_says_so_and_is_still_within_the_limit(payload: Payload, more: int) -> None:
    long = replace(payload, text=(payload.text + "😀" * more)[: TEXT // 2])
    found = unpack(replace(pack(long), again=True))
    assert found.text.endswith(AGAIN_MARK)
    assert utf16_units(found.text) <= TEXT


def test_nobody_is_pinged_and_no_link_is_unfolded() -> None:
    body = body_of(Message(text="@everyone look at https://example.com"))
    assert body["allowed_mentions"] == {"parse": [], "users": [], "replied_user": False}
    assert body["flags"] & 4
    assert body["content"] == "@everyone look at https://example.com"


def test_somebody_who_was_asked_for_is_pinged() -> None:
    assert body_of(Message(text="<@7> look", pings=("7",)))["allowed_mentions"]["users"] == ["7"]


def test_a_reply_survives_that_its_message_is_gone() -> None:
    assert body_of(Message(text="x", reply_to="5"))["message_reference"] == {
        "message_id": "5",
        "fail_if_not_exists": False,
    }


def test_a_file_that_is_too_large_is_named_and_left_out() -> None:
    payload, files = fit_files(Message(text="Here.", names=("a.mp4", "image-1.png")), (LARGE, FILE), 10 << 20)
    assert files == (FILE,)
    assert isinstance(payload, Message)
    assert payload.names == ("image-1.png",)
    assert payload.text == "Here.\n\na.mp4 (73 MB) is too large to send here: 10 MB is the most."


def test_many_files_that_are_too_large_take_little_room() -> None:
    names = tuple(f"{n}{'x' * 90}.mp4" for n in range(FILES))
    payload, files = fit_files(Message(text="y" * TEXT, names=names), (LARGE,) * FILES, 10 << 20)
    assert files == ()
    assert utf16_units(payload.text) <= TEXT
    assert payload.text.endswith("7 more are too large to send here: 10 MB is the most.")
    assert "y" * 1600 in payload.text


def test_files_that_fit_change_nothing() -> None:
    sent = Message(text="Here.", names=("image-1.png",))
    assert fit_files(sent, (FILE,), 10 << 20) == (sent, (FILE,))
