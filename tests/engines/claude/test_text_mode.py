"""In text mode all that is printed is the answer."""

from __future__ import annotations

from pilothouse.core.event import ResumeToken, SessionStarted, TextDelta, TurnEnded
from pilothouse.core.grammar import well_formed
from pilothouse.core.ids import EngineId
from pilothouse.engines.claude.text_mode import TextTranslator

TOKEN = ResumeToken(EngineId("claude"), "abc", "/srv/app")


def test_lines_are_one_block_and_the_answer() -> None:
    translator = TextTranslator(TOKEN)
    events = [
        *translator.feed(b"one"),
        *translator.feed(b""),
        *translator.feed(b"two \xff"),
        *translator.end(0),
    ]
    assert isinstance(events[0], SessionStarted)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "one\n\ntwo �"
    assert events[-1] == TurnEnded("completed", "one\n\ntwo �", resume=TOKEN)
    assert list(well_formed(events)) == events


def test_a_process_that_failed_has_failed_whatever_it_printed() -> None:
    translator = TextTranslator(TOKEN)
    translator.feed(b"API Error: 401")
    end = translator.end(1, "")[-1]
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.answer) == ("failed", "API Error: 401")


def test_a_process_that_printed_nothing_has_failed() -> None:
    (end,) = TextTranslator(TOKEN).end(0, "")
    assert isinstance(end, TurnEnded)
    assert (end.outcome, end.resume) == ("failed", None)


def test_what_was_interrupted_was_cancelled() -> None:
    translator = TextTranslator(TOKEN)
    translator.feed(b"half")
    translator.interrupted = True
    assert translator.end(143) == [TurnEnded("cancelled", "half", resume=TOKEN)]
    assert not translator.end(143)
