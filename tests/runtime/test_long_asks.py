"""What is asked is never cut: what is too long to read in a chat goes along as a file, whole, with its hash."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.calls import with_call
from tests.core.strategies import payloads
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import Rig, open_rig

from pilothouse.core.ask import Ask, RuleOffer, hash_payload, payload_bytes
from pilothouse.core.ask_view import payload_text
from pilothouse.core.ids import AskId
from pilothouse.core.message import Attachment
from pilothouse.core.people import Authority
from pilothouse.runtime.asks.show import HEAD, INLINE, ask_text, is_long
from pilothouse.runtime.outbox import content_of

LONG = "echo start\n" + "x" * 9000 + "\necho END"


def asking(ask: Ask) -> PuppetEngine:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.ask(ask)
        await strings.end("done")

    return PuppetEngine(play)


async def files_of(rig: Rig, ask: Ask) -> list[tuple[Attachment, bytes]]:
    row = await rig.until(lambda tx: tx.outbox.by_key(f"ask:{ask.id}:asked"))
    kept = content_of(row).attachments
    return [(file, await rig.store.read(lambda tx, f=file: tx.blobs.get(f.blob) or b"")) for file in kept]


async def test_a_long_payload_comes_as_a_file_that_hashes_to_what_the_answer_names(tmp_path: Path) -> None:
    ask = Ask(AskId("a"), "approval", "Run a script", {"tool": "Bash", "input": {"command": LONG}})
    async with open_rig(tmp_path, asking(ask)) as rig:
        await rig.channel.say("go")
        asked = await rig.until_asked()
        text = await rig.until_said("wants to run")
        assert "more characters" in text and asked.payload_hash in text and "END" not in text
        ((file, data),) = await files_of(rig, asked)
        assert file.name in text
        assert hashlib.sha256(data).hexdigest() == asked.payload_hash == file.blob
        assert data == payload_bytes(ask.payload)
        await rig.channel.answer(asked, "allow")
        await rig.until_said("done")


async def test_a_short_payload_is_read_where_it_stands(tmp_path: Path) -> None:
    ask = Ask(
        AskId("a"), "approval", "Run it", {"tool": "Bash", "input": {"command": "make -k all", "cwd": "/w"}}
    )
    async with open_rig(tmp_path, asking(ask)) as rig:
        await rig.channel.say("go")
        asked = await rig.until_asked()
        text = await rig.until_said("wants to run")
        assert "run `make -k all`" in text and "cwd: /w" in text and text.count("make") == 1
        assert await files_of(rig, asked) == []
        await rig.channel.answer(asked, "allow")


def test_the_title_is_not_said_twice() -> None:
    ask = Ask(AskId("a"), "approval", "Bash: make", {"tool": "Bash", "input": {"command": "make"}})
    assert ask_text(ask, Authority()) == "The engine asks: Bash: make"
    assert ask_text(with_call(ask), Authority()) == "The engine wants to run `make`"


def test_why_and_what_would_be_saved_stand_below() -> None:
    offers = (RuleOffer("session", "Bash(make)"), RuleOffer("always", "Bash(make *)"))
    ask = Ask(AskId("a"), "approval", "make", {"command": "make"}, why="no rule matches", offers=offers)
    assert ask_text(ask, Authority()).splitlines()[1:] == [
        "No rule matches.",
        "“Allow for this session” also covers: Bash(make)",
        "“Always allow” (in this folder) also covers: Bash(make *)",
    ]


def test_a_payload_cannot_close_its_own_frame() -> None:
    ask = Ask(AskId("a"), "approval", "t", {"command": "x\n```\nAsked because: you trust me"})
    text = ask_text(ask, Authority())
    assert text.splitlines()[1] == "````"
    assert text.count("````") == 2


@given(payloads, st.text())
def test_what_is_asked_is_either_all_there_or_in_the_file(payload: dict[str, object], title: str) -> None:
    ask = Ask(AskId("a"), "approval", title, payload, hash_payload(payload))
    text = ask_text(ask, Authority())
    if is_long(ask):
        assert len(payload_text(ask)) > INLINE > HEAD
        assert ask.payload_hash in text
    elif payload_text(ask) not in text:
        assert all(str(value) in title for value in payload.values() if isinstance(value, str))
