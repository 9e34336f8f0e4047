"""The picture of a phone in README.md, and those of a native session, show what the Telegram channel renders today."""

from __future__ import annotations

import xml.etree.ElementTree as Tree

from tools.native_session import FOLDER, draw_all, play
from tools.phone import BUBBLE, FILE, PADDING, SCENE, bubble, draw


def test_the_picture_is_what_telegram_shows() -> None:
    assert FILE.read_text() == draw(SCENE), "tools/golden draws it anew; look at it before you commit it"


def test_the_picture_has_the_words_and_the_buttons_of_the_messages() -> None:
    words = "".join(Tree.fromstring(FILE.read_text()).itertext())
    for expected in ("Fix it, please.", "decode_cookie(cookie)", "Allow once", "Deny"):
        assert expected in words


def test_a_long_text_is_wrapped_and_keeps_every_word() -> None:
    text = "a word and another " * 20
    lines = ["".join(run.text for run in line) for line in bubble(text).lines]
    assert "".join(lines) == text
    assert all(len(line) * 4 < BUBBLE - 2 * PADDING for line in lines)


async def test_the_pictures_of_a_native_session_are_what_the_agent_says() -> None:
    for name, picture in draw_all(await play()).items():
        kept = FOLDER / name
        assert kept.read_text() == picture, "tools/golden draws it anew; look at it before you commit it"
        assert name in (FOLDER.parent / "engines" / "native-session.md").read_text()
